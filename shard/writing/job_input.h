// What a dataset that several processes write is made of, as far as no shard tells it: each process
// finds it out from the whole input, and all must find the same (shared_job.h).

#ifndef SHARDFEED_SHARD_WRITING_JOB_INPUT_H_
#define SHARDFEED_SHARD_WRITING_JOB_INPUT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/schema/class_names.h"
#include "shard/schema/schema.h"
#include "shard/schema/skipped_records.h"
#include "shard/statistics/value_statistics.h"

namespace shardfeed {

struct JobInput {
  // These are as in the Manifest. The schema is that of records whose bytes are copied, which tasks
  // do not look into; otherwise it has no records.
  std::map<std::string, std::string> made_by;
  std::vector<std::string> notes;
  SkippedRecords skipped;  // those left out before any shard was written
  Schema schema;
  std::shared_ptr<const ValueStatistics> values;  // statistics of these records; null: not known
  FeatureClasses classes;
  // Identifies the input and everything else that shards depend on.
  std::string fingerprint;
  // The most records that may be left out while the shards are written.
  uint64_t max_skipped = UINT64_MAX;
};

std::string FormatJobInput(const JobInput& input);
// DataLoss: FormatJobInput cannot have written `text`.
absl::StatusOr<JobInput> ParseJobInput(std::string_view text);

// Names the first thing in which the two differ; empty if they are equal.
std::string DifferenceOf(const JobInput& a, const JobInput& b);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_JOB_INPUT_H_
