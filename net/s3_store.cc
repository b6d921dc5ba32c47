#include "net/s3_store.h"

#include <ctime>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "fmt/format.h"
#include "net/aws_credentials.h"
#include "net/aws_profile.h"
#include "net/s3_protocol.h"
#include "net/secret_text.h"
#include "net/sigv4.h"
#include "net/url.h"

namespace shardfeed {
namespace {

// Whether a bucket's name can be a label of a host name that a certificate for *.s3.amazonaws.com
// covers.
bool FitsHost(std::string_view bucket) {
  return bucket.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == bucket.npos;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Store>> S3Store::Open(std::string_view bucket,
                                                           FindCredentials given) {
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
  if (absl::Status status = CheckSecret("the region (AWS_REGION)", region); !status.ok()) {
    return status;
  }
  store->unused_ = UnusedInProfile(*profile);
  store->origin_ = setting({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
  store->amazon_ = store->origin_.empty();
  if (!store->amazon_) {
    while (store->origin_.ends_with('/')) store->origin_.pop_back();
    if (absl::Status status = CheckOrigin("AWS_ENDPOINT_URL", store->origin_); !status.ok()) {
      return status;
    }
    store->in_path_ = true;
  } else {
    store->in_path_ = !FitsHost(bucket);
  }
  if (given == nullptr && Env("AWS_NO_SIGN_REQUEST").empty()) {
    given = [profile = *profile, region] { return FindAwsCredentials(profile, region); };
  }
  if (given != nullptr) {
    absl::StatusOr<std::unique_ptr<CredentialsCache>> credentials =
        CredentialsCache::Make(std::move(given));
    if (!credentials.ok()) return credentials.status();
    store->credentials_ = *std::move(credentials);
  }
  MutexLock lock(store->mutex_);
  store->region_ = std::move(region);
  return store;
}

absl::StatusOr<HttpRequest> S3Store::Request(
    std::string_view method, std::string_view path, const std::map<std::string, std::string>& query,
    const std::map<std::string, std::string>& headers) const {
  std::string region;
  {
    MutexLock lock(mutex_);
    region = region_;
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
  request.group = fmt::format("{}/{}", origin, bucket_);
  if (!query.empty()) request.url += "?" + CanonicalQuery(query);
  if (credentials_ != nullptr) {
    const Credentials found = credentials_->Get();
    SignRequest({found.access_key_id, found.secret_access_key, found.session_token}, region, "s3",
                origin, escaped, query, headers, clock_.Now(), &request);
  }
  for (const auto& [name, value] : headers) {
    request.headers.push_back(fmt::format("{}: {}", name, value));
  }
  return request;
}

absl::Status S3Store::ErrorOf(std::string_view path, const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  const std::string said = error.Text(response);
  const auto message = [&](std::string_view text) { return fmt::format("{}: {}", path, text); };
  if (error.code == "NoSuchBucket") {
    return absl::NotFoundError(message(
        fmt::format("there is no bucket '{}'{}", bucket_, amazon_ ? "" : " at " + origin_)));
  }
  if (response.status == 403 || response.status == 401 || error.code == "ExpiredToken" ||
      error.code == "InvalidToken") {
    if (credentials_ == nullptr) {
      std::string why = "AWS_NO_SIGN_REQUEST is set, so none are used";
      if (Env("AWS_NO_SIGN_REQUEST").empty()) {
        why = fmt::format(
            "none were found{}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            unused_.empty()
                ? ""
                : fmt::format(" (the default profile has {}, which is not supported)", unused_));
      }
      return absl::PermissionDeniedError(
          message(fmt::format("S3 refuses access without credentials ({}), and {}", said, why)));
    }
    std::string_view remedy =
        "; they must allow this request; without permission to list, a missing object is "
        "refused in the same way";
    if (error.code == "SignatureDoesNotMatch") remedy = "; the secret key is wrong";
    if (error.code == "InvalidAccessKeyId") remedy = "; the server does not know this key";
    if (error.code == "ExpiredToken" || error.code == "InvalidToken") {
      remedy = "; get new ones, then resume from the saved state";
    }
    if (error.code == "RequestTimeTooSkewed") remedy = "; set this machine's clock";
    if (error.code == "InvalidObjectState") {
      return absl::FailedPreconditionError(message(fmt::format(
          "the object is archived ({}); restore it, or move it to another storage class", said)));
    }
    return absl::PermissionDeniedError(message(fmt::format(
        "S3 refuses the credentials of {} ({}){}", credentials_->Describe(), said, remedy)));
  }
  if (response.status >= 300 && response.status < 400) {
    const std::string_view region =
        error.region.empty() ? response.Header("x-amz-bucket-region") : error.region;
    if (region.empty()) return Store::ErrorOf(path, response);
    return absl::FailedPreconditionError(
        message(fmt::format("the bucket is in region {}; set AWS_REGION", region)));
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

bool S3Store::LearnFrom(const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  std::string region(response.Header("x-amz-bucket-region"));
  if (region.empty()) region = error.region;
  {
    MutexLock lock(mutex_);
    if (amazon_ && !region.empty() && region != region_) {
      region_ = region;
      return true;
    }
  }
  if (const std::optional<std::time_t> now = TimeOfRefusal(error, response)) {
    return clock_.Set(*now, kClockTolerance);
  }
  const bool expired = error.code == "ExpiredToken" || error.code == "InvalidToken" ||
                       error.code == "TokenRefreshRequired";
  return expired && credentials_ != nullptr && credentials_->Expired();
}

absl::Status S3Store::CheckWritable(std::string_view path) const { return CheckUtf8(path, "S3"); }

absl::StatusOr<ObjectListing> S3Store::List(const std::string& folder) const {
  return ListBucket(*this, fmt::format("s3://{}", bucket_), folder);
}

}  // namespace shardfeed
