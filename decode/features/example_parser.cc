#include "decode/features/example_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "base/little_endian.h"
#include "decode/features/feature_plan.h"
#include "fmt/format.h"
#include "tfrecord/wire.h"

namespace shardfeed {

namespace {

// ---- errors, kept out of the way of code that encounters none

constexpr int64_t kNoStep = -1;

std::string Name(const FeaturePlan& plan, int64_t step) {
  if (!plan.is_list) return fmt::format("feature '{}'", plan.spec.name);
  if (step == kNoStep) return fmt::format("feature list '{}'", plan.spec.name);
  return fmt::format("step {} of feature list '{}'", step, plan.spec.name);
}

[[gnu::cold, gnu::noinline]] absl::Status NotAnExample(const FeaturePlan* plan,
                                                       std::string_view record,
                                                       const char* failed) {
  return absl::DataLossError(fmt::format(
      "not a tf.train.Example: {}cannot be parsed at byte {} of its {}",
      plan == nullptr ? "" : Name(*plan, kNoStep) + " ", failed - record.data(), record.size()));
}

// Says where features that a record does not fit are from.
[[gnu::cold, gnu::noinline]] absl::Status WithOrigin(const absl::Status& status,
                                                     std::string_view origin) {
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(
      fmt::format("{}. {}: name the features to parse; 'shardfeed inspect' lists all",
                  std::string(status.message()), origin));
}

[[gnu::cold, gnu::noinline]] absl::Status WrongKind(const FeaturePlan& plan, int64_t step,
                                                    FeatureKind kind) {
  return absl::InvalidArgumentError(
      fmt::format("{} is of kind {}, expected {} (for {}{})", Name(plan, step),
                  FeatureKindName(kind), FeatureKindName(plan.kind), DTypeName(plan.spec.dtype),
                  plan.spec.decode_raw ? ", decode_raw" : ""));
}

[[gnu::cold, gnu::noinline]] absl::Status Missing(const FeaturePlan& plan, int64_t step,
                                                  bool without_kind) {
  return absl::InvalidArgumentError(
      fmt::format("{} {}; {}", Name(plan, step),
                  without_kind ? "has no kind, which stands for a missing value" : "is missing",
                  plan.is_list ? "ask for it with ragged steps"
                               : "give it a default, or ask for it as ragged"));
}

[[gnu::cold, gnu::noinline]] absl::Status WrongLength(const FeaturePlan& plan, int64_t step,
                                                      size_t n) {
  const bool multiple = !plan.fixed && !plan.whole_steps;
  return absl::InvalidArgumentError(fmt::format(
      "{} has {} value{}, expected {}{} (shape {})", Name(plan, step), n, n == 1 ? "" : "s",
      multiple ? "a multiple of " : "", plan.values, ShapeText(plan.spec.shape)));
}

[[gnu::cold, gnu::noinline]] absl::Status NotRaw(const FeaturePlan& plan, int64_t step,
                                                 size_t strings, size_t bytes) {
  if (strings > 1) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} strings, but decode_raw takes one", Name(plan, step), strings));
  }
  return absl::InvalidArgumentError(
      fmt::format("{} has {} bytes, which is not a whole number of {} values ({} bytes each)",
                  Name(plan, step), bytes, DTypeName(plan.spec.dtype), DTypeSize(plan.spec.dtype)));
}

// Names the first value that does not fit.
[[gnu::cold, gnu::noinline]] absl::Status DoesNotFit(const FeaturePlan& plan, int64_t step,
                                                     const EffectiveLists& lists, size_t n) {
  std::vector<int64_t> values(n);
  bool fit;
  lists.Store(Conversion::kInt64, reinterpret_cast<char*>(values.data()), &fit);
  const auto misfit = std::find_if(values.begin(), values.end(),
                                   [&](int64_t value) { return !Fits(plan.spec.dtype, value); });
  return absl::InvalidArgumentError(
      fmt::format("{}: value {} at position {} does not fit {}; ask for it as int64",
                  Name(plan, step), *misfit, misfit - values.begin(), DTypeName(plan.spec.dtype)));
}

// ---- one feature of one record, whatever it looks like

// Counts the values of the lists.
absl::Status CountValues(const FeaturePlan& plan, std::string_view record, int64_t step,
                         const EffectiveLists& lists, size_t* n) {
  size_t bytes;
  if (const char* failed = lists.Count(n, &bytes)) return NotAnExample(&plan, record, failed);
  if (plan.conversion == Conversion::kRaw) {
    const size_t strings = *n;
    const size_t value_bytes = DTypeSize(plan.spec.dtype);
    *n = bytes / value_bytes;
    if (strings > 1 || bytes % value_bytes != 0) return NotRaw(plan, step, strings, bytes);
  }
  return absl::OkStatus();
}

absl::Status StoreValues(const FeaturePlan& plan, std::string_view record, int64_t step,
                         const EffectiveLists& lists, size_t n, char* to) {
  bool fit;
  if (const char* failed = lists.Store(plan.conversion, to, &fit)) {
    return NotAnExample(&plan, record, failed);
  }
  return fit ? absl::OkStatus() : DoesNotFit(plan, step, lists, n);
}

absl::Status ParseAnyFixed(const FeaturePlan& plan, std::string_view record,
                           const FeatureView& view, char* to) {
  EffectiveLists lists;
  if (view.form != FeatureView::Form::kAbsent) {
    const char* failed = lists.Resolve(view, kFeatureDepth);
    if (failed != nullptr) return NotAnExample(&plan, record, failed);
  }
  if (lists.kind() != plan.kind) {
    if (lists.kind() != FeatureKind::kNone) return WrongKind(plan, kNoStep, lists.kind());
    if (plan.fill.empty()) {
      return Missing(plan, kNoStep, view.form != FeatureView::Form::kAbsent);
    }
    std::memcpy(to, plan.fill.data(), plan.bytes);
    return absl::OkStatus();
  }
  size_t n;
  absl::Status status = CountValues(plan, record, kNoStep, lists, &n);
  if (!status.ok()) return status;
  if (n != plan.values) return WrongLength(plan, kNoStep, n);
  return StoreValues(plan, record, kNoStep, lists, n, to);
}

// Adds the values of a Feature to the column's last row.
absl::Status ParseAnyElements(const FeaturePlan& plan, std::string_view record, int64_t step,
                              const FeatureView& view, VariableColumn* column) {
  EffectiveLists lists;
  if (const char* failed = lists.Resolve(view, plan.is_list ? kStepDepth : kFeatureDepth)) {
    return NotAnExample(&plan, record, failed);
  }
  if (lists.kind() != plan.kind) {
    if (lists.kind() != FeatureKind::kNone) return WrongKind(plan, step, lists.kind());
    return plan.whole_steps ? Missing(plan, step, true) : absl::OkStatus();
  }
  size_t n;
  absl::Status status = CountValues(plan, record, step, lists, &n);
  if (!status.ok()) return status;
  const size_t elements = n / plan.values;
  if (n % plan.values != 0 || (plan.whole_steps && elements != 1))
    return WrongLength(plan, step, n);
  if (n == 0) return absl::OkStatus();
  return StoreValues(plan, record, step, lists, n, column->Extend(elements));
}

// ---- one feature of one record in its usual form: one list in one piece. Anything else, and any
// mismatch with the spec, is left to the functions above.

inline bool StoreFixedPiece(const FeaturePlan& plan, std::string_view piece, char* to) {
  size_t n = 0;
  uint64_t lost = 0;
  switch (plan.conversion) {
    case Conversion::kFloat32:
    case Conversion::kRaw:
      if (piece.size() != plan.bytes) return false;
      break;
    default:
      if (CountPiece(plan.kind, piece, &n) != nullptr || n != plan.values) return false;
  }
  return StorePiece(plan.conversion, piece, to, &lost) != nullptr && lost == 0;
}

inline absl::Status ParseFixed(const FeaturePlan& plan, std::string_view record,
                               const FeatureView& view, char* to) {
  const OnlyPiece piece = OnlyPieceOf(view);
  if (piece.kind == plan.kind && StoreFixedPiece(plan, piece.bytes, to)) return absl::OkStatus();
  return ParseAnyFixed(plan, record, view, to);
}

inline bool StoreElementsOfPiece(const FeaturePlan& plan, std::string_view piece,
                                 VariableColumn* column) {
  size_t n = 0;
  if (plan.conversion == Conversion::kRaw) return false;
  if (CountPiece(plan.kind, piece, &n) != nullptr || n == 0) return false;
  const size_t elements = plan.values == 1 ? n : n / plan.values;
  if (elements * plan.values != n || (plan.whole_steps && elements != 1)) return false;
  uint64_t lost = 0;
  char* to = column->Extend(elements);
  return StorePiece(plan.conversion, piece, to, &lost) != nullptr && lost == 0;
}

inline absl::Status ParseElements(const FeaturePlan& plan, std::string_view record, int64_t step,
                                  const FeatureView& view, VariableColumn* column) {
  const OnlyPiece piece = OnlyPieceOf(view);
  if (piece.kind == plan.kind && StoreElementsOfPiece(plan, piece.bytes, column)) {
    return absl::OkStatus();
  }
  return ParseAnyElements(plan, record, step, view, column);
}

absl::Status ParseRow(const FeaturePlan& plan, std::string_view record, const FeatureView& view,
                      VariableColumn* column) {
  absl::Status status;
  if (view.form == FeatureView::Form::kAbsent) {
    // A row without elements.
  } else if (!plan.is_list) {
    status = ParseElements(plan, record, kNoStep, view, column);
  } else {
    int64_t step = 0;
    const char* failed = VisitSteps(view, [&](const FeatureView& feature) -> const char* {
      status = ParseElements(plan, record, step++, feature, column);
      if (plan.spec.ragged_steps) column->EndStep();
      return status.ok() ? nullptr : feature.data;
    });
    if (status.ok() && failed != nullptr) status = NotAnExample(&plan, record, failed);
  }
  if (status.ok()) column->EndRow();
  return status;
}

// ---- map entries

// Compares two strings of at least eight bytes.
inline bool SameBytes(const char* a, const char* b, size_t n) {
  uint64_t differ = LoadLittleEndian<uint64_t>(a + n - 8) ^ LoadLittleEndian<uint64_t>(b + n - 8);
  for (size_t i = 0; i + 8 < n; i += 8) {
    differ |= LoadLittleEndian<uint64_t>(a + i) ^ LoadLittleEndian<uint64_t>(b + i);
  }
  return differ == 0;
}

struct MapEntry {
  std::string_view name;
  FeatureView value;
};

// Reads an entry in its usual form: a name of less than 128 bytes, a value, and nothing else.
inline bool ReadPlainEntry(std::string_view bytes, MapEntry* entry) {
  if (bytes.size() < 4 || bytes[0] != 0x0a) return false;
  const char* end = bytes.data() + bytes.size();
  const size_t name_size = static_cast<unsigned char>(bytes[1]);
  if (name_size >= 0x80 || name_size > bytes.size() - 4) return false;
  entry->name = {bytes.data() + 2, name_size};
  const char* at = bytes.data() + 2 + name_size;
  if (*at != 0x12) return false;
  const WireNumber length = ReadLength(at + 1, end);
  if (length.end == nullptr || length.end + length.value != end) return false;
  entry->value = FeatureView::Message({length.end, static_cast<size_t>(length.value)});
  return true;
}

const char* ReadAnyEntry(std::string_view bytes, MapEntry* entry) {
  entry->name = {};
  entry->value = FeatureView::Message(bytes.substr(0, 0));
  bool has_value = false;
  WireFields fields(bytes, kEntryDepth);
  while (fields.Next()) {
    if (fields.Is(1, WireType::kBytes)) {
      entry->name = fields.bytes();
    } else if (fields.Is(2, WireType::kBytes)) {
      entry->value = has_value ? FeatureView{bytes.data(), bytes.size(), FeatureView::Form::kEntry}
                               : FeatureView::Message(fields.bytes());
      has_value = true;
    }
  }
  return fields.failed();
}

// Stores the values of an entry that begins with the expected header.
inline bool StorePlainEntry(const FeaturePlan& plan, const char* at, const char* end, char* column,
                            size_t row) {
  const size_t header_bytes = plan.entry_header.size();
  if (header_bytes == 0 || static_cast<size_t>(end - at) < header_bytes + plan.entry_values_bytes ||
      !SameBytes(at, plan.entry_header.data(), header_bytes)) {
    return false;
  }
  const std::string_view values(at + header_bytes, plan.entry_values_bytes);
  uint64_t lost = 0;
  // Null for an int64 of which this is only the first byte.
  return StorePiece(plan.conversion, values, column + row * plan.bytes, &lost) != nullptr;
}

// ---- plans

absl::Status CheckSpecs(const std::vector<FeatureSpec>& specs, bool is_list) {
  std::set<std::string_view> names;
  for (const FeatureSpec& spec : specs) {
    absl::Status status = Validate(spec, is_list);
    if (!status.ok()) return status;
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("{} '{}' appears twice", is_list ? "feature list" : "feature", spec.name));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> Names(absl::Span<const FeaturePlan> plans) {
  std::vector<std::string> names;
  names.reserve(plans.size());
  for (const FeaturePlan& plan : plans) names.push_back(plan.spec.name);
  return names;
}

}  // namespace

void ParsedColumns::AddEmptyRow() {
  for (VariableColumn& column : variable_) column.EndRow();
}

void ParsedColumns::Truncate(size_t rows) {
  // The columns of fixed features have no rows.
  for (VariableColumn& column : variable_) column.Truncate(std::min(rows, column.num_rows()));
}

absl::StatusOr<std::shared_ptr<const ExampleParser>> ExampleParser::Make(
    std::vector<FeatureSpec> features, std::vector<FeatureSpec> feature_lists, std::string origin) {
  absl::Status status = CheckSpecs(features, /*is_list=*/false);
  if (status.ok()) status = CheckSpecs(feature_lists, /*is_list=*/true);
  if (!status.ok()) return status;
  std::vector<FeaturePlan> plans;
  plans.reserve(features.size() + feature_lists.size());
  for (FeatureSpec& spec : features) plans.push_back(MakePlan(std::move(spec), false));
  for (FeatureSpec& spec : feature_lists) plans.push_back(MakePlan(std::move(spec), true));
  return std::shared_ptr<const ExampleParser>(
      new ExampleParser(std::move(plans), features.size(), std::move(origin)));
}

ExampleParser::ExampleParser(std::vector<FeaturePlan> plans, size_t num_context, std::string origin)
    : plans_(std::move(plans)),
      num_context_(num_context),
      names_(Names(absl::MakeSpan(plans_).first(num_context))),
      list_names_(Names(absl::MakeSpan(plans_).subspan(num_context))),
      origin_(std::move(origin)) {}

ExampleParser::~ExampleParser() = default;

size_t ExampleParser::num_features() const { return plans_.size(); }
const FeatureSpec& ExampleParser::spec(size_t feature) const { return plans_[feature].spec; }
size_t ExampleParser::bytes(size_t feature) const { return plans_[feature].bytes; }
std::string_view ExampleParser::padding(size_t feature) const { return plans_[feature].fill; }

ParsedColumns ExampleParser::MakeColumns() const {
  ParsedColumns columns;
  columns.fixed_.resize(plans_.size());
  columns.found_.resize(plans_.size());
  for (const FeaturePlan& plan : plans_) {
    columns.variable_.emplace_back(plan.bytes, plan.spec.ragged_steps);
  }
  // At first, features are expected in the order of their specs.
  for (size_t n : {num_context_, plans_.size() - num_context_}) {
    for (size_t i = 0; i <= n; ++i) columns.next_.push_back(i < n ? static_cast<uint32_t>(i) : 0);
  }
  return columns;
}

// Finds the features `names`, whose plans are those from number `first_plan` on, in a Features or
// FeatureLists message.
const char* ExampleParser::FindInMap(std::string_view map, const NameTable& names,
                                     size_t first_plan, size_t row, uint32_t* next,
                                     ParsedColumns* columns) const {
  const FeaturePlan* plans = plans_.data() + first_plan;
  FeatureView* found = columns->found_.data() + first_plan;
  char* const* fixed = columns->fixed_.data() + first_plan;
  const char* at = map.data();
  const char* end = at + map.size();
  // Points to the number of the feature that is expected next.
  uint32_t* expected = next;
  const auto check_replaced = [&](uint32_t number) -> const char* {
    const FeatureView& view = found[number];
    return view.form == FeatureView::Form::kAbsent || view.form == FeatureView::Form::kStored
               ? nullptr
               : CheckFeature(view, plans[number].is_list);
  };
  while (at != end) {
    const FeaturePlan& plan = plans[*expected];
    if (StorePlainEntry(plan, at, end, fixed[*expected], row)) {
      if (const char* failed = check_replaced(*expected)) return failed;
      found[*expected].form = FeatureView::Form::kStored;
      at += plan.entry_header.size() + plan.entry_values_bytes;
      expected = next + 1 + *expected;
      continue;
    }
    const WireField field = ReadField(at, end, kMaxWireDepth - kMapDepth);
    if (field.end == nullptr) return at;
    at = field.end;
    if (field.tag != 0x0a) continue;
    MapEntry entry;
    if (!ReadPlainEntry(field.bytes, &entry)) {
      if (const char* failed = ReadAnyEntry(field.bytes, &entry)) return failed;
    }
    const uint32_t number = names.Find(entry.name, *expected);
    if (number == NameTable::kNone) {
      if (origin_.empty() || HasNoKind(entry.value)) continue;
      columns->unknown_ = entry.name;
      return at;
    }
    if (const char* failed = check_replaced(number)) return failed;
    found[number] = entry.value;
    *expected = number;
    expected = next + 1 + number;
  }
  return nullptr;
}

const char* ExampleParser::FindUnknown(std::string_view map, ParsedColumns* columns) const {
  WireFields fields(map, kMapDepth);
  while (fields.Next()) {
    if (!fields.Is(1, WireType::kBytes)) continue;
    MapEntry entry;
    if (const char* failed = ReadAnyEntry(fields.bytes(), &entry)) return failed;
    if (HasNoKind(entry.value)) continue;
    columns->unknown_ = entry.name;
    return fields.bytes().data();
  }
  return fields.failed();
}

const char* ExampleParser::Find(std::string_view record, size_t row, ParsedColumns* columns) const {
  for (FeatureView& view : columns->found_) view.form = FeatureView::Form::kAbsent;
  WireFields message(record, 0);
  while (message.Next()) {
    const char* failed = nullptr;
    if (message.Is(1, WireType::kBytes) && !names_.empty()) {
      failed = FindInMap(message.bytes(), names_, 0, row, columns->next_.data(), columns);
    } else if (message.Is(2, WireType::kBytes) && !list_names_.empty()) {
      failed = FindInMap(message.bytes(), list_names_, num_context_, row,
                         columns->next_.data() + num_context_ + 1, columns);
    } else if (!origin_.empty() &&
               (message.Is(1, WireType::kBytes) || message.Is(2, WireType::kBytes))) {
      failed = FindUnknown(message.bytes(), columns);
    }
    if (failed != nullptr) return failed;
  }
  return message.failed();
}

absl::Status ExampleParser::Parse(std::string_view record, size_t row,
                                  ParsedColumns* columns) const {
  if (const char* failed = Find(record, row, columns)) {
    if (columns->unknown_) {
      return WithOrigin(
          absl::InvalidArgumentError(fmt::format("feature '{}' is not known",
                                                 *std::exchange(columns->unknown_, std::nullopt))),
          origin_);
    }
    return NotAnExample(nullptr, record, failed);
  }
  const FeatureView* found = columns->found_.data();
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (found[i].form == FeatureView::Form::kStored) continue;
    const FeaturePlan& plan = plans_[i];
    absl::Status status =
        plan.fixed ? ParseFixed(plan, record, found[i], columns->fixed_[i] + row * plan.bytes)
                   : ParseRow(plan, record, found[i], &columns->variable_[i]);
    if (status.ok()) continue;
    VariableColumn& column = columns->variable_[i];
    column.Truncate(column.num_rows());
    for (size_t before = 0; before < i; ++before) {
      if (plans_[before].fixed) continue;
      columns->variable_[before].Truncate(columns->variable_[before].num_rows() - 1);
    }
    return origin_.empty() ? status : WithOrigin(status, origin_);
  }
  return absl::OkStatus();
}

bool ExampleParser::HasNoKind(const FeatureView& view) {
  if (OnlyPieceOf(view).kind != FeatureKind::kNone) return false;
  EffectiveLists lists;
  return lists.Resolve(view, kFeatureDepth) == nullptr && lists.kind() == FeatureKind::kNone;
}

}  // namespace shardfeed
