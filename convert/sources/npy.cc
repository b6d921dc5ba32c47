#include "convert/sources/npy.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "base/half.h"
#include "base/little_endian.h"
#include "base/mutex.h"
#include "base/utf8.h"
#include "convert/features/column.h"
#include "convert/input/checked_files.h"
#include "convert/input/codec.h"
#include "convert/input/whole_file.h"
#include "decode/features/float_digits.h"
#include "decode/features/npy_header.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/file.h"

namespace shardfeed {
namespace {

constexpr size_t kNumberBytes = 8;  // size of the row number in an item's bytes

// Appends UTF-32 as UTF-8, without the zeros at its end. Returns false if it is not Unicode.
bool AppendUtf8(std::string_view utf32, std::string* out) {
  size_t size = utf32.size() / 4;
  while (size > 0 && LoadLittleEndian<uint32_t>(utf32.data() + 4 * (size - 1)) == 0) --size;
  for (size_t i = 0; i < size; ++i) {
    const uint32_t c = LoadLittleEndian<uint32_t>(utf32.data() + 4 * i);
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
    if (c < 0x80) {
      out->push_back(static_cast<char>(c));
      continue;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;  // bytes after the first
    out->push_back(static_cast<char>((more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0) | c >> 6 * more));
    for (int k = more - 1; k >= 0; --k) {
      out->push_back(static_cast<char>(0x80 | (c >> 6 * k & 0x3f)));
    }
  }
  return true;
}

class NpySource : public Source {
 public:
  NpySource(std::vector<std::string> names, std::vector<std::string> paths)
      : files_(std::move(paths)), names_(std::move(names)) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  std::vector<std::string> notes() const override;
  FeatureTypes types() const override;
  std::vector<std::string> built_notes() const override;
  void ForgetBuilt() override {
    MutexLock lock(mutex_);
    lossy_.clear();
  }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;

 private:
  struct Part {
    uint32_t file;
    uint64_t first_row;  // number of the first row in the array
    uint64_t data_offset;
  };
  // The files with one name.
  struct Array {
    std::string name;
    std::string descr;
    std::vector<uint64_t> row_shape;
    char kind;           // b, i, u, f, S or U, as in `descr`
    size_t value_bytes;  // 1, 2, 4 or 8; any size for S and U
    uint64_t row_values;
    bool raw;  // whether the row becomes one bytes value
    uint64_t num_rows = 0;
    std::vector<Part> parts;
    uint64_t row_bytes() const { return row_values * value_bytes; }
  };

  absl::StatusOr<Array> ArrayOf(uint32_t file, const NpyHeader& header) const;
  absl::Status ScanFile(uint32_t file);
  // Reads a row of an array and finds the part that it is in. The row is valid until the thread's
  // next call.
  absl::StatusOr<std::string_view> ReadRow(const Array& array, uint64_t row,
                                           const Part** part) const;
  absl::Status AddValues(const Array& array, const Part& part, uint64_t row, std::string_view bytes,
                         ExampleBuilder& builder) const;

  InputFiles files_;
  std::vector<std::string> names_;  // feature name of each file
  std::vector<std::shared_ptr<File>> open_;
  std::vector<Array> arrays_;  // arrays sorted by name
  uint64_t num_records_ = 0;
  // The values of an array of float64 that lost digits.
  struct Lossy {
    uint64_t count = 0;
    uint64_t row = UINT64_MAX;  // row of the first such value
    std::string first;          // "1e-50 in row 3 of a.npy"
  };
  mutable Mutex mutex_;
  mutable std::map<std::string, Lossy> lossy_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<NpySource::Array> NpySource::ArrayOf(uint32_t file, const NpyHeader& header) const {
  Array array;
  array.name = names_[file];
  array.descr = header.descr;
  const std::string_view descr = header.descr;
  const auto refuse = [&](std::string_view what) {
    return files_.Error(file, fmt::format("values of type {}: {}", Excerpt(descr), what));
  };
  const char order = descr.empty() ? '?' : descr[0];
  array.kind = descr.size() > 1 ? descr[1] : '?';
  uint64_t size = 0;
  for (char c : descr.substr(std::min<size_t>(2, descr.size()))) {
    if (c < '0' || c > '9' || size > kMaxValueBytes) {
      size = 0;
      break;
    }
    size = 10 * size + (c - '0');
  }
  if (array.kind == 'U') size *= 4;
  const bool number = (array.kind == 'b' && size == 1) ||
                      ((array.kind == 'i' || array.kind == 'u') &&
                       (size == 1 || size == 2 || size == 4 || size == 8)) ||
                      (array.kind == 'f' && (size == 2 || size == 4 || size == 8));
  const bool text = array.kind == 'S' || array.kind == 'U';
  if (array.kind == 'O') {
    return refuse("only Python can read Python objects; save an array of numbers or text");
  }
  if ((!number && !text) || (order != '<' && order != '|' && order != '>')) {
    return refuse("expected booleans, integers, floats up to 64 bits, or text of a fixed size");
  }
  if (order == '>' && size > 1) {
    return refuse("big-endian; save it with a.astype(a.dtype.newbyteorder('<'))");
  }
  if (header.shape.empty()) {
    return files_.Error(file, "a single value, not an array: it has no rows");
  }
  if (header.fortran_order && header.shape.size() > 1) {
    return files_.Error(file,
                        "the array is in Fortran order (columns first), so its rows are not "
                        "contiguous; save it with numpy.ascontiguousarray(a)");
  }
  array.value_bytes = size;
  array.row_shape.assign(header.shape.begin() + 1, header.shape.end());
  unsigned __int128 values = 1;
  for (uint64_t dimension : array.row_shape) {
    values = std::min<unsigned __int128>(values * dimension, UINT64_MAX);
  }
  if (values * std::max<uint64_t>(1, size) > kMaxValueBytes || values > kMaxValueBytes) {
    return files_.Error(file,
                        fmt::format("rows of {} values are too large: a record holds at most 2 GiB",
                                    fmt::join(array.row_shape, " x ")));
  }
  array.row_values = static_cast<uint64_t>(values);
  array.raw = array.kind == 'u' && size == 1 && array.row_shape.size() >= 2;
  return array;
}

absl::Status NpySource::ScanFile(uint32_t file) {
  absl::StatusOr<std::shared_ptr<File>> opened = File::Open(files_.path(file));
  if (!opened.ok()) return opened.status();
  const File& in = **opened;
  std::string start(std::min<uint64_t>(in.size(), kMaxNpyHeaderBytes), '\0');
  absl::StatusOr<size_t> n = in.ReadAt(0, absl::MakeSpan(start));
  if (!n.ok()) return n.status();
  if (const Codec codec = CodecOf(std::string_view(start).substr(0, *n)); codec != Codec::kNone) {
    return files_.Error(
        file, fmt::format("is compressed with {}, but rows are read in place; decompress it first "
                          "({} -d)",
                          CodecName(codec), CodecProgram(codec)));
  }
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(std::string_view(start).substr(0, *n));
  if (!header.ok()) return files_.Error(file, std::string(header.status().message()));
  absl::StatusOr<Array> array = ArrayOf(file, *header);
  if (!array.ok()) return array.status();

  const uint64_t num_rows = header->shape[0];
  const uint64_t there = in.size() - header->data_offset;
  const auto expected = static_cast<unsigned __int128>(num_rows) * array->row_bytes();
  if (expected != there) {
    return files_.Error(
        file, fmt::format("the header announces {} rows of {} bytes, but {} bytes follow it: {}",
                          num_rows, array->row_bytes(), there,
                          expected > there ? "the file is cut off" : "data follows the array"));
  }
  // Rows without values take no bytes, so the size of the file does not bound their number.
  if (array->row_bytes() == 0 && num_rows > in.size()) {
    return files_.Error(file, fmt::format("the header announces {} rows without values in a file "
                                          "of {} bytes",
                                          num_rows, in.size()));
  }
  auto it = std::find_if(arrays_.begin(), arrays_.end(),
                         [&](const Array& a) { return a.name == array->name; });
  if (it == arrays_.end()) {
    it = arrays_.insert(it, *std::move(array));
  } else if (it->descr != array->descr || it->row_shape != array->row_shape) {
    return files_.Error(
        file, fmt::format("expected rows of [{}] {} as in {}, which has the same name, got [{}] {}",
                          fmt::join(it->row_shape, ", "), it->descr, files_.path(it->parts[0].file),
                          fmt::join(array->row_shape, ", "), array->descr));
  }
  it->parts.push_back({file, it->num_rows, header->data_offset});
  if (num_rows > UINT64_MAX - it->num_rows) return files_.Error(file, "too many rows");
  it->num_rows += num_rows;
  open_.push_back(*std::move(opened));
  return absl::OkStatus();
}

absl::Status NpySource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  arrays_.clear();
  open_.clear();
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (absl::Status status = ScanFile(file); !status.ok()) return status;
    if (progress) progress(files_.bytes_before(file) + files_.file_bytes(file));
  }
  for (const Array& array : arrays_) {
    if (array.num_rows == arrays_[0].num_rows) continue;
    return files_.Error(
        array.parts[0].file,
        fmt::format("{} has {} rows, but {} has {}; all arrays need the same number of rows",
                    Excerpt(array.name), array.num_rows, Excerpt(arrays_[0].name),
                    arrays_[0].num_rows));
  }
  num_records_ = arrays_[0].num_rows;
  if (num_records_ == 0) return files_.Error(0, "no records: the array has no rows");
  std::sort(arrays_.begin(), arrays_.end(),
            [](const Array& a, const Array& b) { return a.name < b.name; });
  return absl::OkStatus();
}

std::vector<std::string> NpySource::notes() const {
  std::vector<std::string> notes;
  for (const Array& array : arrays_) {
    if (array.row_shape.size() > 1) {
      notes.push_back(fmt::format("{}: each row is {}{}", Excerpt(array.name),
                                  fmt::join(array.row_shape, " x "),
                                  array.raw ? " unsigned bytes, stored as one bytes value" : ""));
    }
    if (array.kind == 'f' && array.value_bytes == 8) {
      notes.push_back(fmt::format("{}: float64 became float32, the only float type of TFRecord",
                                  Excerpt(array.name)));
    }
  }
  return notes;
}

FeatureTypes NpySource::types() const {
  FeatureTypes types;
  for (const Array& array : arrays_) {
    if (array.raw || array.kind == 'S' || array.kind == 'U') continue;
    FeatureType& type = types[array.name];
    type.dtype = array.kind == 'b' ? std::string("bool")
                 : array.kind == 'f'
                     ? fmt::format("float{}", 8 * array.value_bytes)
                     : fmt::format("{}int{}", array.kind == 'u' ? "u" : "", 8 * array.value_bytes);
    type.shape.assign(array.row_shape.begin(), array.row_shape.end());
  }
  return types;
}

std::vector<std::string> NpySource::built_notes() const {
  std::vector<std::string> notes;
  MutexLock lock(mutex_);
  for (const auto& [name, lossy] : lossy_) {
    Cells cells;
    cells.count = lossy.count;
    notes.push_back(NoteOfLossyFloats(Excerpt(name), cells, lossy.first));
  }
  return notes;
}

absl::Status NpySource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  char number[kNumberBytes];
  for (uint64_t row = 0; row < num_records_; ++row) {
    StoreLittleEndian(row, number);
    Item item;
    item.bytes = {number, kNumberBytes};
    item.line = row + 1;
    if (absl::Status status = sink(item); !status.ok()) return status;
  }
  for (size_t file = 0; file < files_.size(); ++file) {
    if (absl::Status status = files_.CheckUnchanged(file); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status NpySource::AddValues(const Array& array, const Part& part, uint64_t row,
                                  std::string_view bytes, ExampleBuilder& builder) const {
  const size_t size = array.value_bytes;
  const char* const end = bytes.data() + bytes.size();
  const auto beyond = [&](std::string_view what) {
    return files_.Error(part.file, fmt::format("row {}: {}", row - part.first_row, what));
  };
  if (array.raw) {
    builder.AddBytes(array.name, bytes);
  } else if (array.kind == 'f') {
    thread_local std::vector<float> floats;
    floats.clear();
    uint64_t lossy = 0;
    double first_lossy = 0;
    for (const char* at = bytes.data(); at != end; at += size) {
      if (size == 2) {
        floats.push_back(HalfToFloat(LoadLittleEndian<uint16_t>(at)));
      } else if (size == 4) {
        floats.push_back(std::bit_cast<float>(LoadLittleEndian<uint32_t>(at)));
      } else {
        const double value = std::bit_cast<double>(LoadLittleEndian<uint64_t>(at));
        const std::optional<float> narrow = ToFloat(value);
        if (!narrow) return beyond(fmt::format("the value {} is outside of float32", value));
        floats.push_back(*narrow);
        if (!IsLossyAsFloat(value)) continue;
        if (++lossy == 1) first_lossy = value;
      }
    }
    if (lossy > 0) {
      MutexLock lock(mutex_);
      Lossy& all = lossy_[array.name];
      all.count += lossy;
      if (row < all.row) {
        all.row = row;
        all.first = fmt::format("{} in row {} of {}", first_lossy, row - part.first_row,
                                files_.path(part.file));
      }
    }
    builder.AddFloatList(array.name, floats);
  } else if (array.kind == 'S' || array.kind == 'U') {
    thread_local std::string utf8;
    thread_local std::vector<size_t> ends;
    thread_local std::vector<std::string_view> values;
    utf8.clear();
    ends.clear();
    values.clear();
    for (uint64_t i = 0; i < array.row_values; ++i) {
      std::string_view value = bytes.substr(i * size, size);
      if (array.kind == 'U') {
        if (!AppendUtf8(value, &utf8)) return beyond("text that is not Unicode");
        ends.push_back(utf8.size());
        continue;
      }
      while (value.ends_with('\0')) value.remove_suffix(1);
      values.push_back(value);
    }
    for (size_t i = 0; i < ends.size(); ++i) {
      const size_t begin = i == 0 ? 0 : ends[i - 1];
      values.push_back(std::string_view(utf8).substr(begin, ends[i] - begin));
    }
    builder.AddBytesList(array.name, values);
  } else {
    thread_local std::vector<int64_t> integers;
    integers.clear();
    const bool is_signed = array.kind == 'i';
    for (const char* at = bytes.data(); at != end; at += size) {
      int64_t value = 0;
      if (size == 1) {
        const auto byte = static_cast<uint8_t>(*at);
        value = is_signed           ? static_cast<int64_t>(static_cast<int8_t>(byte))
                : array.kind == 'b' ? byte != 0
                                    : byte;
      } else if (size == 2) {
        const auto word = LoadLittleEndian<uint16_t>(at);
        value = is_signed ? static_cast<int64_t>(static_cast<int16_t>(word)) : word;
      } else if (size == 4) {
        const auto word = LoadLittleEndian<uint32_t>(at);
        value = is_signed ? static_cast<int64_t>(static_cast<int32_t>(word)) : word;
      } else {
        const auto word = LoadLittleEndian<uint64_t>(at);
        if (!is_signed && word > INT64_MAX) {
          return beyond(fmt::format("the value {} is outside of int64", word));
        }
        value = static_cast<int64_t>(word);
      }
      integers.push_back(value);
    }
    builder.AddInt64List(array.name, integers);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> NpySource::ReadRow(const Array& array, uint64_t row,
                                                    const Part** part) const {
  thread_local std::string bytes;
  const auto after = std::upper_bound(array.parts.begin(), array.parts.end(), row,
                                      [](uint64_t r, const Part& p) { return r < p.first_row; });
  *part = &*(after - 1);
  bytes.resize(array.row_bytes());
  absl::StatusOr<size_t> n = open_[(*part)->file]->ReadAt(
      (*part)->data_offset + (row - (*part)->first_row) * array.row_bytes(), absl::MakeSpan(bytes));
  if (!n.ok()) return n.status();
  if (*n < bytes.size()) return files_.Changed((*part)->file);
  return std::string_view(bytes);
}

absl::Status NpySource::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  for (const Array& array : arrays_) {
    const Part* part;
    absl::StatusOr<std::string_view> bytes =
        ReadRow(array, LoadLittleEndian<uint64_t>(item.bytes.data()), &part);
    if (!bytes.ok()) return bytes.status();
    visit(*bytes);
  }
  return absl::OkStatus();
}

absl::Status NpySource::Build(const Item& item, ExampleBuilder& builder) const {
  const auto row = LoadLittleEndian<uint64_t>(item.bytes.data());
  for (const Array& array : arrays_) {
    const Part* part;
    absl::StatusOr<std::string_view> bytes = ReadRow(array, row, &part);
    if (!bytes.ok()) return bytes.status();
    absl::Status status = AddValues(array, *part, row, *bytes, builder);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeNpySource(std::vector<std::string> sources) {
  if (sources.empty()) return absl::InvalidArgumentError("expected .npy files, got none");
  std::vector<std::string> names;
  std::vector<std::string> paths;
  for (std::string& source : sources) {
    std::string path = std::move(source);
    std::string name;
    struct stat stat;
    const size_t equals = path.find('=');
    if (equals != path.npos && ::stat(path.c_str(), &stat) != 0) {
      name = path.substr(0, equals);
      path.erase(0, equals + 1);
    } else {
      name = path.substr(path.rfind('/') + 1);
      if (name.ends_with(".npy")) name.resize(name.size() - 4);
    }
    if (name.empty() || !IsUtf8(name)) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {} cannot name a feature; give it a name, as in x={}", path, Excerpt(name), path));
    }
    names.push_back(std::move(name));
    paths.push_back(std::move(path));
  }
  return std::make_unique<NpySource>(std::move(names), std::move(paths));
}

}  // namespace shardfeed
