#include "pipeline/plan/length.h"

#include <utility>
#include <vector>

namespace shardfeed {
namespace {

absl::StatusOr<Length> OfShards(const ShardsWork& shards) {
  const ReaderOptions& reader = shards.reader;
  if (!reader.epochs) return Length::Endless();
  uint64_t records = 0;
  if (reader.records) {
    for (const RecordRange& range : *reader.records) records += range.count;
  } else {
    const absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards.table->Get();
    if (!table.ok()) return table.status();
    records = (*table)->num_records();
  }
  const uint64_t round = reader.batch * reader.world;
  const uint64_t rounds =
      reader.end == EpochEnd::kDrop ? records / round : (records + round - 1) / round;
  return Length::Of(rounds * reader.batch * *reader.epochs);
}

}  // namespace

absl::StatusOr<Length> LengthOf(const Step& step) {
  if (const ShardsWork* shards = step.as<ShardsWork>()) return OfShards(*shards);
  std::vector<Length> inputs;
  for (const StepPtr& input : step.inputs) {
    absl::StatusOr<Length> length = LengthOf(*input);
    if (!length.ok()) return length;
    inputs.push_back(*std::move(length));
  }
  return step.length ? step.length(inputs) : inputs[0];
}

}  // namespace shardfeed
