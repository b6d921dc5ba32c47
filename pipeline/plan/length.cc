#include "pipeline/plan/length.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "reader/reader.h"

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

// The number of rows of a packing, which differs a little from epoch to epoch.
absl::StatusOr<Length> OfPackedShards(const ShardsWork& shards) {
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards.table->Get();
  if (!table.ok()) return table.status();
  absl::StatusOr<std::unique_ptr<Reader>> reader = Reader::Open(*std::move(table), shards.reader);
  if (!reader.ok()) return reader.status();
  uint64_t elements = 0;
  for (uint64_t epoch = 0; epoch < *shards.reader.epochs; ++epoch) {
    const absl::StatusOr<uint64_t> rows = (*reader)->shared_pack()->CountRows(epoch);
    if (!rows.ok()) return rows.status();
    elements += *rows / (shards.reader.batch * shards.reader.world) * shards.reader.batch;
  }
  return Length::Of(elements);
}

absl::StatusOr<Length> OfShards(const ShardsWork& shards) {
  const ReaderOptions& reader = shards.reader;
  if (!reader.epochs) return Length::Endless();
  if (reader.pack) return OfPackedShards(shards);
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
