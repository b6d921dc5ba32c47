#include "io/slab.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace shardfeed {
namespace {

constexpr size_t kHugePage = 2 << 20;

}  // namespace

Slab::Slab() {
  // Huge pages must be aligned, but a mapping need not be: map more and unmap both ends.
  void* mapping = ::mmap(nullptr, kBytes + kHugePage, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(mapping);
  const size_t front = -reinterpret_cast<uintptr_t>(begin) % kHugePage;
  data_ = begin + front;
  if (front > 0) ::munmap(begin, front);
  ::munmap(data_ + kBytes, kHugePage - front);
  ::madvise(data_, kBytes, MADV_HUGEPAGE);
}

Slab::~Slab() { ::munmap(data_, kBytes); }

std::optional<size_t> Slab::Take(size_t count) {
  if (count >= none_of_) return std::nullopt;
  // Invariant: the pages [begin, at) are free.
  size_t begin = 0;
  for (size_t at = 0; at < kPages;) {
    const uint64_t word = bits_[at / kWordBits] >> at % kWordBits;
    // Count the free pages of this word from `at` on, then the taken ones that follow.
    const size_t rest = kWordBits - at % kWordBits;
    const size_t free = std::min<size_t>(std::countr_zero(word), rest);
    at += free;
    if (at - begin >= count) {
      Mark(begin, count, true);
      taken_ += count;
      return begin;
    }
    if (free == rest) continue;
    at += std::countr_one(word >> free);
    begin = at;
  }
  none_of_ = count;
  return std::nullopt;
}

void Slab::GiveBack(size_t first, size_t count) {
  Mark(first, count, false);
  taken_ -= count;
  none_of_ = kPages + 1;
}

void Slab::Mark(size_t first, size_t count, bool taken) {
  for (size_t at = first; at < first + count;) {
    const size_t n = std::min(kWordBits - at % kWordBits, first + count - at);
    const uint64_t mask = (n == kWordBits ? ~uint64_t{0} : (uint64_t{1} << n) - 1)
                          << at % kWordBits;
    uint64_t& word = bits_[at / kWordBits];
    word = taken ? word | mask : word & ~mask;
    at += n;
  }
}

}  // namespace shardfeed
