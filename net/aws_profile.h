// Reads the profiles of Amazon's tools: ~/.aws/config and ~/.aws/credentials.

#ifndef SHARDFEED_NET_AWS_PROFILE_H_
#define SHARDFEED_NET_AWS_PROFILE_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

// The settings in the section "[NAME]" or "[profile NAME]" of the text of such a file. Nested
// settings are ignored.
std::map<std::string, std::string> ParseProfile(std::string_view text, std::string_view profile);

// The settings of the profile AWS_PROFILE (by default "default") from AWS_CONFIG_FILE and
// AWS_SHARED_CREDENTIALS_FILE, the latter of which takes precedence; empty if there are none.
// FailedPrecondition: AWS_PROFILE names a profile that is in neither file. InvalidArgument: one of
// the two variables does not hold a path.
absl::StatusOr<std::map<std::string, std::string>> ReadProfile();

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AWS_PROFILE_H_
