// Tokens of Azure AD (Entra ID) for storage accounts.

#ifndef SHARDFEED_NET_AZURE_IDENTITY_H_
#define SHARDFEED_NET_AZURE_IDENTITY_H_

#include <optional>

#include "absl/status/statusor.h"
#include "net/credentials.h"

namespace shardfeed {

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
// also tells 3 and 4 which identity is meant. Returns a token, or nullopt if there is no identity.
// Unavailable: an identity is configured, but gives no token. Waits for servers.
absl::StatusOr<std::optional<Credentials>> FindAzureIdentity();

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AZURE_IDENTITY_H_
