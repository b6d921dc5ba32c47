#include "tfrecord/inflate_between.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "base/little_endian.h"
#include "tfrecord/gzip_members.h"
#include "tfrecord/inflate_blocks.h"
#include "tfrecord/thread_decompressor.h"

namespace shardfeed {
namespace {

constexpr size_t kStoredHeaderBytes = 5;
constexpr size_t kMaxFillerBytes = 16;
static_assert(kStoredHeaderBytes + kDictionaryBytes + kMaxFillerBytes <= kInflateRoomBefore);
static_assert(kInflateBlocksSlack <= kInflateRoomBehind);

// Packs bits as deflate does: the lowest bit of a byte comes first.
class BitWriter {
 public:
  void Put(uint64_t value, int count) {
    for (int i = 0; i < count; ++i, ++bits_) {
      bytes_[bits_ / 8] |= static_cast<unsigned char>((value >> i & 1) << bits_ % 8);
    }
  }
  const unsigned char* bytes() const { return bytes_.data(); }
  size_t whole_bytes() const { return bits_ / 8; }

 private:
  std::array<unsigned char, kMaxFillerBytes> bytes_ = {};
  size_t bits_ = 0;
};

// Writes an empty block with fixed codes: 10 bits.
void PutEmptyFixedBlock(bool last, BitWriter* out) {
  out->Put(last ? 1 : 0, 1);
  out->Put(1, 2);  // Fixed codes.
  out->Put(0, 7);  // End of block.
}

// Writes an empty block with dynamic codes: 91 bits, an odd number.
void PutEmptyDynamicBlock(BitWriter* out) {
  out->Put(0, 1);
  out->Put(2, 2);   // Dynamic codes.
  out->Put(0, 5);   // 257 literals and lengths.
  out->Put(0, 5);   // 1 distance.
  out->Put(14, 4);  // 18 lengths of the code-length code, 3 bits each.
  // Two of these are 1: the third, of symbol 18 (a run of zeros), and the eighteenth, of symbol 1.
  out->Put(uint64_t{1} << 6 | uint64_t{1} << 51, 54);
  out->Put(0, 1);                         // Literal 0 has a code of one bit.
  out->Put(1, 1), out->Put(138 - 11, 7);  // 138 literals have no code.
  out->Put(1, 1), out->Put(117 - 11, 7);  // Another 117 have no code.
  out->Put(0, 1);                         // The end of block has a code of one bit.
  out->Put(0, 1);                         // The only distance has a code of one bit.
  out->Put(1, 1);                         // End of block.
}

// Prepends what turns `file_bytes` into a deflate stream, and returns its first byte. `from` may
// begin within the first of `file_bytes`.
char* PutBefore(const RestartPoint& from, char* file_bytes) {
  BitWriter filler;
  // Number of bits of the first byte that precede `from`.
  const int low_bits = from.bits > 0 ? 8 - from.bits : 0;
  if (low_bits % 2 != 0) PutEmptyDynamicBlock(&filler);
  const int even_bits = (low_bits % 2 != 0 ? low_bits - 91 : low_bits) & 7;
  for (int i = 0; i < even_bits / 2; ++i) PutEmptyFixedBlock(false, &filler);
  const size_t whole = filler.whole_bytes();
  if (low_bits > 0) {
    const unsigned char high = static_cast<unsigned char>(*file_bytes) >> low_bits << low_bits;
    *file_bytes = static_cast<char>(high | filler.bytes()[whole]);
  }
  char* at = file_bytes - whole;
  std::memcpy(at, filler.bytes(), whole);
  at -= from.dictionary.size();
  std::memcpy(at, from.dictionary.data(), from.dictionary.size());
  at -= kStoredHeaderBytes;
  const auto size = static_cast<uint16_t>(from.dictionary.size());
  at[0] = 0;  // A stored block that is not the last.
  StoreLittleEndian<uint16_t>(size, at + 1);
  StoreLittleEndian<uint16_t>(static_cast<uint16_t>(~size), at + 3);
  return at;
}

// Ends the stream at `to`, where `end` is the address of to.file_offset. Returns the new end.
char* PutBehind(const RestartPoint& to, char* end) {
  BitWriter last;
  if (to.bits > 0) {
    const int ours = 8 - to.bits;
    --end;
    last.Put(static_cast<unsigned char>(*end), ours);
  }
  PutEmptyFixedBlock(true, &last);
  constexpr size_t kBytes = 3;  // Room for at most 7 + 10 bits.
  const size_t bytes = to.bits > 0 ? kBytes : kBytes - 1;
  std::memcpy(end, last.bytes(), bytes);
  return end + bytes;
}

// Returns the size of the header of a member or stream, as parsed by zlib; 0 if it is invalid.
size_t HeaderBytes(Compression compression, const char* bytes, size_t size) {
  z_stream zlib = {};
  if (inflateInit2(&zlib, compression == Compression::kGzip ? MAX_WBITS + 16 : MAX_WBITS) != Z_OK) {
    throw std::bad_alloc();
  }
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes));
  const auto given = static_cast<uInt>(std::min<size_t>(size, 1 << 20));
  zlib.avail_in = given;
  Bytef none;
  zlib.next_out = &none;
  // Z_BLOCK stops after the header.
  const int result = inflate(&zlib, Z_BLOCK);
  const bool read = result == Z_OK && (zlib.data_type & 128) != 0;
  inflateEnd(&zlib);
  return read ? given - zlib.avail_in : 0;
}

// Returns whether inflating several blocks side by side may be faster than libdeflate: data that
// shrank by more than a quarter is full of copies.
bool HardlyShrank(size_t deflated, size_t inflated) { return deflated >= inflated - inflated / 4; }

// Returns the size of the trailer that precedes `to`, in bytes; 0 if there is none.
size_t TrailerBytes(Compression compression, const RestartPoint& to) {
  constexpr size_t kZlibTrailerBytes = 4;
  if (!to.at_header) return 0;
  return compression == Compression::kGzip ? kGzipTrailerBytes : kZlibTrailerBytes;
}

// Returns whether the trailer at `trailer` matches the whole content of a member or stream.
bool TrailerIsRight(Compression compression, const char* trailer, absl::Span<const char> content) {
  if (compression == Compression::kGzip) {
    return LoadLittleEndian<uint32_t>(trailer) ==
               libdeflate_crc32(0, content.data(), content.size()) &&
           LoadLittleEndian<uint32_t>(trailer + 4) == static_cast<uint32_t>(content.size());
  }
  uint32_t found = 0;
  for (int i = 0; i < 4; ++i) found = found << 8 | static_cast<unsigned char>(trailer[i]);
  return found == libdeflate_adler32(1, content.data(), content.size());
}

// Implements InflateBetween for known blocks. Returns false if the data must be inflated another
// way.
bool InflateBlocksBetween(Compression compression, const RestartPoint& from, const RestartPoint& to,
                          absl::Span<const DeflateBlock> blocks, std::string_view file_bytes,
                          absl::Span<char> dst) {
  const size_t header =
      from.at_header ? HeaderBytes(compression, file_bytes.data(), file_bytes.size()) : 0;
  const size_t trailer = TrailerBytes(compression, to);
  if ((from.at_header && header == 0) || file_bytes.size() < header + trailer) return false;
  // The starts of all blocks, relative to the first byte of the data and of the content.
  const uint64_t first_bit = 8 * (from.file_offset - (from.bits > 0 ? 1 : 0));
  std::vector<DeflateBlock> places;
  places.reserve(blocks.size() + 2);
  places.push_back({8 * header + (from.bits > 0 ? 8 - from.bits : 0), 0});
  for (const DeflateBlock& block : blocks) {
    places.push_back({block.bit - first_bit, block.offset - from.stream_offset});
  }
  places.push_back(
      {8 * (file_bytes.size() - trailer) - to.bits, to.stream_offset - from.stream_offset});
  if (!InflateBlocks(file_bytes.substr(0, file_bytes.size() - trailer), places,
                     /*ends_stream=*/to.at_header, dst, from.dictionary.size())) {
    return false;
  }
  return !from.at_header || !to.at_header ||
         TrailerIsRight(compression, file_bytes.end() - trailer, dst);
}

absl::Status Damaged() {
  return absl::DataLossError("the deflated data is damaged or does not belong to a single member");
}

}  // namespace

absl::Status InflateBetween(Compression compression, const RestartPoint& from,
                            const RestartPoint& to, absl::Span<const DeflateBlock> blocks,
                            absl::Span<char> room, absl::Span<char> dst) {
  const bool gzip = compression == Compression::kGzip;
  char* const file_bytes = room.data() + kInflateRoomBefore;
  char* const file_end = room.data() + room.size() - kInflateRoomBehind;
  if (from.dictionary.size() > kDictionaryBytes) return Damaged();
  const size_t deflated = file_end - file_bytes;
  if (!blocks.empty() && HardlyShrank(deflated, dst.size() - from.dictionary.size())) {
    std::memcpy(dst.data(), from.dictionary.data(), from.dictionary.size());
    if (InflateBlocksBetween(compression, from, to, blocks, {file_bytes, deflated}, dst)) {
      return absl::OkStatus();
    }
  }
  size_t used = 0;
  size_t written = 0;
  if (from.at_header && to.at_header) {
    const auto inflate = gzip ? libdeflate_gzip_decompress_ex : libdeflate_zlib_decompress_ex;
    const libdeflate_result result =
        inflate(ThreadDecompressor(), file_bytes, file_end - file_bytes, dst.data(), dst.size(),
                &used, &written);
    return result == LIBDEFLATE_SUCCESS && written == dst.size() && file_bytes + used == file_end
               ? absl::OkStatus()
               : Damaged();
  }
  const size_t trailer_bytes = TrailerBytes(compression, to);
  if (deflated <= trailer_bytes) return Damaged();
  char* begin;
  if (from.at_header) {
    const size_t header = HeaderBytes(compression, file_bytes, file_end - file_bytes);
    if (header == 0) return Damaged();
    begin = file_bytes + header;
  } else {
    begin = PutBefore(from, file_bytes);
  }
  char* const end = to.at_header ? file_end - trailer_bytes : PutBehind(to, file_end);
  const libdeflate_result result = libdeflate_deflate_decompress_ex(
      ThreadDecompressor(), begin, end - begin, dst.data(), dst.size(), &used, &written);
  // The trailer must exist, but cannot be verified because only a part of the content is known.
  if (result != LIBDEFLATE_SUCCESS || written != dst.size() ||
      (to.at_header && begin + used != end)) {
    return Damaged();
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
