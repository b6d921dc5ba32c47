#include "pipeline/rows/decode_image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/data/work_stop.h"

namespace shardfeed {
namespace {

ImageBox CenterCrop(ImageSize size, uint32_t width, uint32_t height, double fraction) {
  const double scale =
      fraction * std::min(double{1} * size.width / width, double{1} * size.height / height);
  ImageBox box;
  box.width = std::clamp<uint32_t>(std::lround(width * scale), 1, size.width);
  box.height = std::clamp<uint32_t>(std::lround(height * scale), 1, size.height);
  box.x = (size.width - box.width) / 2;
  box.y = (size.height - box.height) / 2;
  return box;
}

class NoMemory : public StepMemory {
 public:
  const VariableColumn* variable(size_t) const override { return nullptr; }
  void Truncate(size_t) override {}
};

class DecodeImageStep : public RowStep {
 public:
  DecodeImageStep(const std::string& feature, std::string output, const DecodeImageOptions& options)
      : feature_(feature), options_(options) {
    const ImageOptions& image = options_.image;
    const int64_t height = image.height;
    const int64_t width = image.width;
    const int64_t channels = image.channels;
    std::vector<int64_t> shape = {height, width, channels};
    if (image.layout == PixelLayout::kChw) shape = {channels, height, width};
    const std::string valid = output + "/valid";
    outputs_.push_back({std::move(output), image.dtype, std::move(shape), false});
    if (options_.on_damage == OnDamage::kReplace || options_.on_damage == OnDamage::kZero) {
      outputs_.push_back({valid, DType::kUInt8, {}, false});
    }
    drops_ = {feature};
  }

  std::string name() const override { return "decode_image"; }
  bool replaces() const override { return options_.on_damage == OnDamage::kReplace; }
  int valid_output() const override { return outputs_.size() > 1 ? 1 : -1; }
  std::unique_ptr<StepMemory> MakeMemory() const override { return std::make_unique<NoMemory>(); }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory*) const override {
    // The dataset has checked that the column exists and holds bytes.
    const Slot* encoded = nullptr;
    for (int slot : visible) {
      if (range->slots[slot].spec->name == feature_) encoded = &range->slots[slot];
    }
    const auto* images = reinterpret_cast<const std::string_view*>(encoded->data);
    char* const pixels = range->slots[first_output].data;
    char* const valid = outputs_.size() > 1 ? range->slots[first_output + 1].data : nullptr;
    std::unique_ptr<ImageDecoder> decoder = Take();
    absl::Status status;
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = range->from; row < range->end; ++row) {
      range->failed_row = row;
      if (stop.stop_requested()) {
        status = absl::CancelledError();
        break;
      }
      uint8_t& keep = range->keep[row - range->begin];
      if (!keep) continue;
      char* const out = pixels + row * decoder->result_bytes();
      status = DecodeRow(*range->input, row, images[row], *decoder, out);
      if (valid != nullptr) valid[row] = status.ok();
      if (status.ok()) continue;
      if (valid == nullptr) break;
      status = absl::OkStatus();
      std::memset(out, 0, decoder->result_bytes());
      if (options_.on_damage == OnDamage::kReplace) keep = RowRange::kReplace;
    }
    Return(std::move(decoder));
    return status;
  }

 private:
  absl::Status DecodeRow(const Batch& batch, size_t row, std::string_view image,
                         ImageDecoder& decoder, void* out) const {
    const absl::StatusOr<ImageSize> size = decoder.Open(image);
    absl::Status status = size.status();
    if (status.ok()) {
      ImageBox box = {0, 0, size->width, size->height};
      bool flip = false;
      if (options_.crop == CropKind::kCenter) {
        box = CenterCrop(*size, options_.image.width, options_.image.height,
                         options_.center_fraction);
      }
      if (options_.crop == CropKind::kRandom || options_.flip > 0) {
        RowOrigin origin;
        if (!batch.OriginOf(row, &origin)) origin.position = row;
        Random random = RandomOf(StreamSeed(RandomStream::kDecodeImage, options_.seed), origin);
        if (options_.crop == CropKind::kRandom) {
          box = RandomResizedCrop(*size, options_.scale, options_.ratio, random);
        }
        flip = random.Uniform() < options_.flip;
      }
      status = decoder.Decode(box, flip, out);
    }
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        fmt::format("feature '{}': {}", feature_, std::string(status.message())));
  }

  // A decoder holds memory for an image, so there are as many as threads that run at once, not as
  // many as ranges that wait for their batch.
  std::unique_ptr<ImageDecoder> Take() const {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<ImageDecoder> decoder = std::move(idle_.back());
        idle_.pop_back();
        return decoder;
      }
    }
    return std::make_unique<ImageDecoder>(options_.image);
  }
  void Return(std::unique_ptr<ImageDecoder> decoder) const {
    constexpr size_t kMaxKept = 64 << 20;  // memory kept after a huge image
    if (decoder->kept_bytes() > kMaxKept) return;
    MutexLock lock(mutex_);
    idle_.push_back(std::move(decoder));
  }

  const std::string feature_;
  const DecodeImageOptions options_;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<ImageDecoder>> idle_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Check(const DecodeImageOptions& options) {
  absl::Status status = CheckImageOptions(options.image);
  if (!status.ok()) return status;
  if (!(options.scale[0] > 0 && options.scale[0] <= options.scale[1])) {
    return absl::InvalidArgumentError(fmt::format(
        "scale must be two positive fractions of the area in ascending order, got ({}, {})",
        options.scale[0], options.scale[1]));
  }
  if (!(options.ratio[0] > 0 && options.ratio[0] <= options.ratio[1])) {
    return absl::InvalidArgumentError(
        fmt::format("ratio must be two positive aspect ratios in ascending order, got ({}, {})",
                    options.ratio[0], options.ratio[1]));
  }
  if (!(options.center_fraction > 0 && options.center_fraction <= 1)) {
    return absl::InvalidArgumentError(fmt::format(
        "center_fraction must be above 0 and at most 1, got {}", options.center_fraction));
  }
  if (!(options.flip >= 0 && options.flip <= 1)) {
    return absl::InvalidArgumentError(
        fmt::format("flip must be from 0 to 1, got {}", options.flip));
  }
  return absl::OkStatus();
}

}  // namespace

ImageBox RandomResizedCrop(ImageSize size, const double (&scale)[2], const double (&ratio)[2],
                           Random& random) {
  const double area = double{1} * size.width * size.height;
  const double log_ratio[2] = {std::log(ratio[0]), std::log(ratio[1])};
  ImageBox box;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * (scale[0] + (scale[1] - scale[0]) * random.Uniform());
    const double shape = std::exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * random.Uniform());
    const double width = std::nearbyint(std::sqrt(target * shape));
    const double height = std::nearbyint(std::sqrt(target / shape));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    box.width = static_cast<uint32_t>(width);
    box.height = static_cast<uint32_t>(height);
    box.x = static_cast<uint32_t>(random.Below(size.width - box.width + 1));
    box.y = static_cast<uint32_t>(random.Below(size.height - box.height + 1));
    return box;
  }
  box.width = size.width;
  box.height = size.height;
  const double shape = double{1} * size.width / size.height;
  if (shape < ratio[0]) {
    box.height = static_cast<uint32_t>(std::nearbyint(size.width / ratio[0]));
  } else if (shape > ratio[1]) {
    box.width = static_cast<uint32_t>(std::nearbyint(size.height * ratio[1]));
  }
  box.width = std::clamp<uint32_t>(box.width, 1, size.width);
  box.height = std::clamp<uint32_t>(box.height, 1, size.height);
  box.x = (size.width - box.width) / 2;
  box.y = (size.height - box.height) / 2;
  return box;
}

absl::StatusOr<std::shared_ptr<const RowStep>> MakeDecodeImageStep(
    const std::string& feature, const DecodeImageOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("decode_image: {}", std::string(status.message())));
  }
  DecodeImageOptions checked = options;
  checked.image.jpeg.accept_damaged = options.on_damage == OnDamage::kAccept;
  std::string output = options.output;
  constexpr std::string_view kEncoded = "/encoded";
  if (output.empty()) {
    output = feature;
    if (output.size() > kEncoded.size() && output.ends_with(kEncoded)) {
      output.resize(output.size() - kEncoded.size());
    }
  }
  return std::make_shared<const DecodeImageStep>(feature, std::move(output), checked);
}

std::string DecodeImageText(const std::string& feature, const DecodeImageOptions& options) {
  const ImageOptions& image = options.image;
  const DecodeImageOptions defaults;
  std::string text = fmt::format("{}, {}x{}", feature, image.height, image.width);
  const auto add = [&](std::string_view name, const auto& value, const auto& otherwise) {
    if (value != otherwise) text += fmt::format(", {}={}", name, value);
  };
  if (options.crop == CropKind::kCenter) {
    text += fmt::format(", crop=center({})", options.center_fraction);
  } else if (options.crop == CropKind::kRandom) {
    text += fmt::format(", crop=random({}..{}, {:.6}..{:.6})", options.scale[0], options.scale[1],
                        options.ratio[0], options.ratio[1]);
  }
  constexpr std::string_view kInterpolations[] = {"nearest", "bilinear", "bicubic", "area"};
  constexpr std::string_view kOnDamage[] = {"fail", "replace", "zero", "accept"};
  add("flip", options.flip, 0.0);
  add("seed", options.seed, uint64_t{0});
  add("raw", image.raw, false);
  add("channels", image.channels, 3);
  add("interpolation", kInterpolations[static_cast<int>(image.interpolation)], "bilinear");
  add("antialias", image.antialias, true);
  add("layout", std::string_view(image.layout == PixelLayout::kHwc ? "NHWC" : "NCHW"), "NHWC");
  add("dtype", DTypeName(image.dtype), "uint8");
  add("mean", image.mean, std::vector<float>());
  add("std", image.std, std::vector<float>());
  add("orient", image.orient, false);
  add("dct_scaling", image.dct_scaling, true);
  add("on_damage", kOnDamage[static_cast<int>(options.on_damage)], "fail");
  add("max_pixels", image.jpeg.max_pixels, defaults.image.jpeg.max_pixels);
  add("max_scans", image.jpeg.max_scans, defaults.image.jpeg.max_scans);
  add("output", options.output, std::string());
  return text;
}

}  // namespace shardfeed
