#include "tfrecord/detect.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "tfrecord/decompress.h"
#include "tfrecord/framing.h"
#include "tfrecord/mds_header.h"
#include "tfrecord/riegeli_chunk.h"
#include "tfrecord/tar_header.h"

namespace shardfeed {
namespace {

// What a compressed shard starts with. nullopt: the content ends too early to decide, or cannot be
// decompressed.
struct Start {
  std::optional<bool> record;
  std::optional<bool> tar;
};

Start StartOf(Compression compression, std::string_view first_bytes) {
  MemorySource source(first_bytes);
  std::unique_ptr<Decompressor> content = MakeDecompressor(compression, &source);
  std::string head(kTarBlock, '\0');
  size_t have = 0;
  while (have < head.size()) {
    absl::StatusOr<size_t> n = content->Read(absl::MakeSpan(head).subspan(have));
    if (!n.ok() || *n == 0) break;
    have += *n;
  }
  Start start;
  uint64_t length;
  if (have >= kHeaderBytes) start.record = ReadHeader(head.data(), &length);
  if (have == head.size()) start.tar = IsTarHeader(head);
  return start;
}

std::optional<bool> StartsWithRecord(Compression compression, std::string_view first_bytes) {
  return StartOf(compression, first_bytes).record;
}

// Whether a file whose first header is damaged has the magic of tar there, or another header.
bool LooksLikeTarBehindItsHeader(std::string_view first_bytes) {
  constexpr std::string_view kMagic = "ustar";
  constexpr size_t kMagicAt = 257;
  if (first_bytes.size() < kTarBlock) return false;
  if (first_bytes.substr(kMagicAt, kMagic.size()) == kMagic) return true;
  for (size_t at = kTarBlock; at + kTarBlock <= first_bytes.size(); at += kTarBlock) {
    if (IsTarHeader(first_bytes.substr(at))) return true;
  }
  return false;
}

std::string FirstBytes(std::string_view bytes) {
  std::string hex;
  for (unsigned char byte : bytes.substr(0, 8)) hex += fmt::format("{:02x} ", byte);
  if (!hex.empty()) hex.pop_back();
  return hex;
}

}  // namespace

absl::StatusOr<ShardFormat> DetectFormat(std::string_view first_bytes, bool named_tar) {
  if (first_bytes.empty()) return ShardFormat();
  uint64_t length;
  if (first_bytes.size() >= kHeaderBytes && ReadHeader(first_bytes.data(), &length)) {
    return ShardFormat();
  }
  if (IsTarHeader(first_bytes)) return ShardFormat{Compression::kNone, Framing::kTar};
  if (IsRiegeliFile(first_bytes)) return ShardFormat{Compression::kNone, Framing::kArrayRecord};
  if (LooksLikeMds(first_bytes)) return ShardFormat{Compression::kNone, Framing::kMds};
  const auto byte = [&](size_t i) -> unsigned {
    return i < first_bytes.size() ? static_cast<unsigned char>(first_bytes[i]) : 0;
  };
  if (byte(0) == 0x1f && byte(1) == 0x8b) {
    // Truncated or damaged GZIP data counts as GZIP; only intact GZIP data of another format is
    // rejected.
    const Start start = StartOf(Compression::kGzip, first_bytes);
    if (start.record.value_or(true)) return ShardFormat{Compression::kGzip};
    if (start.tar.value_or(false) || named_tar) {
      return ShardFormat{Compression::kGzip, Framing::kTar};
    }
    return absl::DataLossError(
        "not a TFRecord file: GZIP data whose content does not start with a record");
  }
  // Files in it may be TFRecord, so look no further.
  if (named_tar && LooksLikeTarBehindItsHeader(first_bytes)) {
    return ShardFormat{Compression::kNone, Framing::kTar};
  }
  // The two magic bytes of ZLIB are weak evidence, so the content must confirm them unless every
  // other format is ruled out.
  const bool zlib_magic = (byte(0) & 0x0f) == 8 && (byte(0) >> 4) <= 7 &&
                          (byte(0) << 8 | byte(1)) % 31 == 0 && first_bytes.size() >= 2;
  if (zlib_magic && StartsWithRecord(Compression::kZlib, first_bytes).value_or(false)) {
    return ShardFormat{Compression::kZlib};
  }
  if (StartsWithRecord(Compression::kSnappy, first_bytes).value_or(false)) {
    return ShardFormat{Compression::kSnappy};
  }
  if (FindHeader(first_bytes) != std::string_view::npos) return ShardFormat();
  if (zlib_magic && !StartsWithRecord(Compression::kZlib, first_bytes)) {
    return ShardFormat{Compression::kZlib};
  }
  if (first_bytes.size() < kHeaderBytes) {
    return absl::DataLossError(
        fmt::format("not a TFRecord file, or truncated within its first record: {} bytes, {}",
                    first_bytes.size(), FirstBytes(first_bytes)));
  }
  // Reading it tells what is wrong with its first header.
  if (named_tar && first_bytes.size() >= kTarBlock) {
    return ShardFormat{Compression::kNone, Framing::kTar};
  }
  if (first_bytes.size() >= kTarBlock && IsZeroBlock(first_bytes)) {
    return absl::DataLossError(
        "not a TFRecord file: starts with zeros alone, as a tar archive without files does, which "
        "is read if its name ends with .tar");
  }
  if (first_bytes.starts_with("PAR1")) {
    return absl::DataLossError(
        "not a TFRecord file but Parquet, which 'shardfeed convert parquet' converts and "
        "sf.from_parquet reads in Python");
  }
  return absl::DataLossError(fmt::format(
      "not a TFRecord file: starts with {}, which is neither a record nor GZIP, ZLIB or SNAPPY",
      FirstBytes(first_bytes)));
}

}  // namespace shardfeed
