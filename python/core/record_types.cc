#include "python/core/record_types.h"

#include <algorithm>
#include <cmath>
#include <optional>

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

// The values that a type of integers has, narrower than int64.
struct IntegerRange {
  int64_t least;
  int64_t most;
};
std::optional<IntegerRange> RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return IntegerRange{0, UINT8_MAX};
    case DType::kInt8:
      return IntegerRange{INT8_MIN, INT8_MAX};
    case DType::kUInt16:
      return IntegerRange{0, UINT16_MAX};
    case DType::kInt16:
      return IntegerRange{INT16_MIN, INT16_MAX};
    case DType::kInt32:
      return IntegerRange{INT32_MIN, INT32_MAX};
    default:
      return std::nullopt;
  }
}

constexpr float kMostFloat16 = 65504;

bool FitsFloat16(float value) { return !std::isfinite(value) || std::abs(value) <= kMostFloat16; }

std::string OutOfRange(const auto& value, DType dtype) {
  return fmt::format("{} is out of the range of {}", value, DTypeName(dtype));
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

template <typename T>
std::string FindWrong(const ExampleColumn& column, uint64_t rows, DType dtype, auto fits) {
  const T* const values = static_cast<const T*>(column.values);
  for (uint64_t row = 0; row < rows; ++row) {
    if (!column.row_is_set[row]) continue;
    const auto [begin, end] = column.ElementsOf(row);
    for (uint64_t i = begin; i < end; ++i) {
      if (!fits(values[i])) return fmt::format("row {}: {}", row, OutOfRange(values[i], dtype));
    }
  }
  return "";
}

// What is out of the range of a narrower type, or empty.
std::string WrongValue(const ExampleColumn& column, uint64_t rows, DType dtype) {
  if (dtype == DType::kFloat16) {
    const auto fits = [](auto value) { return FitsFloat16(static_cast<float>(value)); };
    if (column.type == Type::kFloat32) return FindWrong<float>(column, rows, dtype, fits);
    if (column.type == Type::kFloat64) return FindWrong<double>(column, rows, dtype, fits);
  }
  const std::optional<IntegerRange> range = RangeOf(dtype);
  if (!range) return "";
  const auto fits = [&range](auto value) {
    return std::cmp_greater_equal(value, range->least) && std::cmp_less_equal(value, range->most);
  };
  switch (column.type) {
    case Type::kInt8:
      return FindWrong<int8_t>(column, rows, dtype, fits);
    case Type::kUInt8:
      return FindWrong<uint8_t>(column, rows, dtype, fits);
    case Type::kInt16:
      return FindWrong<int16_t>(column, rows, dtype, fits);
    case Type::kUInt16:
      return FindWrong<uint16_t>(column, rows, dtype, fits);
    case Type::kInt32:
      return FindWrong<int32_t>(column, rows, dtype, fits);
    case Type::kUInt32:
      return FindWrong<uint32_t>(column, rows, dtype, fits);
    case Type::kInt64:
      return FindWrong<int64_t>(column, rows, dtype, fits);
    case Type::kUInt64:
      return FindWrong<uint64_t>(column, rows, dtype, fits);
    default:
      return "";
  }
}

bool IsAnyLength(const std::vector<int64_t>& shape) { return !shape.empty() && shape[0] < 0; }

}  // namespace

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

void RecordTypes::Begin() {
  required_found_.clear();
  news_.clear();
}

std::string RecordTypes::WrongShape(const Declared& declared,
                                    const std::vector<int64_t>& shape) const {
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

void RecordTypes::Check(std::string_view name, Values* values) {
  if (declared_.empty()) {
    const std::string wrong = WrongLearned(name, {values->kind, values->dtype, values->shape});
    if (wrong.empty()) return;
    throw nb::type_error(fmt::format("feature '{}': {}", name, wrong).c_str());
  }
  const Declared* const declared = Find(name);
  if (declared == nullptr) {
    throw nb::value_error(
        fmt::format("feature '{}' is not declared: add it to features=, or leave it out", name)
            .c_str());
  }
  if (values->kind != declared->kind) {
    if (values->kind == 'i' && declared->kind == 'f') {
      ToFloats(name, values);
    } else if (values->kind != 0) {
      Refuse(name, fmt::format("{}, where {} are declared", NameOf(values->kind),
                               NameOf(declared->kind)));
    }
    values->kind = declared->kind;
  }
  std::string wrong;
  if (declared->raw_bytes > 0) {
    const bool one = values->shape.empty() && values->bytes.size() == 1;
    const size_t size = one ? values->bytes[0].size() : 0;
    const bool fits = IsAnyLength(declared->shape) ? size % declared->raw_bytes == 0
                                                   : size == declared->raw_bytes;
    if (!one || !fits) {
      wrong =
          fmt::format("{}, where the {} bytes of {} of {} are declared as one string (raw)",
                      one ? fmt::format("{} bytes", size) : ShapeText(values->shape),
                      declared->raw_bytes, ShapeText(declared->shape), DTypeName(declared->dtype));
    }
  } else {
    wrong = WrongShape(*declared, values->shape);
    if (const std::optional<IntegerRange> range = RangeOf(declared->dtype);
        range && wrong.empty()) {
      for (const int64_t value : values->ints) {
        if (value < range->least || value > range->most) wrong = OutOfRange(value, declared->dtype);
        if (!wrong.empty()) break;
      }
    }
    if (declared->dtype == DType::kFloat16 && wrong.empty()) {
      for (const float value : values->floats) {
        if (!FitsFloat16(value)) wrong = OutOfRange(value, declared->dtype);
        if (!wrong.empty()) break;
      }
    }
  }
  if (!wrong.empty()) {
    throw nb::value_error(fmt::format("feature '{}': {}", name, wrong).c_str());
  }
  if (declared->required) required_found_.push_back(name);
}

std::string RecordTypes::Missing() const {
  if (required_found_.size() == num_required_) return "";
  for (const auto& [name, declared] : declared_) {
    if (!declared.required || std::ranges::count(required_found_, name) > 0) continue;
    return fmt::format(
        "feature '{}' is missing: it is declared without a default; declare one, or declare the "
        "feature as one of any length (sf.var)",
        name);
  }
  return "";
}

void RecordTypes::End() const {
  if (const std::string missing = Missing(); !missing.empty()) {
    throw nb::value_error(missing.c_str());
  }
}

std::string RecordTypes::WrongLearned(std::string_view name, const Given& given) {
  if (given.kind == 0) return "";  // an empty list, whose record lacks the feature
  const bool is_list = given.shape.size() == 1 && given.shape[0] < 0;
  const auto it = learned_.find(name);
  if (it == learned_.end()) {
    if (given.shape.size() > 1 && !keeps_shapes_) {
      return fmt::format("{}, which a record does not keep; declare it, features={{'{}': ...}}",
                         ShapeText(given.shape), name);
    }
    Learned& one = news_.emplace_back(name, Learned()).second;
    one.kind = given.kind;
    one.dtype = given.dtype;
    if (!is_list) one.shape = given.shape;
    one.any_length = is_list;
    return "";
  }
  const Learned& known = it->second;
  if (given.kind != known.kind) {
    return fmt::format(
        "{}, where record {} has {}, and a feature is of one kind in all records; {}",
        NameOf(given.kind), known.record, NameOf(known.kind),
        given.kind == 'b' || known.kind == 'b'
            ? "write None for a missing value, and numbers as numbers"
            : fmt::format("convert the integers, float(x), or declare the features, features="
                          "{{'{}': sf.float32, ...}}",
                          name));
  }
  const bool other_shape = known.any_length ? given.shape.size() > 1 : given.shape != known.shape;
  if (other_shape && std::max(given.shape.size(), known.shape.size()) > 1) {
    const bool alike =
        given.shape.size() == known.shape.size() &&
        std::equal(known.shape.begin() + 1, known.shape.end(), given.shape.begin() + 1);
    return fmt::format(
        "{}, where record {} has {}, and records do not keep shapes; {}", ShapeText(given.shape),
        known.record, known.any_length ? "a list" : ShapeText(known.shape),
        alike ? fmt::format("declare the features, features={{'{}': sf.ragged(sf.{}, [{}]), ...}}",
                            name, StoredType(known.kind),
                            fmt::join(known.shape.begin() + 1, known.shape.end(), ", "))
              : "write the values as one list, x.ravel(), and x.shape as another feature");
  }
  const std::string_view stored = StoredType(known.kind);
  if (!other_shape && (given.dtype == known.dtype || known.dtype == stored)) return "";
  Learned& one = news_.emplace_back(*it).second;
  if (other_shape) {
    one.any_length = true;
    one.shape.clear();
  }
  if (one.dtype != given.dtype) one.dtype = stored;
  return "";
}

void RecordTypes::Learn(uint64_t record) {
  for (auto& [name, news] : news_) {
    const auto [it, is_new] = learned_.try_emplace(std::move(name), news);
    if (is_new) {
      it->second.record = record;
    } else {
      it->second = std::move(news);
    }
  }
  news_.clear();
}

std::string RecordTypes::WrongColumn(const Declared& declared, const TypedColumn& typed,
                                     uint64_t rows) const {
  const ExampleColumn& column = typed.column;
  const char kind = KindOfColumn(column.type);
  if (kind != 0 && kind != declared.kind) {
    return fmt::format("{}, where {} are declared", NameOf(kind), NameOf(declared.kind));
  }
  if (declared.required) {
    for (uint64_t row = 0; row < rows; ++row) {
      if (kind != 0 && column.row_is_set[row]) continue;
      return fmt::format("row {} has no value, and the feature is declared without a default", row);
    }
  }
  if (kind == 0) return "";
  if (declared.raw_bytes > 0) return "";  // parse checks the sizes
  std::string wrong = WrongShape(declared, typed.shape);
  if (!wrong.empty() && IsAnyLength(typed.shape) && typed.shape.size() == declared.shape.size() &&
      std::equal(typed.shape.begin() + 1, typed.shape.end(), declared.shape.begin() + 1)) {
    // Lists that may all be of the declared length.
    uint64_t wanted = 1;
    for (const int64_t size : declared.shape) wanted *= static_cast<uint64_t>(size);
    wrong.clear();
    for (uint64_t row = 0; row < rows && wrong.empty(); ++row) {
      const auto [begin, end] = column.ElementsOf(row);
      if (!column.row_is_set[row] || end - begin == wanted) continue;
      wrong = fmt::format("row {} has {} values, where {} is declared", row, end - begin,
                          ShapeText(declared.shape));
    }
  }
  return wrong.empty() ? WrongValue(column, rows, declared.dtype) : wrong;
}

absl::Status RecordTypes::CheckColumns(const std::vector<TypedColumn>& columns, uint64_t rows) {
  Begin();
  for (const TypedColumn& column : columns) {
    const std::string_view name = column.column.name;
    std::string wrong;
    if (declared_.empty()) {
      wrong = WrongLearned(name, {KindOfColumn(column.column.type), column.dtype, column.shape});
    } else if (const Declared* const declared = Find(name); declared == nullptr) {
      wrong = "it is not declared: add it to features=, or leave it out";
    } else {
      wrong = WrongColumn(*declared, column, rows);
      if (declared->required) required_found_.push_back(name);
    }
    if (wrong.empty()) continue;
    return absl::InvalidArgumentError(fmt::format("feature '{}': {}", name, wrong));
  }
  const std::string missing = Missing();
  return missing.empty() ? absl::OkStatus() : absl::InvalidArgumentError(missing);
}

FeatureTypes RecordTypes::Types() const {
  FeatureTypes types;
  for (const auto& [name, declared] : declared_) {
    if (declared.raw_bytes > 0) {
      types[name].dtype = "bytes";
    } else {
      types[name] = {std::string(DTypeName(declared.dtype)), declared.shape};
    }
  }
  for (const auto& [name, learned] : learned_) types[name] = {learned.dtype, learned.shape};
  return types;
}

}  // namespace shardfeed::python
