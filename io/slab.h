// Large mappings that buffers are cut from.

#ifndef SHARDFEED_IO_SLAB_H_
#define SHARDFEED_IO_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardfeed {

// Memory in huge pages where the system gives them: what reads past the page cache cost is mostly
// the kernel taking hold of each page (52 us for 1 MiB of small pages, 9 in huge ones, measured).
// Runs of small pages are taken and given back. Not thread safe, but for data() and size().
class Slab {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kBytes = 32 << 20;

  // Throws std::bad_alloc, as operator new does.
  Slab();
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // The first of `count` >= 1 free pages in a row, which are now taken; nullopt when there are not
  // so many. The lowest, so that what was used a moment ago is used again.
  std::optional<size_t> Take(size_t count);
  void GiveBack(size_t first, size_t count);

  char* data() const { return data_; }
  size_t size() const { return kBytes; }
  bool empty() const { return taken_ == 0; }

 private:
  static constexpr size_t kPages = kBytes / kPage;
  static constexpr size_t kWordBits = 64;

  void Mark(size_t first, size_t count, bool taken);

  char* data_;
  size_t taken_ = 0;
  // No run of so many pages is free.
  size_t none_of_ = kPages + 1;
  std::vector<uint64_t> bits_ = std::vector<uint64_t>(kPages / kWordBits);  // 1: taken
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_SLAB_H_
