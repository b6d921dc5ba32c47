// Google Cloud Storage, by its XML API.

#ifndef SHARDFEED_NET_GCS_STORE_H_
#define SHARDFEED_NET_GCS_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/credentials.h"
#include "net/s3_uploads.h"
#include "net/server_clock.h"
#include "net/store.h"

namespace shardfeed {

// A bucket. Requests go to STORAGE_EMULATOR_HOST, or to storage.googleapis.com, with the bucket in
// the path. They are signed by an HMAC key or have a token, if there are credentials and
// GS_NO_SIGN_REQUEST is not set.
class GcsStore : public Store {
 public:
  // `given`: what looks for credentials instead of FindGoogleCredentials, unless null. Errors:
  // those of either.
  static absl::StatusOr<std::shared_ptr<const Store>> Open(std::string_view bucket,
                                                           FindCredentials given);

  absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query,
      const std::map<std::string, std::string>& headers) const override;
  absl::Status ErrorOf(std::string_view path, const HttpResponse& response) const override;
  bool stat_by_range() const override { return true; }
  std::string_view writer_header() const override { return "x-goog-meta-shardfeed-writer"; }
  const UploadProtocol* uploads() const override { return &uploads_; }
  absl::Status CheckWritable(std::string_view path) const override;
  absl::StatusOr<ObjectListing> List(const std::string& folder) const override;

 private:
  GcsStore() = default;
  bool LearnFrom(const HttpResponse& response) const override;
  absl::Status Refused(std::string_view path, const HttpResponse& response) const;

  std::string bucket_;
  std::string origin_;  // "https://host:port"
  bool google_ = false;
  std::string project_;  // the project that pays for requests; may be empty
  const S3Uploads uploads_{*this};
  std::unique_ptr<CredentialsCache> credentials_;  // null: requests are not signed

  mutable ServerClock clock_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_GCS_STORE_H_
