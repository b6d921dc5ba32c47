#include "pipeline/stages/mixup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "decode/features/float16.h"
#include "fmt/format.h"
#include "pipeline/data/random_stream.h"

namespace shardfeed {
namespace {

double DrawNormal(Random& random) {
  // The Box-Muller transform; 1 - Uniform() is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.Uniform());
}

// Draws the logarithm of a number from Gamma(shape, 1); the number itself may be too small for a
// double.
double DrawLogGamma(double shape, Random& random) {
  if (shape < 1) {
    return DrawLogGamma(shape + 1, random) + std::log(1 - random.Uniform()) / shape;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = DrawNormal(random);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.Uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

struct UInt8Values {
  using Type = uint8_t;
  static float Load(Type value) { return value; }
  // No value is negative, and no vector instruction does what lround does.
  // NOLINTNEXTLINE(bugprone-incorrect-roundings)
  static Type Store(float value) { return static_cast<Type>(static_cast<int>(value + 0.5f)); }
};
struct Float16Values {
  using Type = uint16_t;
  static float Load(Type value) { return FromFloat16(value); }
  static Type Store(float value) { return ToFloat16(value); }
};
struct BFloat16Values {
  using Type = uint16_t;
  static float Load(Type value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }
  static Type Store(float value) { return ToBFloat16(value); }
};
struct Float32Values {
  using Type = float;
  static float Load(Type value) { return value; }
  static Type Store(float value) { return value; }
};

// to = own * lambda + partner * (1 - lambda)
template <typename Values>
void Blend(const char* own, const char* partner, size_t n, double lambda, char* to) {
  using Type = typename Values::Type;
  const auto* a = reinterpret_cast<const Type*>(own);
  const auto* b = reinterpret_cast<const Type*>(partner);
  auto* out = reinterpret_cast<Type*>(to);
  const float weight = static_cast<float>(lambda);
  const float rest = static_cast<float>(1 - lambda);
  for (size_t i = 0; i < n; ++i) {
    out[i] = Values::Store(Values::Load(b[i]) * rest + Values::Load(a[i]) * weight);
  }
}

void Blend(DType dtype, const char* own, const char* partner, size_t n, double lambda, char* to) {
  switch (dtype) {
    case DType::kUInt8:
      return Blend<UInt8Values>(own, partner, n, lambda, to);
    case DType::kFloat16:
      return Blend<Float16Values>(own, partner, n, lambda, to);
    case DType::kBFloat16:
      return Blend<BFloat16Values>(own, partner, n, lambda, to);
    default:
      return Blend<Float32Values>(own, partner, n, lambda, to);
  }
}

// An image as planes of rows.
struct Planes {
  int64_t planes;  // 1 if the channels are interleaved
  int64_t height;
  int64_t width;
  size_t pixel_bytes;
};

Planes PlanesOf(const ColumnSpec& spec) {
  const std::vector<int64_t>& s = spec.shape;
  const auto channels = [](int64_t n) { return n == 1 || n == 3; };
  const size_t bytes = DTypeSize(spec.dtype);
  if (!channels(s[2]) && channels(s[0])) return {s[0], s[1], s[2], bytes};
  return {1, s[0], s[1], bytes * s[2]};
}

struct Rectangle {
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;
};

// Draws a rectangle as torchvision's CutMix does, and sets `*lambda` to the fraction of the area
// that stays.
Rectangle DrawRectangle(int64_t height, int64_t width, Random& random, double* lambda) {
  const int64_t x = static_cast<int64_t>(random.Below(width));
  const int64_t y = static_cast<int64_t>(random.Below(height));
  const double r = 0.5 * std::sqrt(1 - *lambda);
  const int64_t half_width = static_cast<int64_t>(r * static_cast<double>(width));
  const int64_t half_height = static_cast<int64_t>(r * static_cast<double>(height));
  const Rectangle cut = {std::max<int64_t>(y - half_height, 0),
                         std::max<int64_t>(x - half_width, 0), std::min(y + half_height, height),
                         std::min(x + half_width, width)};
  *lambda = 1 - static_cast<double>((cut.right - cut.left) * (cut.bottom - cut.top)) /
                    static_cast<double>(width * height);
  return cut;
}

void Paste(const Planes& p, const Rectangle& cut, const char* from, char* to) {
  const size_t row_bytes = p.width * p.pixel_bytes;
  for (int64_t plane = 0; plane < p.planes; ++plane) {
    for (int64_t y = cut.top; y < cut.bottom; ++y) {
      const size_t at = (plane * p.height + y) * row_bytes + cut.left * p.pixel_bytes;
      std::memcpy(to + at, from + at, (cut.right - cut.left) * p.pixel_bytes);
    }
  }
}

template <typename T>
absl::Status OneHot(const T* labels, size_t rows, int64_t num_classes, float* to) {
  std::fill_n(to, rows * num_classes, 0.0f);
  for (size_t r = 0; r < rows; ++r) {
    const auto label = static_cast<int64_t>(labels[r]);
    if (label < 0 || label >= num_classes) {
      return absl::InvalidArgumentError(fmt::format(
          "row {} of the batch has the label {}, but there are {} classes, numbered from 0", r,
          label, num_classes));
    }
    to[r * num_classes + label] = 1;
  }
  return absl::OkStatus();
}

absl::Status Probabilities(const ColumnSpec& spec, const char* labels, size_t rows,
                           int64_t num_classes, float* to) {
  switch (spec.dtype) {
    case DType::kFloat32:
      std::memcpy(to, labels, rows * num_classes * sizeof(float));
      return absl::OkStatus();
    case DType::kUInt8:
      return OneHot(reinterpret_cast<const uint8_t*>(labels), rows, num_classes, to);
    case DType::kInt32:
      return OneHot(reinterpret_cast<const int32_t*>(labels), rows, num_classes, to);
    default:
      return OneHot(reinterpret_cast<const int64_t*>(labels), rows, num_classes, to);
  }
}

}  // namespace

double DrawBeta(double alpha, Random& random) {
  const double a = DrawLogGamma(alpha, random);
  const double b = DrawLogGamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

ColumnSpec MixedLabelSpec(const ColumnSpec& label, int64_t num_classes) {
  return {label.name, DType::kFloat32, {num_classes}, false};
}

absl::Status CheckMix(std::string_view step, const RowSpec& spec, const MixOptions& options) {
  const ColumnSpec& image = spec[options.image];
  const ColumnSpec& label = spec[options.label];
  const auto refuse = [&](std::string what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", step, what));
  };
  if (!(options.alpha > 0) || std::isinf(options.alpha)) {
    return refuse(fmt::format("alpha must be positive and finite, got {}", options.alpha));
  }
  if (options.num_classes < 1) {
    return refuse(fmt::format("num_classes must be at least 1, got {}", options.num_classes));
  }
  if (options.image == options.label) return refuse("images and labels must be different columns");
  const bool values = image.dtype == DType::kUInt8 || image.dtype == DType::kFloat16 ||
                      image.dtype == DType::kBFloat16 || image.dtype == DType::kFloat32;
  if (!values || image.ragged || image.num_values() == 0) {
    return refuse(
        fmt::format("images must be uint8, float16, bfloat16 or float32 and of one "
                    "size, got {}",
                    RowSpecText({image})));
  }
  if (options.kind == MixKind::kCutMix && image.shape.size() != 3) {
    return refuse(
        fmt::format("images must be [height, width, channels] or [channels, height, "
                    "width], got {}",
                    RowSpecText({image})));
  }
  const bool classes =
      label.shape.empty() && (label.dtype == DType::kUInt8 || label.dtype == DType::kInt32 ||
                              label.dtype == DType::kInt64);
  const bool probabilities =
      label.dtype == DType::kFloat32 && label.shape == std::vector<int64_t>{options.num_classes};
  if (label.ragged || !(classes || probabilities)) {
    return refuse(
        fmt::format("labels must be numbers of classes (uint8, int32 or int64) or float32 "
                    "[{}], got {}",
                    options.num_classes, RowSpecText({label})));
  }
  return absl::OkStatus();
}

BatchFn MakeMixFn(MixOptions options) {
  return [options](Batch& batch) -> absl::Status {
    if (batch.empty()) return absl::OkStatus();
    const size_t rows = batch.rows;
    const ColumnSpec image = (*batch.spec)[options.image];
    const ColumnSpec label = (*batch.spec)[options.label];
    RowOrigin origin;
    batch.OriginOf(0, &origin);
    const RandomStream stream =
        options.kind == MixKind::kMixUp ? RandomStream::kMixUp : RandomStream::kCutMix;
    Random random = RandomOf(StreamSeed(stream, options.seed), origin);
    double lambda = DrawBeta(options.alpha, random);
    Rectangle cut;
    Planes planes = {};
    if (options.kind == MixKind::kCutMix) {
      planes = PlanesOf(image);
      cut = DrawRectangle(planes.height, planes.width, random, &lambda);
    }

    auto spec = std::make_shared<RowSpec>(*batch.spec);
    (*spec)[options.label] = MixedLabelSpec(label, options.num_classes);
    // Copies the labels unchanged, and allocates both columns of the result.
    Batch plain;
    plain.rows = rows;
    plain.spec = std::make_shared<const RowSpec>(RowSpec{(*spec)[options.label]});
    AllocateFixedColumns(&plain);
    Batch mixed;
    mixed.rows = rows;
    mixed.spec = std::make_shared<const RowSpec>(RowSpec{(*spec)[options.label], image});
    AllocateFixedColumns(&mixed);
    const char* const labels = plain.columns[0].data;
    absl::Status status =
        Probabilities(label, batch.columns[options.label].data, rows, options.num_classes,
                      reinterpret_cast<float*>(plain.columns[0].data));
    if (!status.ok()) return status;

    const char* const images = batch.columns[options.image].data;
    const size_t bytes = image.bytes();
    const size_t label_bytes = options.num_classes * sizeof(float);
    for (size_t r = 0; r < rows; ++r) {
      const size_t partner = r > 0 ? r - 1 : rows - 1;
      char* const to = mixed.columns[1].data + r * bytes;
      if (options.kind == MixKind::kMixUp) {
        Blend(image.dtype, images + r * bytes, images + partner * bytes, image.num_values(), lambda,
              to);
      } else {
        std::memcpy(to, images + r * bytes, bytes);
        Paste(planes, cut, images + partner * bytes, to);
      }
      Blend(DType::kFloat32, labels + r * label_bytes, labels + partner * label_bytes,
            options.num_classes, lambda, mixed.columns[0].data + r * label_bytes);
    }
    batch.columns[options.label] = mixed.columns[0];
    batch.columns[options.image] = mixed.columns[1];
    for (auto& memory : mixed.memory) batch.memory.push_back(std::move(memory));
    batch.spec = std::move(spec);
    return absl::OkStatus();
  };
}

}  // namespace shardfeed
