// Columns of MDS, the shards of MosaicML Streaming, and samples as Examples. docs/mds.md says what
// each encoding becomes.
//
// A sample is a u32 size for each column that has no fixed one, and then the values of all columns
// one after the other. Integers are little-endian. Source: the classes MDSWriter and Encoding of
// the package mosaicml-streaming 0.11, which reads and writes version 2 of the format.

#ifndef SHARDFEED_TFRECORD_MDS_COLUMNS_H_
#define SHARDFEED_TFRECORD_MDS_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

// A number as NumPy names it: int64, float32.
struct MdsNumber {
  std::string_view name;
  uint8_t code;  // in arrays that name the type of their values
  uint8_t bytes;
  char kind;  // 'i' signed, 'u' unsigned, 'f'
};

struct MdsColumn {
  enum class Kind {
    kBytes,   // also text, images and everything unknown
    kNumber,  // one
    kArray,
  };
  std::string name;
  std::string encoding;
  std::optional<uint32_t> size;  // size of each value, if it is fixed
  Kind kind = Kind::kBytes;
  const MdsNumber* number = nullptr;  // null: each array names it
  bool shaped = false;                // whether all arrays have one shape, which they do not store
};

// Immutable and thread-safe.
class MdsColumns {
 public:
  // Parses the JSON that describes the columns of a shard.
  // DataLoss: not such JSON; another format or version; names that are missing or equal; a size
  // that is not that of the encoding.
  static absl::StatusOr<std::shared_ptr<const MdsColumns>> Parse(std::string_view config);

  const std::vector<MdsColumn>& columns() const { return columns_; }
  // The JSON itself, and a number that identifies it.
  const std::string& config() const { return config_; }
  uint32_t crc() const { return crc_; }

  // Appends the sample as a serialized tf.train.Example. Returns what is wrong with the sample;
  // empty: nothing.
  std::string AppendExample(std::string_view sample, std::string* out) const;

  // Upper bound of the size of the Examples of `samples` samples, which have `bytes` bytes.
  uint64_t MaxExampleBytes(uint64_t samples, uint64_t bytes) const;

  // What users should know about values that lose digits, or are not decoded.
  std::vector<std::string> Notes() const;

 private:
  MdsColumns() = default;

  std::string config_;
  uint32_t crc_ = 0;
  std::vector<MdsColumn> columns_;
  size_t variable_ = 0;  // columns without a fixed size
  uint64_t sample_overhead_ = 0;
  uint64_t growth_ = 1;  // maximum growth of the bytes of a value
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_MDS_COLUMNS_H_
