#include "net/gcs_store.h"

#include <ctime>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "fmt/format.h"
#include "net/google_credentials.h"
#include "net/s3_protocol.h"
#include "net/secret_text.h"
#include "net/sigv4.h"
#include "net/url.h"

namespace shardfeed {
namespace {

constexpr std::string_view kGoogle = "https://storage.googleapis.com";

// Google's If-None-Match is for reading only.
std::map<std::string, std::string> Translate(std::map<std::string, std::string> headers) {
  if (headers.erase("if-none-match") > 0) headers["x-goog-if-generation-match"] = "0";
  return headers;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Store>> GcsStore::Open(std::string_view bucket,
                                                            FindCredentials given) {
  std::shared_ptr<GcsStore> store(new GcsStore());
  store->bucket_ = bucket;
  store->origin_ = Env("STORAGE_EMULATOR_HOST");
  store->google_ = store->origin_.empty();
  store->project_ = Env("GOOGLE_CLOUD_QUOTA_PROJECT");
  if (absl::Status status =
          CheckSecret("GOOGLE_CLOUD_QUOTA_PROJECT", store->project_, /*blanks=*/true);
      !status.ok()) {
    return status;
  }
  if (store->google_) {
    store->origin_ = kGoogle;
  } else if (store->origin_.find("://") == std::string::npos) {
    store->origin_ = "http://" + store->origin_;
  }
  while (store->origin_.ends_with('/')) store->origin_.pop_back();
  if (absl::Status status = CheckOrigin("STORAGE_EMULATOR_HOST", store->origin_,
                                        "HOST:PORT, http://HOST or https://HOST");
      !status.ok()) {
    return status;
  }
  if (given == nullptr) {
    if (!Env("GS_NO_SIGN_REQUEST").empty()) return store;
    given = [named_only = !store->google_] { return FindGoogleCredentials(named_only); };
  }
  absl::StatusOr<std::unique_ptr<CredentialsCache>> credentials =
      CredentialsCache::Make(std::move(given));
  if (!credentials.ok()) return credentials.status();
  store->credentials_ = *std::move(credentials);
  return store;
}

absl::StatusOr<HttpRequest> GcsStore::Request(
    std::string_view method, std::string_view path, const std::map<std::string, std::string>& query,
    const std::map<std::string, std::string>& headers) const {
  const std::string escaped = fmt::format("/{}/{}", UrlEscape(bucket_, false),
                                          UrlEscape(SplitUrl(path).key, /*keep_slashes=*/true));
  HttpRequest request;
  request.method = method;
  request.url = origin_ + escaped;
  request.group = fmt::format("{}/{}", origin_, bucket_);
  if (!query.empty()) request.url += "?" + CanonicalQuery(query);
  std::map<std::string, std::string> own = Translate(headers);
  if (!project_.empty()) own["x-goog-user-project"] = project_;
  if (credentials_ != nullptr) {
    const Credentials credentials = credentials_->Get();
    if (!credentials.token.empty()) {
      request.headers.push_back("Authorization: Bearer " + credentials.token);
    } else {
      SignRequest({credentials.access_key_id, credentials.secret_access_key, ""}, "auto", "storage",
                  origin_, escaped, query, own, clock_.Now(), &request, kGoogleDialect);
    }
  }
  for (const auto& [name, value] : own) {
    request.headers.push_back(fmt::format("{}: {}", name, value));
  }
  // Objects that are stored compressed would be decompressed on their way, and their ranges be
  // ranges of something else.
  request.headers.push_back("Accept-Encoding: gzip");
  return request;
}

absl::Status GcsStore::Refused(std::string_view path, const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  const std::string said = error.Text(response);
  if (credentials_ == nullptr) {
    return absl::PermissionDeniedError(
        fmt::format("{}: Google Cloud Storage does not allow it without credentials ({}), and none "
                    "were found; set GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth "
                    "application-default login'",
                    path, said));
  }
  std::string_view remedy =
      "; give them a role such as Storage Object User on the bucket (docs/stores.md)";
  if (error.code == "SignatureDoesNotMatch") {
    remedy = "; the secret of the HMAC key is wrong";
  } else if (error.code == "InvalidAccessKeyId" || error.code == "InvalidSecurity") {
    remedy = "; the HMAC key is unknown, or it was deactivated";
  } else if (error.code == "RequestTimeTooSkewed") {
    remedy = "; set this machine's clock";
  } else if (response.status == 401 || error.code == "ExpiredToken" ||
             error.code == "InvalidToken") {
    remedy =
        "; the token has expired or is not one of Google's: get another one, then resume from the "
        "saved state";
  }
  return absl::PermissionDeniedError(
      fmt::format("{}: Google Cloud Storage refuses the credentials of {} ({}){}", path,
                  credentials_->Describe(), said, remedy));
}

absl::Status GcsStore::ErrorOf(std::string_view path, const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  if (error.code == "NoSuchBucket") {
    return absl::NotFoundError(fmt::format("{}: there is no bucket '{}'{}", path, bucket_,
                                           google_ ? "" : " at " + origin_));
  }
  if (error.code == "UserProjectMissing") {
    return absl::FailedPreconditionError(
        fmt::format("{}: whoever reads this bucket pays for it; set GOOGLE_CLOUD_QUOTA_PROJECT to "
                    "the project that does",
                    path));
  }
  if (response.status == 401 || response.status == 403 || error.code == "ExpiredToken" ||
      error.code == "InvalidToken") {
    return Refused(path, response);
  }
  if (response.status == 404 || response.status == 412 || response.status == 416 ||
      error.code.empty()) {
    return Store::ErrorOf(path, response);
  }
  return absl::UnavailableError(fmt::format("{}: {}", path, error.Text(response)));
}

bool GcsStore::LearnFrom(const HttpResponse& response) const {
  const S3Error error = S3Error::Of(response);
  if (const std::optional<std::time_t> now = TimeOfRefusal(error, response)) {
    return clock_.Set(*now, kClockTolerance);
  }
  const bool expired =
      response.status == 401 || error.code == "ExpiredToken" || error.code == "InvalidToken";
  return expired && credentials_ != nullptr && credentials_->Expired();
}

absl::Status GcsStore::CheckWritable(std::string_view path) const {
  return CheckUtf8(path, "Google Cloud Storage");
}

absl::StatusOr<ObjectListing> GcsStore::List(const std::string& folder) const {
  return ListBucket(*this, fmt::format("gs://{}", bucket_), folder);
}

}  // namespace shardfeed
