// Payloads that differ from the bytes in the file and so have memory of their own.

#ifndef SHARDFEED_TFRECORD_FRAMED_PAYLOADS_H_
#define SHARDFEED_TFRECORD_FRAMED_PAYLOADS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/little_endian.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// Collects payloads, each preceded by what FrameBytes and RecordsDigest need. Not thread-safe; its
// memory is used again.
class FramedPayloads {
 public:
  size_t size() const { return ends_.size(); }
  // Bytes of memory that the payloads need.
  size_t bytes() const { return bytes_.size(); }
  // Begins a payload, whose frame counts as one of `length` bytes, and returns the string that it
  // is to be appended to. End or Cancel must follow.
  std::string* Begin(uint64_t length, uint32_t digest) {
    before_ = bytes_.size();
    AppendLittleEndian<uint64_t>(length, &bytes_);
    AppendLittleEndian<uint64_t>(digest, &bytes_);
    static_assert(2 * sizeof(uint64_t) == kFrameBytes);
    return &bytes_;
  }
  void End() { ends_.emplace_back(before_ + kFrameBytes, bytes_.size()); }
  void Cancel() { bytes_.resize(before_); }

  // Moves the payloads to `memory` of bytes() bytes, which is never null, and calls
  // `take(i, payload)` for each.
  template <typename Take>
  void MoveTo(char* memory, const Take& take) {
    bytes_.copy(memory, bytes_.size());
    for (size_t i = 0; i < ends_.size(); ++i) {
      take(i, std::string_view(memory + ends_[i].first, ends_[i].second - ends_[i].first));
    }
    bytes_.clear();
    ends_.clear();
    // More memory than this is released after a rare huge payload.
    constexpr size_t kKeptBytes = 8 << 20;
    if (bytes_.capacity() > kKeptBytes) bytes_ = std::string();
  }

 private:
  std::string bytes_;
  std::vector<std::pair<size_t, size_t>> ends_;  // where each payload begins and ends
  size_t before_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_FRAMED_PAYLOADS_H_
