// Frames of MDS shards: a sample is a record, and its payload is the same sample as a serialised
// tf.train.Example, which is longer than the sample and so has memory of its own.
//
// The stream of a shard is that of its samples, each with kFrameBytes more, as in TFRecord framing.
// So lengths and offsets in it follow from the offsets of the samples in the file alone.

#ifndef SHARDFEED_TFRECORD_MDS_FRAMES_H_
#define SHARDFEED_TFRECORD_MDS_FRAMES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tfrecord/mds_columns.h"

namespace shardfeed {

// Collects payloads. Not thread-safe; its memory is used again.
class MdsPayloads {
 public:
  // Adds that of a sample. Returns what is wrong with the sample; empty: nothing, and only then is
  // it added.
  std::string Add(const MdsColumns& columns, std::string_view sample);

  size_t size() const { return ends_.size(); }
  // Bytes of memory that the payloads need.
  size_t bytes() const { return bytes_.size(); }
  // Moves the payloads to `memory` of bytes() bytes, which is never null, and calls
  // `take(i, payload)` for each. What RecordsDigest and FrameBytes need precedes each of them.
  template <typename Take>
  void MoveTo(char* memory, const Take& take) {
    bytes_.copy(memory, bytes_.size());
    for (size_t i = 0; i < ends_.size(); ++i) {
      take(i, std::string_view(memory + ends_[i].first, ends_[i].second - ends_[i].first));
    }
    Clear();
  }

 private:
  void Clear();

  std::string bytes_;
  std::vector<std::pair<size_t, size_t>> ends_;  // where each payload begins and ends
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_MDS_FRAMES_H_
