#include "shard/statistics/value_collector.h"

#include <cstring>

#include "base/little_endian.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

// Bytes of the values of a feature that are gathered, and of each of them.
constexpr size_t kGatheredBytes = size_t{1} << 15;
size_t SizeOf(FeatureKind kind) { return kind == FeatureKind::kFloat ? 4 : 8; }

}  // namespace

bool ValueCollector::Slot::MakeRoom(FeatureKind single) {
  AddGathered();
  if (single == FeatureKind::kBytes && !statistics->TakesSingleBytes()) return false;
  if (gathered == nullptr) {
    gathered = std::make_unique_for_overwrite<char[]>(kGatheredBytes);
    next = gathered.get();
    end = next + kGatheredBytes;
  }
  kind = single;
  seed_limit = statistics->SeedLimit(kind);
  return true;
}

[[gnu::always_inline]] inline void ValueCollector::Slot::Gather(std::string_view record,
                                                                ValueSpan span, uint64_t seed) {
  const char* const from = record.data() + span.begin;
  char* const to = next;
  std::string_view bytes;
  if (kind == FeatureKind::kFloat) {
    std::memcpy(to, from, 4);
  } else if (kind == FeatureKind::kInt64) {
    StoreLittleEndian<uint64_t>(ReadVarint(from, record.data() + span.end).value, to);
  } else {
    bytes = {from, span.end - span.begin};
    StoreLittleEndian<uint64_t>(statistics->KeyOf(bytes), to);
  }
  next = to + SizeOf(kind);
  if (seed <= seed_limit) [[unlikely]]
    seed_limit = statistics->Offer(kind, to, seed, bytes);
}

void ValueCollector::Slot::AddGathered() {
  if (next == gathered.get()) return;
  statistics->AddSingles(kind, gathered.get(), (next - gathered.get()) / SizeOf(kind));
  next = gathered.get();
}

// Adds the values of one record.
class ValueCollector::Visitor final : public ValueVisitor {
 public:
  Visitor(ValueCollector* all, std::string_view record) : all_(all), record_(record) {}

  void Visit(absl::Span<const FoundFeature> features, absl::Span<const ValueSpan> spans) override {
    if (features.empty()) return;
    std::vector<Slot>& slots = all_->slots_.slots;
    if (features.back().position >= slots.size()) slots.resize(features.back().position + 1);
    const uint64_t seed = all_->seed_;
    const ValueSpan* values = spans.data();
    for (const FoundFeature& feature : features) {
      const ValueSpan* const begin = values;
      values = spans.data() + feature.end;
      Slot& slot = slots[feature.position];
      // Nearly all values are those of a feature that was in the last record, too.
      if (slot.name == feature.name && slot.kind == feature.kind && slot.next != slot.end &&
          feature.count == 1 && values - begin == 1) [[likely]] {
        slot.Gather(record_, *begin, seed);
      } else if (feature.kind != FeatureKind::kNone) {
        Add(feature, {begin, static_cast<size_t>(values - begin)});
      }
    }
  }
  void VisitIrregular(std::string_view record) override {
    if (!all_->reader_.Read(record).ok()) return;
    for (const RecordFeature& feature : all_->reader_.features()) {
      if (feature.kind == FeatureKind::kNone) continue;
      if (FeatureStatistics* of = Of(feature.name)) of->Add(feature, all_->seed_);
    }
  }

 private:
  [[gnu::noinline]] void Add(const FoundFeature& feature, absl::Span<const ValueSpan> values) {
    Slot& slot = all_->slots_.slots[feature.position];
    if (slot.name != feature.name) {
      FeatureStatistics* const of = Of(*feature.name);
      if (of != slot.statistics) {
        slot.AddGathered();
        slot.statistics = of;
        slot.kind = FeatureKind::kNone;
      }
      slot.name = feature.name;
    }
    if (slot.statistics == nullptr) return;
    const bool is_single = all_->gathers_ && feature.count == 1 && values.size() == 1;
    const bool has_room = slot.kind == feature.kind && slot.next != slot.end;
    if (is_single && (has_room || slot.MakeRoom(feature.kind))) {
      slot.Gather(record_, values[0], all_->seed_);
    } else {
      slot.statistics->Add(feature.kind, record_, values, feature.count, all_->seed_);
    }
  }
  FeatureStatistics* Of(std::string_view name) {
    if (!all_->values_.features().contains(name)) all_->AddGathered();
    FeatureStatistics* const of = all_->values_.Of(name);
    Slots& slots = all_->slots_;
    if (slots.num_removed != all_->values_.num_removed()) {
      slots.num_removed = all_->values_.num_removed();
      for (Slot& slot : slots.slots) slot = {};
    }
    return of;
  }

  ValueCollector* const all_;
  const std::string_view record_;
};

void ValueCollector::AddGathered() {
  for (Slot& slot : slots_.slots) slot.AddGathered();
}

void ValueCollector::Begin() {
  seed_ = 0;
  gathers_ = true;
  for (Slot& slot : slots_.slots) slot.name = nullptr;
}

absl::Status ValueCollector::Add(std::string_view record, uint32_t crc, Schema& schema) {
  values_.equal_records().Add(record, crc);
  // Equal records get different seeds, unless everything before them is equal, too.
  seed_ = Spread(seed_ + crc);
  Visitor visitor(this, record);
  return schema.AddRecord(record, &visitor);
}

void ValueCollector::Merge(const ValueStatistics& other) {
  AddGathered();
  slots_.slots.clear();
  values_.Merge(other);
}

ValueStatistics ValueCollector::Take() {
  AddGathered();
  slots_.slots.clear();
  return std::move(values_);
}

}  // namespace shardfeed
