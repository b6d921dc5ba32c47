#include "pipeline/plan/length.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "reader/reader.h"
#include "reader/shards/selection.h"

namespace shardfeed {
namespace {

absl::StatusOr<uint64_t> RecordsOf(const ShardsWork& shards) {
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards.table->Get();
  if (!table.ok()) return table.status();
  if (shards.reader.records) {
    const absl::StatusOr<Selection> selection =
        Selection::Ranges(*shards.reader.records, (*table)->num_records());
    if (!selection.ok()) return selection.status();
    return selection->size();
  }
  if (shards.reader.order.mixture == nullptr) return (*table)->num_records();
  ReaderOptions options;
  options.order = shards.reader.order;
  const absl::StatusOr<std::unique_ptr<Reader>> reader =
      Reader::Open(*std::move(table), std::move(options));
  if (!reader.ok()) return reader.status();
  return (*reader)->order().size();
}

// The number of rows of a plan in an epoch; epochs differ a little.
absl::StatusOr<Length> OfPlannedRows(const ShardsWork& shards, uint64_t epoch) {
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards.table->Get();
  if (!table.ok()) return table.status();
  absl::StatusOr<std::unique_ptr<Reader>> reader = Reader::Open(*std::move(table), shards.reader);
  if (!reader.ok()) return reader.status();
  const uint64_t epochs = *shards.reader.epochs;
  uint64_t elements = 0;
  for (uint64_t e = epoch * epochs; e < (epoch + 1) * epochs; ++e) {
    const absl::StatusOr<uint64_t> rows = (*reader)->shared_pack()->CountRows(e);
    if (!rows.ok()) return rows.status();
    elements += *rows / (shards.reader.batch * shards.reader.world) * shards.reader.batch;
  }
  return Length::Of(elements);
}

bool HasPlannedRows(const Step& step) {
  const ShardsWork* const shards = step.as<ShardsWork>();
  if (shards != nullptr) return shards->reader.pack.has_value();
  return std::any_of(step.inputs.begin(), step.inputs.end(),
                     [](const StepPtr& input) { return HasPlannedRows(*input); });
}

absl::StatusOr<Length> OfShards(const ShardsWork& shards, uint64_t epoch) {
  const ReaderOptions& reader = shards.reader;
  if (!reader.epochs) return Length::Endless();
  if (reader.pack) return OfPlannedRows(shards, epoch);
  const absl::StatusOr<uint64_t> records = RecordsOf(shards);
  if (!records.ok()) return records.status();
  const uint64_t round = reader.batch * reader.world;
  const uint64_t rounds =
      reader.end == EpochEnd::kDrop ? *records / round : CeilDivide(*records, round);
  return Length::Of(rounds * reader.batch * *reader.epochs);
}

absl::StatusOr<Length> LengthIn(const Step& step, uint64_t epoch) {
  if (const ShardsWork* shards = step.as<ShardsWork>()) return OfShards(*shards, epoch);
  const RepeatWork* const repeat = step.as<RepeatWork>();
  if (repeat != nullptr && repeat->epochs > 0 && HasPlannedRows(step)) {
    Length sum = Length::Of(0);
    for (uint64_t e = 0; e < repeat->epochs; ++e) {
      absl::StatusOr<Length> length = LengthIn(*step.inputs[0], epoch * repeat->epochs + e);
      if (!length.ok() || !length->known()) return length;
      sum.elements += length->elements;
    }
    return sum;
  }
  std::vector<Length> inputs;
  for (const StepPtr& input : step.inputs) {
    absl::StatusOr<Length> length = LengthIn(*input, epoch);
    if (!length.ok()) return length;
    inputs.push_back(*std::move(length));
  }
  return step.length ? step.length(inputs) : inputs[0];
}

}  // namespace

absl::StatusOr<Length> LengthOf(const Step& step) { return LengthIn(step, 0); }

absl::StatusOr<uint64_t> EpochRecords(const Step& step) {
  const Step* at = &step;
  while (!at->inputs.empty()) at = at->inputs[0].get();
  const ShardsWork* const shards = at->as<ShardsWork>();
  return shards != nullptr ? RecordsOf(*shards) : 0;
}

}  // namespace shardfeed
