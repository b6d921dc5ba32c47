#include "shard/statistics/value_collector.h"

#include <cstring>

#include "tfrecord/wire.h"

namespace shardfeed {

[[gnu::always_inline]] inline void ValueCollector::Slot::Gather(FeatureKind number,
                                                                std::string_view record,
                                                                ValueSpan span, uint64_t seed) {
  if (gathered == nullptr) gathered = std::make_unique<Gathered>();
  if (gathered->kind != number || gathered->count == Gathered::kMost) [[unlikely]] {
    AddGathered();
    gathered->kind = number;
  }
  const size_t i = gathered->count++;
  gathered->seeds[i] = seed;
  const char* const at = record.data() + span.begin;
  if (number == FeatureKind::kFloat) {
    std::memcpy(&gathered->floats[i * sizeof(float)], at, sizeof(float));
  } else {
    const WireNumber value = ReadVarint(at, record.data() + span.end);
    gathered->ints[i] = static_cast<int64_t>(value.value);
  }
}

void ValueCollector::Slot::AddGathered() {
  if (gathered == nullptr || gathered->count == 0) return;
  const absl::Span<const uint64_t> seeds(gathered->seeds.data(), gathered->count);
  if (gathered->kind == FeatureKind::kFloat) {
    statistics->AddFloats(gathered->floats.data(), seeds);
  } else {
    statistics->AddInts({gathered->ints.data(), gathered->count}, seeds);
  }
  gathered->count = 0;
}

// Adds the values of one record.
class ValueCollector::Visitor final : public ValueVisitor {
 public:
  Visitor(ValueCollector* all, std::string_view record) : all_(all), record_(record) {}

  void Visit(size_t position, const std::string& name, FeatureKind kind, uint64_t count,
             absl::Span<const ValueSpan> spans) override {
    std::vector<Slot>& slots = all_->slots_.slots;
    if (position >= slots.size()) slots.resize(position + 1);
    if (slots[position].name != &name) {
      FeatureStatistics* const of = Of(name);
      slots[position].name = &name;
      slots[position].statistics = of;
    }
    Slot& slot = slots[position];
    if (slot.statistics == nullptr) return;
    const bool is_number = kind == FeatureKind::kFloat || kind == FeatureKind::kInt64;
    if (all_->gathers_ && is_number && count == 1 && spans.size() == 1) {
      slot.Gather(kind, record_, spans[0], all_->seed_);
    } else {
      slot.statistics->Add(kind, record_, spans, count, all_->seed_);
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
  FeatureStatistics* Of(std::string_view name) {
    // What is removed for another feature has its values then.
    all_->AddGathered();
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
  if (!gathers_) return;
  for (Slot& slot : slots_.slots) slot.AddGathered();
}

void ValueCollector::Begin() {
  End();
  seed_ = 0;
  gathers_ = true;
}

void ValueCollector::End() {
  AddGathered();
  // The next records may have another schema.
  for (Slot& slot : slots_.slots) slot.name = nullptr;
  gathers_ = false;
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
