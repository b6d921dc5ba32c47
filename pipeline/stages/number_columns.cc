#include "pipeline/stages/number_columns.h"

#include <algorithm>
#include <utility>

namespace shardfeed {

std::shared_ptr<const RowSpec> RecordSpec() {
  static const auto* spec = new std::shared_ptr<const RowSpec>(
      std::make_shared<const RowSpec>(RowSpec{{"record", DType::kBytes, {}, false}}));
  return *spec;
}

std::shared_ptr<const RowSpec> NumberColumns::Spec() const {
  if (!any()) return RecordSpec();
  RowSpec spec = *RecordSpec();
  if (!number.empty()) spec.push_back({number, DType::kInt64, {}, false});
  if (!source.empty()) spec.push_back({source, DType::kInt32, {}, false});
  return std::make_shared<const RowSpec>(std::move(spec));
}

RecordNumbers::RecordNumbers(const NumberColumns& columns, const Mixture* mixture,
                             const ShardTable& table)
    : number_(!columns.number.empty()), source_(!columns.source.empty()), spec_(columns.Spec()) {
  if (mixture == nullptr) {
    begins_.push_back(0);
    return;
  }
  size_t shard = 0;
  for (const MixSource& source : mixture->sources) {
    begins_.push_back(table.begins()[shard]);
    shard += source.shards;
  }
}

void RecordNumbers::AddTo(absl::Span<const uint64_t> numbers, Batch* rows) const {
  const size_t n = numbers.size();
  const size_t number_bytes = number_ ? AlignedColumnBytes(n * sizeof(int64_t)) : 0;
  std::shared_ptr<char> memory =
      AllocateValues(number_bytes + (source_ ? n * sizeof(int32_t) : 0), {});
  auto* const of_record = reinterpret_cast<int64_t*>(memory.get());
  auto* const of_source = reinterpret_cast<int32_t*>(memory.get() + number_bytes);
  for (size_t i = 0; i < n; ++i) {
    // Sources without records begin where the next one does.
    const auto source = std::upper_bound(begins_.begin(), begins_.end(), numbers[i]) - 1;
    if (number_) of_record[i] = static_cast<int64_t>(numbers[i] - *source);
    if (source_) of_source[i] = static_cast<int32_t>(source - begins_.begin());
  }
  rows->spec = spec_;
  if (number_) rows->columns.push_back({reinterpret_cast<char*>(of_record)});
  if (source_) rows->columns.push_back({reinterpret_cast<char*>(of_source)});
  rows->memory.push_back(std::move(memory));
}

}  // namespace shardfeed
