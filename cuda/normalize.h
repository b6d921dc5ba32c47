// Normalizes images on the device, so that they cross the bus as bytes.

#ifndef SHARDFEED_CUDA_NORMALIZE_H_
#define SHARDFEED_CUDA_NORMALIZE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/device.h"
#include "cuda/normalize_args.h"
#include "shardfeed/batch.h"
#include "shardfeed/cuda.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// The column that `normalize` makes of `column`. InvalidArgument: it cannot be applied; the message
// names the column and the field.
absl::StatusOr<ColumnSpec> NormalizedColumn(const ColumnSpec& column, const Normalize& normalize);

// Makes the arguments, except the pointers, for a column that NormalizedColumn accepts and a batch
// of at least one row. `flips` gets one byte for each row, or becomes empty; `*lambda` is the share
// of a row's own image. FailedPrecondition: random choices are requested, but the origin of the
// rows is unknown.
absl::StatusOr<NormalizeArgs> MakeNormalizeArgs(const ColumnSpec& column,
                                                const Normalize& normalize, const Batch& batch,
                                                std::vector<uint8_t>* flips, float* lambda);

// The kernels, loaded on a device. Thread-safe.
class NormalizeKernels {
 public:
  static absl::StatusOr<std::unique_ptr<NormalizeKernels>> Load(
      std::shared_ptr<const CudaDevice> device);
  ~NormalizeKernels();

  // Enqueues a kernel without blocking. The device's context must be current in the calling thread.
  absl::Status Launch(const Normalize& normalize, const NormalizeArgs& args, CuStream stream) const;

 private:
  explicit NormalizeKernels(std::shared_ptr<const CudaDevice> device)
      : device_(std::move(device)) {}

  const std::shared_ptr<const CudaDevice> device_;
  CuModule module_ = nullptr;
  CuFunction functions_[3][2] = {};  // indexed by type and layout
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_NORMALIZE_H_
