// Finds the storage account of Azure that a URL means, and its key or shared access signature,
// without asking a server.

#ifndef SHARDFEED_NET_AZURE_ACCOUNT_H_
#define SHARDFEED_NET_AZURE_ACCOUNT_H_

#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/http_client.h"

namespace shardfeed {

// What a URL of Azure names:
//
//   az://CONTAINER/KEY
//   abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/KEY, or another host with ".dfs."
struct AzureUrl {
  std::string container;
  std::string account;   // empty in az://
  std::string endpoint;  // "https://ACCOUNT.blob.core.windows.net"; empty in az://
};
// InvalidArgument: it is neither; the message begins with the URL without its key.
absl::StatusOr<AzureUrl> ParseAzureUrl(std::string_view url);

struct AzureAccount {
  std::string name;      // may be empty if only an endpoint is known
  std::string endpoint;  // the URL of its blobs, without '/' at its end
  // At most one of these.
  std::string key;     // decoded
  std::string sas;     // without '?'
  std::string source;  // where key or signature were found, for messages
};

// The account of the URL, from the first of these that is set:
//
//   1. AZURE_STORAGE_CONNECTION_STRING: AccountName, AccountKey, SharedAccessSignature,
//      BlobEndpoint, EndpointSuffix, DefaultEndpointsProtocol
//   2. AZURE_STORAGE_KEY
//   3. AZURE_STORAGE_SAS_TOKEN
//
// 2 and 3 belong to AZURE_STORAGE_ACCOUNT, as does AZURE_STORAGE_ENDPOINT, another URL of its
// blobs; if the URL or the connection string names another account, they are not used.
// InvalidArgument: no account is named, or a setting is not what it
// should be; the message names the variable, and never its value if that is a secret.
absl::StatusOr<AzureAccount> FindAzureAccount(const AzureUrl& url);

// The header "Authorization: SharedKey ..." of a complete request with x-ms-date and x-ms-version.
// `query`: its parameters, unescaped. "Authorize with Shared Key" of Azure's documentation of the
// storage services describes it.
std::string SharedKeyHeader(const AzureAccount& account,
                            const std::map<std::string, std::string>& query,
                            const HttpRequest& request);

// When the signature ends, if it says so (it may refer to a policy that does).
std::optional<std::time_t> SasExpiry(std::string_view sas);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AZURE_ACCOUNT_H_
