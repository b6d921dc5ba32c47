#include "tfrecord/mds_frames.h"

#include "base/little_endian.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// More than this is let go after a rare huge sample.
constexpr size_t kKeptBytes = 8 << 20;

}  // namespace

std::string MdsPayloads::Add(const MdsColumns& columns, std::string_view sample) {
  const size_t before = bytes_.size();
  AppendLittleEndian<uint64_t>(sample.size(), &bytes_);
  AppendLittleEndian<uint64_t>(columns.crc(), &bytes_);
  static_assert(2 * sizeof(uint64_t) == kFrameBytes);
  const size_t begin = bytes_.size();
  std::string wrong = columns.AppendExample(sample, &bytes_);
  if (wrong.empty()) {
    ends_.emplace_back(begin, bytes_.size());
  } else {
    bytes_.resize(before);
  }
  return wrong;
}

void MdsPayloads::Clear() {
  bytes_.clear();
  ends_.clear();
  if (bytes_.capacity() > kKeptBytes) bytes_ = std::string();
}

}  // namespace shardfeed
