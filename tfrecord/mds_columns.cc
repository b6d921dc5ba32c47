#include "tfrecord/mds_columns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>

#include "absl/types/span.h"
#include "base/excerpt.h"
#include "base/half.h"
#include "base/little_endian.h"
#include "fmt/format.h"
#include "shardfeed/examples.h"
#include "simdjson.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

namespace dom = simdjson::dom;

constexpr std::array<MdsNumber, 11> kNumbers = {{
    {"uint8", 8, 1, 'u'},
    {"int8", 9, 1, 'i'},
    {"uint16", 16, 2, 'u'},
    {"int16", 17, 2, 'i'},
    {"float16", 18, 2, 'f'},
    {"uint32", 32, 4, 'u'},
    {"int32", 33, 4, 'i'},
    {"float32", 34, 4, 'f'},
    {"uint64", 64, 8, 'u'},
    {"int64", 65, 8, 'i'},
    {"float64", 66, 8, 'f'},
}};

// Encodings whose values are bytes that other programs can read.
constexpr std::array<std::string_view, 8> kPlain = {
    "bytes", "str", "json", "jpeg", "png", "str_int", "str_float", "str_decimal",
};

constexpr uint64_t kMaxSampleBytes = (uint64_t{1} << 31) - (1 << 20);
constexpr std::string_view kShapeSuffix = ".shape";
// Memory for larger samples, which are rare, is not kept for the next one.
constexpr size_t kKeptBytes = 8 << 20;
// Tags and lengths of a feature, and of the feature for its shape.
constexpr uint64_t kFeatureBytes = 64;

absl::Status Wrong(std::string_view what) {
  return absl::DataLossError(fmt::format("the description of the columns {}", what));
}

const MdsNumber* NumberNamed(std::string_view name) {
  const auto* found = std::find_if(kNumbers.begin(), kNumbers.end(),
                                   [&](const MdsNumber& number) { return number.name == name; });
  return found == kNumbers.end() ? nullptr : found;
}

const MdsNumber* NumberOfCode(uint8_t code) {
  const auto* found = std::find_if(kNumbers.begin(), kNumbers.end(),
                                   [&](const MdsNumber& number) { return number.code == code; });
  return found == kNumbers.end() ? nullptr : found;
}

// The number of values of a shape such as "3,4"; nullopt: it is not a shape, or has too many.
std::optional<uint64_t> ValuesOf(std::string_view shape) {
  uint64_t values = 1;
  while (true) {
    const std::string_view part = shape.substr(0, shape.find(','));
    uint64_t dimension = 0;
    for (char c : part) {
      if (c < '0' || c > '9') return std::nullopt;
      dimension = 10 * dimension + (c - '0');
      if (dimension > UINT32_MAX) return std::nullopt;
    }
    if (dimension == 0) return std::nullopt;
    values *= dimension;
    if (values > UINT32_MAX) return std::nullopt;
    if (part.size() == shape.size()) return values;
    shape.remove_prefix(part.size() + 1);
  }
}

// Finds out the kind of the column from its encoding, and checks the size that the shard says.
absl::Status FindKind(MdsColumn* column) {
  const auto wrong = [&](std::string_view what) {
    return Wrong(fmt::format("says that column {} is {}, {}", Excerpt(column->name),
                             Excerpt(column->encoding), what));
  };
  std::optional<uint64_t> size;
  std::string_view encoding = column->encoding;
  column->number = NumberNamed(encoding == "int" ? "int64" : encoding);
  if (column->number != nullptr) {
    column->kind = MdsColumn::Kind::kNumber;
    size = column->number->bytes;
  } else if (encoding == "ndarray" || encoding.starts_with("ndarray:")) {
    column->kind = MdsColumn::Kind::kArray;
    encoding.remove_prefix(std::min(encoding.size(), std::string_view("ndarray:").size()));
    if (!encoding.empty()) {
      const size_t colon = encoding.find(':');
      column->number = NumberNamed(encoding.substr(0, colon));
      if (column->number == nullptr) return wrong("an array of an unknown type");
      column->shaped = colon != encoding.npos;
      if (column->shaped) {
        const std::optional<uint64_t> values = ValuesOf(encoding.substr(colon + 1));
        if (!values) return wrong("an array of an impossible shape");
        size = *values * column->number->bytes;
      }
    }
  }
  if (column->size && column->kind != MdsColumn::Kind::kBytes && column->size != size) {
    return wrong(fmt::format("which cannot have {} bytes", *column->size));
  }
  return absl::OkStatus();
}

template <typename T>
T Load(const char* at) {
  return LoadLittleEndian<T>(at);
}

int64_t LoadInteger(const MdsNumber& number, const char* at) {
  const bool is_signed = number.kind == 'i';
  switch (number.bytes) {
    case 1:
      return is_signed ? static_cast<int8_t>(*at) : static_cast<uint8_t>(*at);
    case 2:
      return is_signed ? static_cast<int16_t>(Load<uint16_t>(at)) : Load<uint16_t>(at);
    case 4:
      return is_signed ? static_cast<int32_t>(Load<uint32_t>(at)) : int64_t{Load<uint32_t>(at)};
    default:
      return static_cast<int64_t>(Load<uint64_t>(at));
  }
}

// Adds a feature of the values. Returns what is wrong with them; empty: nothing.
std::string AddNumbers(std::string_view name, const MdsNumber& number, std::string_view bytes,
                       ExampleBuilder& builder) {
  if (bytes.size() % number.bytes != 0) {
    return fmt::format("has {} bytes, which are not whole values of {}", bytes.size(), number.name);
  }
  const char* const end = bytes.data() + bytes.size();
  if (number.kind == 'f') {
    thread_local std::vector<float> floats;
    floats.clear();
    for (const char* at = bytes.data(); at != end; at += number.bytes) {
      if (number.bytes == 2) {
        floats.push_back(HalfToFloat(Load<uint16_t>(at)));
      } else if (number.bytes == 4) {
        floats.push_back(std::bit_cast<float>(Load<uint32_t>(at)));
      } else {
        const auto value = std::bit_cast<double>(Load<uint64_t>(at));
        const auto narrow = static_cast<float>(value);
        if (std::isinf(narrow) && std::isfinite(value)) {
          return fmt::format("has the value {}, which is outside of float32", value);
        }
        floats.push_back(narrow);
      }
    }
    builder.AddFloatList(name, floats);
    if (bytes.size() > kKeptBytes) floats = {};
    return {};
  }
  thread_local std::vector<int64_t> integers;
  integers.clear();
  for (const char* at = bytes.data(); at != end; at += number.bytes) {
    integers.push_back(LoadInteger(number, at));
    if (integers.back() < 0 && number.kind == 'u') {
      return fmt::format("has the value {}, which is outside of int64",
                         static_cast<uint64_t>(integers.back()));
    }
  }
  builder.AddInt64List(name, integers);
  if (bytes.size() > kKeptBytes) integers = {};
  return {};
}

// Adds the features of an array: its values, and its shape unless all arrays have one, or the
// number of values says it.
std::string AddArray(const MdsColumn& column, std::string_view bytes, ExampleBuilder& builder) {
  const MdsNumber* number = column.number;
  if (number == nullptr) {
    if (bytes.empty()) return "is empty, where the type of its values should be";
    number = NumberOfCode(static_cast<uint8_t>(bytes[0]));
    if (number == nullptr) {
      return fmt::format("has values of an unknown type, {}", static_cast<uint8_t>(bytes[0]));
    }
    bytes.remove_prefix(1);
  }
  if (!column.shaped) {
    if (bytes.empty()) return "is empty, where its shape should be";
    const auto first = static_cast<uint8_t>(bytes[0]);
    const size_t dimensions = first >> 2;
    const size_t width = size_t{1} << (first & 3);
    bytes.remove_prefix(1);
    if (bytes.size() < dimensions * width) return "is cut within its shape";
    thread_local std::vector<int64_t> shape;
    shape.clear();
    uint64_t values = 1;
    for (size_t i = 0; i < dimensions; ++i) {
      uint64_t dimension = 0;
      for (size_t b = width; b-- > 0;) {
        dimension = dimension << 8 | static_cast<uint8_t>(bytes[i * width + b]);
      }
      if (dimension > INT64_MAX) return "has an impossible shape";
      shape.push_back(static_cast<int64_t>(dimension));
      // Without overflow: there are no more values than this. An array of the shape (0, 4) has
      // none.
      values *= std::min<uint64_t>(dimension, UINT32_MAX);
      values = std::min<uint64_t>(values, UINT32_MAX);
    }
    bytes.remove_prefix(dimensions * width);
    if (values != bytes.size() / number->bytes) {
      return fmt::format(
          "has {} bytes, which is not the number of values of {} that its shape says", bytes.size(),
          number->name);
    }
    if (dimensions != 1) {
      thread_local std::string name;
      name = column.name;
      name += kShapeSuffix;
      builder.AddInt64List(name, shape);
    }
  }
  return AddNumbers(column.name, *number, bytes, builder);
}

// The maximum number of bytes in a feature for each byte of a value: a negative integer takes ten
// bytes, whatever its type.
uint64_t GrowthOf(const MdsColumn& column) {
  if (column.kind == MdsColumn::Kind::kBytes) return 1;
  if (column.number == nullptr) return 10;
  if (column.number->kind == 'f') return 2;
  return column.number->kind == 'i' ? (10 + column.number->bytes - 1) / column.number->bytes : 2;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const MdsColumns>> MdsColumns::Parse(std::string_view config) {
  std::shared_ptr<MdsColumns> parsed(new MdsColumns());
  parsed->config_ = config;
  parsed->crc_ = Crc32c(config);
  dom::parser parser;
  dom::object object;
  if (parser.parse(simdjson::padded_string(config)).get(object) != simdjson::SUCCESS) {
    return Wrong("is not a JSON object");
  }
  std::string_view format;
  if (object["format"].get(format) != simdjson::SUCCESS || format != "mds") {
    return Wrong("does not say that the format is \"mds\"");
  }
  uint64_t version = 0;
  if (object["version"].get(version) != simdjson::SUCCESS || version != 2) {
    return Wrong("is not of version 2, the only one that is known");
  }
  dom::array names;
  dom::array encodings;
  dom::array sizes;
  if (object["column_names"].get(names) != simdjson::SUCCESS ||
      object["column_encodings"].get(encodings) != simdjson::SUCCESS ||
      object["column_sizes"].get(sizes) != simdjson::SUCCESS) {
    return Wrong("lacks column_names, column_encodings or column_sizes");
  }
  if (names.size() == 0 || names.size() != encodings.size() || names.size() != sizes.size()) {
    return Wrong(fmt::format("has {} names, {} encodings and {} sizes", names.size(),
                             encodings.size(), sizes.size()));
  }
  std::unordered_set<std::string> features;
  auto encoding = encodings.begin();
  auto size = sizes.begin();
  for (const dom::element name : names) {
    MdsColumn column;
    std::string_view text;
    if (name.get(text) != simdjson::SUCCESS) return Wrong("has a name that is not text");
    column.name = text;
    if ((*encoding).get(text) != simdjson::SUCCESS)
      return Wrong("has an encoding that is not text");
    column.encoding = text;
    uint64_t bytes = 0;
    const bool fixed = !(*size).is_null();
    if (fixed && ((*size).get(bytes) != simdjson::SUCCESS || bytes > UINT32_MAX)) {
      return Wrong(fmt::format("has an impossible size for column {}", Excerpt(column.name)));
    }
    // MosaicML's reader takes a size of 0 for none.
    if (bytes > 0) column.size = static_cast<uint32_t>(bytes);
    if (absl::Status status = FindKind(&column); !status.ok()) return status;
    bool is_new = features.insert(column.name).second;
    if (column.kind == MdsColumn::Kind::kArray && !column.shaped) {
      is_new &= features.insert(column.name + std::string(kShapeSuffix)).second;
    }
    if (!is_new) {
      return Wrong(fmt::format("has two columns for one feature, {}", Excerpt(column.name)));
    }
    parsed->variable_ += column.size ? 0 : 1;
    parsed->sample_overhead_ += 2 * (column.name.size() + kFeatureBytes);
    parsed->growth_ = std::max(parsed->growth_, GrowthOf(column));
    parsed->columns_.push_back(std::move(column));
    ++encoding;
    ++size;
  }
  return parsed;
}

std::string MdsColumns::AppendExample(std::string_view sample, std::string* out) const {
  if (sample.size() > kMaxSampleBytes) return "it has more than 2 GiB";
  uint64_t at = variable_ * sizeof(uint32_t);
  if (sample.size() < at) {
    return fmt::format("it has {} bytes, fewer than the sizes of its columns take", sample.size());
  }
  thread_local ExampleBuilder builder;
  builder.Clear();
  const char* next_size = sample.data();
  for (const MdsColumn& column : columns_) {
    uint32_t size = 0;
    if (column.size) {
      size = *column.size;
    } else {
      size = Load<uint32_t>(next_size);
      next_size += sizeof(uint32_t);
    }
    const auto wrong = [&](std::string_view what) {
      return fmt::format("its column {} {}", Excerpt(column.name), what);
    };
    if (size > sample.size() - at) {
      return wrong(fmt::format("has {} bytes, more than the {} that are left of the sample", size,
                               sample.size() - at));
    }
    const std::string_view value = sample.substr(at, size);
    at += size;
    std::string what;
    switch (column.kind) {
      case MdsColumn::Kind::kBytes:
        builder.AddBorrowedBytes(column.name, value);
        break;
      case MdsColumn::Kind::kNumber:
        if (size != column.number->bytes) {
          return wrong(fmt::format("is {}, but has {} bytes", Excerpt(column.encoding), size));
        }
        what = AddNumbers(column.name, *column.number, value, builder);
        break;
      case MdsColumn::Kind::kArray:
        what = AddArray(column, value, builder);
        break;
    }
    if (!what.empty()) return wrong(what);
  }
  if (at != sample.size()) {
    return fmt::format("its columns have {} bytes, but it has {}", at, sample.size());
  }
  const size_t before = out->size();
  builder.SerializeExample(out);
  if (sample.size() > kKeptBytes) builder = ExampleBuilder();
  if (out->size() - before > kMaxSampleBytes) {
    out->resize(before);
    return "its Example would have more than 2 GiB";
  }
  return {};
}

uint64_t MdsColumns::MaxExampleBytes(uint64_t samples, uint64_t bytes) const {
  return samples * sample_overhead_ + bytes * growth_;
}

std::vector<std::string> MdsColumns::Notes() const {
  std::vector<std::string> notes;
  for (const MdsColumn& column : columns_) {
    std::string what;
    if (column.number != nullptr && column.number->name == "float64") {
      what = "float64 becomes float32, the only float type of TFRecord";
    } else if (column.encoding == "pkl") {
      what = "pickled objects are given as bytes; nothing is unpickled";
    } else if (column.encoding == "pil") {
      what = "images in the encoding pil are given as bytes, which decode_image cannot decode";
    } else if (column.kind == MdsColumn::Kind::kBytes &&
               std::find(kPlain.begin(), kPlain.end(), column.encoding) == kPlain.end()) {
      what = fmt::format("values in the unknown encoding {} are given as bytes",
                         Excerpt(column.encoding));
    }
    if (!what.empty()) notes.push_back(fmt::format("column {}: {}", Excerpt(column.name), what));
  }
  return notes;
}

}  // namespace shardfeed
