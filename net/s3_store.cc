#include "net/s3_store.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "net/aws_profile.h"
#include "net/sigv4.h"
#include "net/transfers.h"
#include "net/url.h"
#include "pugixml.hpp"
#include "simdjson.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxListingBytes = 16 << 20;

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Whether a bucket's name can be a part of a host's that a certificate for *.s3.amazonaws.com
// covers.
bool FitsHost(std::string_view bucket) {
  return bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == bucket.npos;
}

// What the body of an error says.
struct S3Error {
  std::string code;
  std::string message;
  std::string region;

  static S3Error Of(const HttpResponse& response) {
    pugi::xml_document xml;
    xml.load_buffer(response.body.data(), response.body.size());
    const pugi::xml_node error = xml.child("Error");
    return {error.child_value("Code"), error.child_value("Message"), error.child_value("Region")};
  }
};

// The time of an HTTP header: "Mon, 23 Nov 2026 20:43:13 GMT".
std::optional<std::time_t> ParseDate(std::string_view text) {
  std::tm time = {};
  if (::strptime(std::string(text).c_str(), "%a, %d %b %Y %H:%M:%S", &time) == nullptr) {
    return std::nullopt;
  }
  return ::timegm(&time);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Store>> S3Store::Open(std::string_view bucket) {
  absl::StatusOr<std::map<std::string, std::string>> profile = ReadProfile();
  if (!profile.ok()) return profile.status();
  const auto setting = [&](std::initializer_list<const char*> variables, const char* name) {
    for (const char* variable : variables) {
      if (std::string value = Env(variable); !value.empty()) return value;
    }
    const auto it = profile->find(name);
    return it == profile->end() ? std::string() : it->second;
  };
  std::shared_ptr<S3Store> store(new S3Store());
  store->bucket_ = bucket;
  std::string region = setting({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region");
  if (region.empty()) region = "us-east-1";
  store->origin_ = setting({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  store->amazon_ = store->origin_.empty();
  if (!store->amazon_) {
    while (store->origin_.ends_with('/')) store->origin_.pop_back();
    if (!SchemeOf(store->origin_) || !store->origin_.starts_with("http")) {
      return absl::InvalidArgumentError(fmt::format(
          "AWS_ENDPOINT_URL: expected http://HOST or https://HOST, got '{}'", store->origin_));
    }
    store->in_path_ = true;
  } else {
    store->in_path_ = !FitsHost(bucket);
  }
  if (Env("AWS_NO_SIGN_REQUEST").empty()) {
    absl::StatusOr<std::optional<AwsCredentials>> found = FindAwsCredentials(*profile, region);
    if (!found.ok()) return found.status();
    if (*found) {
      store->credentials_ =
          std::make_unique<AwsCredentialsCache>(*std::move(profile), region, **std::move(found));
    }
  }
  MutexLock lock(store->mutex_);
  store->region_ = std::move(region);
  return store;
}

absl::StatusOr<HttpRequest> S3Store::Request(
    std::string_view method, std::string_view path, const std::map<std::string, std::string>& query,
    const std::map<std::string, std::string>& headers) const {
  std::string region;
  std::time_t now = std::time(nullptr);
  {
    MutexLock lock(mutex_);
    region = region_;
    now += skew_;
  }
  std::string origin = origin_;
  if (amazon_) {
    origin = in_path_ ? fmt::format("https://s3.{}.amazonaws.com", region)
                      : fmt::format("https://{}.s3.{}.amazonaws.com", bucket_, region);
  }
  const std::string escaped = fmt::format("{}/{}", in_path_ ? "/" + UrlEscape(bucket_, false) : "",
                                          UrlEscape(SplitUrl(path).key, /*keep_slashes=*/true));
  HttpRequest request;
  request.method = method;
  request.url = origin + escaped;
  if (!query.empty()) request.url += "?" + CanonicalQuery(query);
  if (credentials_ != nullptr) {
    SignRequest(credentials_->Get().key, region, "s3", origin, escaped, query, headers, now,
                &request);
  }
  for (const auto& [name, value] : headers) {
    request.headers.push_back(fmt::format("{}: {}", name, value));
  }
  return request;
}

absl::Status S3Store::ErrorOf(std::string_view path, const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  const std::string said = error.code.empty() ? fmt::format("answered {}", response.status)
                                              : fmt::format("{}: {}", error.code, error.message);
  const auto message = [&](std::string_view text) { return fmt::format("{}: {}", path, text); };
  if (error.code == "NoSuchBucket") {
    return absl::NotFoundError(message(
        fmt::format("there is no bucket '{}'{}", bucket_, amazon_ ? "" : " at " + origin_)));
  }
  if (response.status == 403 || response.status == 401 || error.code == "ExpiredToken" ||
      error.code == "InvalidToken") {
    if (credentials_ == nullptr) {
      return absl::PermissionDeniedError(message(
          fmt::format("S3 does not allow it without credentials ({}), and none were found; set "
                      "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
                      said)));
    }
    const std::string source = credentials_->Get().source;
    std::string_view remedy =
        "; they must allow this request; where they may not list, it is also how a missing object "
        "is "
        "refused";
    if (error.code == "SignatureDoesNotMatch") remedy = "; the secret key is wrong";
    if (error.code == "InvalidAccessKeyId") remedy = "; the server does not know this key";
    if (error.code == "ExpiredToken" || error.code == "InvalidToken") {
      remedy = "; get new ones, then go on from the saved state";
    }
    if (error.code == "RequestTimeTooSkewed") remedy = "; set this machine's clock";
    return absl::PermissionDeniedError(
        message(fmt::format("S3 refuses the credentials of {} ({}){}", source, said, remedy)));
  }
  if (response.status == 301 || response.status == 307) {
    return absl::FailedPreconditionError(message(
        fmt::format("the bucket is in region {}; set AWS_REGION",
                    error.region.empty() ? response.Header("x-amz-bucket-region") : error.region)));
  }
  if (response.status == 404 || response.status == 412 || response.status == 416 ||
      error.code.empty()) {
    return Store::ErrorOf(path, response);
  }
  if (response.status == 501) {
    return absl::UnimplementedError(message(fmt::format("the server cannot do this ({})", said)));
  }
  return absl::UnavailableError(message(said));
}

bool S3Store::Learn(const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  std::string region(response.Header("x-amz-bucket-region"));
  if (region.empty()) region = error.region;
  MutexLock lock(mutex_);
  if (amazon_ && !region.empty() && region != region_) {
    region_ = region;
    return true;
  }
  if (error.code == "RequestTimeTooSkewed") {
    const std::optional<std::time_t> date = ParseDate(response.Header("date"));
    if (!date) return false;
    const std::time_t skew = *date - std::time(nullptr);
    if (std::abs(skew - skew_) < 60) return false;
    skew_ = skew;
    return true;
  }
  const bool expired = error.code == "ExpiredToken" || error.code == "InvalidToken" ||
                       error.code == "TokenRefreshRequired";
  return expired && credentials_ != nullptr && credentials_->Expired();
}

absl::Status S3Store::CheckWritable(std::string_view path) const {
  // Listings could not say the name.
  if (simdjson::validate_utf8(path.data(), path.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: names in S3 are UTF-8, which this one is not", path));
}

absl::StatusOr<ObjectListing> S3Store::List(const std::string& folder) const {
  const std::string key(SplitUrl(folder).key);
  const std::string prefix = key.empty() ? "" : key + "/";
  const std::string bucket = fmt::format("s3://{}", bucket_);
  std::map<std::string, std::string> query = {
      {"delimiter", "/"}, {"list-type", "2"}, {"max-keys", "1000"}, {"prefix", prefix}};
  ObjectListing listing;
  while (true) {
    absl::StatusOr<HttpResponse> response =
        CallStore(*this, bucket + "/", {.query = query, .max_body = kMaxListingBytes});
    if (!response.ok()) {
      return absl::Status(response.status().code(),
                          fmt::format("{}: cannot be listed: {}", folder,
                                      std::string(response.status().message())));
    }
    pugi::xml_document xml;
    const bool parsed = xml.load_buffer(response->body.data(), response->body.size());
    const pugi::xml_node result = xml.child("ListBucketResult");
    if (!parsed || !result) {
      return absl::UnavailableError(fmt::format("{}: what the server lists is no listing", folder));
    }
    for (const pugi::xml_node object : result.children("Contents")) {
      const std::string name = object.child_value("Key");
      if (!name.starts_with(prefix) || name == prefix) continue;  // a folder's own marker
      ObjectInfo info;
      info.path = fmt::format("{}/{}", bucket, name);
      const std::string_view size = object.child_value("Size");
      if (std::from_chars(size.data(), size.data() + size.size(), info.size).ec != std::errc()) {
        return absl::UnavailableError(
            fmt::format("{}: the server lists {} without a size", folder, name));
      }
      info.version = object.child_value("ETag");
      listing.objects.push_back(std::move(info));
    }
    for (const pugi::xml_node common : result.children("CommonPrefixes")) {
      std::string name = common.child_value("Prefix");
      if (!name.starts_with(prefix)) continue;
      name = name.substr(prefix.size());
      if (name.ends_with('/')) name.pop_back();
      if (!name.empty()) listing.folders.push_back(std::move(name));
    }
    const std::string next = result.child_value("NextContinuationToken");
    if (std::string_view(result.child_value("IsTruncated")) != "true" || next.empty()) break;
    query["continuation-token"] = next;
  }
  return listing;
}

}  // namespace shardfeed
