#include "tfrecord/framing.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include <algorithm>

namespace shardfeed {
namespace {

// The 16 bytes of framing around a payload, as two numbers.
struct FramingBytes {
  explicit FramingBytes(const Record& record) {
    const char* const header = record.payload.data() - kHeaderBytes;
    const char* const footer = record.payload.data() + record.payload.size();
    first = LoadLittleEndian<uint64_t>(header);
    second = LoadLittleEndian<uint32_t>(header + 8) |
             static_cast<uint64_t>(LoadLittleEndian<uint32_t>(footer)) << 32;
  }
  uint64_t first;
  uint64_t second;
};

uint32_t ExtendDigest(uint32_t crc, const std::vector<Record>& records) {
  for (const Record& record : records) {
    const FramingBytes framing(record);
    crc = ExtendCrc32cU64(ExtendCrc32cU64(crc, framing.first), framing.second);
  }
  return crc;
}

#if defined(__x86_64__)
// Each step depends on the previous one, so latency matters: three cycles for the instruction.
[[gnu::target("sse4.2")]] uint32_t ExtendDigestSse42(uint32_t crc,
                                                     const std::vector<Record>& records) {
  uint64_t state = static_cast<uint32_t>(~crc);
  for (const Record& record : records) {
    const FramingBytes framing(record);
    state = _mm_crc32_u64(_mm_crc32_u64(state, framing.first), framing.second);
  }
  return ~static_cast<uint32_t>(state);
}
#endif

}  // namespace

void RecordsDigest::Add(const std::vector<Record>& records) {
  if (framing_ == Framing::kTar) {
    for (const Record& record : records) {
      Add(record.payload.size(), LoadLittleEndian<uint32_t>(record.payload.data() - 4));
    }
    return;
  }
  if (framing_ == Framing::kArrayRecord) {
    if (!records.empty()) crc_ = LoadLittleEndian<uint32_t>(records[0].payload.data() - 8);
    return;
  }
  if (framing_ == Framing::kMds) {
    for (const Record& record : records) {
      const char* const before = record.payload.data() - kFrameBytes;
      Add(LoadLittleEndian<uint64_t>(before), LoadLittleEndian<uint32_t>(before + 8));
    }
    return;
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    crc_ = ExtendDigestSse42(crc_, records);
    return;
  }
#endif
  crc_ = ExtendDigest(crc_, records);
}

std::string_view FrameDefectName(FrameDefect defect) {
  switch (defect) {
    case FrameDefect::kNone:
      return "none";
    case FrameDefect::kCutHeader:
      return "cut header";
    case FrameDefect::kLengthCrc:
      return "length CRC";
    case FrameDefect::kCutPayload:
      return "cut payload";
    case FrameDefect::kCutFooter:
      return "cut footer";
    case FrameDefect::kPayloadCrc:
      return "payload CRC";
    case FrameDefect::kTar:
      return "tar sample";
    case FrameDefect::kMds:
      return "mds sample";
    case FrameDefect::kArrayRecord:
      return "array_record chunk";
  }
  return "unknown";
}

FrameScan ScanFrames(std::string_view bytes, uint64_t offset, bool at_end, CrcCheck check,
                     size_t max_records, std::vector<Record>* records) {
  FrameScan scan;
  auto stop = [&scan](FrameDefect defect, uint64_t frame_bytes) {
    scan.defect = defect;
    scan.frame_bytes = frame_bytes;
    return scan;
  };
  while (scan.consumed < bytes.size() && records->size() < max_records) {
    const char* header = bytes.data() + scan.consumed;
    const size_t available = bytes.size() - scan.consumed;
    if (available < kHeaderBytes) {
      return stop(at_end ? FrameDefect::kCutHeader : FrameDefect::kNone, kHeaderBytes);
    }
    const uint64_t length = LoadLittleEndian<uint64_t>(header);
    if (check != CrcCheck::kNone &&
        LoadLittleEndian<uint32_t>(header + 8) != MaskCrc(Crc32cU64(length))) {
      return stop(FrameDefect::kLengthCrc, 0);
    }
    // No frame ends beyond 2^64, but without the CRC check a length may claim so.
    if (length > UINT64_MAX - kFrameBytes) return stop(FrameDefect::kLengthCrc, 0);
    const uint64_t frame_bytes = length + kFrameBytes;
    if (frame_bytes > available) {
      FrameDefect cut = FrameDefect::kNone;
      if (at_end) {
        cut =
            length > available - kHeaderBytes ? FrameDefect::kCutPayload : FrameDefect::kCutFooter;
      }
      return stop(cut, frame_bytes);
    }
    const std::string_view payload(header + kHeaderBytes, length);
    if (check == CrcCheck::kAll &&
        LoadLittleEndian<uint32_t>(payload.data() + length) != MaskCrc(Crc32c(payload))) {
      return stop(FrameDefect::kPayloadCrc, frame_bytes);
    }
    records->push_back({payload, offset + scan.consumed});
    scan.consumed += frame_bytes;
  }
  return scan;
}

size_t FindHeader(std::string_view bytes) {
  uint64_t length;
  for (size_t i = 0; i + kHeaderBytes <= bytes.size(); ++i) {
    if (ReadHeader(bytes.data() + i, &length)) return i;
  }
  return std::string_view::npos;
}

void AppendFrame(std::string_view payload, std::string* out) {
  char header[kHeaderBytes];
  WriteHeader(payload.size(), header);
  out->append(header, kHeaderBytes);
  out->append(payload);
  AppendLittleEndian(MaskCrc(Crc32c(payload)), out);
}

}  // namespace shardfeed
