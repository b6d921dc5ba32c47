// A buffer for the frames of a damaged shard.

#ifndef SHARDFEED_SHARD_VERIFY_FRAME_BUFFER_H_
#define SHARDFEED_SHARD_VERIFY_FRAME_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/byte_source.h"

namespace shardfeed {

// A growing buffer over a source, whose bytes can be repaired. Positions count from its first byte.
// Errors are those of the source. Not thread-safe.
class FrameBuffer {
 public:
  // `offset` is the stream offset of the source's first byte. No frame is larger than
  // `most_frame_bytes`.
  FrameBuffer(ByteSource* source, uint64_t offset, uint64_t most_frame_bytes)
      : source_(source), offset_(offset), most_frame_bytes_(most_frame_bytes) {}

  // Reads until the buffer has `size` bytes; returns false if the source ends before. Memory grows
  // with the bytes actually read.
  absl::StatusOr<bool> Ensure(uint64_t size);
  // The same, up to the end of the frame at `at`, whose payload has `length` bytes.
  absl::StatusOr<bool> EnsureFrame(size_t at, uint64_t length);
  void Consume(size_t size) {
    begin_ += size;
    offset_ += size;
  }
  // Empties the buffer, because the source continues at another `offset`.
  void Restart(uint64_t offset);

  std::string_view view() const { return {bytes_.data() + begin_, end_ - begin_}; }
  char* data() { return bytes_.data() + begin_; }
  size_t size() const { return end_ - begin_; }
  // Stream offset of the first byte.
  uint64_t offset() const { return offset_; }

  // Returns whether an intact header is at `at`; considers only bytes that have been read.
  bool ReadHeaderAt(size_t at, uint64_t* length) const;
  // The same, but reads the header first if necessary.
  absl::StatusOr<bool> HeaderAt(size_t at);
  // Returns whether the source ends at `at`.
  absl::StatusOr<bool> EndsAt(size_t at);
  // Returns whether the payload of the frame at `at`, which has been read, matches its CRC.
  bool PayloadFits(size_t at, uint64_t length) const;

  // Repairs the header at `at` if that yields a record whose payload matches its CRC: either with
  // the length of a frame of `frame_bytes`, if that is known, or by changing one byte of the
  // header.
  absl::StatusOr<bool> MendHeaderAt(size_t at, std::optional<uint64_t> frame_bytes);

  // How a run of frames ends: kStrong means at the end of the source or only after many bytes,
  // kNested means within the payload of another record, and kWeak is anything else.
  enum class Chain { kStrong, kWeak, kNested };
  // Follows the run of frames whose first header is at `at`, and sets `end` to the end of the run.
  absl::StatusOr<Chain> FollowChain(size_t at, size_t* end);

 private:
  ByteSource* const source_;
  uint64_t offset_;
  const uint64_t most_frame_bytes_;
  std::vector<char> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_VERIFY_FRAME_BUFFER_H_
