#include "net/http_store.h"

#include "fmt/format.h"

namespace shardfeed {

absl::StatusOr<HttpRequest> HttpStore::Request(
    std::string_view method, std::string_view path,
    const std::map<std::string, std::string>& /*query*/,
    const std::map<std::string, std::string>& /*headers*/) const {
  HttpRequest request;
  request.method = method;
  request.follow_redirects = true;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 0x7f || c == '"' || c == '<' || c == '>') {
      request.url += fmt::format("%{:02X}", byte);
    } else {
      request.url += c;
    }
  }
  return request;
}

}  // namespace shardfeed
