// Tokens of Azure AD (Entra ID) for storage accounts.

#ifndef SHARDFEED_NET_AZURE_IDENTITY_H_
#define SHARDFEED_NET_AZURE_IDENTITY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/token_cache.h"

namespace shardfeed {

struct AzureIdentity {
  std::unique_ptr<TokenCache> tokens;
  std::string source;  // where it was found, for messages: "AZURE_CLIENT_SECRET"
};

// Looks in this order:
//
//   1. AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET: an application's secret
//   2. AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_FEDERATED_TOKEN_FILE: workload identity of
//      Kubernetes
//   3. IDENTITY_ENDPOINT and IDENTITY_HEADER: managed identity of App Service and the like
//   4. the metadata service of virtual machines, at AZURE_POD_IDENTITY_AUTHORITY_HOST or
//      169.254.169.254
//
// 1 and 2 ask AZURE_AUTHORITY_HOST, by default https://login.microsoftonline.com; AZURE_CLIENT_ID
// also tells 3 and 4 which identity is meant. Without tokens: there is none. Unavailable: one is
// configured, and gives no token. Waits for servers.
absl::StatusOr<AzureIdentity> FindAzureIdentity();

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AZURE_IDENTITY_H_
