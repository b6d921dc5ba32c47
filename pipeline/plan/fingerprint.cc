#include "pipeline/plan/fingerprint.h"

#include <algorithm>

#include "reader/plan/pack_plan.h"

namespace shardfeed {
namespace {

Identity OrderIdentity(const OrderSpec& order) {
  Identity identity("order");
  identity.Add("kind", order.kind);
  switch (order.kind) {
    case OrderSpec::Kind::kSequential:
      return identity;
    case OrderSpec::Kind::kInterleave:
      return identity.Add("cycle", order.cycle).Add("block", order.block);
    case OrderSpec::Kind::kShuffle:
      return identity.Add("seed", order.seed)
          .Add("window", order.window)
          .Add("chunk", order.chunk)
          .Add("lanes", order.lanes);
  }
  return identity;
}

// The ranges as numbers: the first record and the count of each.
std::vector<uint64_t> Numbers(const std::vector<RecordRange>& ranges, uint64_t num_records) {
  std::vector<uint64_t> numbers;
  for (const RecordRange& range : ranges) {
    numbers.push_back(range.first);
    numbers.push_back(range.count == RecordRange::kToEnd ? num_records - range.first : range.count);
  }
  return numbers;
}

// Weights and sources of a mixture may be added after what a state has delivered, so states keep
// what was before (Stage::Save); the rest covers all of it.
void AddMixture(const Mixture& mixture, const ShardTable& table, Coverage coverage,
                Identity* identity) {
  Identity mix("mixture");
  if (coverage > Coverage::kSequence) {
    mix.Add("length", mixture.length)
        .AddIf(mixture.seed.has_value(), "seed", mixture.seed.value_or(0));
    for (const MixSegment& segment : mixture.schedule) {
      mix.Add("position", segment.position).Add("weights", segment.weights);
    }
    size_t shard = 0;
    for (const MixSource& source : mixture.sources) {
      mix.Add("shards", source.shards);
      uint64_t records = 0;
      for (size_t i = 0; i < source.shards && shard < table.num_shards(); ++i) {
        records += table.summary(shard++).records;
      }
      if (source.records) mix.Add("ranges", Numbers(*source.records, records));
    }
  }
  identity->Add("mixture", mix);
}

absl::Status AddShards(const ShardsWork& shards, Coverage coverage, Identity* identity) {
  const absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards.table->Get();
  if (!table.ok()) return table.status();
  const ReaderOptions& reader = shards.reader;
  const Mixture* const mixture = reader.order.mixture.get();
  const bool by_place = mixture != nullptr && coverage == Coverage::kSequence;
  identity->Add("records", by_place ? 0 : (*table)->fingerprint())
      .Add("order", OrderIdentity(reader.order))
      .Add("end", reader.end)
      .Add("epochs", reader.epochs.value_or(0))
      .Add("skip_damaged", reader.skip_damaged);
  if (mixture != nullptr) AddMixture(*mixture, **table, coverage, identity);
  if (reader.records) identity->Add("ranges", Numbers(*reader.records, (*table)->num_records()));
  if (reader.pack) {
    const PackSpec& pack = *reader.pack;
    identity->Add("pack", Identity("pack")
                              .Add("lengths", pack.lengths)
                              .Add("length", pack.length)
                              .Add("how", pack.how)
                              .Add("longer", pack.longer)
                              .Add("window", PackWindowOf(pack, (*table)->mean_bytes()))
                              .AddIf(pack.steps_before > 0, "steps_before", pack.steps_before)
                              .AddIf(pack.steps_after > 0, "steps_after", pack.steps_after)
                              .AddIf(pack.min_length > 0, "min_length", pack.min_length)
                              .AddIf(pack.max_length < UINT64_MAX, "max_length", pack.max_length)
                              .AddIf(pack.separated, "separated", true)
                              .AddIf(pack.cost != PackSpec::Cost::kLinear, "cost", pack.cost));
  }
  if (coverage >= Coverage::kElements) identity->Add("batch", reader.batch);
  if (coverage >= Coverage::kRank) identity->Add("rank", reader.rank).Add("world", reader.world);
  return absl::OkStatus();
}

// `at_end`: only work on whole batches follows the step.
absl::StatusOr<Identity> IdentityOf(const Step& step, Coverage coverage, bool at_end) {
  // Prefetching does not change what is delivered.
  if (step.as<PrefetchWork>() != nullptr) return IdentityOf(*step.inputs[0], coverage, at_end);
  Identity identity(step.name);
  if (coverage != Coverage::kSequence || !step.as<BatchWork>() || !at_end) {
    identity.Add("parameters", step.identity);
  }
  const BatchFnWork* const on_batches = step.as<BatchFnWork>();
  at_end &= on_batches != nullptr && !on_batches->changes_count;
  identity.Add("columns", *step.spec).Add("batched", step.batched);
  if (coverage >= Coverage::kRank && step.world > 1) {
    identity.Add("rank", step.rank).Add("world", step.world);
  }
  if (step.data_identity) {
    if (absl::Status status = step.data_identity(&identity); !status.ok()) return status;
  }
  if (const ShardsWork* shards = step.as<ShardsWork>()) {
    if (absl::Status status = AddShards(*shards, coverage, &identity); !status.ok()) return status;
  }
  for (const StepPtr& input : step.inputs) {
    absl::StatusOr<Identity> of_input = IdentityOf(*input, coverage, at_end);
    if (!of_input.ok()) return of_input;
    identity.Add("input", *of_input);
  }
  return identity;
}

}  // namespace

absl::StatusOr<uint64_t> FingerprintOf(const Step& step, Coverage coverage) {
  const absl::StatusOr<Identity> identity = IdentityOf(step, coverage, /*at_end=*/true);
  if (!identity.ok()) return identity.status();
  return identity->Hash();
}

absl::Status CheckShardsSince(const Step& step, const std::string& path) {
  if (const ShardsWork* const shards = step.as<ShardsWork>()) {
    const absl::StatusOr<std::shared_ptr<const ShardTable>> table = shards->table->Get();
    if (!table.ok()) return table.status();
    if (absl::Status status = (*table)->CheckWrittenSince(path); !status.ok()) return status;
  }
  for (const StepPtr& input : step.inputs) {
    if (absl::Status status = CheckShardsSince(*input, path); !status.ok()) return status;
  }
  return absl::OkStatus();
}

bool IndexesMade(const Step& step) {
  const ShardsWork* const shards = step.as<ShardsWork>();
  if (shards != nullptr) return shards->table->made();
  return std::all_of(step.inputs.begin(), step.inputs.end(),
                     [](const StepPtr& input) { return IndexesMade(*input); });
}

}  // namespace shardfeed
