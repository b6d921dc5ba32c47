#include "net/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "fmt/chrono.h"
#include "fmt/format.h"
#include "net/url.h"

namespace shardfeed {
namespace {

constexpr std::string_view kUnsigned = "UNSIGNED-PAYLOAD";

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return out;
}

std::string Sha256(std::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(data.data(), data.size(), digest, &size, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(digest), size};
}

}  // namespace

std::string HmacSha256(std::string_view key, std::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(data.data()), data.size(), digest, &size);
  return {reinterpret_cast<const char*>(digest), size};
}

std::string CanonicalQuery(const std::map<std::string, std::string>& query) {
  std::string out;
  for (const auto& [name, value] : query) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", UrlEscape(name, false),
                       UrlEscape(value, false));
  }
  return out;
}

void SignRequest(const SigningKey& key, std::string_view region, std::string_view service,
                 std::string_view origin, std::string_view escaped_path,
                 const std::map<std::string, std::string>& query,
                 const std::map<std::string, std::string>& extra_headers, std::time_t now,
                 HttpRequest* request, const SigningDialect& dialect) {
  const std::string time = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  const std::string day = time.substr(0, 8);
  const std::string_view host = origin.substr(origin.find("://") + 3);
  const auto own = [&](std::string_view name) {
    return fmt::format("{}{}", dialect.headers, name);
  };
  std::map<std::string, std::string> added = {{own("content-sha256"), std::string(kUnsigned)},
                                              {own("date"), time}};
  if (!key.session_token.empty()) added[own("security-token")] = key.session_token;
  for (const auto& [name, value] : added) {
    request->headers.push_back(fmt::format("{}: {}", name, value));
  }
  // The map sorts headers by name, as a signature requires.
  std::map<std::string, std::string> headers = extra_headers;
  headers["host"] = host;
  headers.merge(added);
  std::string lines;
  std::string names;
  for (const auto& [name, value] : headers) {
    lines += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request->method, escaped_path,
                                            CanonicalQuery(query), lines, names, kUnsigned);
  const std::string scope = fmt::format("{}/{}/{}/{}", day, region, service, dialect.terminator);
  const std::string to_sign = fmt::format("{}-HMAC-SHA256\n{}\n{}\n{}", dialect.prefix, time, scope,
                                          Hex(Sha256(canonical)));
  const std::string secret = fmt::format("{}{}", dialect.prefix, key.secret);
  const std::string signing_key = HmacSha256(
      HmacSha256(HmacSha256(HmacSha256(secret, day), region), service), dialect.terminator);
  request->headers.push_back(
      fmt::format("Authorization: {}-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                  dialect.prefix, key.key_id, scope, names, Hex(HmacSha256(signing_key, to_sign))));
}

}  // namespace shardfeed
