// The bytes of a damaged shard's frames.

#ifndef SHARDFEED_SHARD_FRAME_BUFFER_H_
#define SHARDFEED_SHARD_FRAME_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "io/byte_source.h"

namespace shardfeed {

// A growing buffer over a source, whose bytes can be mended. Places in it are counted from its
// first byte. Errors are those of the source. Not thread safe.
class FrameBuffer {
 public:
  // `offset`: of the source's first byte in the stream. No frame is larger than `most_frame_bytes`.
  FrameBuffer(ByteSource* source, uint64_t offset, uint64_t most_frame_bytes)
      : source_(source), offset_(offset), most_frame_bytes_(most_frame_bytes) {}

  // Reads until there are `size` bytes, and returns whether there are. Memory grows with what was
  // really read.
  absl::StatusOr<bool> Ensure(uint64_t size);
  // The same up to the end of the frame at `at` whose payload has `length` bytes.
  absl::StatusOr<bool> EnsureFrame(size_t at, uint64_t length);
  void Consume(size_t size) {
    begin_ += size;
    offset_ += size;
  }
  // The source goes on elsewhere.
  void Restart(uint64_t offset);

  std::string_view view() const { return {bytes_.data() + begin_, end_ - begin_}; }
  char* data() { return bytes_.data() + begin_; }
  size_t size() const { return end_ - begin_; }
  uint64_t offset() const { return offset_; }  // in the stream, of the first byte

  // Whether a sound header is at `at`; only in what was read.
  bool ReadHeaderAt(size_t at, uint64_t* length) const;
  // The same, and reads it.
  absl::StatusOr<bool> HeaderAt(size_t at);
  // Whether the source ends there.
  absl::StatusOr<bool> EndsAt(size_t at);
  // Whether the payload of the frame at `at`, which was read, is sound.
  bool PayloadFits(size_t at, uint64_t length) const;

  // Makes the header at `at` sound if that leads to a record whose payload fits: its length that of
  // a frame of `frame_bytes`, if that is known, or with one byte of the header changed.
  absl::StatusOr<bool> MendHeaderAt(size_t at, std::optional<uint64_t> frame_bytes);

  // How a run of frames ends.
  enum class Chain { kStrong, kWeak, kNested };
  // Of that whose first header is at `at`.
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

#endif  // SHARDFEED_SHARD_FRAME_BUFFER_H_
