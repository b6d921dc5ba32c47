// Options that several parts of shardfeed share.

#ifndef SHARDFEED_OPTIONS_H_
#define SHARDFEED_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardfeed {

// How a shard is compressed: its whole stream of records, not each record by itself.
//   kGzip    RFC 1952, one or more members
//   kZlib    RFC 1950, one stream
//   kSnappy  TensorFlow's container; can be read, but not written
enum class Compression { kNone, kGzip, kZlib, kSnappy };

// How records are separated in a shard, once it is decompressed.
//   kTfRecord  frames with lengths and CRCs
//   kTar       WebDataset: each record is a sample, consecutive files of a tar archive with one
//              name up to the first dot (docs/webdataset.md)
//   kMds       MosaicML's MDS: each record is a sample of a shard.NNNNN.mds (docs/mds.md)
//   kArrayRecord  Google's ArrayRecord: chunks of records, of which a footer tells where they are
//                 (docs/arrayrecord.md)
enum class Framing { kTfRecord, kTar, kMds, kArrayRecord };

// The two together.
struct ShardFormat {
  Compression compression = Compression::kNone;
  Framing framing = Framing::kTfRecord;
};

// "none", "gzip", "zlib", "snappy".
std::string_view CompressionName(Compression compression);
// Returns nullopt for any other name.
std::optional<Compression> ParseCompression(std::string_view name);

// The CRCs of a record that are checked: none, that of the length, or also that of the payload.
enum class CrcCheck { kNone, kHeader, kAll };

// How files are read.
enum class EngineKind {
  kAuto,     // io_uring where it is allowed, otherwise threads; the environment may override this
  kUring,    // io_uring; Unavailable where it is not allowed
  kThreads,  // pread on threads
  kMmap,     // views of the page cache; the process gets SIGBUS if a file is truncated meanwhile
};

// Whether files are read through the page cache.
enum class CacheUse {
  kAuto,    // depends on what is already cached and how much memory is free
  kUse,     // always through the cache
  kBypass,  // past the cache (O_DIRECT) where the file system supports it
};

// The number of broken records that may be skipped before that becomes an error: if most are
// broken, the source is of another kind or the schema is wrong.
struct SkipCeiling {
  double share = 0.01;  // fraction of all records
  uint64_t at_least = 10;

  // The ceiling for a dataset of `records` records.
  uint64_t Of(uint64_t records) const {
    return std::max(at_least, static_cast<uint64_t>(share * static_cast<double>(records)));
  }
};

}  // namespace shardfeed

#endif  // SHARDFEED_OPTIONS_H_
