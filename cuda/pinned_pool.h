// Page-locked host memory, from which a device copies asynchronously.

#ifndef SHARDFEED_CUDA_PINNED_POOL_H_
#define SHARDFEED_CUDA_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "cuda/device.h"
#include "shardfeed/cuda.h"

namespace shardfeed {

// Reuses blocks, because pinning takes about a millisecond for each ten megabytes. Blocks are in
// huge pages if the kernel has them, on the NUMA node of the device, and pinned for all contexts of
// the process. Thread-safe. Allocated memory keeps the pool alive.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  // At most `max_bytes` are pinned, in use and idle together, apart from AllocatePinned.
  static std::shared_ptr<PinnedPool> Create(std::shared_ptr<const CudaDevice> device,
                                            uint64_t max_bytes);

  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // A HostAllocator: returns memory aligned to 4096 bytes. Never waits: beyond the limit, the
  // memory is not pinned.
  std::shared_ptr<char> Allocate(size_t size);
  // Returns pinned memory, even beyond the limit. ResourceExhausted: the system refuses to pin
  // more.
  absl::StatusOr<std::shared_ptr<char>> AllocatePinned(size_t size);
  // Whether [data, data + size) lies in pinned memory of the pool.
  bool Contains(const void* data, size_t size) const;
  PinnedPoolStats stats() const;

 private:
  PinnedPool(std::shared_ptr<const CudaDevice> device, uint64_t max_bytes);
  std::shared_ptr<char> TakeIdle(size_t size);
  absl::StatusOr<std::shared_ptr<char>> Pin(size_t size);
  std::shared_ptr<char> Share(char* data, size_t size);
  void Return(char* data, size_t size);
  void Unpin(char* data, size_t size);

  const std::shared_ptr<const CudaDevice> device_;
  const uint64_t max_bytes_;

  mutable Mutex mutex_;
  std::map<size_t, std::vector<char*>> idle_ ABSL_GUARDED_BY(mutex_);  // idle blocks by size
  std::map<const char*, size_t> pinned_ ABSL_GUARDED_BY(mutex_);  // sizes of all blocks by address
  PinnedPoolStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_PINNED_POOL_H_
