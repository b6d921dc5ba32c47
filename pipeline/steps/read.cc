#include <string>
#include <utility>
#include <vector>

#include "base/count_text.h"
#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"
#include "reader/disk_cache.h"
#include "reader/order/mix_schedule.h"
#include "shard/spec/spec.h"

namespace shardfeed {

Dataset Dataset::Read(const std::string& spec, ReaderOptions options) {
  absl::StatusOr<ShardSet> set = ResolveSpec(spec);
  if (!set.ok()) return Dataset(set.status());
  return Read(*set, std::move(options));
}

Dataset Dataset::Read(const ShardSet& set, ReaderOptions options) {
  ShardTableOptions opening;
  opening.salvage = options.skip_damaged && options.check_crc == CrcCheck::kAll;
  opening.on_notes = options.on_notes;
  absl::StatusOr<std::shared_ptr<const void>> cache = ServeFromDisk(set, options);
  if (!cache.ok()) return Dataset(cache.status());
  opening.disk_cache = *std::move(cache);
  absl::StatusOr<std::shared_ptr<LazyShardTable>> table =
      LazyShardTable::Open(set, std::move(opening));
  if (!table.ok()) return Dataset(table.status());
  return Read(*std::move(table), std::move(options));
}

Dataset Dataset::Mix(const std::vector<MixInput>& inputs, std::vector<MixSegment> schedule,
                     uint64_t length, ReaderOptions options, std::optional<uint64_t> seed) {
  if (inputs.empty()) return Dataset(absl::InvalidArgumentError("mix: there are no sources"));
  std::vector<std::string> names;
  names.reserve(inputs.size());
  for (const MixInput& input : inputs) names.push_back(input.name);
  // The order checks the rest, for which the number of lanes and of records must be known.
  std::vector<MixSegment> segments = schedule;
  for (MixSegment& segment : segments) {
    if (segment.weights.empty()) segment.weights.assign(inputs.size(), 1);
  }
  if (absl::Status status = MixSchedule::Check(names, segments, /*lanes=*/1); !status.ok()) {
    return Dataset(std::move(status));
  }
  auto mixture = std::make_shared<Mixture>();
  ShardSet all;
  for (const MixInput& input : inputs) {
    absl::StatusOr<ShardSet> set = ResolveSpecs(input.specs);
    if (!set.ok()) return Dataset(set.status());
    mixture->sources.push_back({input.name, set->paths.size(), input.records});
    if (all.paths.empty()) all.directory = set->directory;
    all.paths.insert(all.paths.end(), set->paths.begin(), set->paths.end());
  }
  mixture->schedule = std::move(schedule);
  mixture->length = length;
  mixture->seed = seed;
  options.order.mixture = std::move(mixture);
  Dataset made = Read(all, std::move(options));
  if (!made.status_.ok()) return made;
  Step step = *made.step_;
  step.text = fmt::format("mix({})", CountText(inputs.size(), "source"));
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

Dataset Dataset::NumberRecords(std::string number, std::string source) const {
  if (!status_.ok()) return *this;
  const ShardsWork* const shards = step_->as<ShardsWork>();
  if (shards == nullptr || shards->numbers.any()) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("NumberRecords: records get their numbers where they are read, but {} precedes",
                    step_->text)));
  }
  const bool mixed = shards->reader.order.mixture != nullptr;
  if (!source.empty() && !mixed) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("read: column '{}': only the records of a mixture have sources", source)));
  }
  Step step = *step_;
  NumberColumns& columns = std::get<ShardsWork>(step.work).numbers;
  columns = {.number = std::move(number), .source = std::move(source)};
  step.spec = columns.Spec();
  absl::Status status = CheckNames(mixed ? "mix" : "read", *step.spec);
  if (!status.ok()) return Dataset(std::move(status));
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

Dataset Dataset::Read(std::shared_ptr<const ShardTable> table, ReaderOptions options) {
  return Read(std::make_shared<LazyShardTable>(std::move(table)), std::move(options));
}

Dataset Dataset::Read(std::shared_ptr<const LazyShardTable> table, ReaderOptions options) {
  Step step;
  step.name = "shards";  // name in fingerprints
  step.text = fmt::format("read({})", CountText(table->num_shards(), "file"));
  step.spec = RecordSpec();
  // Its identity is that of the records and of their order: see FingerprintOf.
  step.work = ShardsWork{std::move(table), std::move(options), {}};
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

}  // namespace shardfeed
