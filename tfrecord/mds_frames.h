// Frames of MDS shards: a sample is a record, and its payload is the same sample as a serialized
// tf.train.Example, which is longer than the sample and so has memory of its own.
//
// The stream of a shard is that of its samples, each with kFrameBytes more, as in TFRecord framing.
// So lengths and offsets in it follow from the offsets of the samples in the file alone.

#ifndef SHARDFEED_TFRECORD_MDS_FRAMES_H_
#define SHARDFEED_TFRECORD_MDS_FRAMES_H_

#include <string>
#include <string_view>

#include "tfrecord/framed_payloads.h"
#include "tfrecord/mds_columns.h"

namespace shardfeed {

// Adds the payload of a sample. Returns what is wrong with the sample; empty: nothing, and only
// then is it added.
std::string AddMdsSample(const MdsColumns& columns, std::string_view sample,
                         FramedPayloads* payloads);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_MDS_FRAMES_H_
