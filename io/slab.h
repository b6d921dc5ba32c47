// Large mappings that buffers are cut from.

#ifndef SHARDFEED_IO_SLAB_H_
#define SHARDFEED_IO_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardfeed {

// A block of memory, in huge pages if the system provides them: the cost of direct reads is mostly
// that of pinning each page (measured: 52 us for 1 MiB in small pages, 9 us in huge ones). Callers
// take and give back runs of small pages. Not thread-safe, except data() and size().
class Slab {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kBytes = 32 << 20;

  // Throws std::bad_alloc, as operator new does.
  Slab();
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Takes `count` >= 1 consecutive free pages and returns the index of the first; nullopt if there
  // is no such run. Takes the lowest run, so that recently used pages are reused.
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
  // No run of this many pages is free.
  size_t none_of_ = kPages + 1;
  // One bit per page, set if the page is taken.
  std::vector<uint64_t> bits_ = std::vector<uint64_t>(kPages / kWordBits);
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_SLAB_H_
