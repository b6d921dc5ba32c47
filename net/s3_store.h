// Amazon's S3, and other servers with its protocol.

#ifndef SHARDFEED_NET_S3_STORE_H_
#define SHARDFEED_NET_S3_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "net/credentials.h"
#include "net/s3_uploads.h"
#include "net/server_clock.h"
#include "net/store.h"

namespace shardfeed {

// A bucket. Requests go to AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's endpoint_url,
// with the bucket in the path; if none is set, to Amazon, with the bucket in the host name if
// possible. The region is AWS_REGION, AWS_DEFAULT_REGION, the profile's region, or us-east-1, until
// Amazon names the right one. Requests are signed if there are credentials and AWS_NO_SIGN_REQUEST
// is not set.
class S3Store : public Store {
 public:
  // `given`: what looks for credentials instead of FindAwsCredentials, unless null. Errors: those
  // of either and of ReadProfile.
  static absl::StatusOr<std::shared_ptr<const Store>> Open(std::string_view bucket,
                                                           FindCredentials given);

  absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query,
      const std::map<std::string, std::string>& headers) const override;
  absl::Status ErrorOf(std::string_view path, const HttpResponse& response) const override;
  bool stat_by_range() const override { return true; }
  std::string_view writer_header() const override { return "x-amz-meta-shardfeed-writer"; }
  const UploadProtocol* uploads() const override { return &uploads_; }
  absl::Status CheckWritable(std::string_view path) const override;
  absl::StatusOr<ObjectListing> List(const std::string& folder) const override;

 private:
  S3Store() = default;
  bool LearnFrom(const HttpResponse& response) const override;

  std::string bucket_;
  std::string origin_;  // "https://host:port"
  bool in_path_ = false;
  bool amazon_ = false;
  const S3Uploads uploads_{*this};
  std::unique_ptr<CredentialsCache> credentials_;  // null: requests are not signed
  std::string unused_;  // what the profile has instead of a key, and is not supported

  mutable ServerClock clock_;
  mutable Mutex mutex_;
  mutable std::string region_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_S3_STORE_H_
