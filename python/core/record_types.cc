#include "python/core/record_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nanobind/stl/string.h"
#include "python/core/batches.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

using Type = ExampleColumn::Type;

std::string ShapeText(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "a single value";
  if (shape[0] >= 0) return fmt::format("the shape [{}]", fmt::join(shape, ", "));
  if (shape.size() == 1) return "a list";
  return fmt::format("the shape [any length, {}]", fmt::join(shape.begin() + 1, shape.end(), ", "));
}

// Kind of the list that elements of a type become, as Values::kind; 0: no value tells.
char KindOfColumn(Type type) {
  switch (type) {
    case Type::kNull:
      return 0;
    case Type::kFloat16:
    case Type::kBFloat16:
    case Type::kFloat32:
    case Type::kFloat64:
      return 'f';
    case Type::kView:
    case Type::kString32:
    case Type::kString64:
    case Type::kFixedBytes:
    case Type::kArrowView:
      return 'b';
    default:
      return 'i';
  }
}

char KindOf(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return 'b';
    case FeatureKind::kFloat:
      return 'f';
    case FeatureKind::kInt64:
      return 'i';
    case FeatureKind::kNone:
      return 0;
  }
  return 0;
}

bool IsAnyLength(const std::vector<int64_t>& shape) { return !shape.empty() && shape[0] < 0; }

// The number of values of a shape; of any length, those of an element.
uint64_t ValuesOf(const std::vector<int64_t>& shape) {
  uint64_t values = 1;
  for (const int64_t size : shape) values *= size < 0 ? 1 : static_cast<uint64_t>(size);
  return values;
}

// Calls visit(values), where values(i) is element i. Skips half floats, which fit everywhere, and
// strings.
template <typename Visit>
void VisitNumbers(const ExampleColumn& column, const Visit& visit) {
  const auto of = [&]<typename T>(T) {
    visit([values = static_cast<const T*>(column.values)](uint64_t i) { return values[i]; });
  };
  switch (column.type) {
    case Type::kBool:
      return visit([&column](uint64_t i) { return static_cast<uint8_t>(column.truth[i]); });
    case Type::kInt8:
      return of(int8_t{});
    case Type::kUInt8:
      return of(uint8_t{});
    case Type::kInt16:
      return of(int16_t{});
    case Type::kUInt16:
      return of(uint16_t{});
    case Type::kInt32:
      return of(int32_t{});
    case Type::kUInt32:
      return of(uint32_t{});
    case Type::kInt64:
      return of(int64_t{});
    case Type::kUInt64:
      return of(uint64_t{});
    case Type::kBFloat16:
      return visit([values = static_cast<const uint16_t*>(column.values)](uint64_t i) {
        return std::bit_cast<float>(uint32_t{values[i]} << 16);
      });
    case Type::kFloat32:
      return of(float{});
    case Type::kFloat64:
      return of(double{});
    default:
      return;
  }
}

// What the text of a rule is about, in the widest type of its kind.
template <typename T>
std::string WhyOf(const NumberRule& rule, T value) {
  if constexpr (std::floating_point<T>) {
    return rule.Why(static_cast<double>(value));
  } else if constexpr (std::same_as<T, uint64_t>) {
    return rule.Why(value);
  } else {
    return rule.Why(static_cast<int64_t>(value));
  }
}

// Calls visit(row, element) for each element of the rows that have a value, until it returns false.
template <typename Visit>
void VisitElements(const ExampleColumn& column, uint64_t rows, const Visit& visit) {
  for (uint64_t row = 0; row < rows; ++row) {
    if (!column.row_is_set[row]) continue;
    const auto [begin, end] = column.ElementsOf(row);
    for (uint64_t i = begin; i < end; ++i) {
      if (!visit(row, i)) return;
    }
  }
}

}  // namespace

void Raise(const Wrong& wrong) {
  if (wrong.of_type) throw nb::type_error(wrong.text.c_str());
  throw nb::value_error(wrong.text.c_str());
}

RecordTypes::RecordTypes(nb::sequence features, bool keeps_shapes) : keeps_shapes_(keeps_shapes) {
  for (nb::handle feature : features) {
    const nb::tuple t = nb::borrow<nb::tuple>(feature);
    Declared& one = declared_[nb::cast<std::string>(t[0])];
    one.dtype = DTypeFromName(nb::cast<std::string>(t[1]));
    one.kind = KindOf(one.dtype);
    const bool is_ragged = nb::cast<bool>(t[3]);
    if (is_ragged) one.shape.push_back(-1);
    const nb::object shape = t[2];
    for (nb::handle size : shape) one.shape.push_back(nb::cast<int64_t>(size));
    one.required = !is_ragged && t[4].is_none();
    if (one.required) ++num_required_;
    if (!nb::cast<bool>(t[5])) continue;
    one.raw_bytes = DTypeSize(one.dtype);
    for (const int64_t size : one.shape) one.raw_bytes *= static_cast<size_t>(std::abs(size));
    one.kind = 'b';
  }
}

const RecordTypes::Declared* RecordTypes::Find(std::string_view name) const {
  const auto it = declared_.find(name);
  return it == declared_.end() ? nullptr : &it->second;
}

void RecordTypes::Begin(uint64_t record) {
  record_ = record;
  required_found_.clear();
  undo_.clear();
  new_losses_.clear();
  new_empty_.clear();
}

void RecordTypes::Learn() {
  for (const auto& [name, news] : new_losses_) {
    const auto [it, is_new] = losses_.try_emplace(name, news);
    if (!is_new) it->second.values += news.values;
  }
  empty_.merge(new_empty_);
  Begin(record_);
}

void RecordTypes::Undo() {
  for (auto it = undo_.rbegin(); it != undo_.rend(); ++it) {
    if (it->second) {
      learned_[it->first] = *std::move(it->second);
    } else {
      learned_.erase(it->first);
    }
  }
  Begin(record_);
}

RecordTypes::Learned& RecordTypes::Change(std::string_view name) {
  const auto it = learned_.find(name);
  if (it == learned_.end()) {
    undo_.emplace_back(name, std::nullopt);
    return learned_[std::string(name)];
  }
  undo_.emplace_back(name, it->second);
  return it->second;
}

void RecordTypes::Lose(std::string_view name, uint64_t record, double from, double to) {
  const auto it = std::ranges::find(new_losses_, name,
                                    [](const auto& one) { return std::string_view(one.first); });
  if (it != new_losses_.end()) {
    ++it->second.values;
  } else {
    new_losses_.emplace_back(name, Loss{1, record, from, to});
  }
}

NumberRule RecordTypes::RuleOf(std::string_view name, char kind) const {
  if (const Declared* const declared = Find(name)) return NumberRule(declared->dtype);
  return NumberRule(kind == 'f' ? DType::kFloat32 : DType::kInt64);
}

// ---- Types and shapes

std::string RecordTypes::WrongShape(const Declared& declared, const std::vector<int64_t>& shape) {
  const std::vector<int64_t>& wanted = declared.shape;
  if (shape == wanted) return "";
  if (IsAnyLength(wanted) && shape.size() == wanted.size() &&
      std::equal(wanted.begin() + 1, wanted.end(), shape.begin() + 1)) {
    return "";
  }
  // An empty list does not tell what its elements would have been.
  if (IsAnyLength(wanted) && shape.size() == 1 && shape[0] == 0) return "";
  return fmt::format("{} where {} is declared", ShapeText(shape), ShapeText(wanted));
}

Wrong RecordTypes::WrongDeclared(const Declared& declared, const Given& given) const {
  if (given.kind != declared.kind && given.kind != 0 &&
      !(given.kind == 'i' && declared.kind == 'f')) {
    return {fmt::format("{}, where {} are declared", NameOf(given.kind), NameOf(declared.kind)),
            true};
  }
  if (declared.raw_bytes > 0) return {};  // each value is checked
  return {WrongShape(declared, given.shape)};
}

Wrong RecordTypes::WrongLearned(std::string_view name, const Given& given) {
  if (given.kind == 0) return {};  // an empty list, whose record lacks the feature
  const bool is_list = IsAnyLength(given.shape) && given.shape.size() == 1;
  if (given.shape.size() > 1 && std::count(given.shape.begin() + 1, given.shape.end(), 0) > 0) {
    return {
        fmt::format("{} has no values, and a record does not keep shapes; leave the feature "
                    "out, or write None",
                    ShapeText(given.shape))};
  }
  const auto it = learned_.find(name);
  if (it == learned_.end()) {
    if (given.shape.size() > 1 && !keeps_shapes_) {
      return {fmt::format("{}, which a record does not keep; declare it, features={{'{}': ...}}",
                          ShapeText(given.shape), name),
              true};
    }
    Learned& one = Change(name);
    one.kind = given.kind;
    one.dtype = given.dtype;
    if (!is_list) one.shape = given.shape;
    one.any_length = is_list;
    one.record = record_;
    return {};
  }
  const Learned& known = it->second;
  if (given.kind != known.kind) {
    return {
        fmt::format(
            "{}, where record {} has {}, and a feature is of one kind in all records; {}",
            NameOf(given.kind), known.record, NameOf(known.kind),
            given.kind == 'b' || known.kind == 'b'
                ? "write None for a missing value, and numbers as numbers"
                : fmt::format("convert the integers, float(x), or declare the features, features="
                              "{{'{}': sf.float32, ...}}",
                              name)),
        true};
  }
  const bool other_shape = known.any_length ? given.shape.size() > 1 : given.shape != known.shape;
  if (other_shape && std::max(given.shape.size(), known.shape.size()) > 1) {
    const bool alike =
        given.shape.size() == known.shape.size() &&
        std::equal(known.shape.begin() + 1, known.shape.end(), given.shape.begin() + 1);
    return {fmt::format(
                "{}, where record {} has {}, and records do not keep shapes; {}",
                ShapeText(given.shape), known.record,
                known.any_length ? "a list" : ShapeText(known.shape),
                alike ? fmt::format(
                            "declare the features, features={{'{}': sf.ragged(sf.{}, [{}]), ...}}",
                            name, given.dtype == known.dtype ? known.dtype : StoredType(known.kind),
                            fmt::join(known.shape.begin() + 1, known.shape.end(), ", "))
                      : "write the values as one list, x.ravel(), and x.shape as another feature"),
            true};
  }
  const std::string_view stored = StoredType(known.kind);
  if (!other_shape && (given.dtype == known.dtype || known.dtype == stored)) return {};
  Learned& one = Change(name);
  if (other_shape) {
    one.any_length = true;
    one.shape.clear();
  }
  if (one.dtype != given.dtype) one.dtype = stored;
  return {};
}

Wrong RecordTypes::WrongType(std::string_view name, const Given& given) {
  if (declared_.empty()) return WrongLearned(name, given);
  const Declared* const declared = Find(name);
  if (declared == nullptr) return {"it is not declared: add it to features=, or leave it out"};
  return WrongDeclared(*declared, given);
}

// ---- One record

void RecordTypes::CheckName(std::string_view name) const {
  if (declared_.empty() || Find(name) != nullptr) return;
  RefuseValue(name, "it is not declared: add it to features=, or leave it out");
}

void RecordTypes::CheckValues(std::string_view name, Values* values) {
  if (const Wrong wrong = WrongType(name, {values->kind, values->dtype, values->shape})) {
    if (wrong.of_type) RefuseType(name, wrong.text);
    RefuseValue(name, wrong.text);
  }
  const Declared* const declared = Find(name);
  if (declared != nullptr && declared->raw_bytes > 0) {
    const bool one = values->shape.empty() && values->bytes.size() == 1;
    const size_t size = one ? values->bytes[0].size() : 0;
    const bool fits = IsAnyLength(declared->shape) ? size % declared->raw_bytes == 0
                                                   : size == declared->raw_bytes;
    if (!one || !fits) {
      RefuseValue(
          name,
          fmt::format("{}, where the {} bytes of {} of {} are declared as one string (raw)",
                      one ? fmt::format("{} bytes", size) : ShapeText(values->shape),
                      declared->raw_bytes, ShapeText(declared->shape), DTypeName(declared->dtype)));
    }
  }
  if (declared != nullptr && values->kind == 0) values->kind = declared->kind;
  if (values->kind == 'b' || values->kind == 0) return;
  const NumberRule rule = RuleOf(name, values->kind);
  for (const int64_t value : values->ints) {
    if (!rule.Fits(value)) RefuseValue(name, rule.Why(value));
  }
  for (const float value : values->floats) {
    if (rule.FitsAll<float>()) break;
    if (!rule.Fits(value)) RefuseValue(name, rule.Why(double{value}));
    if (rule.IsLossy(value)) Lose(name, record_, value, rule.Stored(value));
  }
  values->floats.reserve(values->floats.size() + values->doubles.size());
  for (const double value : values->doubles) {
    if (!rule.Fits(value)) RefuseValue(name, rule.Why(value));
    if (rule.IsLossy(value)) Lose(name, record_, value, rule.Stored(value));
    values->floats.push_back(static_cast<float>(value));
  }
  values->doubles.clear();
  if (values->kind == 'i' && rule.has_floats()) {
    values->floats.assign(values->ints.begin(), values->ints.end());
    values->ints.clear();
    values->kind = 'f';
  }
}

void RecordTypes::Check(std::string_view name, Values* values) {
  CheckValues(name, values);
  if (const Declared* const declared = Find(name); declared != nullptr && declared->required) {
    required_found_.push_back(name);
  }
}

void RecordTypes::CheckRow(std::string_view name, uint64_t row, Values* values) {
  record_ += row;
  AtRow(name, row, [&] { CheckValues(name, values); });
  record_ -= row;
}

Wrong RecordTypes::CheckComplete() const {
  if (required_found_.size() == num_required_) return {};
  for (const auto& [name, declared] : declared_) {
    if (!declared.required || std::ranges::count(required_found_, name) > 0) continue;
    return {fmt::format(
        "feature '{}' is missing: it is declared without a default; declare one, or declare the "
        "feature as one of any length (sf.var)",
        name)};
  }
  return {};
}

// ---- Columns

Wrong RecordTypes::WrongNumbers(std::string_view name, ExampleColumn* column, uint64_t rows) {
  const NumberRule rule = RuleOf(name, KindOfColumn(column->type));
  Wrong wrong;
  VisitNumbers(*column, [&](const auto& value_at) {
    using T = std::decay_t<decltype(value_at(0))>;
    if (rule.FitsAll<T>()) return;
    VisitElements(*column, rows, [&](uint64_t row, uint64_t i) {
      const T value = value_at(i);
      if (!rule.Fits(value)) {
        wrong.text = fmt::format("row {}: {}", row, WhyOf(rule, value));
        return false;
      }
      if constexpr (std::floating_point<T>) {
        if (rule.IsLossy(value)) Lose(name, record_ + row, value, rule.Stored(value));
      }
      return true;
    });
    if constexpr (std::integral<T>) {
      if (wrong || !rule.has_floats() || rows == 0) return;
      const uint64_t begin = column->ElementsOf(0).first;
      auto floats =
          std::make_shared<std::vector<float>>(column->ElementsOf(rows - 1).second - begin);
      VisitElements(*column, rows, [&](uint64_t /*row*/, uint64_t i) {
        (*floats)[i - begin] = static_cast<float>(value_at(i));
        return true;
      });
      column->first -= begin;
      // Elements have no bits of their own here: none may be missing.
      column->type = Type::kFloat32;
      column->values = floats->data();
      column->held = std::move(floats);
    }
  });
  return wrong;
}

Wrong RecordTypes::WrongRows(std::string_view name, TypedColumn* typed, uint64_t rows) {
  ExampleColumn& column = typed->column;
  const Declared* const declared = Find(name);
  const char kind = KindOfColumn(column.type);
  if (declared != nullptr && declared->required) {
    for (uint64_t row = 0; row < rows; ++row) {
      if (kind != 0 && column.row_is_set[row]) continue;
      return {
          fmt::format("row {} has no value, and the feature is declared without a default", row)};
    }
  }
  if (typed->checked || kind == 0) return {};
  Wrong wrong;
  if (column.element_is_set.bits != nullptr) {
    VisitElements(column, rows, [&](uint64_t row, uint64_t i) {
      if (column.element_is_set[i]) return true;
      wrong.text = fmt::format(
          "row {}: element {} is missing, and a record's lists have no place for missing "
          "elements; fill it, or leave out the row's whole list",
          row, i - column.ElementsOf(row).first);
      return false;
    });
    if (wrong) return wrong;
    column.element_is_set = {};
  }
  if (declared != nullptr && declared->raw_bytes > 0) {
    VisitElements(column, rows, [&](uint64_t row, uint64_t i) {
      const size_t size = column.StringAt(i).size();
      const auto [begin, end] = column.ElementsOf(row);
      const bool fits = IsAnyLength(declared->shape) ? size % declared->raw_bytes == 0
                                                     : size == declared->raw_bytes;
      if (fits && end - begin == 1 && typed->shape.empty()) return true;
      wrong.text = fmt::format(
          "row {}: {}, where the {} bytes of {} of {} are declared as one string (raw)", row,
          typed->shape.empty() ? fmt::format("{} bytes", size) : ShapeText(typed->shape),
          declared->raw_bytes, ShapeText(declared->shape), DTypeName(declared->dtype));
      return false;
    });
    return wrong;
  }
  return WrongNumbers(name, &column, rows);
}

namespace {

// 0: no row has a value, so the column does not tell what the feature is.
char KindOfRows(const ExampleColumn& column, uint64_t rows) {
  uint64_t row = 0;
  while (row < rows && !column.row_is_set[row]) ++row;
  return row < rows || rows == 0 ? KindOfColumn(column.type) : char{0};
}

}  // namespace

Wrong RecordTypes::CheckColumn(TypedColumn* typed, uint64_t rows) {
  const std::string_view name = typed->column.name;
  const Declared* const declared = Find(name);
  Wrong wrong;
  if (!typed->checked) {
    // Lists of any length may all be of the one that is declared.
    const bool lists =
        declared != nullptr && declared->raw_bytes == 0 && IsAnyLength(typed->shape) &&
        !IsAnyLength(declared->shape) && typed->shape.size() == declared->shape.size() &&
        std::equal(typed->shape.begin() + 1, typed->shape.end(), declared->shape.begin() + 1);
    wrong = WrongType(name, {KindOfRows(typed->column, rows), typed->dtype,
                             lists ? declared->shape : typed->shape});
    if (lists && !wrong && typed->column.type != Type::kNull) {
      const uint64_t wanted = ValuesOf(declared->shape);
      for (uint64_t row = 0; row < rows && !wrong; ++row) {
        const auto [begin, end] = typed->column.ElementsOf(row);
        if (!typed->column.row_is_set[row] || end - begin == wanted) continue;
        wrong.text = fmt::format("row {} has {} values, where {} is declared", row, end - begin,
                                 ShapeText(declared->shape));
      }
    }
  } else if (!declared_.empty() && declared == nullptr) {
    wrong.text = "it is not declared: add it to features=, or leave it out";
  }
  if (!wrong) wrong = WrongRows(name, typed, rows);
  if (!wrong && !typed->checked && typed->column.type != Type::kNull &&
      KindOfRows(typed->column, rows) == 0) {
    new_empty_.try_emplace(std::string(name), FeatureType{typed->dtype, typed->shape});
  }
  if (wrong) {
    wrong.text = fmt::format("feature '{}': {}", name, wrong.text);
  } else if (declared != nullptr && declared->required) {
    required_found_.push_back(name);
  }
  return wrong;
}

// ---- Records that were made elsewhere

Wrong RecordTypes::CheckRecord(std::string_view record) {
  summaries_.clear();
  const absl::Status status =
      VisitFeatures(record, [&](const FeatureSummary& one) { summaries_.push_back(one); });
  if (!status.ok()) {
    if (declared_.empty()) return {};
    return {fmt::format("it is not a tf.train.Example ({}), and features are declared",
                        std::string(status.message()))};
  }
  names_.clear();
  for (size_t i = summaries_.size(); i-- > 0;) {
    const FeatureSummary& one = summaries_[i];
    // If a name has several entries, the last one counts.
    if (one.is_list || !names_.insert(one.name).second) continue;
    const char kind = KindOf(one.kind);
    // The shape with this number of values, if there is one.
    std::vector<int64_t> shape = {-1};
    const Declared* const declared = Find(one.name);
    const auto learned = learned_.find(one.name);
    if (declared != nullptr && declared->raw_bytes == 0) {
      const uint64_t values = ValuesOf(declared->shape);
      if (IsAnyLength(declared->shape) ? one.values % values == 0 : one.values == values) {
        shape = declared->shape;
      } else {
        shape = {static_cast<int64_t>(one.values)};
      }
    } else if (learned != learned_.end()) {
      if (!learned->second.any_length && one.values == ValuesOf(learned->second.shape)) {
        shape = learned->second.shape;
      }
    } else if (one.values == 1) {
      shape.clear();  // a record does not tell a list of one value from a single one
    }
    if (Wrong wrong = WrongType(one.name, {kind, StoredType(kind), shape})) {
      wrong.text = fmt::format("feature '{}': {}", one.name, wrong.text);
      return wrong;
    }
    if (declared != nullptr && declared->required) required_found_.push_back(one.name);
  }
  return CheckComplete();
}

// ---- What is known at the end

FeatureTypes RecordTypes::Types() const {
  FeatureTypes types;
  for (const auto& [name, declared] : declared_) {
    if (declared.raw_bytes > 0) {
      types[name].dtype = "bytes";
    } else {
      types[name] = {std::string(DTypeName(declared.dtype)), declared.shape};
    }
  }
  for (const auto& [name, learned] : learned_) {
    // Lists of one value each would come back as single values. A shape that records do not have is
    // not kept.
    types[name] = {learned.dtype, learned.any_length ? std::vector<int64_t>{1} : learned.shape};
  }
  types.insert(empty_.begin(), empty_.end());
  return types;
}

std::vector<std::string> RecordTypes::Losses() const {
  std::vector<std::string> losses;
  for (const auto& [name, loss] : losses_) {
    losses.push_back(fmt::format(
        "feature '{}': {} digits as floats of 32 bits; the first: record {}: {} becomes {}", name,
        loss.values == 1 ? "1 value loses" : fmt::format("{} values lose", loss.values),
        loss.record, loss.from, static_cast<float>(loss.to)));
  }
  return losses;
}

}  // namespace shardfeed::python
