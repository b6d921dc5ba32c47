// Chunks of Riegeli/records files, of which ArrayRecord files consist.
//
// A file is a sequence of chunks. At every multiple of 64 KiB, also at the beginning of the file, a
// block header of 24 bytes interrupts the chunk there:
//
//   u64   hash of the next 16 bytes
//   u64   distance from the beginning of the interrupted chunk to the block
//   u64   distance from the block to the end of that chunk
//
// A chunk is a header of 40 bytes, data, and padding up to at least as many bytes as records:
//
//   u64   hash of the next 32 bytes
//   u64   size of the data
//   u64   hash of the data
//   u8    type: 's' signature, 'm' metadata, 'p' padding, 'r' simple, 't' transposed
//   u56   number of records
//   u64   size of the decoded records
//
// The data of a simple chunk:
//
//   u8      compression: 0 none, 'b' Brotli, 'z' Zstandard, 's' Snappy
//   varint  size of the next field
//   bytes   a varint for the size of each record, compressed
//   bytes   the records, one after the other, compressed
//
// What is compressed begins with a varint of its size when decompressed. Integers are
// little-endian. Hashes are HighwayHash64 with the key of kRiegeliKey. Source: google/riegeli's
// doc/riegeli_records_file_format.md, and for Snappy its riegeli/chunk_encoding/decompressor.h.

#ifndef SHARDFEED_TFRECORD_RIEGELI_CHUNK_H_
#define SHARDFEED_TFRECORD_RIEGELI_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardfeed/options.h"
#include "tfrecord/highway_hash.h"

namespace shardfeed {

inline constexpr uint64_t kRiegeliBlockBytes = 64 << 10;
inline constexpr uint64_t kRiegeliBlockHeaderBytes = 24;
inline constexpr uint64_t kRiegeliChunkHeaderBytes = 40;
// The first bytes of each file: a block header and the chunk of the signature.
inline constexpr uint64_t kRiegeliStartBytes = 64;
// "Riegeli/records\n", twice.
inline constexpr HighwayHashKey kRiegeliKey = {0x2f696c6567656952, 0x0a7364726f636572,
                                               0x2f696c6567656952, 0x0a7364726f636572};

// Returns whether a file with these first bytes is a Riegeli/records file.
bool IsRiegeliFile(std::string_view first_bytes);

struct RiegeliChunkHeader {
  uint64_t data_bytes = 0;
  uint64_t data_hash = 0;
  char type = 0;
  uint64_t records = 0;
  uint64_t decoded_bytes = 0;
};

// Returns whether a chunk can begin there: not within a block header or right after it.
bool CanBeginChunk(uint64_t offset);

// Returns where `bytes` bytes of a chunk that begins at `begin` end, with the block headers between
// them. Both numbers must be below 2^62.
uint64_t RiegeliEnd(uint64_t begin, uint64_t bytes);

// Returns where a chunk with that header ends, with its padding. Its numbers must be below 2^61.
uint64_t RiegeliChunkEnd(uint64_t begin, const RiegeliChunkHeader& header);

// The functions below return what is wrong, and an empty string if nothing is.

// Reads the header of the chunk that begins at byte `begin` of its file. `bytes` are those of the
// file from there on. A hash that is wrong is an error unless `check` is kNone.
std::string ReadRiegeliHeader(std::string_view bytes, uint64_t begin, CrcCheck check,
                              RiegeliChunkHeader* header);

// Reads such a chunk whole. The block headers in it are compared with it unless `check` is kNone,
// and the data with its hash if it is kAll. `data` is in `bytes`, or in `scratch` if a block header
// interrupts it.
std::string ReadRiegeliChunk(std::string_view bytes, uint64_t begin, CrcCheck check,
                             std::string* scratch, RiegeliChunkHeader* header,
                             std::string_view* data);

// The records of a simple chunk.
struct SimpleChunk {
  char compression = 0;
  std::string_view values;      // the compressed records, borrowed from the data
  std::vector<uint64_t> sizes;  // size of each record
  uint64_t decoded_bytes = 0;   // their sum
};

// Parses the data of a chunk with that header. Its numbers agree with those of the header, and
// memory is only allocated for as many records as the chunk has bytes. Decoding takes
// header.decoded_bytes, which is unbounded if the chunk is compressed: compare it first with what
// is possible.
std::string ParseSimpleChunk(const RiegeliChunkHeader& header, std::string_view data,
                             SimpleChunk* chunk);

// Decompresses the records to `decoded`, of decoded_bytes bytes. Thread-safe.
std::string DecodeSimpleChunk(const SimpleChunk& chunk, char* decoded);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_RIEGELI_CHUNK_H_
