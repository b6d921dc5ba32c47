// The files in which Amazon's tools keep profiles: ~/.aws/config and ~/.aws/credentials.

#ifndef SHARDFEED_NET_AWS_PROFILE_H_
#define SHARDFEED_NET_AWS_PROFILE_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

// The settings of a profile in the text of such a file: of the section "[NAME]" or "[profile
// NAME]". Nested settings are left out.
std::map<std::string, std::string> ParseProfile(std::string_view text, std::string_view profile);

// The settings of the profile AWS_PROFILE (default "default") of AWS_CONFIG_FILE and
// AWS_SHARED_CREDENTIALS_FILE, the latter first; empty where there are none. FailedPrecondition:
// AWS_PROFILE names a profile that is in neither.
absl::StatusOr<std::map<std::string, std::string>> ReadProfile();

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AWS_PROFILE_H_
