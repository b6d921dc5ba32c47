// Images made ready for a network on the device, so that they cross the bus as bytes.

#ifndef SHARDFEED_CUDA_NORMALIZE_H_
#define SHARDFEED_CUDA_NORMALIZE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/device.h"
#include "cuda/normalize_args.h"
#include "decode/features/dtype.h"
#include "pipeline/data/batch.h"

namespace shardfeed {

enum class ImageLayout {
  kNCHW,
  kNHWC,  // channels last
};

enum class Mixing {
  kNone,
  kMixup,   // each value is lambda of its own image and 1 - lambda of its partner's
  kCutmix,  // a box of 1 - lambda of the area comes from the partner
};

// What becomes of a column of uint8 images [height, width, channels], of up to four channels:
//
//   (x / 255 - mean[c]) / std[c]
//
// Random choices depend on the seed and the rows' places in the epoch alone: they are the same
// after a resume and, but for mixing, for any batch size.
struct Normalize {
  DType dtype = DType::kFloat16;  // or kBFloat16, kFloat32
  ImageLayout layout = ImageLayout::kNCHW;
  // One for each channel, or one for all; empty: 0, and 1.
  std::vector<float> mean;
  std::vector<float> std;
  // The share of rows that are mirrored left to right, in [0, 1].
  double flip = 0;
  // Row i is mixed with row i - 1, the first with the last, by one lambda a batch, from
  // Beta(mix_alpha, mix_alpha). DeviceTensor::lambda tells it, so that labels can be mixed, too.
  Mixing mixing = Mixing::kNone;
  double mix_alpha = 1;  // above 0
  uint64_t seed = 0;
};

// The column that `normalize` makes of `column`, in its layout. InvalidArgument: it cannot be; the
// message names the column and the field.
absl::StatusOr<ColumnSpec> NormalizedColumn(const ColumnSpec& column, const Normalize& normalize);

// For a column as NormalizedColumn takes it and a batch of at least one row: all but the pointers.
// `flips` becomes one byte for each row, or empty; *lambda is the share of a row's own image.
// FailedPrecondition: random choices are asked for and it is not known where the rows come from.
absl::StatusOr<NormalizeArgs> MakeNormalizeArgs(const ColumnSpec& column,
                                                const Normalize& normalize, const Batch& batch,
                                                std::vector<uint8_t>* flips, float* lambda);

// The kernels, loaded on a device. Thread safe.
class NormalizeKernels {
 public:
  static absl::StatusOr<std::unique_ptr<NormalizeKernels>> Load(
      std::shared_ptr<const CudaDevice> device);
  ~NormalizeKernels();

  // Enqueues; does not block. The device's context must be the calling thread's.
  absl::Status Launch(const Normalize& normalize, const NormalizeArgs& args, CuStream stream) const;

 private:
  explicit NormalizeKernels(std::shared_ptr<const CudaDevice> device)
      : device_(std::move(device)) {}

  const std::shared_ptr<const CudaDevice> device_;
  CuModule module_ = nullptr;
  CuFunction functions_[3][2] = {};  // by type and layout
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_NORMALIZE_H_
