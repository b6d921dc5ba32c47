#include "net/store.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"
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
                                      "AWS_WEB_IDENTITY_TOKEN_FILE"};

struct Stores {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<const Store>> stores ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<std::shared_ptr<const Store>> Make(std::string_view url) {
  const UrlParts parts = SplitUrl(url);
  if (parts.host.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: the name of the {} is missing", url,
                                                  parts.scheme == "s3" ? "bucket" : "host"));
  }
  // It would stand in messages, logs and states.
  if (parts.host.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}://...@{}: a URL must not contain a password; S3 takes credentials from the "
                    "environment",
                    parts.scheme, parts.host.substr(parts.host.rfind('@') + 1)));
  }
  if (parts.scheme == "s3") return S3Store::Open(parts.host);
  return std::shared_ptr<const Store>(std::make_shared<HttpStore>());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Store>> Store::Of(std::string_view url) {
  const std::optional<std::string_view> scheme = SchemeOf(url);
  if (!scheme || (*scheme != "s3" && *scheme != "http" && *scheme != "https")) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} is not supported; datasets are read from paths, s3://, http:// and https://, and "
        "written to paths and s3://",
        url, scheme ? fmt::format("{}://", *scheme) : "this"));
  }
  static auto* const known = new Stores();
  const UrlParts parts = SplitUrl(url);
  std::string key = fmt::format("{}://{}", parts.scheme, parts.host);
  for (const char* variable : kVariables) {
    const char* value = std::getenv(variable);
    key += fmt::format("\n{}", value == nullptr ? "" : value);
  }
  {
    MutexLock lock(known->mutex);
    const auto it = known->stores.find(key);
    if (it != known->stores.end()) return it->second;
  }
  // Without the mutex: it may ask servers for credentials.
  absl::StatusOr<std::shared_ptr<const Store>> made = Make(url);
  if (!made.ok()) return made;
  MutexLock lock(known->mutex);
  return known->stores.try_emplace(std::move(key), *std::move(made)).first->second;
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
      return absl::UnavailableError(
          message(fmt::format("the server answered {}", response.status)));
  }
}

absl::Status Store::CheckWritable(std::string_view path) const {
  return absl::InvalidArgumentError(
      fmt::format("{}: HTTP servers are only read; write to a path or to s3://", path));
}

absl::StatusOr<ObjectListing> Store::List(const std::string& folder) const {
  return absl::UnimplementedError(fmt::format(
      "{}: an HTTP server's folders cannot be listed; name the dataset as stem@N", folder));
}

namespace {

absl::StatusOr<ObjectInfo> InfoOf(const std::string& path, const HttpResponse& response) {
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
  if (!response.Header("content-encoding").empty() &&
      response.Header("content-encoding") != "identity") {
    return absl::FailedPreconditionError(
        fmt::format("{}: the server encodes the object as {}; store it without Content-Encoding",
                    path, response.Header("content-encoding")));
  }
  const std::string_view tag = response.Header("etag");
  if (!tag.starts_with("W/")) info.version = tag;
  info.writer = response.Header(kWriterHeader);
  return info;
}

}  // namespace

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
                    "one that honours 'Range' is needed",
                    path));
  }
  if (!response.ok()) return response.status();
  return InfoOf(path, *response);
}

absl::StatusOr<std::string> ReadObject(const std::string& path, uint64_t max_bytes,
                                       ObjectInfo* info) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store.status();
  absl::StatusOr<HttpResponse> response = CallStore(**store, path, {.max_body = max_bytes});
  if (!response.ok()) return response.status();
  if (info != nullptr) {
    absl::StatusOr<ObjectInfo> found = InfoOf(path, *response);
    if (!found.ok()) return found.status();
    *info = *std::move(found);
  }
  return std::move(response->body);
}

}  // namespace shardfeed
