// Objects of any HTTP server, which are read and cannot be listed.

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
  // A path is the URL; characters that no URL has, such as blanks, are escaped.
  absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query,
      const std::map<std::string, std::string>& headers) const override;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_HTTP_STORE_H_
