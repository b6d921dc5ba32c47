#include "pipeline/rows/decode_image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/remedy.h"
#include "media/image_limit.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/rows/boxes_and_points.h"
#include "pipeline/rows/joint_columns.h"

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

// The part of an image that becomes the result: `box` of the image or, if that is resized first, of
// what it is resized to.
struct Part {
  ImageBox box;
  std::optional<ImageSize> resized;
  bool flip = false;
};

// torchvision's Resize(shorter) and CenterCrop.
Part ResizedCenter(ImageSize size, const ImageOptions& image, uint32_t shorter) {
  const bool upright = size.width <= size.height;
  const uint64_t longer =
      uint64_t{shorter} * std::max(size.width, size.height) / std::min(size.width, size.height);
  ImageSize resized = {shorter, static_cast<uint32_t>(longer)};
  if (!upright) std::swap(resized.width, resized.height);
  const auto begin = [](uint32_t all, uint32_t part) {
    return static_cast<uint32_t>(std::nearbyint((all - part) / 2.0));
  };
  return {.box = {begin(resized.width, image.width), begin(resized.height, image.height),
                  image.width, image.height},
          .resized = resized};
}

ImageChange ChangeOf(ImageSize size, const Part& part, const ImageOptions& image) {
  const double width = image.width;
  const double height = image.height;
  double scale_x = width / part.box.width;
  double scale_y = height / part.box.height;
  double x = part.box.x * scale_x;
  double y = part.box.y * scale_y;
  if (part.resized) {
    scale_x = double{1} * part.resized->width / size.width;
    scale_y = double{1} * part.resized->height / size.height;
    x = part.box.x;
    y = part.box.y;
  }
  Projection projection = Projection::ScaleAndShift(scale_x, -x, scale_y, -y);
  if (part.flip) projection = projection.Then(Projection::ScaleAndShift(-1, width, 1, 0));
  return {projection, double{1} * size.width, double{1} * size.height, width, height};
}

// The options of masks: their values are not changed.
ImageOptions MaskOptions(ImageOptions image) {
  image.raw = true;
  image.channels = 1;
  image.interpolation = Interpolation::kNearest;
  image.dtype = DType::kUInt8;
  image.layout = ImageLayout::kNHWC;
  image.mean.clear();
  image.std.clear();
  return image;
}

// The name of the column of pixels.
std::string DecodedName(const std::string& feature) {
  constexpr std::string_view kEncoded = "/encoded";
  if (feature.size() <= kEncoded.size() || !feature.ends_with(kEncoded)) return feature;
  return feature.substr(0, feature.size() - kEncoded.size());
}

class DecodeImageMemory : public StepMemory {
 public:
  DecodeImageMemory(BoxesAndPoints::Memory boxes, size_t first_box_output)
      : boxes(std::move(boxes)), first_box_output_(first_box_output) {}

  const VariableColumn* variable(size_t output) const override {
    return &boxes.columns[output - first_box_output_];
  }
  void Truncate(size_t rows) override {
    for (VariableColumn& column : boxes.columns) {
      column.Truncate(std::min(rows, column.num_rows()));
    }
  }

  BoxesAndPoints::Memory boxes;

 private:
  const size_t first_box_output_;
};

// Whether a row with this error is one that on_damage is about. A library or memory that is missing
// here is no damage of the image, nor are options that ask for other samples than it stores: every
// image of its kind would fail.
bool IsDamage(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return IsImageLimit(status);
  return !absl::IsFailedPrecondition(status) && !absl::IsInvalidArgument(status);
}

class DecodeImageStep : public RowStep {
 public:
  // The outputs are: the image, OUTPUT/valid (if damage does not end the run), views, masks, boxes
  // and points.
  DecodeImageStep(const std::string& feature, const DecodeImageOptions& options,
                  BoxesAndPoints boxes)
      : feature_(feature), options_(options), boxes_(std::move(boxes)) {
    const ImageOptions& image = options_.image;
    const int64_t height = image.height;
    const int64_t width = image.width;
    const int64_t channels = image.channels;
    std::vector<int64_t> shape = {height, width, channels};
    if (image.layout == ImageLayout::kNCHW) shape = {channels, height, width};
    std::string output = options_.output.empty() ? DecodedName(feature) : options_.output;
    const std::string valid = output + "/valid";
    outputs_.push_back({std::move(output), image.dtype, shape, false});
    if (options_.on_damage == OnDamage::kReplace || options_.on_damage == OnDamage::kZero) {
      outputs_.push_back({valid, DType::kUInt8, {}, false});
    }
    images_.emplace_back(feature, 0);
    for (const std::string& view : options_.joint.views) {
      images_.emplace_back(view, outputs_.size());
      outputs_.push_back({DecodedName(view), image.dtype, shape, false});
    }
    num_views_ = images_.size();
    for (const std::string& mask : options_.joint.masks) {
      images_.emplace_back(mask, outputs_.size());
      outputs_.push_back({DecodedName(mask), DType::kUInt8, {height, width}, false});
    }
    first_box_output_ = outputs_.size();
    outputs_.insert(outputs_.end(), boxes_.outputs().begin(), boxes_.outputs().end());
    for (const auto& [name, number] : images_) drops_.push_back(name);
  }

  std::string name() const override { return "decode_image"; }
  bool replaces() const override { return options_.on_damage == OnDamage::kReplace; }
  int valid_output() const override {
    return options_.on_damage == OnDamage::kReplace || options_.on_damage == OnDamage::kZero ? 1
                                                                                             : -1;
  }
  std::unique_ptr<StepMemory> MakeMemory() const override {
    return std::make_unique<DecodeImageMemory>(boxes_.MakeMemory(), first_box_output_);
  }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    BoxesAndPoints::Memory* const boxes = &static_cast<DecodeImageMemory*>(memory)->boxes;
    std::vector<Encoded> images;
    for (const auto& [name, output] : images_) {
      // The dataset has checked that the column exists and holds bytes.
      for (int slot : visible) {
        const Slot& s = range->slots[slot];
        if (s.spec->name == name) {
          images.push_back({reinterpret_cast<const std::string_view*>(s.data),
                            range->slots[first_output + output].data, outputs_[output].bytes()});
        }
      }
    }
    char* const valid = valid_output() < 0 ? nullptr : range->slots[first_output + 1].data;
    Decoders decoders = Take();
    absl::Status status;
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = range->from; row < range->end; ++row) {
      range->failed_row = row;
      if (stop.stop_requested()) {
        status = absl::CancelledError();
        break;
      }
      uint8_t& keep = range->keep[row - range->begin];
      if (keep) {
        const BoxesAndPoints::Row at = {*range, row, visible, first_output + first_box_output_};
        ImageChange change;
        status = DecodeRow(*range->input, row, images, decoders, &change);
        if (valid != nullptr) valid[row] = status.ok();
        if (status.ok()) {
          status = boxes_.Run(at, change, boxes);
          if (!status.ok()) break;
        } else {
          if (valid == nullptr || !IsDamage(status)) break;
          status = absl::OkStatus();
          for (const Encoded& image : images) {
            std::memset(image.out + row * image.bytes, 0, image.bytes);
          }
          boxes_.Clear(at);
          range->invalid[row - range->begin] = 1;
          if (options_.on_damage == OnDamage::kReplace) keep = RowRange::kReplace;
        }
      }
      boxes_.EndRow(boxes);
    }
    Return(std::move(decoders));
    return status;
  }

 private:
  // A column of encoded images, and where their pixels go: `bytes` for each row.
  struct Encoded {
    const std::string_view* rows;
    char* out;
    size_t bytes;
  };
  struct Decoders {
    std::unique_ptr<ImageDecoder> images;
    std::unique_ptr<ImageDecoder> masks;  // null: there are none
  };

  absl::Status DecodeRow(const Batch& batch, size_t row, const std::vector<Encoded>& images,
                         const Decoders& decoders, ImageChange* change) const {
    ImageSize first;
    Part part;
    for (size_t i = 0; i < images.size(); ++i) {
      ImageDecoder& decoder = i < num_views_ ? *decoders.images : *decoders.masks;
      const absl::StatusOr<ImageSize> size = decoder.Open(images[i].rows[row]);
      absl::Status status = size.status();
      if (status.ok() && i == 0) {
        first = *size;
        part = Choose(batch, row, first);
        *change = ChangeOf(first, part, options_.image);
      }
      if (status.ok()) status = CheckSize(*size, first);
      char* const out = images[i].out + row * images[i].bytes;
      if (status.ok()) {
        status = part.resized ? decoder.DecodeResized(*part.resized, part.box, part.flip, out)
                              : decoder.Decode(part.box, part.flip, out);
        if (absl::IsInvalidArgument(status) && i >= num_views_) {
          status = absl::InvalidArgumentError(fmt::format(
              "{}; a mask has one channel of at most 8 bits: decode others by themselves, with raw",
              std::string(status.message())));
        }
      }
      if (status.ok()) continue;
      return WithMessage(
          status, fmt::format("feature '{}': {}", images_[i].first, std::string(status.message())));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSize(ImageSize size, ImageSize first) const {
    if (size.width == first.width && size.height == first.height) return absl::OkStatus();
    return absl::DataLossError(fmt::format("{} x {} pixels, but '{}' has {} x {}", size.width,
                                           size.height, feature_, first.width, first.height));
  }

  Part Choose(const Batch& batch, size_t row, ImageSize size) const {
    Part part = {.box = {0, 0, size.width, size.height}, .resized = std::nullopt};
    if (options_.crop == CropKind::kCenter) {
      if (options_.resize_shorter > 0) {
        part = ResizedCenter(size, options_.image, options_.resize_shorter);
      } else {
        part.box =
            CenterCrop(size, options_.image.width, options_.image.height, options_.center_fraction);
      }
    }
    if (options_.crop == CropKind::kRandom || options_.flip > 0) {
      RowOrigin origin;
      if (!batch.OriginOf(row, &origin)) origin.position = row;
      Random random = RandomOf(StreamSeed(RandomStream::kDecodeImage, options_.seed), origin);
      if (options_.crop == CropKind::kRandom) {
        part.box = RandomResizedCrop(size, options_.scale, options_.ratio, random);
      }
      part.flip = random.Uniform() < options_.flip;
    }
    return part;
  }

  // A decoder holds memory for an image, so there are as many as threads that run at once, not as
  // many as ranges that wait for their batch.
  Decoders Take() const {
    {
      MutexLock lock(mutex_);
      if (!idle_.empty()) {
        Decoders decoders = std::move(idle_.back());
        idle_.pop_back();
        return decoders;
      }
    }
    Decoders decoders = {std::make_unique<ImageDecoder>(options_.image), nullptr};
    if (images_.size() > num_views_) {
      decoders.masks = std::make_unique<ImageDecoder>(MaskOptions(options_.image));
    }
    return decoders;
  }
  void Return(Decoders decoders) const {
    constexpr size_t kMaxKept = 64 << 20;  // memory kept after a huge image
    if (decoders.images->kept_bytes() > kMaxKept) return;
    if (decoders.masks != nullptr && decoders.masks->kept_bytes() > kMaxKept) return;
    MutexLock lock(mutex_);
    idle_.push_back(std::move(decoders));
  }

  const std::string feature_;
  const DecodeImageOptions options_;
  const BoxesAndPoints boxes_;
  // Columns of encoded images and the outputs of their pixels: the image, views, masks.
  std::vector<std::pair<std::string, size_t>> images_;
  size_t num_views_ = 0;  // number of views, the image included
  size_t first_box_output_ = 0;
  mutable Mutex mutex_;
  mutable std::vector<Decoders> idle_ ABSL_GUARDED_BY(mutex_);
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
  if (options.resize_shorter > 0) {
    constexpr uint32_t kMaxSize = 65535;
    if (options.crop != CropKind::kCenter) {
      return absl::InvalidArgumentError("resize_shorter goes with a center crop");
    }
    if (options.resize_shorter < std::max(options.image.width, options.image.height) ||
        options.resize_shorter > kMaxSize) {
      return absl::InvalidArgumentError(fmt::format(
          "resize_shorter must be at least the result's width and height, {} x {}, and at most {}, "
          "got {}",
          options.image.width, options.image.height, kMaxSize, options.resize_shorter));
    }
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
    const std::string& feature, const RowSpec& spec, const DecodeImageOptions& options) {
  if (absl::Status status = Check(options); !status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("decode_image: {}", std::string(status.message())));
  }
  const JointColumns& joint = options.joint;
  if (absl::Status status = CheckJointNames("decode_image", feature, joint); !status.ok()) {
    return status;
  }
  absl::StatusOr<BoxesAndPoints> boxes = BoxesAndPoints::Make("decode_image", joint, spec);
  if (!boxes.ok()) return boxes.status();
  const size_t num_joint = boxes->outputs().size();
  DecodeImageOptions checked = options;
  checked.image.jpeg.accept_damaged = options.on_damage == OnDamage::kAccept;
  auto step = std::make_shared<const DecodeImageStep>(feature, checked, *std::move(boxes));
  std::set<std::string> names;
  for (const ColumnSpec& output : step->outputs()) {
    if (names.insert(output.name).second) continue;
    return absl::InvalidArgumentError(fmt::format(
        "decode_image: two columns of the result would have the name '{}'", output.name));
  }
  const auto& drops = step->drops();
  for (size_t i = 0; i + num_joint < step->outputs().size(); ++i) {
    const std::string& name = step->outputs()[i].name;
    if (FindColumn(spec, name) < 0 || std::find(drops.begin(), drops.end(), name) != drops.end()) {
      continue;
    }
    return absl::InvalidArgumentError(
        fmt::format("decode_image: column '{}' already exists: {}", name,
                    i == 0 ? "give the pixels another name (output)" : "rename or drop it before"));
  }
  return step;
}

std::string DecodeImageText(const std::string& feature, const DecodeImageOptions& options) {
  const ImageOptions& image = options.image;
  const DecodeImageOptions defaults;
  std::string text = fmt::format("{}, {}x{}", feature, image.height, image.width);
  const auto add = [&](std::string_view name, const auto& value, const auto& otherwise) {
    if (value != otherwise) text += fmt::format(", {}={}", name, value);
  };
  if (options.crop == CropKind::kCenter && options.resize_shorter > 0) {
    text += fmt::format(", crop=center, resize_shorter={}", options.resize_shorter);
  } else if (options.crop == CropKind::kCenter) {
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
  add("layout", std::string_view(image.layout == ImageLayout::kNHWC ? "NHWC" : "NCHW"), "NHWC");
  add("dtype", DTypeName(image.dtype), "uint8");
  add("mean", image.mean, std::vector<float>());
  add("std", image.std, std::vector<float>());
  add("orient", image.orient, false);
  add("dct_scaling", image.dct_scaling, true);
  add("on_damage", kOnDamage[static_cast<int>(options.on_damage)], "fail");
  add("max_pixels", image.jpeg.max_pixels, defaults.image.jpeg.max_pixels);
  add("max_scans", image.jpeg.max_scans, defaults.image.jpeg.max_scans);
  add("output", options.output, std::string());
  return text + JointText(options.joint);
}

}  // namespace shardfeed
