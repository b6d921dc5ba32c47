// Copies of host memory that is not pinned to pinned memory, from which a device can copy it.

#ifndef SHARDFEED_CUDA_STAGING_H_
#define SHARDFEED_CUDA_STAGING_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cuda/pinned_pool.h"
#include "cuda/upload_flight.h"

namespace shardfeed {

// A piece of host memory and its place in the buffer.
struct UploadPiece {
  const void* from;
  size_t bytes;
  size_t to;
  bool pinned;
};

// Copies the pieces that are not pinned to the staging memory of `flight`, which grows as needed,
// and makes them begin there. Large ones are divided among up to `threads` threads, because one
// thread copies slower than the bus. Returns the number of bytes copied. Errors: those of
// PinnedPool::AllocatePinned.
absl::StatusOr<uint64_t> StagePieces(PinnedPool& pool, int threads, absl::Span<UploadPiece> pieces,
                                     UploadFlight* flight);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_STAGING_H_
