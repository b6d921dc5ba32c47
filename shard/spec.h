// Limits and checks of the specs that name datasets (shardfeed/spec.h).

#ifndef SHARDFEED_SHARD_SPEC_H_
#define SHARDFEED_SHARD_SPEC_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "shard/names.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// The most shards a set may be written with. Reading has no limit.
inline constexpr uint64_t kMaxShards = 1'000'000;

// OK for a path of this machine; InvalidArgument for what stands elsewhere, such as gs://bucket/x.
// A folder that is called "gs:" is ./gs:
absl::Status CheckIsPath(std::string_view path);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_H_
