// --only-shards and --job: commands that write a dataset with many processes.

#ifndef SHARDFEED_CLI_FLAGS_JOB_FLAGS_H_
#define SHARDFEED_CLI_FLAGS_JOB_FLAGS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "shard/writing/shared_job.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct JobFlags {
  std::string only_shards;
  std::string job;

  bool given() const { return !only_shards.empty() || !job.empty(); }
};

void AddJobFlags(CLI::App& command, JobFlags& flags);
void AddJobFlag(CLI::App& command, std::string& job);

// Other flags that were given and whose effect is on several datasets or on a whole one, so that a
// task cannot have it: the flag, and what to do instead.
using WholeFlags = std::vector<std::pair<std::string_view, std::string_view>>;

// The numbers of --only-shards, ascending. InvalidArgument: --job is missing, or one of `others`
// was given, or `output` lacks the number of shards. Others: those of ParseRanges.
absl::StatusOr<std::vector<uint64_t>> ShardsOf(const JobFlags& flags, const OutputSpec& output,
                                               const WholeFlags& others);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_JOB_FLAGS_H_
