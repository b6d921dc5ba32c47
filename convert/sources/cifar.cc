#include "convert/sources/cifar.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/binary_reader.h"
#include "convert/input/checked_files.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

constexpr size_t kSide = 32;
constexpr size_t kPlane = kSide * kSide;

class CifarSource : public Source {
 public:
  CifarSource(std::vector<std::string> paths, CifarOptions options)
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
  size_t num_labels() const { return variant_ == 100 ? 2 : 1; }
  size_t record_bytes() const { return num_labels() + 3 * kPlane; }
  absl::Status FindVariant(const std::vector<uint64_t>& sizes);

  InputFiles files_;
  const CifarOptions options_;
  int variant_ = 10;
  std::vector<uint64_t> records_of_file_;
  uint64_t num_records_ = 0;
};

absl::Status CifarSource::FindVariant(const std::vector<uint64_t>& sizes) {
  bool fits10 = true;
  bool fits100 = true;
  for (uint64_t size : sizes) {
    fits10 = fits10 && size % (1 + 3 * kPlane) == 0;
    fits100 = fits100 && size % (2 + 3 * kPlane) == 0;
  }
  variant_ = options_.variant != 0 ? options_.variant : fits100 && !fits10 ? 100 : 10;
  if (options_.variant == 0 && fits10 && fits100) {
    return WithRemedy(files_.Error(0, "the sizes fit both CIFAR-10 and CIFAR-100"),
                      {"variant", "N", "choose one"});
  }
  for (size_t file = 0; file < sizes.size(); ++file) {
    const uint64_t over = sizes[file] % record_bytes();
    if (over == 0) continue;
    if (options_.variant == 0) {
      return files_.Error(file,
                          fmt::format("expected a multiple of 3073 bytes (CIFAR-10) or 3074 bytes "
                                      "(CIFAR-100), got {}; the file must be a complete binary "
                                      "batch (*.bin)",
                                      sizes[file]));
    }
    return files_.Error(file,
                        fmt::format("expected a multiple of {} bytes (CIFAR-{}), got {}: the last "
                                    "record, at byte {}, is cut off",
                                    record_bytes(), variant_, sizes[file], sizes[file] - over));
  }
  return absl::OkStatus();
}

absl::Status CifarSource::Scan(std::stop_token stop,
                               const std::function<void(uint64_t bytes)>& progress) {
  records_of_file_.clear();
  num_records_ = 0;
  if (absl::Status status = files_.Stat(); !status.ok()) return status;
  std::vector<uint64_t> sizes;
  for (size_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<BinaryReader>> reader = BinaryReader::Open(
        files_.path(file), [&, before = files_.bytes_before(file)](uint64_t offset) {
          if (progress) progress(before + offset);
          return stop.stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
        });
    if (!reader.ok()) return reader.status();
    absl::StatusOr<uint64_t> size = (*reader)->Skip(UINT64_MAX);
    if (!size.ok()) return size.status();
    sizes.push_back(*size);
  }
  if (absl::Status status = FindVariant(sizes); !status.ok()) return status;
  for (uint64_t size : sizes) {
    records_of_file_.push_back(size / record_bytes());
    num_records_ += records_of_file_.back();
  }
  if (num_records_ == 0) return files_.Error(0, "no records: the file is empty");
  return absl::OkStatus();
}

absl::Status CifarSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  for (uint32_t file = 0; file < files_.size(); ++file) {
    absl::StatusOr<std::unique_ptr<BinaryReader>> reader = BinaryReader::Open(files_.path(file));
    if (!reader.ok()) return reader.status();
    for (uint64_t i = 0; i < records_of_file_[file]; ++i) {
      absl::StatusOr<std::string_view> bytes = (*reader)->Read(record_bytes());
      if (!bytes.ok()) return bytes.status();
      if (bytes->size() < record_bytes()) return files_.Changed(file);
      Item item;
      item.bytes = *bytes;
      item.file = file;
      item.line = i + 1;
      if (absl::Status status = sink(item); !status.ok()) return status;
    }
    if (absl::Status status = files_.CheckUnchanged(file); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CifarSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local std::string pixels;
  const auto label = static_cast<uint8_t>(item.bytes[num_labels() - 1]);
  const auto coarse = static_cast<uint8_t>(item.bytes[0]);
  if (label >= variant_ || (variant_ == 100 && coarse >= 20)) {
    return files_.Error(
        item.file, fmt::format("record {} at byte {}: the {} {} is out of range; the file must be "
                               "of the binary version of CIFAR-{}",
                               item.line - 1, (item.line - 1) * record_bytes(),
                               label >= variant_ ? "label" : "coarse label",
                               label >= variant_ ? label : coarse, variant_));
  }
  pixels.resize(3 * kPlane);
  const char* const planes = item.bytes.data() + num_labels();
  for (size_t i = 0; i < kPlane; ++i) {
    for (size_t channel = 0; channel < 3; ++channel) {
      pixels[3 * i + channel] = planes[channel * kPlane + i];
    }
  }
  builder.AddInt64("image/channels", 3);
  if (variant_ == 100) builder.AddInt64("image/class/coarse_label", coarse);
  builder.AddInt64("image/class/label", label);
  if (options_.classes) {
    const std::optional<std::string_view> name = options_.classes->NameOf(label);
    if (!name) {
      return files_.Error(item.file, fmt::format("label {} of record {} is not in {}", label,
                                                 item.line - 1, options_.classes->path()));
    }
    builder.AddBytes("image/class/text", *name);
  }
  builder.AddInt64("image/height", kSide);
  builder.AddBorrowedBytes("image/raw", pixels);
  builder.AddInt64("image/width", kSide);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeCifarSource(std::vector<std::string> paths,
                                                        CifarOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected CIFAR files, got none");
  if (options.variant != 0 && options.variant != 10 && options.variant != 100) {
    return absl::InvalidArgumentError(
        fmt::format("expected variant 10 or 100, got {}", options.variant));
  }
  return std::make_unique<CifarSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
