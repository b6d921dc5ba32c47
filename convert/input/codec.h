// Compression of raw data: gzip, Zstandard, xz and bzip2, recognized by its first bytes.

#ifndef SHARDFEED_CONVERT_INPUT_CODEC_H_
#define SHARDFEED_CONVERT_INPUT_CODEC_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "io/byte_source.h"
#include "tfrecord/decompress.h"

namespace shardfeed {

enum class Codec { kNone, kGzip, kZstd, kXz, kBzip2 };

// Number of first bytes that CodecOf needs.
inline constexpr size_t kCodecMagicBytes = 10;

// Returns the codec whose magic bytes `first_bytes` starts with. Names of files do not count.
Codec CodecOf(std::string_view first_bytes);
// Name of a codec other than kNone, such as "Zstandard", and the program that decompresses it.
std::string_view CodecName(Codec codec);
std::string_view CodecProgram(Codec codec);

// A decompressor of a codec other than kNone, for a file of any number of members (streams,
// frames). `source` must be at the beginning of the file and outlive the decompressor.
//
// Read returns DataLoss, which names an offset in the file, if the data is damaged or truncated, or
// if other bytes follow the last member; ResourceExhausted if a file demands more memory than its
// codec's programs use by default (128 MiB for Zstandard, 256 MiB for xz). Content that precedes an
// error is delivered first.
std::unique_ptr<Decompressor> MakeCodecDecompressor(Codec codec, ByteSource* source);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_CODEC_H_
