#include "net/upload_protocol.h"

#include <openssl/evp.h>

#include <chrono>
#include <utility>

#include "absl/strings/escaping.h"

namespace shardfeed {

namespace {

// Between the last bytes of a part and the answer.
constexpr std::chrono::seconds kPartPatience(30);

}  // namespace

StoreCall PutCall(UploadProtocol::Body body) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(body->data(), body->size(), digest, &size, EVP_md5(), nullptr);
  StoreCall call;
  call.method = "PUT";
  call.headers = {"Content-MD5: " +
                  absl::Base64Escape({reinterpret_cast<const char*>(digest), size})};
  call.body = std::move(body);
  call.patience = kPartPatience;
  return call;
}

}  // namespace shardfeed
