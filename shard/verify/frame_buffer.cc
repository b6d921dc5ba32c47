#include "shard/verify/frame_buffer.h"

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"
#include "base/little_endian.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr size_t kReadBytes = 256 << 10;
// A run of frames of this size is not considered to be part of a record's payload.
constexpr size_t kChainBytes = 64 << 10;

}  // namespace

absl::StatusOr<bool> FrameBuffer::Ensure(uint64_t size) {
  if (end_ - begin_ >= size) return true;
  if (ended_) return false;
  if (begin_ < end_) std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (end_ < size && !ended_) {
    if (bytes_.size() - end_ < kReadBytes) {
      const size_t more = std::max<uint64_t>(bytes_.size() + kReadBytes,
                                             std::min<uint64_t>(2 * end_, size + kReadBytes));
      bytes_.reserve(more);  // Without this, resize may double the capacity.
      bytes_.resize(more);
    }
    absl::StatusOr<size_t> n =
        source_->Read(absl::MakeSpan(bytes_.data() + end_, bytes_.size() - end_));
    if (!n.ok()) return n.status();
    if (*n == 0) ended_ = true;
    end_ += *n;
  }
  return end_ >= size;
}

absl::StatusOr<bool> FrameBuffer::EnsureFrame(size_t at, uint64_t length) {
  if (length > UINT64_MAX / 2 || length + kFrameBytes > most_frame_bytes_) return false;
  return Ensure(at + kFrameBytes + length);
}

void FrameBuffer::Restart(uint64_t offset) {
  begin_ = end_ = 0;
  ended_ = false;
  offset_ = offset;
}

bool FrameBuffer::ReadHeaderAt(size_t at, uint64_t* length) const {
  return at + kHeaderBytes <= size() && ReadHeader(view().data() + at, length) &&
         *length <= UINT64_MAX / 2;
}

absl::StatusOr<bool> FrameBuffer::HeaderAt(size_t at) {
  absl::StatusOr<bool> there = Ensure(at + kHeaderBytes);
  if (!there.ok() || !*there) return there;
  uint64_t length;
  return ReadHeaderAt(at, &length);
}

absl::StatusOr<bool> FrameBuffer::EndsAt(size_t at) {
  absl::StatusOr<bool> more = Ensure(at + 1);
  if (!more.ok()) return more.status();
  return !*more && size() == at;
}

bool FrameBuffer::PayloadFits(size_t at, uint64_t length) const {
  const std::string_view payload = view().substr(at + kHeaderBytes, length);
  return LoadLittleEndian<uint32_t>(payload.data() + length) == MaskCrc(Crc32c(payload));
}

absl::StatusOr<bool> FrameBuffer::MendHeaderAt(size_t at, std::optional<uint64_t> frame_bytes) {
  absl::StatusOr<bool> there = Ensure(at + kFrameBytes);
  if (!there.ok() || !*there) return there;
  const auto try_length = [&](uint64_t length) -> absl::StatusOr<bool> {
    absl::StatusOr<bool> whole = EnsureFrame(at, length);
    if (!whole.ok() || !*whole) return whole;
    if (!PayloadFits(at, length)) return false;
    WriteHeader(length, data() + at);
    return true;
  };
  if (frame_bytes && *frame_bytes >= kFrameBytes) {
    absl::StatusOr<bool> mended = try_length(*frame_bytes - kFrameBytes);
    if (!mended.ok() || *mended) return mended;
  }
  const auto length = LoadLittleEndian<uint64_t>(data() + at);
  const auto crc = LoadLittleEndian<uint32_t>(data() + at + 8);
  const uint32_t wrong = crc ^ MaskCrc(Crc32cU64(length));
  for (int byte = 0; byte < 4; ++byte) {
    if ((wrong & ~(uint32_t{0xff} << (8 * byte))) != 0) continue;
    absl::StatusOr<bool> mended = try_length(length);
    if (!mended.ok() || *mended) return mended;
    break;
  }
  for (int byte = 0; byte < 8; ++byte) {
    for (uint64_t change = 1; change < 256; ++change) {
      const uint64_t other = length ^ change << (8 * byte);
      if (MaskCrc(Crc32cU64(other)) != crc) continue;
      absl::StatusOr<bool> mended = try_length(other);
      if (!mended.ok() || *mended) return mended;
    }
  }
  return false;
}

absl::StatusOr<FrameBuffer::Chain> FrameBuffer::FollowChain(size_t at, size_t* end) {
  size_t z = at;
  uint64_t length;
  while (z - at < kChainBytes) {
    absl::StatusOr<bool> there = Ensure(z + kHeaderBytes);
    if (!there.ok()) return there.status();
    if (!ReadHeaderAt(z, &length)) break;
    there = EnsureFrame(z, length);
    if (!there.ok()) return there.status();
    if (!*there) break;
    z += kFrameBytes + length;
  }
  *end = z;
  absl::StatusOr<bool> ends = EndsAt(z);
  if (!ends.ok()) return ends.status();
  if (*ends || z - at >= kChainBytes) return Chain::kStrong;
  // If a header or the end follows after four more bytes, these bytes are the footer of a record
  // whose payload ends with the run.
  ends = EndsAt(z + kFooterBytes);
  if (ends.ok() && !*ends) ends = HeaderAt(z + kFooterBytes);
  if (!ends.ok()) return ends.status();
  return *ends ? Chain::kNested : Chain::kWeak;
}

}  // namespace shardfeed
