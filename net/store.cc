#include "net/store.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "base/count_text.h"
#include "base/environment.h"
#include "base/mutex.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "net/azure_store.h"
#include "net/credentials.h"
#include "net/gcs_store.h"
#include "net/http_client.h"
#include "net/http_store.h"
#include "net/s3_store.h"
#include "net/transfers.h"
#include "net/url.h"

namespace shardfeed {
namespace {

// What decides how a store is spoken to: another value makes another store.
constexpr const char* kVariables[] = {"AWS_ACCESS_KEY_ID",
                                      "AWS_CONFIG_FILE",
                                      "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                      "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                      "AWS_DEFAULT_REGION",
                                      "AWS_EC2_METADATA_DISABLED",
                                      "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                      "AWS_ENDPOINT_URL",
                                      "AWS_ENDPOINT_URL_S3",
                                      "AWS_ENDPOINT_URL_STS",
                                      "AWS_NO_SIGN_REQUEST",
                                      "AWS_PROFILE",
                                      "AWS_REGION",
                                      "AWS_ROLE_ARN",
                                      "AWS_SECRET_ACCESS_KEY",
                                      "AWS_SESSION_TOKEN",
                                      "AWS_SHARED_CREDENTIALS_FILE",
                                      "AWS_WEB_IDENTITY_TOKEN_FILE",
                                      "AZURE_AUTHORITY_HOST",
                                      "AZURE_CLIENT_ID",
                                      "AZURE_CLIENT_SECRET",
                                      "AZURE_FEDERATED_TOKEN_FILE",
                                      "AZURE_POD_IDENTITY_AUTHORITY_HOST",
                                      "AZURE_SKIP_SIGNATURE",
                                      "AZURE_STORAGE_ACCOUNT",
                                      "AZURE_STORAGE_CONNECTION_STRING",
                                      "AZURE_STORAGE_ENDPOINT",
                                      "AZURE_STORAGE_KEY",
                                      "AZURE_STORAGE_SAS_TOKEN",
                                      "AZURE_TENANT_ID",
                                      "CLOUDSDK_CONFIG",
                                      "GCE_METADATA_HOST",
                                      "GCE_METADATA_IP",
                                      "GOOGLE_APPLICATION_CREDENTIALS",
                                      "GOOGLE_CLOUD_QUOTA_PROJECT",
                                      "GS_ACCESS_KEY_ID",
                                      "GS_NO_SIGN_REQUEST",
                                      "GS_SECRET_ACCESS_KEY",
                                      "IDENTITY_ENDPOINT",
                                      "IDENTITY_HEADER",
                                      "NO_GCE_CHECK",
                                      "STORAGE_EMULATOR_HOST"};

constexpr std::string_view kSchemes[] = {"s3", "gs", "az", "abfss", "http", "https"};

// What other programs call by this scheme; empty: nothing is known.
std::string_view MeantScheme(std::string_view scheme) {
  constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"s3a", "s3://"},         {"s3n", "s3://"},     {"S3", "s3://"},
      {"gcs", "gs://"},         {"abfs", "abfss://"}, {"wasb", "abfss://"},
      {"wasbs", "abfss://"},    {"azure", "az://"},   {"file", "file:///PATH"},
      {"FILE", "file:///PATH"}, {"HTTP", "http://"},  {"HTTPS", "https://"}};
  for (const auto& [other, meant] : kOthers) {
    if (scheme == other) return meant;
  }
  return "";
}

struct Stores {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<const Store>> stores ABSL_GUARDED_BY(mutex);
};

// A signature in a URL would appear in messages, states, manifests and listings.
absl::Status CheckNoSecret(std::string_view url) {
  // Names of objects may have a '?', except in URLs of HTTP servers and, by habit, of Azure.
  if (!url.starts_with("a") && !url.starts_with("http")) return absl::OkStatus();
  const std::string_view secret = SecretIn(url);
  if (secret.empty()) return absl::OkStatus();
  const std::string shown = ShownUrl(url);
  if (url.starts_with("a")) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a URL must not contain a shared access signature; set "
                    "AZURE_STORAGE_SAS_TOKEN to it",
                    shown));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: a URL must not contain a signature, a token or a password ('{}'); name the dataset as "
      "s3://, gs:// or az://, whose credentials are taken from the environment",
      shown, secret));
}

// Clients and servers resolve such names, so that they would be those of other objects.
absl::Status CheckNoDots(std::string_view url, std::string_view key) {
  while (true) {
    const size_t slash = key.find('/');
    const std::string_view name = key.substr(0, slash);
    if (name == "." || name == "..") {
      return absl::InvalidArgumentError(
          fmt::format("{}: a name in a store must not have the part '{}' between slashes",
                      ShownUrl(url), name));
    }
    if (slash == key.npos) return absl::OkStatus();
    key.remove_prefix(slash + 1);
  }
}

absl::StatusOr<std::shared_ptr<const Store>> Make(std::string_view url, FindCredentials given) {
  const UrlParts parts = SplitUrl(url);
  const bool azure = parts.scheme == "az" || parts.scheme == "abfss";
  if (parts.host.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: the name of the {} is missing",
                                                  ShownUrl(url),
                                                  azure                              ? "container"
                                                  : parts.scheme.starts_with("http") ? "host"
                                                                                     : "bucket"));
  }
  if (azure) return AzureStore::Open(url, std::move(given));
  // A password in the URL would appear in messages, logs and states.
  if (parts.host.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "{}://...@{}: a URL must not contain a password; credentials are taken from the "
        "environment",
        parts.scheme, parts.host.substr(parts.host.rfind('@') + 1)));
  }
  if (parts.scheme == "s3") return S3Store::Open(parts.host, std::move(given));
  if (parts.scheme == "gs") return GcsStore::Open(parts.host, std::move(given));
  return std::shared_ptr<const Store>(std::make_shared<HttpStore>());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Store>> Store::Of(std::string_view url) {
  const std::optional<std::string_view> scheme = SchemeOf(url);
  if (!scheme ||
      std::find(std::begin(kSchemes), std::end(kSchemes), *scheme) == std::end(kSchemes)) {
    const std::string_view meant = scheme ? MeantScheme(*scheme) : "";
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is not supported; {}datasets are read from paths, s3://, gs://, az://, "
                    "abfss://, http:// and https://, and written to paths, s3://, gs://, az:// and "
                    "abfss://",
                    ShownUrl(url), scheme ? fmt::format("{}://", *scheme) : "this",
                    meant.empty() ? "" : fmt::format("here it is {}; ", meant)));
  }
  if (absl::Status status = CheckNoSecret(url); !status.ok()) return status;
  if (absl::Status status = CheckNetSettings(); !status.ok()) return status;
  KeepOpenSsl();
  static auto* const known = new Stores();
  const UrlParts parts = SplitUrl(url);
  if (!parts.scheme.starts_with("http")) {
    if (absl::Status status = CheckNoDots(url, parts.key); !status.ok()) return status;
  }
  GivenCredentials given = CredentialsGivenFor(parts.scheme, parts.host);
  std::string key = fmt::format("{}://{}\n{}", parts.scheme, parts.host, given.number);
  for (const char* variable : kVariables) {
    key += "\n" + Env(variable);
  }
  {
    MutexLock lock(known->mutex);
    const auto it = known->stores.find(key);
    if (it != known->stores.end()) return it->second;
  }
  // Without the mutex: it may ask servers for credentials.
  absl::StatusOr<std::shared_ptr<const Store>> made = Make(url, std::move(given.find));
  if (!made.ok()) return made;
  MutexLock lock(known->mutex);
  return known->stores.try_emplace(std::move(key), *std::move(made)).first->second;
}

bool Store::Learn(const HttpResponse& response, uint64_t before) const {
  if (LearnFrom(response)) {
    ++times_learned_;
    return true;
  }
  const int status = response.status;
  const bool refused = status < 400 || status == 400 || status == 401 || status == 403;
  return refused && times_learned_ != before;
}

void Store::AddLatency(std::chrono::microseconds latency) const {
  if (latency.count() == 0) return;
  MutexLock lock(latency_mutex_);
  latencies_[latencies_added_++ % latencies_.size()] = latency;
}

std::chrono::microseconds Store::latency() const {
  MutexLock lock(latency_mutex_);
  auto sorted = latencies_;
  const size_t count = std::min(latencies_added_, sorted.size());
  if (count == 0) return {};
  std::sort(sorted.begin(), sorted.begin() + count);
  return sorted[(count - 1) / 2];
}

absl::Status Store::ErrorOf(std::string_view path, const HttpResponse& response) const {
  const auto message = [&](std::string_view text) { return fmt::format("{}: {}", path, text); };
  switch (response.status) {
    case 404:
    case 410:
      return absl::NotFoundError(message("no such object"));
    case 401:
    case 403:
      return absl::PermissionDeniedError(
          message(fmt::format("the server does not allow it (it answered {})", response.status)));
    case 412:
    case 416:
      return absl::AbortedError(
          message("the object was replaced since the dataset was opened; open it again"));
    default:
      if (const std::string_view to = response.Header("location");
          !to.empty() && response.status >= 300 && response.status < 400) {
        return absl::FailedPreconditionError(
            message(fmt::format("the server answered {}: it has moved to {}; use that address",
                                response.status, to.substr(0, to.find('?')))));
      }
      return absl::UnavailableError(
          message(fmt::format("the server answered {}", response.status)));
  }
}

absl::Status Store::CheckWritable(std::string_view path) const {
  return absl::InvalidArgumentError(
      fmt::format("{}: HTTP servers are only read; write to a path, s3://, gs://, az:// or "
                  "abfss://",
                  path));
}

absl::StatusOr<ObjectListing> Store::List(const std::string& folder) const {
  return absl::UnimplementedError(fmt::format(
      "{}: an HTTP server's folders cannot be listed; name the dataset as stem@N", folder));
}

namespace {

absl::Status CheckEncoding(const std::string& path, const HttpResponse& response) {
  const std::string_view encoding = response.Header("content-encoding");
  if (encoding.empty() || encoding == "identity") return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: the server encodes the object as {}; store it without Content-Encoding",
                  path, encoding));
}

absl::StatusOr<ObjectInfo> InfoOf(const Store& store, const std::string& path,
                                  const HttpResponse& response) {
  ObjectInfo info;
  info.path = path;
  // "bytes 0-0/1234" or, of an empty object, "bytes */0".
  std::string_view size = response.Header("content-range");
  size = size.empty() ? response.Header("content-length") : size.substr(size.rfind('/') + 1);
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), info.size);
  if (error != std::errc() || end != size.data() + size.size()) {
    return absl::UnavailableError(
        fmt::format("{}: the server does not tell how long the object is", path));
  }
  if (absl::Status status = CheckEncoding(path, response); !status.ok()) return status;
  const std::string_view tag = response.Header("etag");
  if (!tag.starts_with("W/")) info.version = tag;
  info.writer = response.Header(store.writer_header());
  info.modified = ParseHttpDate(response.Header("last-modified")).value_or(0);
  return info;
}

}  // namespace

absl::Status CheckUtf8(std::string_view path, std::string_view where) {
  if (IsUtf8(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: names in {} must be UTF-8, but this one is not", path, where));
}

absl::StatusOr<ObjectInfo> StatObject(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store.status();
  StoreCall call{.method = "HEAD"};
  if ((*store)->stat_by_range()) call = {.headers = {"Range: bytes=0-0"}};
  absl::StatusOr<HttpResponse> response = CallStore(**store, path, call);
  // An empty object has no first byte. (A GET without a range finds it, and no more than that.)
  if (absl::IsAborted(response.status()) && (*store)->stat_by_range()) {
    response = CallStore(**store, path, {.max_body = 0});
  }
  if (absl::IsResourceExhausted(response.status()) && (*store)->stat_by_range()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the server does not serve parts of objects: it answered 200 to a range; "
                    "use a server that honors 'Range'",
                    path));
  }
  if (!response.ok()) return response.status();
  return InfoOf(**store, path, *response);
}

absl::StatusOr<bool> ObjectExists(const std::string& path) {
  const absl::StatusOr<ObjectInfo> info = StatObject(path);
  if (absl::IsNotFound(info.status())) return false;
  if (!info.ok()) return info.status();
  return true;
}

absl::StatusOr<std::string> ReadObject(const std::string& path, uint64_t max_bytes,
                                       ObjectInfo* info) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store.status();
  absl::StatusOr<HttpResponse> response = CallStore(**store, path, {.max_body = max_bytes});
  if (!response.ok()) return response.status();
  if (absl::Status status = CheckEncoding(path, *response); !status.ok()) return status;
  if (info != nullptr) {
    absl::StatusOr<ObjectInfo> found = InfoOf(**store, path, *response);
    if (!found.ok()) return found.status();
    *info = *std::move(found);
  }
  return std::move(response->body);
}

absl::StatusOr<std::string> ReadObjectStart(const std::string& path, uint64_t bytes,
                                            ObjectInfo* info) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store.status();
  absl::StatusOr<HttpResponse> response = CallStore(
      **store, path, {.headers = {fmt::format("Range: bytes=0-{}", bytes - 1)}, .max_body = bytes});
  if (!response.ok()) return response.status();
  absl::StatusOr<ObjectInfo> found = InfoOf(**store, path, *response);
  if (!found.ok()) return found.status();
  if (response->body.size() != std::min(bytes, found->size)) {
    return absl::UnavailableError(fmt::format("{}: the server sent {} of {} instead of {}", path,
                                              CountText(response->body.size(), "byte"), found->size,
                                              std::min(bytes, found->size)));
  }
  *info = *std::move(found);
  return std::move(response->body);
}

}  // namespace shardfeed
