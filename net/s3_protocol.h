// What S3 and Google Cloud Storage have in common: errors and listings in XML.

#ifndef SHARDFEED_NET_S3_PROTOCOL_H_
#define SHARDFEED_NET_S3_PROTOCOL_H_

#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/store.h"

namespace shardfeed {

// What the body of an error says.
struct S3Error {
  std::string code;  // empty: the body is not an S3 error
  std::string message;
  std::string details;  // Google's
  std::string region;   // Amazon's

  static S3Error Of(const HttpResponse& response);
  // "CODE: MESSAGE", or what the server answered.
  std::string Text(const HttpResponse& response) const;
};

// The time of a server that refused a request because of the request's; nothing: the response is
// another one, or tells no time. Clocks that differ by less than kClockTolerance are not the
// reason.
inline constexpr std::time_t kClockTolerance = 60;
std::optional<std::time_t> TimeOfRefusal(const S3Error& error, const HttpResponse& response);

// A time as listings have it, 2026-11-25T12:00:00.000Z; 0 if it is not valid.
std::time_t TimeOf(const char* text);

// Checks what a page of a listing that is not the last one says about the next page. `pages`: the
// earlier ones. Unavailable: it says nothing, so that the listing would be a part of the whole, or
// names an earlier page, so that it would never end.
absl::Status CheckNextPage(std::string_view folder, const std::string& next,
                           std::set<std::string>* pages);

// Store::List of a store that knows ListObjectsV2. `bucket`: its URL, without '/' at the end.
absl::StatusOr<ObjectListing> ListBucket(const Store& store, const std::string& bucket,
                                         const std::string& folder);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_S3_PROTOCOL_H_
