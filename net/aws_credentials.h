// Finds credentials for S3 in the places where Amazon's own tools look.

#ifndef SHARDFEED_NET_AWS_CREDENTIALS_H_
#define SHARDFEED_NET_AWS_CREDENTIALS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "shardfeed/credentials.h"

namespace shardfeed {

// Looks in this order:
//
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: Kubernetes' service accounts, by STS
//   3. `profile`: aws_access_key_id and aws_secret_access_key of ReadProfile()
//   4. AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI: containers of ECS and EKS
//   5. the metadata service of EC2, version 2, unless AWS_EC2_METADATA_DISABLED is true
//
// Returns nullopt if there are none. Unavailable: credentials are configured, but cannot be
// obtained. FailedPrecondition: one of two settings is missing, or the profile that AWS_PROFILE
// names has only such that are not supported. InvalidArgument: a setting has characters that none
// has. Waits for servers.
absl::StatusOr<std::optional<Credentials>> FindAwsCredentials(
    const std::map<std::string, std::string>& profile, const std::string& region);

// The first of a profile's settings that say where credentials are, and that are not supported;
// empty: there is none.
std::string UnusedInProfile(const std::map<std::string, std::string>& profile);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AWS_CREDENTIALS_H_
