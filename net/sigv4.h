// Signatures of requests to S3: AWS Signature Version 4, as "Authenticating Requests: Using the
// Authorization Header" of Amazon's S3 API Reference describes it.

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

// Adds to a request, whose URL is `origin` ("https://host"), an escaped path and a query, the
// headers that sign it for `service` in `region` at `now`. The payload is not part of it;
// `extra_headers`, which are not added, are, by their names in lower case.
void SignRequest(const SigningKey& key, std::string_view region, std::string_view service,
                 std::string_view origin, std::string_view escaped_path,
                 const std::map<std::string, std::string>& query,
                 const std::map<std::string, std::string>& extra_headers, std::time_t now,
                 HttpRequest* request);

std::string HmacSha256(std::string_view key, std::string_view data);

// "a=1&b=%2F": names and values escaped, in the order of names.
std::string CanonicalQuery(const std::map<std::string, std::string>& query);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_SIGV4_H_
