// A stream of bytes that is read once, sequentially.

#ifndef SHARDFEED_IO_BYTE_SOURCE_H_
#define SHARDFEED_IO_BYTE_SOURCE_H_

#include <algorithm>
#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardfeed {

// Implemented by files and by decompressors, so that neither depends on the other. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads bytes into the beginning of `dst` and returns their number: at least one, or zero at the
  // end of the data (and for an empty `dst`). After an error the source must not be read again.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> dst) = 0;
};

// Bytes that are already in memory. They must outlive the source.
class MemorySource : public ByteSource {
 public:
  explicit MemorySource(absl::Span<const char> bytes) : bytes_(bytes) {}

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    const size_t n = dst.size() < bytes_.size() ? dst.size() : bytes_.size();
    std::copy_n(bytes_.data(), n, dst.data());
    bytes_.remove_prefix(n);
    return n;
  }

 private:
  absl::Span<const char> bytes_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BYTE_SOURCE_H_
