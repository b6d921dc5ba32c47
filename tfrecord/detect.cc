#include "tfrecord/detect.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Returns whether the content, decompressed as `compression`, starts with an intact header, or
// nullopt if the content or the sample ends too early to decide, or cannot be decompressed.
std::optional<bool> StartsWithRecord(Compression compression, std::string_view first_bytes) {
  MemorySource source(first_bytes);
  std::unique_ptr<Decompressor> content = MakeDecompressor(compression, &source);
  char header[kHeaderBytes];
  size_t have = 0;
  while (have < kHeaderBytes) {
    absl::StatusOr<size_t> n = content->Read(absl::MakeSpan(header + have, kHeaderBytes - have));
    if (!n.ok() || *n == 0) return std::nullopt;
    have += *n;
  }
  uint64_t length;
  return ReadHeader(header, &length);
}

std::string FirstBytes(std::string_view bytes) {
  std::string hex;
  for (unsigned char byte : bytes.substr(0, 8)) hex += fmt::format("{:02x} ", byte);
  if (!hex.empty()) hex.pop_back();
  return hex;
}

}  // namespace

absl::StatusOr<Compression> DetectCompression(std::string_view first_bytes) {
  if (first_bytes.empty()) return Compression::kNone;
  uint64_t length;
  if (first_bytes.size() >= kHeaderBytes && ReadHeader(first_bytes.data(), &length)) {
    return Compression::kNone;
  }
  const auto byte = [&](size_t i) -> unsigned {
    return i < first_bytes.size() ? static_cast<unsigned char>(first_bytes[i]) : 0;
  };
  if (byte(0) == 0x1f && byte(1) == 0x8b) {
    // Truncated or damaged GZIP data counts as GZIP; only intact GZIP data of another format is
    // rejected.
    if (StartsWithRecord(Compression::kGzip, first_bytes).value_or(true)) return Compression::kGzip;
    return absl::DataLossError(
        "not a TFRecord file: GZIP data whose content does not start with a record");
  }
  // The two magic bytes of ZLIB are weak evidence, so the content must confirm them unless every
  // other format is ruled out.
  const bool zlib_magic = (byte(0) & 0x0f) == 8 && (byte(0) >> 4) <= 7 &&
                          (byte(0) << 8 | byte(1)) % 31 == 0 && first_bytes.size() >= 2;
  if (zlib_magic && StartsWithRecord(Compression::kZlib, first_bytes).value_or(false)) {
    return Compression::kZlib;
  }
  if (StartsWithRecord(Compression::kSnappy, first_bytes).value_or(false)) {
    return Compression::kSnappy;
  }
  if (FindHeader(first_bytes) != std::string_view::npos) return Compression::kNone;
  if (zlib_magic && !StartsWithRecord(Compression::kZlib, first_bytes)) return Compression::kZlib;
  if (first_bytes.size() < kHeaderBytes) {
    return absl::DataLossError(
        fmt::format("not a TFRecord file, or truncated within its first record: {} bytes, {}",
                    first_bytes.size(), FirstBytes(first_bytes)));
  }
  return absl::DataLossError(fmt::format(
      "not a TFRecord file: starts with {}, which is neither a record nor GZIP, ZLIB or SNAPPY",
      FirstBytes(first_bytes)));
}

}  // namespace shardfeed
