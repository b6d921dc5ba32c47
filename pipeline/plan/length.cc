#include "pipeline/plan/length.h"

#include <utility>
#include <vector>

#include "base/rounding.h"

namespace shardfeed {
namespace {

absl::StatusOr<uint64_t> RecordsOf(const ShardsWork& shards) {
  if (shards.reader.records) {
    uint64_t records = 0;
    for (const RecordRange& range : *shards.reader.records) records += range.count;
    return records;
  }
  const absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards.table->Get();
  if (!table.ok()) return table.status();
  return (*table)->num_records();
}

absl::StatusOr<Length> OfShards(const ShardsWork& shards) {
  const ReaderOptions& reader = shards.reader;
  if (!reader.epochs) return Length::Endless();
  const absl::StatusOr<uint64_t> records = RecordsOf(shards);
  if (!records.ok()) return records.status();
  const uint64_t round = reader.batch * reader.world;
  const uint64_t rounds =
      reader.end == EpochEnd::kDrop ? *records / round : CeilDivide(*records, round);
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

absl::StatusOr<uint64_t> EpochRecords(const Step& step) {
  const Step* at = &step;
  while (!at->inputs.empty()) at = at->inputs[0].get();
  const ShardsWork* const shards = at->as<ShardsWork>();
  return shards != nullptr ? RecordsOf(*shards) : 0;
}

}  // namespace shardfeed
