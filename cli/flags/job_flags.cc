#include "cli/flags/job_flags.h"

#include <algorithm>

#include "cli/terminal/units.h"
#include "fmt/format.h"

namespace shardfeed {

void AddJobFlag(CLI::App& command, std::string& job) {
  command
      .add_option("--job", job,
                  "name of the job that the tasks share, such as $SLURM_ARRAY_JOB_ID: at most 64 "
                  "letters, digits, '.', '_' and '-'")
      ->type_name("ID");
}

void AddJobFlags(CLI::App& command, JobFlags& flags) {
  command
      .add_option(
          "--only-shards", flags.only_shards,
          "write only these shards of OUT@N, with --job: 3, 0-7, 3,7-9; other tasks write the "
          "others, and 'shardfeed commit OUT@N --job ID' makes a dataset of them")
      ->type_name("RANGES");
  AddJobFlag(command, flags.job);
}

absl::StatusOr<std::vector<uint64_t>> ShardsOf(const JobFlags& flags, const OutputSpec& output,
                                               const WholeFlags& others) {
  if (flags.job.empty()) {
    return absl::InvalidArgumentError(
        "--only-shards: tasks that write some of the shards need a name for their job, --job ID");
  }
  if (flags.only_shards.empty()) {
    return absl::InvalidArgumentError(
        "--job: a task of a job needs the numbers of the shards that it writes, --only-shards A-B");
  }
  for (const auto& [flag, instead] : others) {
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be combined with --only-shards: {}", flag, instead));
  }
  if (!output.count) {
    return absl::InvalidArgumentError(
        "--only-shards: the number of shards is missing: name the output as folder/name@N");
  }
  const absl::StatusOr<std::vector<Range>> ranges =
      ParseRanges(flags.only_shards, *output.count, "shard");
  if (!ranges.ok()) return ranges.status();
  std::vector<uint64_t> shards;
  for (const Range& range : *ranges) {
    for (uint64_t shard = range.begin; shard < range.end; ++shard) shards.push_back(shard);
  }
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  return shards;
}

}  // namespace shardfeed
