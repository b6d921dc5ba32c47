// Limits and checks of the specs that name datasets (shardfeed/spec.h).

#ifndef SHARDFEED_SHARD_SPEC_SPEC_H_
#define SHARDFEED_SHARD_SPEC_SPEC_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "shard/names/names.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// Returns OK for a local path, where nothing else is supported. InvalidArgument: a URL such as
// s3://bucket/x. (A local folder named "s3:" is written as ./s3:)
absl::Status CheckIsPath(std::string_view path);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_SPEC_H_
