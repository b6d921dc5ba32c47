// TFRecord framing: how records stand one after another in a stream of bytes.
//
//   uint64  length of the payload
//   uint32  masked CRC-32C of those eight bytes
//   byte    payload[length]
//   uint32  masked CRC-32C of the payload
//
// Little-endian, nothing before, between or after the records. Source: TensorFlow's
// tensorflow/core/lib/io/record_writer.cc and the TFRecord guide on tensorflow.org.

#ifndef SHARDFEED_TFRECORD_FRAMING_H_
#define SHARDFEED_TFRECORD_FRAMING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/little_endian.h"
#include "shardfeed/options.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {

inline constexpr size_t kHeaderBytes = 12;
inline constexpr size_t kFooterBytes = 4;
// What framing adds to each payload.
inline constexpr size_t kFrameBytes = kHeaderBytes + kFooterBytes;

// A payload, and where its frame starts in the (decompressed) stream. Borrowed: lives as long as
// the bytes that were scanned.
struct Record {
  std::string_view payload;
  uint64_t offset;
};

enum class FrameDefect {
  kNone,
  kCutHeader,   // the stream ends inside the length and its CRC
  kLengthCrc,   // the length is not what was written: where the record ends is unknown
  kCutPayload,  // the stream ends inside the payload
  kCutFooter,   // the stream ends inside the payload's CRC
  kPayloadCrc,  // the payload is not what was written; the next record can be read
};

// "length CRC", "cut payload" ...: for messages and for --json.
std::string_view FrameDefectName(FrameDefect defect);

// Where a scan stopped.
struct FrameScan {
  // Bytes of whole, sound frames.
  size_t consumed = 0;
  // What is wrong with the frame at `consumed`; kNone also when it is merely incomplete.
  FrameDefect defect = FrameDefect::kNone;
  // Size of the frame at `consumed` as far as it is known: more than is there when it is
  // incomplete, 0 when nothing is left or the length cannot be believed.
  uint64_t frame_bytes = 0;
};

// Appends the frames of `bytes`, which start at `offset` of the stream, to `records`, until the
// bytes end, something is wrong, or `records` holds `max_records`. An incomplete frame at the end
// is a defect only when `at_end` says that no more bytes will come. Lengths are compared with what
// is there before they are used; with CrcCheck::kNone they are believed otherwise.
FrameScan ScanFrames(std::string_view bytes, uint64_t offset, bool at_end, CrcCheck check,
                     size_t max_records, std::vector<Record>* records);

// Offset in `bytes` of the first place that holds a whole header with a sound CRC, or npos. Used to
// find the next record after damage: 1 in 2^32 places of random bytes looks like a header.
size_t FindHeader(std::string_view bytes);

// True, and the length set, when the twelve bytes at `header` are a header with a sound CRC.
inline bool ReadHeader(const char* header, uint64_t* length) {
  *length = LoadLittleEndian<uint64_t>(header);
  return LoadLittleEndian<uint32_t>(header + 8) == MaskCrc(Crc32cU64(*length));
}

inline void WriteHeader(uint64_t length, char* header) {
  StoreLittleEndian(length, header);
  StoreLittleEndian(MaskCrc(Crc32cU64(length)), header + 8);
}

// Appends the frame of `payload`.
void AppendFrame(std::string_view payload, std::string* out);

// One number for the records of a shard and their order: the CRC-32C of all headers and footers
// (not payloads: the footers stand for them) laid end to end. It can be had without reading
// payloads, and is the same whether the shard is compressed or not.
class RecordsDigest {
 public:
  void Add(uint64_t length, uint32_t masked_payload_crc) {
    crc_ = ExtendCrc32cU64(crc_, length);
    crc_ = ExtendCrc32cU64(
        crc_, MaskCrc(Crc32cU64(length)) | static_cast<uint64_t>(masked_payload_crc) << 32);
  }
  // The records must be views of whole frames, as ScanFrames gives them.
  void Add(const std::vector<Record>& records);
  uint32_t value() const { return crc_; }

 private:
  uint32_t crc_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_FRAMING_H_
