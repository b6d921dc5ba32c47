// Writing to Azure Blob Storage: Put Block and Put Block List, and Put Blob with If-None-Match.
//
// Blocks that are not committed belong to the name of a blob, whoever sent them: there are no
// uploads that would keep those of two writers apart. The names of blocks do, which contain the
// upload's, and a list commits those that it names alone. It removes all others of the blob; their
// writer then lacks them, but has lost already, since a dataset is put into place by the holder of
// its commit record (docs/commit.md).

#ifndef SHARDFEED_NET_AZURE_UPLOADS_H_
#define SHARDFEED_NET_AZURE_UPLOADS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/upload_protocol.h"

namespace shardfeed {

class AzureUploads : public UploadProtocol {
 public:
  explicit AzureUploads(const Store& store) : store_(store) {}

  StoreCall Put(Body body, const std::string& writer, bool replace) const override;
  std::string NewUpload(const std::string& writer) const override;
  std::map<std::string, std::string> PartQuery(const std::string& upload,
                                               uint64_t number) const override;
  absl::StatusOr<std::string> PartName(const std::string& path, const std::string& upload,
                                       uint64_t number,
                                       const HttpResponse& response) const override;
  StoreCall Complete(const PendingObject& object) const override;
  absl::StatusOr<std::string> Completed(const std::string& path,
                                        const HttpResponse& response) const override;
  // Nothing removes blocks and keeps a blob of their name that another writer may have put there
  // just now. Azure removes them a week after the last one.
  std::optional<StoreCall> Discard(const std::string& /*upload*/) const override {
    return std::nullopt;
  }
  absl::StatusOr<std::vector<size_t>> WithoutParts(
      const std::vector<PendingObject>& objects) const override;
  // Does not list uploads to the name of a blob that exists.
  absl::StatusOr<std::vector<UnfinishedUpload>> List(const std::string& folder) const override;

 private:
  absl::StatusOr<bool> HasParts(const PendingObject& object) const;

  const Store& store_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AZURE_UPLOADS_H_
