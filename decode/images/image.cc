#include "decode/images/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "decode/images/exif.h"
#include "decode/images/formats/codecs.h"
#include "decode/images/pixels/gather_samples.h"
#include "fmt/format.h"
#include "media/image_header.h"
#include "media/image_limit.h"

namespace shardfeed {
namespace {

// How to find the pixel (x, y) of an upright image in the stored one: exchange x and y, then count
// from the other end.
struct Turn {
  bool transpose;
  bool from_right;
  bool from_bottom;
};

Turn TurnOf(int orientation) {
  constexpr Turn kTurns[] = {{false, false, false}, {false, true, false}, {false, true, true},
                             {false, false, true},  {true, false, false}, {true, false, true},
                             {true, true, true},    {true, true, false}};
  return kTurns[orientation - 1];
}

// The box in the stored image of a box in the upright one.
template <typename Box>
Box StoredBox(const Box& box, const Turn& turn, const ImageSize& stored) {
  Box part = box;
  if (turn.transpose) part = {box.y, box.x, box.height, box.width};
  if (turn.from_right) part.x = stored.width - part.x - part.width;
  if (turn.from_bottom) part.y = stored.height - part.y - part.height;
  return part;
}

// Along one axis of an image: what becomes a part of the resized image, and the pixels that a
// filter reads for it.
struct Stretch {
  double begin;
  double size;
  uint32_t first;
  uint32_t count;
};

// For `count` pixels from `begin` on, after `size` pixels became `resized`.
Stretch StretchOf(uint32_t size, uint32_t resized, uint32_t begin, uint32_t count) {
  const double scale = double{1} * size / resized;
  const double support = 2 * std::max(scale, 1.0) + 1;  // at least that of any filter
  Stretch stretch = {begin * scale, count * scale, 0, 0};
  stretch.first = static_cast<uint32_t>(std::max(stretch.begin - support, 0.0));
  const double end = std::min<double>(std::ceil(stretch.begin + stretch.size + support), size);
  stretch.count = static_cast<uint32_t>(end) - stretch.first;
  return stretch;
}

absl::Status CheckRaw(const ImageOptions& options) {
  constexpr int kMaxChannels = 1024;
  if (options.channels < 1 || options.channels > kMaxChannels) {
    return absl::InvalidArgumentError(fmt::format(
        "channels of raw samples must be the number that the files store, 1 to {}, got {}",
        kMaxChannels, options.channels));
  }
  if (options.dtype != DType::kUInt8 && options.dtype != DType::kUInt16 &&
      options.dtype != DType::kInt32 && options.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(
        fmt::format("dtype of raw samples must be uint8, uint16, int32 or float32, got {}",
                    DTypeName(options.dtype)));
  }
  if (options.interpolation != Interpolation::kNearest) {
    return absl::InvalidArgumentError(
        "interpolation of raw samples must be nearest, as another one would mix them");
  }
  if (!options.mean.empty() || !options.std.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: raw samples are not normalized", options.mean.empty() ? "std" : "mean"));
  }
  return absl::OkStatus();
}

RawFormat RawFormatOf(const ImageOptions& options) {
  constexpr uint64_t kBytesPerPixel = 8;  // four channels of 16 bits
  const uint64_t max_pixels = std::min(options.jpeg.max_pixels, UINT64_MAX / kBytesPerPixel);
  return {options.channels, options.dtype == DType::kUInt8 ? 8 : 16, max_pixels * kBytesPerPixel};
}

}  // namespace

absl::Status CheckImageOptions(const ImageOptions& options) {
  constexpr uint32_t kMaxSize = 65535;
  if (options.width < 1 || options.height < 1 || options.width > kMaxSize ||
      options.height > kMaxSize) {
    return absl::InvalidArgumentError(
        fmt::format("width and height must be 1 to {2} pixels, got {0} x {1}", options.width,
                    options.height, kMaxSize));
  }
  if (options.jpeg.max_pixels < 1 || options.jpeg.max_scans < 1) {
    return absl::InvalidArgumentError(
        fmt::format("max_pixels and max_scans must be at least 1, got {} and {}",
                    options.jpeg.max_pixels, options.jpeg.max_scans));
  }
  if (options.raw) return CheckRaw(options);
  if (options.channels != 1 && options.channels != 3) {
    return absl::InvalidArgumentError(
        fmt::format("channels must be 3 (RGB) or 1 (gray), got {}", options.channels));
  }
  const bool levels = options.dtype == DType::kUInt8;
  if (!levels && options.dtype != DType::kFloat16 && options.dtype != DType::kBFloat16 &&
      options.dtype != DType::kFloat32) {
    return absl::InvalidArgumentError(fmt::format(
        "dtype must be uint8, float16, bfloat16 or float32, got {}", DTypeName(options.dtype)));
  }
  for (const auto& [name, values] :
       {std::pair{"mean", &options.mean}, std::pair{"std", &options.std}}) {
    if (values->empty()) continue;
    if (levels) {
      return absl::InvalidArgumentError(
          fmt::format("{}: uint8 pixels cannot be normalized; ask for float32, float16 or "
                      "bfloat16",
                      name));
    }
    if (values->size() != static_cast<size_t>(options.channels)) {
      return absl::InvalidArgumentError(
          fmt::format("{} has {} values, expected one for each of {} channels", name,
                      values->size(), options.channels));
    }
    for (float value : *values) {
      if (!std::isfinite(value) || (values == &options.std && value <= 0)) {
        return absl::InvalidArgumentError(fmt::format("{} must be finite{}, got {}", name,
                                                      values == &options.std ? " and positive" : "",
                                                      value));
      }
    }
  }
  return absl::OkStatus();
}

ImageDecoder::ImageDecoder(const ImageOptions& options)
    : options_(options), jpeg_(options.jpeg), raw_(RawFormatOf(options)) {
  if (options.raw) return;
  if (options.dtype == DType::kUInt8 && options.layout == ImageLayout::kNHWC) return;
  const auto or_all = [&](const std::vector<float>& values, float value) {
    return values.empty() ? std::vector<float>(options.channels, value) : values;
  };
  normalizer_ = std::make_unique<Normalizer>(options.layout, options.dtype, options.channels,
                                             or_all(options.mean, 0), or_all(options.std, 1));
}

ImageDecoder::~ImageDecoder() = default;

size_t ImageDecoder::result_bytes() const {
  return size_t{options_.width} * options_.height * options_.channels * DTypeSize(options_.dtype);
}

absl::StatusOr<ImageSize> ImageDecoder::Open(std::string_view bytes) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes);
  if (!header.ok()) return header.status();
  if (header->decoded_pixels() > options_.jpeg.max_pixels) {
    return ImageLimitError(fmt::format(
        "{} of {} x {} pixels{} is too large: the limit is {} in all (max_pixels)", header->format,
        header->width, header->height,
        header->hidden_pixels > 0 ? fmt::format(" and {} hidden ones", header->hidden_pixels) : "",
        options_.jpeg.max_pixels));
  }
  bytes_ = bytes;
  format_ = header->format;
  is_jpeg_ = format_ == "jpeg";
  decoded_ = false;
  stored_ = {header->width, header->height};
  channels_ = header->channels;
  orientation_ = options_.orient ? ExifOrientation(bytes, format_) : 1;
  if (TurnOf(orientation_).transpose) return ImageSize{stored_.height, stored_.width};
  return stored_;
}

absl::Status ImageDecoder::Decode(const ImageBox& box, bool flip, void* out) {
  if (options_.raw) {
    return DecodeRaw(NearestPixels(box.x, box.width, options_.width),
                     NearestPixels(box.y, box.height, options_.height), flip, out);
  }
  const Region region = {double{1} * box.x, double{1} * box.y, double{1} * box.width,
                         double{1} * box.height};
  return DecodeLevels(region, box, flip, out);
}

absl::Status ImageDecoder::DecodeResized(const ImageSize& resized, const ImageBox& box, bool flip,
                                         void* out) {
  ImageSize size = stored_;
  if (TurnOf(orientation_).transpose) std::swap(size.width, size.height);
  if (options_.raw) {
    return DecodeRaw(NearestPixels(0, size.width, resized.width, box.x, box.width),
                     NearestPixels(0, size.height, resized.height, box.y, box.height), flip, out);
  }
  const Stretch x = StretchOf(size.width, resized.width, box.x, box.width);
  const Stretch y = StretchOf(size.height, resized.height, box.y, box.height);
  return DecodeLevels({x.begin, y.begin, x.size, y.size}, {x.first, y.first, x.count, y.count},
                      flip, out);
}

absl::Status ImageDecoder::DecodeJpeg(const JpegCrop& crop, uint8_t* pixels, size_t row_bytes) {
  absl::Status status = jpeg_.DecodeCrop(bytes_, crop, pixels, row_bytes);
  if (!absl::IsInvalidArgument(status)) return status;
  // The crop lies inside the image of the header, so libjpeg found another header in the file.
  return absl::DataLossError(fmt::format("jpeg has two sizes: {}", std::string(status.message())));
}

absl::Status ImageDecoder::DecodeRaw(const std::vector<uint32_t>& columns,
                                     const std::vector<uint32_t>& rows, bool flip, void* out) {
  const ImageBox box = {columns.front(), rows.front(), columns.back() - columns.front() + 1,
                        rows.back() - rows.front() + 1};
  const Turn turn = TurnOf(orientation_);
  ImageBox held = {0, 0, stored_.width, stored_.height};  // what raw_ holds of the stored image
  if (is_jpeg_) {
    held = StoredBox(box, turn, stored_);
    const int channels = channels_ == 1 ? 1 : 3;
    absl::Status status;
    try {
      status = raw_.Start(format_, held.width, held.height, channels, 8);
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("no memory for a jpeg");
    }
    if (!status.ok()) return status;
    const JpegCrop crop = {1, held.x, held.y, held.width, held.height, channels};
    status = DecodeJpeg(crop, raw_.row(0), raw_.row_bytes());
    if (!status.ok()) return status;
  } else if (!decoded_) {
    absl::Status status = ReadRawWithCodec(
        bytes_, {.format = format_, .height = stored_.height, .width = stored_.width}, &raw_);
    if (!status.ok()) return status;
    decoded_ = true;
  }

  SampleGather gather = {raw_.data(), raw_.sample_bytes(), raw_.channels(), {}, {}};
  // The number of the first sample in the stored column or row.
  const auto column_at = [&](uint32_t x) {
    const uint32_t column = turn.from_right ? stored_.width - 1 - x : x;
    return size_t{column - held.x} * raw_.channels();
  };
  const auto row_at = [&](uint32_t y) {
    const uint32_t row = turn.from_bottom ? stored_.height - 1 - y : y;
    return size_t{row - held.y} * held.width * raw_.channels();
  };
  for (uint32_t x : columns) gather.columns.push_back(turn.transpose ? row_at(x) : column_at(x));
  for (uint32_t y : rows) gather.rows.push_back(turn.transpose ? column_at(y) : row_at(y));
  if (flip) std::reverse(gather.columns.begin(), gather.columns.end());
  GatherSamples(gather, options_.layout, options_.dtype, out);
  return absl::OkStatus();
}

absl::Status ImageDecoder::DecodeLevels(const Region& upright, const ImageBox& box, bool flip,
                                        void* out) {
  const Turn upright_turn = TurnOf(orientation_);
  Turn turn = upright_turn;
  // The region, the box and the size of the result, in the orientation of the stored image.
  const Region region = StoredBox(upright, turn, stored_);
  const ImageBox part = StoredBox(box, turn, stored_);
  uint32_t width = options_.width;
  uint32_t height = options_.height;
  if (turn.transpose) std::swap(width, height);
  if (flip) (turn.transpose ? turn.from_bottom : turn.from_right) ^= true;

  const int channels = options_.channels;
  PixelRows source;
  ResampleOptions resample = {.interpolation = options_.interpolation,
                              .antialias = options_.antialias,
                              .flip = turn.from_right,
                              .earlier_in_row = upright_turn.from_right,
                              .earlier_in_column = upright_turn.from_bottom};
  if (is_jpeg_) {
    uint32_t denominator = 1;
    if (options_.dct_scaling && options_.interpolation != Interpolation::kNearest) {
      while (denominator < 8 && region.width >= double{2} * denominator * width &&
             region.height >= double{2} * denominator * height) {
        denominator *= 2;
      }
    }
    // The pixels of the scaled image that the part touches.
    JpegCrop crop = {.scale_denominator = static_cast<int>(denominator), .channels = channels};
    const auto scale = [&](uint32_t begin, uint32_t size, uint32_t* first, uint32_t* count) {
      *first = begin / denominator;
      *count = (begin + size + denominator - 1) / denominator - *first;
    };
    scale(part.x, part.width, &crop.x, &crop.width);
    scale(part.y, part.height, &crop.y, &crop.height);
    const size_t row = size_t{crop.width} * channels;
    if (pixels_.size() < row * crop.height) pixels_.resize(row * crop.height);
    decoded_ = false;
    absl::Status status = DecodeJpeg(crop, pixels_.data(), row);
    if (!status.ok()) return status;
    source = {pixels_.data(), row, crop.width, crop.height};
    resample.x = region.x / denominator - crop.x;
    resample.y = region.y / denominator - crop.y;
    resample.width = region.width / denominator;
    resample.height = region.height / denominator;
  } else {
    if (!decoded_) {
      absl::Status status = DecodeWithCodec(
          bytes_, {.format = format_, .height = stored_.height, .width = stored_.width}, channels,
          &pixels_);
      if (!status.ok()) return status;
      decoded_ = true;
    }
    const size_t row = size_t{stored_.width} * channels;
    source = {pixels_.data() + part.y * row + part.x * channels, row, part.width, part.height};
    resample.x = region.x - part.x;
    resample.y = region.y - part.y;
    resample.width = region.width;
    resample.height = region.height;
  }

  const bool turned = turn.transpose || turn.from_bottom;
  const size_t row = size_t{width} * channels;
  if (!turned && normalizer_ == nullptr) {
    resampler_.Resize(source, channels, resample, width, height, static_cast<uint8_t*>(out), row);
    return absl::OkStatus();
  }
  resized_.resize(row * height);
  resampler_.Resize(source, channels, resample, width, height, resized_.data(), row);
  const uint8_t* result = resized_.data();
  if (turned) {
    turned_.resize(resized_.size());
    uint8_t* to = normalizer_ == nullptr ? static_cast<uint8_t*>(out) : turned_.data();
    result = to;
    for (uint32_t y = 0; y < options_.height; ++y) {
      for (uint32_t x = 0; x < options_.width; ++x, to += channels) {
        const uint32_t column = turn.transpose ? y : x;  // the resampler has flipped it
        uint32_t line = turn.transpose ? x : y;
        if (turn.from_bottom) line = height - 1 - line;
        std::memcpy(to, &resized_[line * row + column * channels], channels);
      }
    }
  }
  if (normalizer_ != nullptr) {
    normalizer_->Write({result, size_t{options_.width} * channels, options_.width, options_.height},
                       out);
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
