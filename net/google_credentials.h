// Credentials for Google Cloud Storage, from where Google's own tools look for them.

#ifndef SHARDFEED_NET_GOOGLE_CREDENTIALS_H_
#define SHARDFEED_NET_GOOGLE_CREDENTIALS_H_

#include <ctime>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "shardfeed/credentials.h"

namespace shardfeed {

// Looks in this order:
//
//   1. GS_ACCESS_KEY_ID, GS_SECRET_ACCESS_KEY: an HMAC key
//   2. GOOGLE_APPLICATION_CREDENTIALS: a file of a service account's key, or of a user's refresh
//      token; either is exchanged for a token
//   3. such a file where gcloud keeps it: application_default_credentials.json in CLOUDSDK_CONFIG
//      or ~/.config/gcloud
//   4. the metadata server of Google's machines, unless NO_GCE_CHECK is true: at GCE_METADATA_HOST
//      or GCE_METADATA_IP
//
// `named_only`: the first two, which name credentials for this program. Nothing: there are none.
// FailedPrecondition: a file is none of these. Unavailable: some are configured, and cannot be had.
// Waits for servers.
absl::StatusOr<std::optional<Credentials>> FindGoogleCredentials(bool named_only);

// RFC 7515's compact form of the claims, a JSON object, signed by RS256. `key`: in PEM.
// FailedPrecondition: it is no RSA key, or one with a password.
absl::StatusOr<std::string> SignedJwt(const std::string& claims, const std::string& key_id,
                                      const std::string& key);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_GOOGLE_CREDENTIALS_H_
