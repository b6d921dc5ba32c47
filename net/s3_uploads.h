// Writing to S3: its multipart uploads, and PutObject with If-None-Match.

#ifndef SHARDFEED_NET_S3_UPLOADS_H_
#define SHARDFEED_NET_S3_UPLOADS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/upload_protocol.h"

namespace shardfeed {

class S3Uploads : public UploadProtocol {
 public:
  explicit S3Uploads(const Store& store) : store_(store) {}

  StoreCall Put(Body body, const std::string& writer, bool replace) const override;
  StoreCall Begin(const std::string& writer) const override;
  absl::StatusOr<std::string> BegunUpload(const std::string& path,
                                          const HttpResponse& response) const override;
  std::map<std::string, std::string> PartQuery(const std::string& upload,
                                               uint64_t number) const override;
  absl::StatusOr<std::string> PartName(const std::string& path, const std::string& upload,
                                       uint64_t number,
                                       const HttpResponse& response) const override;
  StoreCall Complete(const PendingObject& object) const override;
  absl::StatusOr<std::string> Completed(const std::string& path,
                                        const HttpResponse& response) const override;
  std::optional<StoreCall> Discard(const std::string& upload) const override;
  absl::StatusOr<std::vector<size_t>> WithoutParts(
      const std::vector<PendingObject>& objects) const override;
  absl::StatusOr<std::vector<UnfinishedUpload>> List(const std::string& folder) const override;

 private:
  const Store& store_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_S3_UPLOADS_H_
