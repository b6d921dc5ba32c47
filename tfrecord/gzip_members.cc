#include "tfrecord/gzip_members.h"

#include <libdeflate.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "tfrecord/thread_decompressor.h"

namespace shardfeed {
namespace {

// ID1 ID2, deflate, FLG = FEXTRA, no time, XFL 0, OS 255 (unknown, so that bytes do not depend on
// the system), XLEN 12, "SF", 8 bytes of data.
constexpr char kMemberStart[] = "\x1f\x8b\x08\x04\0\0\0\0\0\xff\x0c\0SF\x08\0";
constexpr size_t kMemberStartBytes = sizeof(kMemberStart) - 1;
static_assert(kMemberStartBytes + 8 == kSizedMemberHeaderBytes);

struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};

libdeflate_compressor* ThreadCompressor(int level) {
  thread_local std::array<std::unique_ptr<libdeflate_compressor, FreeCompressor>, 13> compressors;
  level = std::clamp(level, 0, 12);
  if (!compressors[level]) compressors[level].reset(libdeflate_alloc_compressor(level));
  if (!compressors[level]) throw std::bad_alloc();
  return compressors[level].get();
}

// Data that would shrink by less than one part in kStoredGain is stored.
constexpr size_t kStoredGain = 100;

// Up to this level, data that the fastest level compresses as well is deflated at that one.
constexpr int kMaxAdaptedLevel = 6;

// Returns the deflated size of `size` bytes, or `size` if they do not shrink.
size_t DeflatedBytes(int level, const char* bytes, size_t size) {
  constexpr size_t kMostBytes = 32 << 10;
  std::array<char, kMostBytes> deflated;
  const size_t n = libdeflate_deflate_compress(ThreadCompressor(level), bytes, size,
                                               deflated.data(), std::min(size, kMostBytes));
  return n == 0 ? size : n;
}

// Returns the level that is worth its time, judged by a sample of slices from all over `bytes`.
// Images and other compressed data do not shrink at any level and are stored (0); numbers that
// rarely repeat shrink as much at level 1 as at 6.
int WorthwhileLevel(std::string_view bytes, int level) {
  constexpr size_t kSlices = 4;
  constexpr size_t kSliceBytes = 8 << 10;
  constexpr size_t kSampleBytes = kSlices * kSliceBytes;
  if (bytes.size() < 2 * kSampleBytes) return level;
  // Data that is worth the level usually shows it in the first slice.
  const bool adapts = level > 1 && level <= kMaxAdaptedLevel;
  const size_t fast = DeflatedBytes(1, bytes.data(), kSliceBytes / 2);
  const auto is_smaller = [](size_t a, size_t b) { return a + b / 400 < b; };
  if (fast < kSliceBytes / 2 * 9 / 10 &&
      (!adapts || is_smaller(DeflatedBytes(level, bytes.data(), kSliceBytes / 2), fast))) {
    return level;
  }
  std::array<char, kSampleBytes> sample;
  for (size_t i = 0; i < kSlices; ++i) {
    const size_t begin = (bytes.size() - kSliceBytes) / (kSlices - 1) * i;
    std::memcpy(sample.data() + i * kSliceBytes, bytes.data() + begin, kSliceBytes);
  }
  const size_t deflated = DeflatedBytes(1, sample.data(), sample.size());
  if (deflated > kSampleBytes - kSampleBytes / kStoredGain) return 0;
  if (!adapts || is_smaller(DeflatedBytes(level, sample.data(), sample.size()), deflated)) {
    return level;
  }
  return 1;
}

}  // namespace

void AppendGzipMember(std::string_view bytes, int level, std::string* out) {
  const size_t begin = out->size();
  const size_t bound = libdeflate_deflate_compress_bound(nullptr, bytes.size());
  out->resize(begin + kSizedMemberHeaderBytes + bound + kGzipTrailerBytes);
  char* member = out->data() + begin;
  const auto deflate = [&](int at_level) {
    return libdeflate_deflate_compress(ThreadCompressor(at_level), bytes.data(), bytes.size(),
                                       member + kSizedMemberHeaderBytes, bound);
  };
  level = WorthwhileLevel(bytes, level);
  size_t deflated = deflate(level);
  // Data that hardly shrank is stored, because stored data is read several times as fast.
  if (level > 0 && deflated > bytes.size() - bytes.size() / kStoredGain) deflated = deflate(0);
  const size_t size = kSizedMemberHeaderBytes + deflated + kGzipTrailerBytes;
  std::memcpy(member, kMemberStart, kMemberStartBytes);
  StoreLittleEndian<uint64_t>(size, member + kMemberStartBytes);
  char* trailer = member + kSizedMemberHeaderBytes + deflated;
  StoreLittleEndian<uint32_t>(libdeflate_crc32(0, bytes.data(), bytes.size()), trailer);
  StoreLittleEndian<uint32_t>(static_cast<uint32_t>(bytes.size()), trailer + 4);
  out->resize(begin + size);
}

std::optional<uint64_t> SizedMemberBytes(std::string_view header) {
  if (header.size() < kSizedMemberHeaderBytes ||
      std::memcmp(header.data(), kMemberStart, kMemberStartBytes) != 0) {
    return std::nullopt;
  }
  const uint64_t size = LoadLittleEndian<uint64_t>(header.data() + kMemberStartBytes);
  if (size < kSizedMemberHeaderBytes + kGzipTrailerBytes) return std::nullopt;
  return size;
}

size_t FindSizedMember(std::string_view bytes) {
  const std::string_view start(kMemberStart, kMemberStartBytes);
  for (size_t at = bytes.find(start); at != std::string_view::npos;
       at = bytes.find(start, at + 1)) {
    if (SizedMemberBytes(bytes.substr(at))) return at;
  }
  return std::string_view::npos;
}

absl::StatusOr<size_t> InflateMember(std::string_view member, absl::Span<char> dst) {
  const std::optional<uint64_t> size = SizedMemberBytes(member);
  if (!size || *size != member.size()) {
    return absl::DataLossError("the member's size field does not match its size");
  }
  const size_t deflated = member.size() - kSizedMemberHeaderBytes - kGzipTrailerBytes;
  size_t used = 0;
  size_t written = 0;
  const libdeflate_result result = libdeflate_deflate_decompress_ex(
      ThreadDecompressor(), member.data() + kSizedMemberHeaderBytes, deflated, dst.data(),
      dst.size(), &used, &written);
  if (result == LIBDEFLATE_INSUFFICIENT_SPACE) {
    return absl::ResourceExhaustedError(
        fmt::format("the member holds more than {} bytes", dst.size()));
  }
  if (result != LIBDEFLATE_SUCCESS || used != deflated) {
    return absl::DataLossError("the deflated data is damaged");
  }
  const char* trailer = member.data() + member.size() - kGzipTrailerBytes;
  const uint32_t crc = LoadLittleEndian<uint32_t>(trailer);
  const uint32_t size_mod = LoadLittleEndian<uint32_t>(trailer + 4);
  if (static_cast<uint32_t>(written) != size_mod) {
    return absl::DataLossError(
        fmt::format("the member holds {} bytes, but its trailer says {}", written, size_mod));
  }
  const uint32_t found = libdeflate_crc32(0, dst.data(), written);
  if (found != crc) {
    return absl::DataLossError(
        fmt::format("the member's CRC-32 is {:#010x}, but its trailer says {:#010x}", found, crc));
  }
  return written;
}

uint64_t ClaimedContentBytes(std::string_view member) {
  if (member.size() < kSizedMemberHeaderBytes + kGzipTrailerBytes) return 0;
  return LoadLittleEndian<uint32_t>(member.data() + member.size() - 4);
}

absl::Status InflateMember(std::string_view member, std::string* out) {
  const uint64_t claimed = ClaimedContentBytes(member);
  if (claimed > member.size() * kMaxDeflateRatio) {
    return absl::DataLossError(
        fmt::format("the trailer claims {} bytes of content, but a member of {} bytes cannot hold "
                    "more than {}",
                    claimed, member.size(), member.size() * kMaxDeflateRatio));
  }
  const size_t begin = out->size();
  out->resize(begin + claimed);
  absl::Status status =
      InflateMember(member, absl::MakeSpan(out->data() + begin, claimed)).status();
  if (!status.ok()) out->resize(begin);
  return status;
}

}  // namespace shardfeed
