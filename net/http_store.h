// Objects on any HTTP server, which can be read but not listed.

#ifndef SHARDFEED_NET_HTTP_STORE_H_
#define SHARDFEED_NET_HTTP_STORE_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "net/store.h"

namespace shardfeed {

class HttpStore : public Store {
 public:
  // The path is the URL; characters that are invalid in URLs, such as blanks, are escaped.
  absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query,
      const std::map<std::string, std::string>& headers) const override;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_HTTP_STORE_H_
