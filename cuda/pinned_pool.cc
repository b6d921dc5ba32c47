#include "cuda/pinned_pool.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "base/mutex.h"
#include "base/rounding.h"
#include "fmt/format.h"
#include "io/buffer.h"

namespace shardfeed {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = 2 << 20;

// Rounds up by less than an eighth, so that batches of about the same size reuse each other's
// blocks; large blocks are whole huge pages.
size_t BlockSize(size_t size) {
  const size_t step = std::bit_floor(size | kPage * 8) / 8;
  const size_t rounded = RoundUp(size > 0 ? size : 1, step);
  return RoundUp(rounded, rounded >= kHugePage ? kHugePage : kPage);
}

// Maps `size` bytes, aligned to huge pages if they fill one; returns null on failure. The pages are
// not yet present: pinning touches them first, which places them on `node`.
char* Map(size_t size, int node) {
  const size_t extra = size >= kHugePage ? kHugePage : 0;
  void* mapped =
      mmap(nullptr, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapped);
  if (extra > 0) {
    char* aligned = reinterpret_cast<char*>(RoundUp(reinterpret_cast<size_t>(begin), kHugePage));
    if (aligned > begin) munmap(begin, aligned - begin);
    if (aligned < begin + extra) munmap(aligned + size, begin + extra - aligned);
    begin = aligned;
    madvise(begin, size, MADV_HUGEPAGE);  // advice, so errors do not matter
  }
  // The device keeps using the physical pages, but after fork this process could be writing to
  // copies of them. A child process cannot use them anyway.
  madvise(begin, size, MADV_DONTFORK);
  // Preferred, not bound: memory on another node is better than none. A kernel without NUMA support
  // fails, which does no harm.
  if (node >= 0 && node < 64) {
    constexpr int kPreferred = 1;  // MPOL_PREFERRED
    const unsigned long mask = 1ul << node;
    syscall(SYS_mbind, begin, size, kPreferred, &mask, sizeof(mask) * 8 + 1, 0);
  }
  return begin;
}

}  // namespace

PinnedPool::PinnedPool(std::shared_ptr<const CudaDevice> device, uint64_t max_bytes)
    : device_(std::move(device)), max_bytes_(max_bytes) {}

std::shared_ptr<PinnedPool> PinnedPool::Create(std::shared_ptr<const CudaDevice> device,
                                               uint64_t max_bytes) {
  return std::shared_ptr<PinnedPool>(new PinnedPool(std::move(device), max_bytes));
}

PinnedPool::~PinnedPool() {
  for (const auto& [size, blocks] : idle_) {
    for (char* data : blocks) Unpin(data, size);
  }
}

std::shared_ptr<char> PinnedPool::Allocate(size_t size) {
  const size_t block = BlockSize(size);
  if (std::shared_ptr<char> idle = TakeIdle(block)) return idle;
  bool fits = false;
  std::vector<std::pair<char*, size_t>> surplus;
  {
    // Free idle blocks of other sizes to make room.
    MutexLock lock(mutex_);
    if (stats_.bytes - stats_.idle_bytes + block <= max_bytes_) {
      while (stats_.bytes + block > max_bytes_) {
        const auto it = idle_.begin();
        surplus.emplace_back(it->second.back(), it->first);
        it->second.pop_back();
        stats_.bytes -= it->first;
        stats_.idle_bytes -= it->first;
        pinned_.erase(surplus.back().first);
        if (it->second.empty()) idle_.erase(it);
      }
      stats_.bytes += block;  // reserved
      fits = true;
    }
  }
  for (const auto& [data, bytes] : surplus) Unpin(data, bytes);
  if (fits) {
    absl::StatusOr<std::shared_ptr<char>> pinned = Pin(block);
    if (pinned.ok()) return *std::move(pinned);
  }
  {
    MutexLock lock(mutex_);
    ++stats_.refused;
    if (fits) stats_.bytes -= block;
  }
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(size);
  char* data = buffer->data();
  return {std::move(buffer), data};
}

absl::StatusOr<std::shared_ptr<char>> PinnedPool::AllocatePinned(size_t size) {
  const size_t block = BlockSize(size);
  if (std::shared_ptr<char> idle = TakeIdle(block)) return idle;
  {
    MutexLock lock(mutex_);
    stats_.bytes += block;
  }
  absl::StatusOr<std::shared_ptr<char>> pinned = Pin(block);
  if (!pinned.ok()) {
    MutexLock lock(mutex_);
    stats_.bytes -= block;
  }
  return pinned;
}

bool PinnedPool::Contains(const void* data, size_t size) const {
  const char* begin = static_cast<const char*>(data);
  MutexLock lock(mutex_);
  auto it = pinned_.upper_bound(begin);
  if (it == pinned_.begin()) return false;
  --it;
  const size_t offset = begin - it->first;
  return offset <= it->second && size <= it->second - offset;
}

PinnedPoolStats PinnedPool::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

std::shared_ptr<char> PinnedPool::TakeIdle(size_t size) {
  char* data;
  {
    MutexLock lock(mutex_);
    const auto it = idle_.find(size);
    if (it == idle_.end()) return nullptr;
    data = it->second.back();
    it->second.pop_back();
    if (it->second.empty()) idle_.erase(it);
    stats_.idle_bytes -= size;
  }
  return Share(data, size);
}

// The caller has already added `size` to stats_.bytes.
absl::StatusOr<std::shared_ptr<char>> PinnedPool::Pin(size_t size) {
  char* data = Map(size, device_->numa_node());
  if (data == nullptr) {
    return absl::ResourceExhaustedError(fmt::format("cannot allocate {} bytes of memory to pin: {}",
                                                    size, std::generic_category().message(errno)));
  }
  const CudaContextScope scope(*device_);
  const CudaDriver& driver = device_->driver();
  absl::Status status = driver.Check(driver.MemHostRegister(data, size, kCuMemHostRegisterPortable),
                                     "cuMemHostRegister");
  if (!status.ok()) {
    munmap(data, size);
    return absl::ResourceExhaustedError(
        fmt::format("cannot pin {} bytes of memory: {}; use a smaller budget", size,
                    std::string(status.message())));
  }
  {
    MutexLock lock(mutex_);
    pinned_[data] = size;
  }
  return Share(data, size);
}

std::shared_ptr<char> PinnedPool::Share(char* data, size_t size) {
  return {data, [pool = shared_from_this(), size](char* block) { pool->Return(block, size); }};
}

void PinnedPool::Return(char* data, size_t size) {
  {
    MutexLock lock(mutex_);
    if (stats_.bytes <= max_bytes_) {
      idle_[size].push_back(data);
      stats_.idle_bytes += size;
      return;
    }
    pinned_.erase(data);
    stats_.bytes -= size;
  }
  Unpin(data, size);
}

void PinnedPool::Unpin(char* data, size_t size) {
  const CudaContextScope scope(*device_);
  device_->driver().MemHostUnregister(data);
  munmap(data, size);
}

}  // namespace shardfeed
