// ScanFrames beside a simple reader. The first byte chooses the checks.

#include "tests/fuzz/fuzz.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

uint32_t PlainMaskedCrc(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const unsigned char byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82f63b78 & -(crc & 1));
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

uint64_t Number(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = bytes.size(); i > 0; --i) number = number << 8 | uint8_t(bytes[i - 1]);
  return number;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool at_end = data[0] & 1;
  const CrcCheck check = data[0] & 2 ? CrcCheck::kAll : CrcCheck::kHeader;
  const std::string_view bytes = testing::View(data + 1, size - 1);

  std::vector<Record> expected;
  FrameDefect defect = FrameDefect::kNone;
  size_t at = 0;
  while (at < bytes.size()) {
    const std::string_view rest = bytes.substr(at);
    if (rest.size() < kHeaderBytes) {
      if (at_end) defect = FrameDefect::kCutHeader;
      break;
    }
    if (PlainMaskedCrc(rest.substr(0, 8)) != Number(rest.substr(8, 4))) {
      defect = FrameDefect::kLengthCrc;
      break;
    }
    const uint64_t length = Number(rest.substr(0, 8));
    if (rest.size() - kHeaderBytes < length) {
      if (at_end) defect = FrameDefect::kCutPayload;
      break;
    }
    if (rest.size() - kHeaderBytes - length < kFooterBytes) {
      if (at_end) defect = FrameDefect::kCutFooter;
      break;
    }
    const std::string_view payload = rest.substr(kHeaderBytes, length);
    if (check == CrcCheck::kAll &&
        PlainMaskedCrc(payload) != Number(rest.substr(kHeaderBytes + length, kFooterBytes))) {
      defect = FrameDefect::kPayloadCrc;
      break;
    }
    expected.push_back({payload, 1000 + at});
    at += length + kFrameBytes;
  }

  std::vector<Record> records;
  const FrameScan scan = ScanFrames(bytes, 1000, at_end, check, SIZE_MAX, &records);
  FUZZ_EXPECT(scan.consumed == at);
  FUZZ_EXPECT(scan.defect == defect);
  FUZZ_EXPECT(records.size() == expected.size());
  for (size_t i = 0; i < records.size(); ++i) {
    FUZZ_EXPECT(records[i].payload.data() == expected[i].payload.data());
    FUZZ_EXPECT(records[i].payload.size() == expected[i].payload.size());
    FUZZ_EXPECT(records[i].offset == expected[i].offset);
  }

  size_t header = 0;
  while (header + kHeaderBytes <= bytes.size() &&
         PlainMaskedCrc(bytes.substr(header, 8)) != Number(bytes.substr(header + 8, 4))) {
    ++header;
  }
  if (header + kHeaderBytes > bytes.size()) header = std::string_view::npos;
  FUZZ_EXPECT(FindHeader(bytes) == header);
  return 0;
}

}  // namespace shardfeed
