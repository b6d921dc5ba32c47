// TFRecord framing: the layout of consecutive records in a stream of bytes.
//
//   uint64  length of the payload
//   uint32  masked CRC-32C of those eight bytes
//   byte    payload[length]
//   uint32  masked CRC-32C of the payload
//
// Integers are little-endian; nothing precedes, separates or follows the records. Source:
// TensorFlow's tensorflow/core/lib/io/record_writer.cc and the TFRecord guide on tensorflow.org.

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
// Number of bytes that framing adds to each payload.
inline constexpr size_t kFrameBytes = kHeaderBytes + kFooterBytes;

// A payload, and the offset of its frame in the (decompressed) stream. The payload is borrowed and
// valid as long as the bytes that were scanned.
struct Record {
  std::string_view payload;
  uint64_t offset;
};

// Size of the record's frame in its stream. The payload must be that of a whole frame, or one of
// FramedPayloads.
inline uint64_t FrameBytes(const Record& record, Framing framing) {
  const uint64_t length = framing == Framing::kMds || framing == Framing::kArrayRecord
                              ? LoadLittleEndian<uint64_t>(record.payload.data() - kFrameBytes)
                              : record.payload.size();
  return length + kFrameBytes;
}

enum class FrameDefect {
  kNone,
  kCutHeader,    // The stream ends within the length and its CRC.
  kLengthCrc,    // The length does not match its CRC, so the end of the record is unknown.
  kCutPayload,   // The stream ends within the payload.
  kCutFooter,    // The stream ends within the payload's CRC.
  kPayloadCrc,   // The payload does not match its CRC; the next record can still be read.
  kTar,          // The sample of a tar shard is not sound; see FrameScan::detail.
  kMds,          // The sample of an MDS shard is not sound; the next one can still be read.
  kArrayRecord,  // The chunk of an ArrayRecord shard is not sound; the next one can still be read.
};

// Returns the defect's name in messages and JSON reports, such as "length CRC" or "cut payload".
std::string_view FrameDefectName(FrameDefect defect);

// The position at which a scan stopped, and why.
struct FrameScan {
  // Total size of the complete, intact frames.
  size_t consumed = 0;
  // The defect of the frame at `consumed`; kNone also if the frame is merely incomplete.
  FrameDefect defect = FrameDefect::kNone;
  // Size of the frame at `consumed` as far as it is known: more than the available bytes if the
  // frame is incomplete, 0 if no bytes are left or the length is unreliable.
  uint64_t frame_bytes = 0;
  // For tar shards: what kTar means; whether the archive ends here; and how many members, apart
  // from folders, belong to no sample, in the consumed frames and at the end of the archive.
  std::string detail;
  bool ends = false;
  uint64_t skipped = 0;
  uint64_t skipped_at_end = 0;
};

// Appends the frames of `bytes`, which start at `offset` of the stream, to `records`, until the
// bytes end, a frame is defective, or `records` holds `max_records`. An incomplete frame at the end
// is a defect only if `at_end` says that no more bytes will follow. A length is compared with the
// number of available bytes before it is used; with CrcCheck::kNone, that is its only check.
FrameScan ScanFrames(std::string_view bytes, uint64_t offset, bool at_end, CrcCheck check,
                     size_t max_records, std::vector<Record>* records);

// Returns the offset in `bytes` of the first complete header with a correct CRC, or npos. Used to
// find the next record after damage: 1 in 2^32 positions of random bytes looks like a header.
size_t FindHeader(std::string_view bytes);

// Sets the length, and returns whether the twelve bytes at `header` are a header with a correct
// CRC.
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

// A digest of the records of a shard and their order: the CRC-32C of the concatenation of all
// headers and footers (not of payloads, which the footers represent). It can be computed without
// reading payloads, and is the same whether or not the shard is compressed. Tar shards have no such
// footers: the CRC-32C of the headers of a sample's files takes their place. In MDS shards, it is
// that of the description of the columns, and the lengths are those of the samples. The digest of
// an ArrayRecord shard with records is that of its footer, which lists its chunks.
class RecordsDigest {
 public:
  explicit RecordsDigest(Framing framing = Framing::kTfRecord) : framing_(framing) {}
  void Add(uint64_t length, uint32_t masked_payload_crc) {
    crc_ = ExtendCrc32cU64(crc_, length);
    crc_ = ExtendCrc32cU64(
        crc_, MaskCrc(Crc32cU64(length)) | static_cast<uint64_t>(masked_payload_crc) << 32);
  }
  // The records must be views of whole frames, such as those from ScanFrames or ScanTarFrames, or
  // those of FramedPayloads.
  void Add(const std::vector<Record>& records);
  uint32_t value() const { return crc_; }

 private:
  Framing framing_;
  uint32_t crc_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_FRAMING_H_
