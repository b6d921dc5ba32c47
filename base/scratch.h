// Memory that is used again and again.

#ifndef SHARDFEED_BASE_SCRATCH_H_
#define SHARDFEED_BASE_SCRATCH_H_

#include <cstddef>
#include <memory>

namespace shardfeed {

// Not thread-safe.
class Scratch {
 public:
  // Returns memory of at least `bytes` bytes, which is valid until the next call. It is not
  // initialized: pages to which nothing is written take no memory, whatever size a file claims.
  char* Take(size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      memory_ = std::make_unique_for_overwrite<char[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }
  // Frees the memory after a rare huge use.
  void Shrink() {
    if (size_ <= kKeptBytes) return;
    memory_.reset();
    size_ = 0;
  }

 private:
  static constexpr size_t kKeptBytes = 8 << 20;

  std::unique_ptr<char[]> memory_;
  size_t size_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_SCRATCH_H_
