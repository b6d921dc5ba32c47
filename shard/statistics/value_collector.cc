#include "shard/statistics/value_collector.h"

namespace shardfeed {

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
      slots[position] = {&name, of};
    }
    FeatureStatistics* const statistics = slots[position].statistics;
    if (statistics != nullptr) statistics->Add(kind, record_, spans, count, all_->seed_);
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

void ValueCollector::Begin() {
  slots_.slots.clear();
  seed_ = 0;
}

absl::Status ValueCollector::Add(std::string_view record, uint32_t crc, Schema& schema) {
  values_.equal_records().Add(record, crc);
  // Equal records get different seeds, unless everything before them is equal, too.
  seed_ = Spread(seed_ + crc);
  Visitor visitor(this, record);
  return schema.AddRecord(record, &visitor);
}

void ValueCollector::Merge(const ValueStatistics& other) {
  slots_.slots.clear();
  values_.Merge(other);
}

ValueStatistics ValueCollector::Take() {
  slots_.slots.clear();
  return std::move(values_);
}

}  // namespace shardfeed
