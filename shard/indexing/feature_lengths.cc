#include "shard/indexing/feature_lengths.h"

#include <cstddef>
#include <utility>

namespace shardfeed {
namespace {

// Records whose names of features are collected.
constexpr uint64_t kRecordsSeen = 1000;

}  // namespace

uint64_t FeatureLengths::LengthOf(const FeatureSummary& feature, std::string_view record) {
  if (feature.is_list) return feature.steps;
  if (feature.kind != FeatureKind::kBytes) return feature.values;
  if (feature.values <= 1) return feature.max_bytes;
  uint64_t bytes = 0;
  reader_.Read(record).IgnoreError();  // VisitFeatures has reported what is wrong with it.
  for (const RecordFeature& one : reader_.features()) {
    if (one.name != feature.name || one.is_list) continue;
    for (const std::string_view value : one.bytes) bytes += value.size();
  }
  return bytes;
}

FeatureLengths::FeatureLengths(absl::Span<const std::string> names)
    : columns_(names.size()), found_(names.size()) {
  for (size_t i = 0; i < names.size(); ++i) columns_[i].name = names[i];
}

absl::Status FeatureLengths::Add(std::string_view record) {
  for (NewLengthColumn& column : columns_) column.lengths.push_back(0);
  const bool sees = records_++ < kRecordsSeen;
  return VisitFeatures(record, [&](const FeatureSummary& feature) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].name != feature.name) continue;
      columns_[i].lengths.back() = LengthOf(feature, record);
      found_[i] = true;
    }
    if (sees) seen_.emplace(feature.name);
  });
}

std::vector<NewLengthColumn> FeatureLengths::Take() {
  std::vector<NewLengthColumn> columns;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (found_[i]) columns.push_back(std::move(columns_[i]));
  }
  return columns;
}

std::vector<std::string> FeatureLengths::Missing() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!found_[i]) names.push_back(columns_[i].name);
  }
  return names;
}

}  // namespace shardfeed
