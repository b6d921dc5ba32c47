#include "cuda/normalize.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/rounding.h"
#include "fmt/format.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/stages/mixup.h"
#include "shardfeed/functions.h"

namespace shardfeed {
namespace {

constexpr char kPtx[] =
#include "cuda/normalize.ptx.inc"
    ;

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMaxGridY = 65535;

// The index of the type in NormalizeKernels::functions_, or -1.
int TypeNumber(DType dtype) {
  if (dtype == DType::kFloat16) return 0;
  if (dtype == DType::kBFloat16) return 1;
  return dtype == DType::kFloat32 ? 2 : -1;
}

absl::Status CheckValues(const ColumnSpec& column, const char* field,
                         const std::vector<float>& values, bool positive) {
  const auto channels = static_cast<size_t>(column.shape[2]);
  if (values.size() > 1 && values.size() != channels) {
    return absl::InvalidArgumentError(
        fmt::format("normalize '{}': {} has {} values, but the images have {} channels",
                    column.name, field, values.size(), channels));
  }
  for (float value : values) {
    if (!std::isfinite(value) || (positive && value <= 0)) {
      return absl::InvalidArgumentError(
          fmt::format("normalize '{}': {} has {}, expected {}", column.name, field, value,
                      positive ? "a number above 0" : "a finite number"));
    }
  }
  return absl::OkStatus();
}

// The random numbers of a row, which depend on its place in the epoch.
absl::StatusOr<Random> RandomOfRow(const ColumnSpec& column, const Batch& batch, size_t row,
                                   RandomStream stream, uint64_t seed) {
  RowOrigin origin;
  if (batch.OriginOf(row, &origin)) return RandomOf(StreamSeed(stream, seed), origin);
  return absl::FailedPreconditionError(fmt::format(
      "normalize '{}': flip and mixing depend on the rows' places in the epoch, which are lost in "
      "this chain; leave them out, or flip in a map step",
      column.name));
}

}  // namespace

absl::StatusOr<ColumnSpec> NormalizedColumn(const ColumnSpec& column, const Normalize& normalize) {
  const bool image =
      column.dtype == DType::kUInt8 && !column.ragged && column.shape.size() == 3 &&
      std::all_of(column.shape.begin(), column.shape.end(), [](int64_t n) { return n > 0; });
  if (!image || column.shape[2] > kMaxChannels || column.shape[0] > INT32_MAX / column.shape[1]) {
    return absl::InvalidArgumentError(
        fmt::format("normalize '{}': expected uint8 images [height, width, channels] of 1 to {} "
                    "channels, but the "
                    "column is {}",
                    column.name, kMaxChannels, RowSpecText({column})));
  }
  if (TypeNumber(normalize.dtype) < 0) {
    return absl::InvalidArgumentError(
        fmt::format("normalize '{}': dtype must be float16, bfloat16 or float32, got {}",
                    column.name, DTypeName(normalize.dtype)));
  }
  if (absl::Status status = CheckValues(column, "mean", normalize.mean, false); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckValues(column, "std", normalize.std, true); !status.ok()) {
    return status;
  }
  if (!(normalize.flip >= 0 && normalize.flip <= 1)) {
    return absl::InvalidArgumentError(
        fmt::format("normalize '{}': flip must be in [0, 1], got {}", column.name, normalize.flip));
  }
  if (normalize.mixing != Mixing::kNone &&
      !(normalize.mix_alpha > 0 && std::isfinite(normalize.mix_alpha))) {
    return absl::InvalidArgumentError(
        fmt::format("normalize '{}': mix_alpha is {}, expected a finite number above 0",
                    column.name, normalize.mix_alpha));
  }
  ColumnSpec made = column;
  made.dtype = normalize.dtype;
  if (normalize.layout == ImageLayout::kNCHW) {
    made.shape = {column.shape[2], column.shape[0], column.shape[1]};
  }
  return made;
}

absl::StatusOr<NormalizeArgs> MakeNormalizeArgs(const ColumnSpec& column,
                                                const Normalize& normalize, const Batch& batch,
                                                std::vector<uint8_t>* flips, float* lambda) {
  NormalizeArgs args = {};
  args.images = static_cast<uint32_t>(batch.rows);
  args.height = static_cast<uint32_t>(column.shape[0]);
  args.width = static_cast<uint32_t>(column.shape[1]);
  args.channels = static_cast<uint32_t>(column.shape[2]);
  const auto of = [](const std::vector<float>& values, uint32_t c, float none) {
    return values.empty() ? none : values.size() == 1 ? values[0] : values[c];
  };
  for (uint32_t c = 0; c < args.channels; ++c) {
    const double stddev = of(normalize.std, c, 1);
    args.scale[c] = static_cast<float>(1 / (255 * stddev));
    args.bias[c] = static_cast<float>(-of(normalize.mean, c, 0) / stddev);
  }
  flips->clear();
  if (normalize.flip > 0) {
    flips->resize(batch.rows);
    for (size_t row = 0; row < batch.rows; ++row) {
      absl::StatusOr<Random> random =
          RandomOfRow(column, batch, row, RandomStream::kDeviceFlip, normalize.seed);
      if (!random.ok()) return random.status();
      (*flips)[row] = random->Uniform() < normalize.flip ? 1 : 0;
    }
  }
  *lambda = 1;
  if (normalize.mixing == Mixing::kNone) return args;
  absl::StatusOr<Random> random =
      RandomOfRow(column, batch, 0, RandomStream::kDeviceMixing, normalize.seed);
  if (!random.ok()) return random.status();
  const double share = DrawBeta(normalize.mix_alpha, *random);
  if (normalize.mixing == Mixing::kMixup) {
    args.mix = 1;
    *lambda = args.lambda = static_cast<float>(share);
    return args;
  }
  // A box of the image's shape, centered anywhere and clipped at the edges (Yun et al., CutMix,
  // 2019).
  args.mix = 2;
  const double side = std::sqrt(1 - share);
  const auto edges = [&](uint32_t size, uint32_t* begin, uint32_t* end) {
    const double half = size * side / 2;
    const double centre = static_cast<double>(random->Below(size));
    *begin = static_cast<uint32_t>(std::max(0.0, std::floor(centre - half)));
    *end = static_cast<uint32_t>(std::min<double>(size, std::floor(centre + half)));
  };
  edges(args.height, &args.top, &args.bottom);
  edges(args.width, &args.left, &args.right);
  const double area =
      static_cast<double>(args.bottom - args.top) * static_cast<double>(args.right - args.left);
  *lambda = static_cast<float>(1 - area / (static_cast<double>(args.height) * args.width));
  return args;
}

absl::StatusOr<std::unique_ptr<NormalizeKernels>> NormalizeKernels::Load(
    std::shared_ptr<const CudaDevice> device) {
  const CudaDriver& driver = device->driver();
  const CudaContextScope scope(*device);
  std::unique_ptr<NormalizeKernels> kernels(new NormalizeKernels(device));
  absl::Status status =
      driver.Check(driver.ModuleLoadData(&kernels->module_, kPtx), "cuModuleLoadData");
  if (!status.ok()) {
    kernels->module_ = nullptr;
    return absl::FailedPreconditionError(fmt::format(
        "{} cannot load the kernels of normalize, which need compute capability 7.5: {}",
        device->name(), std::string(status.message())));
  }
  constexpr const char* kTypes[] = {"float16", "bfloat16", "float32"};
  constexpr const char* kLayouts[] = {"nchw", "nhwc"};
  for (int type = 0; type < 3; ++type) {
    for (int layout = 0; layout < 2; ++layout) {
      const std::string name = fmt::format("normalize_{}_{}", kTypes[type], kLayouts[layout]);
      status = driver.Check(driver.ModuleGetFunction(&kernels->functions_[type][layout],
                                                     kernels->module_, name.c_str()),
                            "cuModuleGetFunction");
      if (!status.ok()) return status;
    }
  }
  return kernels;
}

NormalizeKernels::~NormalizeKernels() {
  if (module_ == nullptr) return;
  const CudaContextScope scope(*device_);
  device_->driver().ModuleUnload(module_);
}

absl::Status NormalizeKernels::Launch(const Normalize& normalize, const NormalizeArgs& args,
                                      CuStream stream) const {
  const CudaDriver& driver = device_->driver();
  NormalizeArgs copy = args;
  void* params[] = {&copy};
  const int layout = normalize.layout == ImageLayout::kNCHW ? 0 : 1;
  const uint32_t blocks = CeilDivide(args.height * args.width, kThreads);
  return driver.Check(driver.LaunchKernel(functions_[TypeNumber(normalize.dtype)][layout], blocks,
                                          std::min(args.images, kMaxGridY), 1, kThreads, 1, 1, 0,
                                          stream, params, nullptr),
                      "cuLaunchKernel");
}

}  // namespace shardfeed
