// Page-locked memory of the host, from which a device copies while the processor does something
// else.

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

// Blocks that are used again, since pinning takes about a millisecond for each ten megabytes. They
// are in huge pages where the kernel has them, on the NUMA node of the device, and pinned for all
// contexts of the process. Thread safe. What it gives keeps the pool alive.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  // At most `max_bytes` are pinned, in use and idle together, beside those of AllocatePinned.
  static std::shared_ptr<PinnedPool> Create(std::shared_ptr<const CudaDevice> device,
                                            uint64_t max_bytes);

  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // A HostAllocator: memory at a multiple of 4096 bytes. Never waits: beyond the limit it is the
  // process's ordinary memory.
  std::shared_ptr<char> Allocate(size_t size);
  // Pinned, even beyond the limit. ResourceExhausted: the system does not pin more.
  absl::StatusOr<std::shared_ptr<char>> AllocatePinned(size_t size);
  // [data, data + size) is in pinned memory of the pool.
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
  std::map<size_t, std::vector<char*>> idle_ ABSL_GUARDED_BY(mutex_);  // idle buffers by size
  std::map<const char*, size_t> pinned_ ABSL_GUARDED_BY(mutex_);       // all, by place
  PinnedPoolStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_PINNED_POOL_H_
