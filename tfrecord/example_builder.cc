#include <algorithm>
#include <bit>
#include <cstring>

#include "shardfeed/examples.h"

namespace shardfeed {
namespace {

// Wire types: 0 varint, 2 length-delimited.
constexpr char Tag(int field, int wire_type) { return static_cast<char>(field << 3 | wire_type); }
constexpr int kBytesListField = 1;
constexpr int kFloatListField = 2;
constexpr int kInt64ListField = 3;

constexpr size_t kMaxVarint = 10;
constexpr size_t kMaxFieldHeader = 1 + kMaxVarint;

size_t VarintSize(uint64_t value) { return (std::bit_width(value | 1) + 6) / 7; }

// Writes a varint and returns its end.
char* PutVarint(uint64_t value, char* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  return to;
}

// Size of a length-delimited field with a one-byte tag.
size_t FieldSize(size_t content) { return 1 + VarintSize(content) + content; }

// Writes the tag and the size of a length-delimited field, and returns their end.
char* PutFieldHeader(int field, size_t content, char* to) {
  *to++ = Tag(field, 2);
  return PutVarint(content, to);
}

void AppendFieldHeader(int field, size_t content, std::string* out) {
  char header[kMaxFieldHeader];
  out->append(header, PutFieldHeader(field, content, header) - header);
}

// The two headers before what a list has packed, which is not empty.
void AppendPackedHeaders(int list, size_t packed, std::string* out) {
  char headers[2 * kMaxFieldHeader];
  char* const inner = PutFieldHeader(list, FieldSize(packed), headers);
  out->append(headers, PutFieldHeader(1, packed, inner) - headers);
}

// Each Append*Feature writes the content of a Feature message: one list field.
void AppendBytesFeature(absl::Span<const std::string_view> values, std::string* out) {
  size_t list = 0;
  for (std::string_view value : values) list += FieldSize(value.size());
  AppendFieldHeader(kBytesListField, list, out);
  for (std::string_view value : values) {
    AppendFieldHeader(1, value.size(), out);
    out->append(value);
  }
}

void AppendFloatFeature(absl::Span<const float> values, std::string* out) {
  // An empty packed list has no field.
  if (values.empty()) return AppendFieldHeader(kFloatListField, 0, out);
  const size_t packed = values.size() * sizeof(float);
  AppendPackedHeaders(kFloatListField, packed, out);
  if constexpr (std::endian::native == std::endian::little) {
    out->append(reinterpret_cast<const char*>(values.data()), packed);
  } else {
    for (float value : values) {
      const uint32_t bits = std::bit_cast<uint32_t>(value);
      for (int shift = 0; shift < 32; shift += 8) out->push_back(static_cast<char>(bits >> shift));
    }
  }
}

void AppendInt64Feature(absl::Span<const int64_t> values, std::string* out) {
  if (values.empty()) return AppendFieldHeader(kInt64ListField, 0, out);
  size_t packed = 0;
  for (int64_t value : values) packed += VarintSize(static_cast<uint64_t>(value));
  AppendPackedHeaders(kInt64ListField, packed, out);
  const size_t begin = out->size();
  out->resize(begin + packed);
  char* to = out->data() + begin;
  for (int64_t value : values) to = PutVarint(static_cast<uint64_t>(value), to);
}

}  // namespace

void ExampleBuilder::AddFeature(std::string_view name, size_t begin) {
  Entry entry;
  entry.name = names_.size();
  entry.name_size = name.size();
  entry.begin = begin;
  entry.end = arena_.size();
  names_.append(name);
  entries_.push_back(entry);
}

void ExampleBuilder::AddBytes(std::string_view name, std::string_view value) {
  AddBytesList(name, {&value, 1});
}

void ExampleBuilder::AddBorrowedBytes(std::string_view name, std::string_view value) {
  const size_t begin = arena_.size();
  AppendFieldHeader(kBytesListField, FieldSize(value.size()), &arena_);
  AppendFieldHeader(1, value.size(), &arena_);
  AddFeature(name, begin);
  entries_.back().borrowed = value;
}

void ExampleBuilder::AddBytesList(std::string_view name,
                                  absl::Span<const std::string_view> values) {
  const size_t begin = arena_.size();
  AppendBytesFeature(values, &arena_);
  AddFeature(name, begin);
}

void ExampleBuilder::AddFloatList(std::string_view name, absl::Span<const float> values) {
  const size_t begin = arena_.size();
  AppendFloatFeature(values, &arena_);
  AddFeature(name, begin);
}

void ExampleBuilder::AddBorrowedFloatList(std::string_view name, absl::Span<const float> values) {
  if (values.empty() || std::endian::native != std::endian::little) {
    return AddFloatList(name, values);
  }
  const size_t begin = arena_.size();
  const size_t packed = values.size() * sizeof(float);
  AppendPackedHeaders(kFloatListField, packed, &arena_);
  AddFeature(name, begin);
  entries_.back().borrowed = {reinterpret_cast<const char*>(values.data()), packed};
}

void ExampleBuilder::AddInt64List(std::string_view name, absl::Span<const int64_t> values) {
  const size_t begin = arena_.size();
  AppendInt64Feature(values, &arena_);
  AddFeature(name, begin);
}

std::string& ExampleBuilder::StepsOf(std::string_view list) {
  for (StepList& known : lists_) {
    if (known.name == list) return known.steps;
  }
  lists_.push_back({std::string(list), ""});
  return lists_.back().steps;
}

void ExampleBuilder::AppendBytesStep(std::string_view list,
                                     absl::Span<const std::string_view> values) {
  std::string feature;
  AppendBytesFeature(values, &feature);
  AppendStep(list, feature);
}

void ExampleBuilder::AppendFloatStep(std::string_view list, absl::Span<const float> values) {
  std::string feature;
  AppendFloatFeature(values, &feature);
  AppendStep(list, feature);
}

void ExampleBuilder::AppendInt64Step(std::string_view list, absl::Span<const int64_t> values) {
  std::string feature;
  AppendInt64Feature(values, &feature);
  AppendStep(list, feature);
}

void ExampleBuilder::AppendStep(std::string_view list, std::string_view feature) {
  std::string& steps = StepsOf(list);
  AppendFieldHeader(1, feature.size(), &steps);
  steps.append(feature);
}

void ExampleBuilder::SerializeFeatures(int field, std::string* out) {
  // The sort is stable, so the last of several entries with the same name stays last and is kept.
  // Most sources add features in the order of their names, and sorting costs more than looking.
  const auto by_name = [this](const Entry& a, const Entry& b) { return NameOf(a) < NameOf(b); };
  if (!std::is_sorted(entries_.begin(), entries_.end(), by_name)) {
    std::stable_sort(entries_.begin(), entries_.end(), by_name);
  }
  size_t content = 0;
  size_t kept = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (i + 1 < entries_.size() && NameOf(entries_[i]) == NameOf(entries_[i + 1])) continue;
    entries_[kept++] = entries_[i];
    content += FieldSize(MapEntrySize(entries_[i]));
  }
  entries_.resize(kept);
  if (entries_.empty()) return;
  out->reserve(out->size() + FieldSize(content));
  AppendFieldHeader(field, content, out);
  for (const Entry& entry : entries_) {
    char headers[2 * kMaxFieldHeader];
    char* const inner = PutFieldHeader(1, MapEntrySize(entry), headers);
    out->append(headers, PutFieldHeader(1, entry.name_size, inner) - headers);
    out->append(NameOf(entry));
    AppendFieldHeader(2, entry.size(), out);
    out->append(arena_, entry.begin, entry.end - entry.begin);
    out->append(entry.borrowed);
  }
}

size_t ExampleBuilder::MapEntrySize(const Entry& entry) {
  return FieldSize(entry.name_size) + FieldSize(entry.size());
}

void ExampleBuilder::SerializeExample(std::string* out) { SerializeFeatures(1, out); }

void ExampleBuilder::SerializeSequenceExample(std::string* out) {
  SerializeFeatures(1, out);
  std::sort(lists_.begin(), lists_.end(),
            [](const StepList& a, const StepList& b) { return a.name < b.name; });
  std::string lists;
  for (const StepList& list : lists_) {
    AppendFieldHeader(1, FieldSize(list.name.size()) + FieldSize(list.steps.size()), &lists);
    AppendFieldHeader(1, list.name.size(), &lists);
    lists.append(list.name);
    AppendFieldHeader(2, list.steps.size(), &lists);
    lists.append(list.steps);
  }
  if (lists.empty()) return;
  AppendFieldHeader(2, lists.size(), out);
  out->append(lists);
}

void ExampleBuilder::Clear() {
  arena_.clear();
  names_.clear();
  entries_.clear();
  lists_.clear();
}

}  // namespace shardfeed
