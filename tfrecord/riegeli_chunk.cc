#include "tfrecord/riegeli_chunk.h"

#include <brotli/decode.h>
#include <snappy.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

constexpr uint64_t kUsableBytes = kRiegeliBlockBytes - kRiegeliBlockHeaderBytes;
constexpr size_t kMaxVarintBytes = 10;

uint64_t Hash(std::string_view bytes) { return HighwayHash64(kRiegeliKey, bytes); }

uint64_t Load64(std::string_view bytes, size_t at) {
  return LoadLittleEndian<uint64_t>(bytes.data() + at);
}

// Where a block header at `at` ends; `at` if none begins there.
uint64_t SkipBlockHeader(uint64_t at) {
  return at % kRiegeliBlockBytes == 0 ? at + kRiegeliBlockHeaderBytes : at;
}

// Reads `size` bytes that begin `skip` bytes after `begin`, without block headers. `bytes` are
// those of the file from `begin` on. Returns false if they end too early. If a block header
// interrupts them, they are copied to `scratch`.
bool ReadBetween(std::string_view bytes, uint64_t begin, uint64_t skip, uint64_t size,
                 std::string* scratch, std::string_view* out) {
  if (size > bytes.size() || RiegeliEnd(begin, skip + size) - begin > bytes.size()) return false;
  *out = {};
  if (size == 0) return true;
  uint64_t at = SkipBlockHeader(RiegeliEnd(begin, skip));
  const auto left_in_block = [&] { return kRiegeliBlockBytes - at % kRiegeliBlockBytes; };
  if (size <= left_in_block()) {
    *out = bytes.substr(at - begin, size);
    return true;
  }
  scratch->resize(size);
  for (uint64_t done = 0; done < size; at = SkipBlockHeader(at)) {
    const uint64_t n = std::min(size - done, left_in_block());
    bytes.substr(at - begin, n).copy(scratch->data() + done, n);
    done += n;
    at += n;
  }
  *out = *scratch;
  return true;
}

// Compares the block headers within a chunk with it.
std::string CheckBlockHeaders(std::string_view bytes, uint64_t begin, uint64_t end) {
  uint64_t block = (begin + kRiegeliBlockBytes - 1) / kRiegeliBlockBytes * kRiegeliBlockBytes;
  for (; block < end; block += kRiegeliBlockBytes) {
    const std::string_view header = bytes.substr(block - begin, kRiegeliBlockHeaderBytes);
    if (header.size() < kRiegeliBlockHeaderBytes) break;
    const uint64_t hash = Hash(header.substr(8));
    if (Load64(header, 0) != hash) {
      return fmt::format("block header at byte {}: hash expected {:#018x}, found {:#018x}", block,
                         hash, Load64(header, 0));
    }
    if (Load64(header, 8) != block - begin || Load64(header, 16) != end - block) {
      return fmt::format(
          "block header at byte {}: says that the chunk is from byte {} to byte {}, but it is from "
          "byte {} to byte {}",
          block, block - Load64(header, 8), block + Load64(header, 16), begin, end);
    }
  }
  return {};
}

// Takes a varint from the beginning of `bytes`.
bool TakeVarint(std::string_view* bytes, uint64_t* value) {
  const WireNumber number = ReadVarint(bytes->data(), bytes->data() + bytes->size());
  if (number.end == nullptr) return false;
  *value = number.value;
  bytes->remove_prefix(number.end - bytes->data());
  return true;
}

bool DecompressBrotli(std::string_view from, char* to, size_t size) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  if (state == nullptr) return false;
  BrotliDecoderSetParameter(state.get(), BROTLI_DECODER_PARAM_LARGE_WINDOW, 1);
  size_t available_in = from.size();
  const auto* next_in = reinterpret_cast<const uint8_t*>(from.data());
  auto* next_out = reinterpret_cast<uint8_t*>(to);
  const BrotliDecoderResult result = BrotliDecoderDecompressStream(
      state.get(), &available_in, &next_in, &size, &next_out, nullptr);
  return result == BROTLI_DECODER_RESULT_SUCCESS && available_in == 0 && size == 0;
}

bool DecompressZstd(std::string_view from, char* to, size_t size) {
  thread_local const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                                ZSTD_freeDCtx);
  if (context == nullptr) return false;
  // An error is a number above all sizes.
  return ZSTD_decompressDCtx(context.get(), to, size, from.data(), from.size()) == size;
}

bool DecompressSnappy(std::string_view from, char* to, size_t size) {
  size_t found = 0;
  return snappy::GetUncompressedLength(from.data(), from.size(), &found) && found == size &&
         snappy::RawUncompress(from.data(), from.size(), to);
}

std::string_view NameOf(char compression) {
  switch (compression) {
    case 'b':
      return "Brotli";
    case 'z':
      return "Zstandard";
    case 's':
      return "Snappy";
    default:
      return {};
  }
}

bool Decompress(char compression, std::string_view from, char* to, size_t size) {
  switch (compression) {
    case 'b':
      return DecompressBrotli(from, to, size);
    case 'z':
      return DecompressZstd(from, to, size);
    case 's':
      return DecompressSnappy(from, to, size);
    default:
      return from.copy(to, size) == size && from.size() == size;
  }
}

}  // namespace

bool IsRiegeliFile(std::string_view first_bytes) {
  RiegeliChunkHeader header;
  return first_bytes.size() >= kRiegeliStartBytes &&
         ReadRiegeliHeader(first_bytes, 0, CrcCheck::kAll, &header).empty() && header.type == 's';
}

bool CanBeginChunk(uint64_t offset) {
  const uint64_t in_block = offset % kRiegeliBlockBytes;
  return in_block == 0 || in_block > kRiegeliBlockHeaderBytes;
}

uint64_t RiegeliEnd(uint64_t begin, uint64_t bytes) {
  // Bytes of the first block that are in use before `begin`; none if `begin` is its beginning.
  const uint64_t in_block = begin % kRiegeliBlockBytes;
  const uint64_t used = in_block == 0 ? 0 : in_block - kRiegeliBlockHeaderBytes;
  if (bytes == 0) return begin;
  const uint64_t all = used + bytes;
  const uint64_t blocks = (all - 1) / kUsableBytes;
  const uint64_t in_last = all - blocks * kUsableBytes;
  return begin - in_block + blocks * kRiegeliBlockBytes + kRiegeliBlockHeaderBytes + in_last;
}

uint64_t RiegeliChunkEnd(uint64_t begin, const RiegeliChunkHeader& header) {
  uint64_t padded = begin + header.records;
  // A chunk does not end within a block header or right after it.
  if (!CanBeginChunk(padded)) {
    padded = padded / kRiegeliBlockBytes * kRiegeliBlockBytes + kRiegeliBlockHeaderBytes + 1;
  }
  return std::max(padded, RiegeliEnd(begin, kRiegeliChunkHeaderBytes + header.data_bytes));
}

std::string ReadRiegeliHeader(std::string_view bytes, uint64_t begin, CrcCheck check,
                              RiegeliChunkHeader* header) {
  if (!CanBeginChunk(begin)) return "no chunk can begin within a block header";
  std::string scratch;
  std::string_view raw;
  if (!ReadBetween(bytes, begin, 0, kRiegeliChunkHeaderBytes, &scratch, &raw)) {
    return "the header of the chunk is cut off";
  }
  if (check != CrcCheck::kNone) {
    const uint64_t hash = Hash(raw.substr(8));
    if (Load64(raw, 0) != hash) {
      return fmt::format("hash of the chunk's header expected {:#018x}, found {:#018x}", hash,
                         Load64(raw, 0));
    }
  }
  header->data_bytes = Load64(raw, 8);
  header->data_hash = Load64(raw, 16);
  header->type = raw[24];
  header->records = Load64(raw, 24) >> 8;
  header->decoded_bytes = Load64(raw, 32);
  return {};
}

std::string ReadRiegeliChunk(std::string_view bytes, uint64_t begin, CrcCheck check,
                             std::string* scratch, RiegeliChunkHeader* header,
                             std::string_view* data) {
  std::string wrong = ReadRiegeliHeader(bytes, begin, check, header);
  if (!wrong.empty()) return wrong;
  if (!ReadBetween(bytes, begin, kRiegeliChunkHeaderBytes, header->data_bytes, scratch, data) ||
      header->records > bytes.size() || RiegeliChunkEnd(begin, *header) - begin > bytes.size()) {
    return fmt::format(
        "the chunk says that it has {} bytes of data and {} records, more than the {} bytes up to "
        "where it must end have room for",
        header->data_bytes, header->records, bytes.size());
  }
  if (check != CrcCheck::kNone) {
    wrong = CheckBlockHeaders(bytes, begin, RiegeliChunkEnd(begin, *header));
    if (!wrong.empty()) return wrong;
  }
  if (check == CrcCheck::kAll) {
    const uint64_t hash = Hash(*data);
    if (header->data_hash != hash) {
      return fmt::format("hash of the chunk's data expected {:#018x}, found {:#018x}", hash,
                         header->data_hash);
    }
  }
  return {};
}

std::string ParseSimpleChunk(const RiegeliChunkHeader& header, std::string_view data,
                             SimpleChunk* chunk) {
  if (header.type == 't') {
    return "a transposed chunk, which cannot be read; write the file again with transpose:false";
  }
  if (header.type != 'r') {
    return fmt::format("a chunk of type {:#04x}, which has no records",
                       static_cast<unsigned char>(header.type));
  }
  uint64_t sizes_bytes = 0;
  if (data.empty()) return "the chunk has no data";
  chunk->compression = data[0];
  data.remove_prefix(1);
  const bool compressed = chunk->compression != 0;
  if (compressed && NameOf(chunk->compression).empty()) {
    return fmt::format("the chunk has an unknown compression, {:#04x}",
                       static_cast<unsigned char>(chunk->compression));
  }
  if (!TakeVarint(&data, &sizes_bytes) || sizes_bytes > data.size()) {
    return "the sizes of the chunk's records are cut off";
  }
  std::string_view sizes = data.substr(0, sizes_bytes);
  chunk->values = data.substr(sizes_bytes);
  std::string decompressed;
  if (compressed) {
    uint64_t bytes = 0;
    if (!TakeVarint(&sizes, &bytes) || bytes > header.records * kMaxVarintBytes) {
      return fmt::format("the sizes of the chunk's {} records have {} bytes", header.records,
                         bytes);
    }
    decompressed.resize(bytes);
    if (!Decompress(chunk->compression, sizes, decompressed.data(), bytes)) {
      return fmt::format("the sizes of the chunk's records are not what {} compresses to {} bytes",
                         NameOf(chunk->compression), bytes);
    }
    sizes = decompressed;
  }
  chunk->sizes.clear();
  chunk->decoded_bytes = 0;
  for (uint64_t i = 0; i < header.records; ++i) {
    uint64_t size = 0;
    if (!TakeVarint(&sizes, &size) || size > header.decoded_bytes - chunk->decoded_bytes) break;
    chunk->sizes.push_back(size);
    chunk->decoded_bytes += size;
  }
  if (!sizes.empty() || chunk->sizes.size() != header.records ||
      chunk->decoded_bytes != header.decoded_bytes) {
    return fmt::format("the sizes of the chunk's records are not those of {} records of {} bytes",
                       header.records, header.decoded_bytes);
  }
  uint64_t bytes = chunk->values.size();
  if (compressed && !TakeVarint(&chunk->values, &bytes)) bytes = UINT64_MAX;
  if (bytes != chunk->decoded_bytes) {
    return fmt::format("the chunk has {} bytes of records, but their sizes are {} bytes", bytes,
                       chunk->decoded_bytes);
  }
  return {};
}

std::string DecodeSimpleChunk(const SimpleChunk& chunk, char* decoded) {
  if (Decompress(chunk.compression, chunk.values, decoded, chunk.decoded_bytes)) return {};
  return fmt::format("the chunk is not what {} compresses to {} bytes", NameOf(chunk.compression),
                     chunk.decoded_bytes);
}

}  // namespace shardfeed
