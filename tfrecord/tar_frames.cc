#include "tfrecord/tar_frames.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "tfrecord/crc32c.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/tar_samples.h"

namespace shardfeed {
namespace {

// Tags of tfrecord/example.proto: all fields on the way to a value are number 1, except for the
// Feature of a map entry; and the tag of a field that no message has, which covers what is left
// over.
constexpr char kField1 = 1 << 3 | 2;
constexpr char kField2 = 2 << 3 | 2;
constexpr char kUnknown = 15 << 3 | 2;
// A length in this many bytes, so that it need not be known how long the shortest one is.
constexpr size_t kLongLength = 5;

size_t LengthBytes(uint64_t length) {
  size_t n = 1;
  while (length >>= 7) ++n;
  return n;
}

// Writes a length in `n` bytes, which may be more than the shortest encoding has.
char* WriteLength(uint64_t length, size_t n, char* at) {
  for (; n > 1; --n, length >>= 7) *at++ = static_cast<char>(length | 0x80);
  *at++ = static_cast<char>(length);
  return at;
}

char* WriteField(char tag, uint64_t length, char* at) {
  *at++ = tag;
  return WriteLength(length, LengthBytes(length), at);
}

uint64_t FieldBytes(uint64_t length) { return 1 + LengthBytes(length) + length; }

// The map entry of a bytes feature with one value.
struct Entry {
  Entry(std::string_view name_of_it, uint64_t size)
      : name(name_of_it),
        value(size),
        list(FieldBytes(value)),
        feature(FieldBytes(list)),
        entry(FieldBytes(name.size()) + FieldBytes(feature)) {}

  // Size of everything before the value.
  size_t HeadBytes() const { return FieldBytes(entry) - value; }
  char* WriteHead(char* at) const {
    at = WriteField(kField1, entry, at);
    at = WriteField(kField1, name.size(), at);
    at = std::copy(name.begin(), name.end(), at);
    at = WriteField(kField2, feature, at);
    at = WriteField(kField1, list, at);
    return WriteField(kField1, value, at);
  }

  std::string_view name;
  uint64_t value;  // sizes of the fields' contents, from the inside to the outside
  uint64_t list;
  uint64_t feature;
  uint64_t entry;
};

// Covers [from, to), which must not be one byte, by an unknown field of zeros.
void Cover(char* from, char* to) {
  const size_t room = to - from;
  if (room == 0) return;
  const size_t length_bytes = std::min(room - 1, kLongLength);
  *from++ = kUnknown;
  from = WriteLength(room - 1 - length_bytes, length_bytes, from);
  std::memset(from, 0, to - from);
}

// Makes the payload of the sample, whose bytes `frame` are. The room is enough: before a content is
// at least a header of 512 bytes, and before that a name that does not fit into it.
std::string_view MakePayload(const TarSample& sample, absl::Span<char> frame) {
  char* const begin = frame.data();
  const auto place = [&](uint64_t offset) { return begin + (offset - sample.begin); };
  const TarPart& last = sample.parts.back();
  // A single byte cannot be covered.
  const bool single = sample.end - last.offset - last.size == 1;
  char* const payload = begin + kFrameBytes - (single ? 1 : 0);
  char* const end = place(sample.end) - (single ? 1 : 0);
  // The digest of records needs it: see RecordsDigest.
  std::memset(begin, 0, payload - begin);
  StoreLittleEndian(MaskCrc(sample.headers_crc), payload - sizeof(uint32_t));
  char* at = payload;
  *at++ = kField1;
  at = WriteLength(end - at - kLongLength, kLongLength, at);
  at = Entry(kTarKey, sample.key.size()).WriteHead(at);
  at = std::copy(sample.key.begin(), sample.key.end(), at);
  for (const TarPart& part : sample.parts) {
    const Entry entry(part.extension, part.size);
    char* const head = place(part.offset) - entry.HeadBytes();
    Cover(at, head);
    entry.WriteHead(head);
    at = place(part.offset + part.size);
  }
  Cover(at, end);
  return {payload, static_cast<size_t>(end - payload)};
}

}  // namespace

FrameScan ScanTarFrames(absl::Span<char> bytes, uint64_t offset, bool at_end, uint64_t archive_end,
                        size_t max_records, std::vector<Record>* records) {
  FrameScan scan;
  const uint64_t end = offset + bytes.size();
  TarSampleWalk walk(offset, end,
                     at_end ? TarSampleWalk::Extent::kArchive : TarSampleWalk::Extent::kMore,
                     archive_end);
  const auto peek = [&](uint64_t at, size_t size) -> absl::StatusOr<std::string_view> {
    return std::string_view(bytes.data(), bytes.size()).substr(at - offset, size);
  };
  TarSample sample;
  while (records->size() < max_records) {
    const TarSampleWalk::Outcome outcome = *walk.Next(peek, &sample);
    switch (outcome) {
      case TarSampleWalk::Outcome::kSample: {
        const size_t frame_bytes = sample.end - sample.begin;
        records->push_back(
            {MakePayload(sample, bytes.subspan(scan.consumed, frame_bytes)), sample.begin});
        scan.consumed += frame_bytes;
        scan.skipped += sample.skipped;
        break;
      }
      case TarSampleWalk::Outcome::kEnd:
        scan.ends = true;
        scan.skipped_at_end = walk.skipped_at_end();
        scan.frame_bytes = walk.end_of_archive() - offset - scan.consumed;
        return scan;
      case TarSampleWalk::Outcome::kIncomplete:
        scan.frame_bytes = walk.needed() - offset - scan.consumed;
        return scan;
      case TarSampleWalk::Outcome::kDefect:
        scan.defect = FrameDefect::kTar;
        scan.detail = fmt::format("{} at byte {}", walk.defect().what, walk.defect().offset);
        return scan;
    }
  }
  return scan;
}

std::string_view TarKeyOf(std::string_view payload) {
  std::string_view key;
  (void)VisitBytes(payload, [&key](std::string_view name, std::string_view value) {
    if (name == kTarKey) key = value;
  });
  return key;
}

std::string ReadTarFrame(absl::Span<char> frame, uint64_t offset, std::string_view* payload) {
  TarSampleWalk walk(offset, offset + frame.size(), TarSampleWalk::Extent::kSample);
  thread_local TarSample sample;  // reused, to allocate once
  const auto peek = [&](uint64_t at, size_t size) -> absl::StatusOr<std::string_view> {
    return std::string_view(frame.data(), frame.size()).substr(at - offset, size);
  };
  if (*walk.Next(peek, &sample) != TarSampleWalk::Outcome::kSample) {
    return fmt::format("{} at byte {}", walk.defect().what, walk.defect().offset);
  }
  if (sample.end - sample.begin != frame.size()) {
    return fmt::format("its index says that it has {} bytes, but it has {}", frame.size(),
                       sample.end - sample.begin);
  }
  *payload = MakePayload(sample, frame);
  return {};
}

}  // namespace shardfeed
