// Requests to object stores, repeated until they succeed or it is pointless.
//
// Repeated are: 408, 409, 429, 5xx, failed connections, bodies that end early, and stalls. A range
// goes on at the byte that it has reached. A range that takes longer than nearly all of its size
// did lately is asked for a second time; what comes first counts, and no more than 5 % of the bytes
// are asked for in this way. Waits between attempts are random, from nothing to a bound that
// doubles (full jitter), or what the server's Retry-After says. It ends with an error when nothing
// has come for 60 s (SHARDFEED_NET_SECONDS), or at once when the error is one that stays.

#ifndef SHARDFEED_NET_TRANSFERS_H_
#define SHARDFEED_NET_TRANSFERS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "net/http_client.h"
#include "net/store.h"

namespace shardfeed {

// Ranges that are asked for a second time have memory of their own: so much at a time.
inline constexpr uint64_t kMostHedgedAtOnce = 32 << 20;

// How long something may come to nothing before it is an error: 60 s, or SHARDFEED_NET_SECONDS.
std::chrono::seconds NetPatience();

// A stretch of an object.
struct RangeRead {
  std::string path;
  uint64_t offset = 0;
  absl::Span<char> into;     // not empty, valid until the read is done
  std::string version;       // if not empty: another version of the object is an error
  uint64_t object_size = 0;  // if not 0: so is another size
};

// A request under way, with its repetitions.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // It is soon done, with Cancelled unless it already was. Thread-safe.
  virtual void Cancel() = 0;
};

// Starts to read. `done` is called once, by the HTTP client's thread, which it must not block, or
// within this call, with the version that was read. Aborted: the object is another version, or has
// another size. Others: Store::ErrorOf's.
std::shared_ptr<Transfer> StartRead(std::shared_ptr<const Store> store, RangeRead read,
                                    std::function<void(absl::Status, std::string version)> done);

// The same, and waits for it. Returns the version.
absl::StatusOr<std::string> ReadNow(std::shared_ptr<const Store> store, RangeRead read);

// A request that is not a range.
struct StoreCall {
  std::string method = "GET";
  std::map<std::string, std::string> query = {};
  // Headers of the store's own protocol, by their names in lower case; signed.
  std::map<std::string, std::string> store_headers = {};
  std::vector<std::string> headers = {};  // "Name: value"; not signed
  std::shared_ptr<const std::string> body = nullptr;
  size_t max_body = 64 << 10;  // of the response
  // The least time that the server may take for its answer before it is asked again.
  std::chrono::seconds patience = std::chrono::seconds(0);
};

// Sends the request until it succeeds (2xx). `done` is called once, by the HTTP client's thread,
// which it must not block, or within this call. Errors: Store::ErrorOf's.
std::shared_ptr<Transfer> StartCall(std::shared_ptr<const Store> store, std::string path,
                                    StoreCall call,
                                    std::function<void(absl::StatusOr<HttpResponse>)> done);

// The same, and waits for it. Must not be called by the HTTP client's thread.
absl::StatusOr<HttpResponse> CallStore(const Store& store, const std::string& path, StoreCall call);

// A request without a store, such as for credentials: one that is not signed.
absl::StatusOr<HttpResponse> CallServer(HttpRequest request, const std::string& name);

// One attempt of such a request.
HttpResponse CallServerOnce(HttpRequest request);

// What happened so far, in this process.
struct TransferStats {
  uint64_t requests = 0;
  uint64_t retries = 0;    // attempts that were repeated
  uint64_t throttled = 0;  // requests that were answered with 429 or 503
  uint64_t hedges = 0;     // ranges that were asked for a second time
  uint64_t hedges_won = 0;
  uint64_t bytes_wanted = 0;  // of ranges
  uint64_t bytes_moved = 0;   // of all answers
};
TransferStats GetTransferStats();

}  // namespace shardfeed

#endif  // SHARDFEED_NET_TRANSFERS_H_
