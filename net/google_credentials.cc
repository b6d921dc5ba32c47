#include "net/google_credentials.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/environment.h"
#include "fmt/format.h"
#include "io/file.h"
#include "net/credentials.h"
#include "net/json_text.h"
#include "net/s3_protocol.h"
#include "net/secret_text.h"
#include "net/sigv4.h"
#include "net/transfers.h"
#include "net/url.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxReasonBytes = 300;
constexpr std::time_t kTokenLifetime = 3600;
// Clocks that differ by more than this are named as the possible reason for an error.
constexpr std::time_t kTolerance = 120;
constexpr std::string_view kScope = "https://www.googleapis.com/auth/devstorage.read_write";
constexpr const char* kTokenUri = "https://oauth2.googleapis.com/token";

// {"access_token", "expires_in"}, as token endpoints and the metadata server answer.
absl::StatusOr<std::optional<Credentials>> ParseToken(const HttpResponse& response,
                                                      const std::string& name,
                                                      const std::string& source) {
  const Json json = ParseJsonText(response.body);
  Credentials found;
  found.token = TextMember(json, "access_token");
  found.source = source;
  const bool sound = !found.token.empty() && IsSoundSecret(found.token) &&
                     json.contains("expires_in") && json["expires_in"].is_number();
  if (!sound) {
    return absl::UnavailableError(
        fmt::format("credentials of {}: the answer of {} is not that of a token endpoint", source,
                    ShownUrl(name)));
  }
  const double seconds = std::clamp(json["expires_in"].get<double>(), 0.0, 1e6);
  found.expires = std::time(nullptr) + static_cast<std::time_t>(seconds);
  return std::optional(std::move(found));
}

// Asks a token endpoint. Its refusals give a reason.
absl::StatusOr<std::optional<Credentials>> Exchange(const std::string& endpoint,
                                                    const std::map<std::string, std::string>& form,
                                                    const std::string& path,
                                                    std::string_view remedy) {
  HttpRequest request;
  request.method = "POST";
  request.url = endpoint;
  request.headers = {"Content-Type: application/x-www-form-urlencoded"};
  request.body = std::make_shared<const std::string>(CanonicalQuery(form));
  const HttpResponse first = CallServerOnce(request);
  if (first.transport.ok() && first.status == 200) return ParseToken(first, endpoint, path);
  if (first.transport.ok() && first.status >= 400 && first.status < 404) {
    const Json json = ParseJsonText(first.body);
    std::string reason = TextMember(json, "error");
    if (const std::string more = TextMember(json, "error_description"); !more.empty()) {
      reason += (reason.empty() ? "" : ": ") + more;
    }
    if (reason.empty()) reason = fmt::format("answered {}", first.status);
    std::string clock;
    const std::optional<std::time_t> date = ParseHttpDate(first.Header("date"));
    if (date && std::abs(*date - std::time(nullptr)) > kTolerance) {
      clock = fmt::format("; this machine's clock is {} s off, set it",
                          std::abs(*date - std::time(nullptr)));
    }
    return absl::PermissionDeniedError(
        fmt::format("{}: {} refuses these credentials ({}){}", path, ShownUrl(endpoint),
                    reason.substr(0, kMaxReasonBytes), clock.empty() ? remedy : clock));
  }
  absl::StatusOr<HttpResponse> response = CallServer(request, endpoint);
  if (absl::IsCancelled(response.status())) return response.status();
  if (!response.ok()) {
    return absl::UnavailableError(fmt::format("{}: no token for these credentials: {}", path,
                                              std::string(response.status().message())));
  }
  return ParseToken(*response, endpoint, path);
}

absl::StatusOr<std::optional<Credentials>> FromServiceAccount(const Json& json,
                                                              const std::string& path) {
  std::string endpoint = TextMember(json, "token_uri");
  if (endpoint.empty()) endpoint = kTokenUri;
  const std::string email = TextMember(json, "client_email");
  if (email.empty() || TextMember(json, "private_key").empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: a service account's key without client_email or private_key; make another", path));
  }
  const std::time_t now = std::time(nullptr);
  const Json claims = {{"iss", email},
                       {"scope", std::string(kScope)},
                       {"aud", endpoint},
                       {"iat", now},
                       {"exp", now + kTokenLifetime}};
  absl::StatusOr<std::string> jwt =
      SignedJwt(claims.dump(), TextMember(json, "private_key_id"), TextMember(json, "private_key"));
  if (!jwt.ok()) {
    return absl::Status(jwt.status().code(),
                        fmt::format("{}: {}", path, std::string(jwt.status().message())));
  }
  return Exchange(endpoint,
                  {{"assertion", *std::move(jwt)},
                   {"grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"}},
                  path, "; the key may have been deleted or disabled, make another");
}

absl::StatusOr<std::optional<Credentials>> FromUser(const Json& json, const std::string& path) {
  std::string endpoint = TextMember(json, "token_uri");
  if (endpoint.empty()) endpoint = kTokenUri;
  if (TextMember(json, "refresh_token").empty() || TextMember(json, "client_id").empty()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: a user's credentials without refresh_token or client_id; run 'gcloud auth "
                    "application-default login'",
                    path));
  }
  return Exchange(endpoint,
                  {{"client_id", TextMember(json, "client_id")},
                   {"client_secret", TextMember(json, "client_secret")},
                   {"grant_type", "refresh_token"},
                   {"refresh_token", TextMember(json, "refresh_token")}},
                  path, "; run 'gcloud auth application-default login'");
}

absl::StatusOr<std::optional<Credentials>> FromFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (!text.ok()) return text.status();
  const Json json = ParseJsonText(*text);
  const std::string type = TextMember(json, "type");
  if (type == "service_account") return FromServiceAccount(json, path);
  if (type == "authorized_user") return FromUser(json, path);
  if (type.empty()) {
    return absl::FailedPreconditionError(fmt::format("{}: not a file of Google credentials", path));
  }
  return absl::FailedPreconditionError(fmt::format(
      "{}: credentials of type '{}' are not supported, only service_account and authorized_user; "
      "let a function give tokens (set_credentials)",
      path, type.substr(0, kMaxReasonBytes)));
}

// Outside Google Cloud there is no metadata server, or something else answers: returns nullopt.
absl::StatusOr<std::optional<Credentials>> FromMetadata() {
  std::string host = Env("GCE_METADATA_HOST");
  if (host.empty()) host = Env("GCE_METADATA_IP");
  if (host.empty()) host = "169.254.169.254";
  const std::string origin = "http://" + host;
  HttpRequest ping;
  ping.url = origin + "/";
  ping.headers = {"Metadata-Flavor: Google"};
  ping.stall = std::chrono::seconds(1);
  ping.connect = std::chrono::seconds(1);
  const HttpResponse there = CallServerOnce(std::move(ping));
  if (!there.transport.ok() || there.Header("metadata-flavor") != "Google") return std::nullopt;
  HttpRequest request;
  request.url = origin + "/computeMetadata/v1/instance/service-accounts/default/token";
  request.headers = {"Metadata-Flavor: Google"};
  // A machine without a service account has no token.
  const HttpResponse first = CallServerOnce(request);
  if (first.transport.ok() && first.status == 404) return std::nullopt;
  const std::string source = "the metadata server";
  if (first.transport.ok() && first.status == 200) return ParseToken(first, origin, source);
  absl::StatusOr<HttpResponse> response = CallServer(request, origin);
  if (!response.ok()) return response.status();
  return ParseToken(*response, origin, source);
}

}  // namespace

absl::StatusOr<std::string> SignedJwt(const std::string& claims, const std::string& key_id,
                                      const std::string& key) {
  Json header = {{"alg", "RS256"}, {"typ", "JWT"}};
  if (!key_id.empty()) header["kid"] = key_id;
  const std::string text =
      absl::WebSafeBase64Escape(header.dump()) + "." + absl::WebSafeBase64Escape(claims);
  // Do not ask for a password.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(
      BIO_new_mem_buf(key.data(), static_cast<int>(key.size())), &BIO_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> parsed(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr), &EVP_PKEY_free);
  if (parsed == nullptr || EVP_PKEY_get_base_id(parsed.get()) != EVP_PKEY_RSA) {
    return absl::FailedPreconditionError("the private key is not an RSA key without a password");
  }
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   &EVP_MD_CTX_free);
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, parsed.get()) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, data, text.size()) != 1) {
    return absl::FailedPreconditionError("the private key cannot sign");
  }
  std::string signature(size, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size, data,
                     text.size()) != 1) {
    return absl::FailedPreconditionError("the private key cannot sign");
  }
  signature.resize(size);
  return text + "." + absl::WebSafeBase64Escape(signature);
}

absl::StatusOr<std::optional<Credentials>> FindGoogleCredentials(bool named_only) {
  const bool has_id = !Env("GS_ACCESS_KEY_ID").empty();
  const bool has_secret = !Env("GS_SECRET_ACCESS_KEY").empty();
  // Another identity than the one that is meant must not sign.
  if (has_id != has_secret) {
    return absl::FailedPreconditionError(
        fmt::format("{} is set without {}; set both or neither",
                    has_id ? "GS_ACCESS_KEY_ID" : "GS_SECRET_ACCESS_KEY",
                    has_id ? "GS_SECRET_ACCESS_KEY" : "GS_ACCESS_KEY_ID"));
  }
  if (has_id) {
    for (const char* name : {"GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY"}) {
      if (absl::Status status = CheckSecret(name, Env(name)); !status.ok()) return status;
    }
    Credentials found;
    found.access_key_id = Env("GS_ACCESS_KEY_ID");
    found.secret_access_key = Env("GS_SECRET_ACCESS_KEY");
    found.source = "the environment";
    return std::optional(std::move(found));
  }
  const absl::StatusOr<std::string> path = PathIn("GOOGLE_APPLICATION_CREDENTIALS");
  if (!path.ok()) return path.status();
  if (!path->empty()) {
    absl::StatusOr<std::optional<Credentials>> found = FromFile(*path);
    // NotFound would be taken for a missing object.
    if (!absl::IsNotFound(found.status())) return found;
    return absl::FailedPreconditionError(
        fmt::format("GOOGLE_APPLICATION_CREDENTIALS: {}", std::string(found.status().message())));
  }
  if (named_only) return std::nullopt;
  std::string folder = Env("CLOUDSDK_CONFIG");
  if (folder.empty()) folder = Env("HOME") + "/.config/gcloud";
  absl::StatusOr<std::optional<Credentials>> found =
      FromFile(folder + "/application_default_credentials.json");
  if (!absl::IsNotFound(found.status())) return found;
  std::string no_check = Env("NO_GCE_CHECK");
  std::transform(no_check.begin(), no_check.end(), no_check.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (no_check == "true") return std::nullopt;
  return FromMetadata();
}

}  // namespace shardfeed
