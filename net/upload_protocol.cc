#include "net/upload_protocol.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"

namespace shardfeed {

std::string Md5Header(std::string_view body) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(body.data(), body.size(), digest, &size, EVP_md5(), nullptr);
  return "Content-MD5: " + absl::Base64Escape({reinterpret_cast<const char*>(digest), size});
}

}  // namespace shardfeed
