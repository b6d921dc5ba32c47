#include "convert/sources/idx.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/input/binary_reader.h"
#include "convert/input/checked_files.h"
#include "convert/input/whole_file.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

constexpr size_t kLabelBytes = 8;  // size of the label in an item's bytes

// Returns the size of one value in bytes, or 0 if `type` is not a type of IDX.
int ValueBytes(uint8_t type) {
  switch (type) {
    case 0x08:
    case 0x09:
      return 1;
    case 0x0b:
      return 2;
    case 0x0c:
    case 0x0d:
      return 4;
    case 0x0e:
      return 8;
    default:
      return 0;
  }
}

std::string_view TypeName(uint8_t type) {
  switch (type) {
    case 0x08:
      return "unsigned byte";
    case 0x09:
      return "signed byte";
    case 0x0b:
      return "int16";
    case 0x0c:
      return "int32";
    case 0x0d:
      return "float32";
    case 0x0e:
      return "float64";
    default:
      return "unknown";
  }
}

uint32_t LoadBigEndian32(const char* from) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(from[i]);
  return value;
}

// Loads a big-endian integer of the given type, which is signed unless `type` is 0x08.
int64_t LoadLabel(const char* from, uint8_t type) {
  if (type == 0x08) return static_cast<uint8_t>(*from);
  int64_t value = static_cast<int8_t>(*from);
  for (int i = 1; i < ValueBytes(type); ++i) value = value * 256 + static_cast<uint8_t>(from[i]);
  return value;
}

class IdxSource : public Source {
 public:
  IdxSource(std::vector<std::string> paths, IdxOptions options)
      : files_(std::move(paths)), options_(std::move(options)) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  FeatureClasses classes() const override {
    if (!options_.classes) return {};
    return {{std::string(kClassLabel), options_.classes->classes()}};
  }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;

 private:
  struct Array {
    uint8_t type = 0;
    std::vector<uint32_t> dimensions;
    uint64_t value_bytes = 0;  // size of the values of one record
    uint64_t count() const { return dimensions[0]; }
  };
  // A file of images and the file of their labels.
  struct Set {
    uint32_t images;
    std::optional<uint32_t> labels;
  };

  absl::StatusOr<Array> ReadHeader(uint32_t file, BinaryReader& reader) const;
  absl::Status ScanFile(uint32_t file, BinaryReader& reader);
  absl::Status FindSets();
  absl::StatusOr<std::string_view> NextRecord(uint32_t file, BinaryReader& reader) const;

  InputFiles files_;
  const IdxOptions options_;
  std::vector<Array> arrays_;  // one array per file
  std::vector<Set> sets_;
  uint64_t num_records_ = 0;
};

absl::StatusOr<IdxSource::Array> IdxSource::ReadHeader(uint32_t file, BinaryReader& reader) const {
  absl::StatusOr<std::string_view> head = reader.Read(4);
  if (!head.ok()) return head.status();
  const auto type = static_cast<uint8_t>(head->size() == 4 ? (*head)[2] : 0);
  if (head->size() < 4 || (*head)[0] != 0 || (*head)[1] != 0 || ValueBytes(type) == 0) {
    return files_.Error(
        file,
        fmt::format("not an IDX file: expected two zero bytes, a type and the number of dimensions "
                    "at its start, got {}",
                    Excerpt(*head)));
  }
  Array array;
  array.type = type;
  const size_t num_dimensions = static_cast<uint8_t>((*head)[3]);
  absl::StatusOr<std::string_view> sizes = reader.Read(4 * num_dimensions);
  if (!sizes.ok()) return sizes.status();
  if (sizes->size() < 4 * num_dimensions) {
    return files_.Error(file, fmt::format("the file ends at byte {}, inside its header of {} "
                                          "dimensions",
                                          reader.offset(), num_dimensions));
  }
  for (size_t i = 0; i < num_dimensions; ++i) {
    array.dimensions.push_back(LoadBigEndian32(sizes->data() + 4 * i));
  }
  const bool images = type == 0x08 && (num_dimensions == 3 || num_dimensions == 4);
  const bool labels = type <= 0x0c && num_dimensions == 1;
  if (!images && !labels) {
    return files_.Error(
        file, fmt::format("expected images (unsigned bytes in 3 or 4 dimensions) or labels "
                          "(integers in 1 dimension), got {} values in {} dimensions",
                          TypeName(type), num_dimensions));
  }
  unsigned __int128 bytes = ValueBytes(type);
  for (size_t i = 1; i < num_dimensions; ++i) bytes *= array.dimensions[i];
  if (bytes == 0) {
    return files_.Error(
        file, fmt::format("images of size {} are empty",
                          fmt::join(array.dimensions.begin() + 1, array.dimensions.end(), " x ")));
  }
  if (bytes > kMaxValueBytes) {
    return files_.Error(
        file, fmt::format("images of size {} are too large: a record holds at most 2 GiB",
                          fmt::join(array.dimensions.begin() + 1, array.dimensions.end(), " x ")));
  }
  array.value_bytes = static_cast<uint64_t>(bytes);
  return array;
}

absl::Status IdxSource::ScanFile(uint32_t file, BinaryReader& reader) {
  absl::StatusOr<Array> array = ReadHeader(file, reader);
  if (!array.ok()) return array.status();
  const uint64_t begin = reader.offset();
  const uint64_t expected = array->count() * array->value_bytes;
  absl::StatusOr<uint64_t> there = reader.Skip(expected);
  if (!there.ok()) return there.status();
  if (*there < expected) {
    return files_.Error(
        file, fmt::format("the header announces {} records of {} bytes, {} bytes in total, but the "
                          "file ends at byte {}{}, {} bytes too early; get the file again",
                          array->count(), array->value_bytes, begin + expected, begin + *there,
                          reader.content_name(), expected - *there));
  }
  absl::StatusOr<std::string_view> more = reader.Read(1);
  if (!more.ok()) return more.status();
  if (!more->empty()) {
    return files_.Error(
        file,
        fmt::format("the header announces {} records of {} bytes, which end at byte {}{}, but more "
                    "data follows; the header or the file is wrong",
                    array->count(), array->value_bytes, begin + expected, reader.content_name()));
  }
  arrays_.push_back(*std::move(array));
  return absl::OkStatus();
}

absl::Status IdxSource::FindSets() {
  std::vector<uint32_t> labels;
  for (uint32_t file = 0; file < arrays_.size(); ++file) {
    if (arrays_[file].dimensions.size() == 1) {
      labels.push_back(file);
    } else {
      sets_.push_back({file, std::nullopt});
    }
  }
  if (sets_.empty()) {
    return files_.Error(0, "a file of labels without a file of images");
  }
  if (!labels.empty() && labels.size() != sets_.size()) {
    return absl::DataLossError(
        fmt::format("{}: expected one file of labels for each file of images, got {} files of "
                    "images and {} of labels",
                    files_.path(0), sets_.size(), labels.size()));
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    sets_[i].labels = labels[i];
    if (arrays_[labels[i]].count() == arrays_[sets_[i].images].count()) continue;
    return files_.Error(
        sets_[i].images,
        fmt::format("{} images, but {} holds {} labels", arrays_[sets_[i].images].count(),
                    files_.path(labels[i]), arrays_[labels[i]].count()));
  }
  return absl::OkStatus();
}

absl::Status IdxSource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  arrays_.clear();
  sets_.clear();
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<BinaryReader>> reader = BinaryReader::Open(
        files_.path(file), [&, before = files_.bytes_before(file)](uint64_t offset) {
          if (progress) progress(before + offset);
          return stop.stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
        });
    if (!reader.ok()) return reader.status();
    if (absl::Status status = ScanFile(file, **reader); !status.ok()) return status;
  }
  if (absl::Status status = FindSets(); !status.ok()) return status;
  for (const Set& set : sets_) num_records_ += arrays_[set.images].count();
  if (num_records_ == 0) return files_.Error(sets_[0].images, "no records: 0 images");
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> IdxSource::NextRecord(uint32_t file, BinaryReader& reader) const {
  absl::StatusOr<std::string_view> value = reader.Read(arrays_[file].value_bytes);
  if (value.ok() && value->size() < arrays_[file].value_bytes) return files_.Changed(file);
  return value;
}

absl::Status IdxSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::string bytes;
  const auto open = [&](uint32_t file) -> absl::StatusOr<std::unique_ptr<BinaryReader>> {
    absl::StatusOr<std::unique_ptr<BinaryReader>> reader = BinaryReader::Open(files_.path(file));
    if (!reader.ok()) return reader;
    absl::StatusOr<Array> array = ReadHeader(file, **reader);
    if (!array.ok()) return array.status();
    if (array->dimensions != arrays_[file].dimensions) return files_.Changed(file);
    return reader;
  };
  for (const Set& set : sets_) {
    absl::StatusOr<std::unique_ptr<BinaryReader>> images = open(set.images);
    if (!images.ok()) return images.status();
    std::unique_ptr<BinaryReader> labels;
    if (set.labels) {
      absl::StatusOr<std::unique_ptr<BinaryReader>> opened = open(*set.labels);
      if (!opened.ok()) return opened.status();
      labels = *std::move(opened);
    }
    for (uint64_t i = 0; i < arrays_[set.images].count(); ++i) {
      int64_t label = 0;
      if (labels != nullptr) {
        absl::StatusOr<std::string_view> value = NextRecord(*set.labels, *labels);
        if (!value.ok()) return value.status();
        label = LoadLabel(value->data(), arrays_[*set.labels].type);
      }
      bytes.resize(kLabelBytes);
      std::memcpy(bytes.data(), &label, sizeof(label));
      absl::StatusOr<std::string_view> image = NextRecord(set.images, **images);
      if (!image.ok()) return image.status();
      bytes += *image;
      Item item;
      item.bytes = bytes;
      item.file = static_cast<uint32_t>(&set - sets_.data());
      item.line = i + 1;
      if (absl::Status status = sink(item); !status.ok()) return status;
    }
    for (const std::optional<uint32_t> file : {std::optional(set.images), set.labels}) {
      if (!file) continue;
      if (absl::Status status = files_.CheckUnchanged(*file); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status IdxSource::Build(const Item& item, ExampleBuilder& builder) const {
  const Set& set = sets_[item.file];
  const Array& array = arrays_[set.images];
  int64_t label;
  std::memcpy(&label, item.bytes.data(), sizeof(label));
  builder.AddInt64("image/channels", array.dimensions.size() == 4 ? array.dimensions[3] : 1);
  if (set.labels) {
    builder.AddInt64("image/class/label", label);
    if (options_.classes) {
      const std::optional<std::string_view> name = options_.classes->NameOf(label);
      if (!name) {
        return files_.Error(*set.labels, fmt::format("label {} of record {} is not in {}", label,
                                                     item.line - 1, options_.classes->path()));
      }
      builder.AddBytes("image/class/text", *name);
    }
  }
  builder.AddInt64("image/height", array.dimensions[1]);
  builder.AddBorrowedBytes("image/raw", item.bytes.substr(kLabelBytes));
  builder.AddInt64("image/width", array.dimensions[2]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeIdxSource(std::vector<std::string> paths,
                                                      IdxOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected IDX files, got none");
  return std::make_unique<IdxSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
