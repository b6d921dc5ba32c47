// Signs requests to S3 with AWS Signature Version 4, as described in "Authenticating Requests:
// Using the Authorization Header" of Amazon's S3 API Reference, and requests to Google Cloud
// Storage with its "V4 signing process", which has other names for the same parts.

#ifndef SHARDFEED_NET_SIGV4_H_
#define SHARDFEED_NET_SIGV4_H_

#include <ctime>
#include <map>
#include <string>
#include <string_view>

#include "net/http_client.h"

namespace shardfeed {

struct SigningKey {
  std::string key_id;
  std::string secret;
  std::string session_token;  // may be empty
};

// The names of the parts of a signature.
struct SigningDialect {
  std::string_view prefix;      // what the names of the algorithm and the key begin with
  std::string_view headers;     // what the names of headers begin with
  std::string_view terminator;  // the end of the scope
};
inline constexpr SigningDialect kAmazonDialect = {"AWS4", "x-amz-", "aws4_request"};
inline constexpr SigningDialect kGoogleDialect = {"GOOG4", "x-goog-", "goog4_request"};

// Adds headers to a request that sign it for `service` in `region` at `now`. The URL of the request
// consists of `origin` ("https://host"), an escaped path and a query. The payload is not signed.
// `extra_headers`, by lower-case names, are signed but not added.
void SignRequest(const SigningKey& key, std::string_view region, std::string_view service,
                 std::string_view origin, std::string_view escaped_path,
                 const std::map<std::string, std::string>& query,
                 const std::map<std::string, std::string>& extra_headers, std::time_t now,
                 HttpRequest* request, const SigningDialect& dialect = kAmazonDialect);

std::string HmacSha256(std::string_view key, std::string_view data);

// "a=1&b=%2F": names and values are escaped and in the order of the names.
std::string CanonicalQuery(const std::map<std::string, std::string>& query);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_SIGV4_H_
