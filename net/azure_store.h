// Azure Blob Storage, and servers that speak its protocol.

#ifndef SHARDFEED_NET_AZURE_STORE_H_
#define SHARDFEED_NET_AZURE_STORE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/azure_account.h"
#include "net/azure_uploads.h"
#include "net/credentials.h"
#include "net/server_clock.h"
#include "net/store.h"

namespace shardfeed {

// A container of a storage account. Requests are signed with the account's key or carry a shared
// access signature, if there is one (FindAzureAccount); otherwise they carry a token
// (FindAzureIdentity), if there is one and AZURE_SKIP_SIGNATURE is not set.
class AzureStore : public Store {
 public:
  // The container of a URL az:// or abfss://. `given`, unless null, gives tokens instead of the
  // environment. Errors: those of ParseAzureUrl, FindAzureAccount, FindAzureIdentity and `given`.
  static absl::StatusOr<std::shared_ptr<const Store>> Open(std::string_view url,
                                                           FindCredentials given);

  absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query,
      const std::map<std::string, std::string>& headers) const override;
  void Sign(const std::map<std::string, std::string>& query, HttpRequest* request) const override;
  absl::Status ErrorOf(std::string_view path, const HttpResponse& response) const override;
  // Azure's 409 is not about requests at the same time.
  bool Stays(const HttpResponse& response) const override { return response.status == 409; }
  // The names of Azure's metadata are those of variables.
  std::string_view writer_header() const override { return "x-ms-meta-shardfeed_writer"; }
  const UploadProtocol* uploads() const override { return &uploads_; }
  absl::Status CheckWritable(std::string_view path) const override;
  absl::StatusOr<ObjectListing> List(const std::string& folder) const override;

 private:
  AzureStore() = default;
  bool LearnFrom(const HttpResponse& response) const override;
  absl::Status Refused(std::string_view path, const HttpResponse& response) const;

  std::string root_;  // "az://container"
  std::string container_;
  AzureAccount account_;
  std::unique_ptr<CredentialsCache> tokens_;  // null if the account has a key or a signature
  const AzureUploads uploads_{*this};

  mutable ServerClock clock_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AZURE_STORE_H_
