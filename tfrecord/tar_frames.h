// Frames of tar shards: a sample of the archive is a record, and its payload is the same sample as
// a serialized tf.train.Example.
//
// The Example is made in place. The headers of the files leave more room between their contents
// than the wire format needs, so the contents stay where they are, and fields that no message
// defines cover the rest. Features: `__key__` and one bytes feature for each file, named by its
// extension. As in TFRecord framing, a frame has kFrameBytes more than its payload.

#ifndef SHARDFEED_TFRECORD_TAR_FRAMES_H_
#define SHARDFEED_TFRECORD_TAR_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "tfrecord/framing.h"

namespace shardfeed {

// As ScanFrames (framing.h) for an archive whose bytes at `offset`, where a sample starts, are
// `bytes`; those of complete samples are overwritten. `archive_end` is the size of the archive, or
// INT64_MAX if it is unknown.
//
// A sample is complete only when the next one, or the end of the archive, has been seen. At the end
// of the archive, `ends` of the result is set, and `frame_bytes` is the offset in the unconsumed
// bytes of the zero blocks that end it.
FrameScan ScanTarFrames(absl::Span<char> bytes, uint64_t offset, bool at_end, uint64_t archive_end,
                        size_t max_records, std::vector<Record>* records);

// The key of a sample whose payload was made here.
std::string_view TarKeyOf(std::string_view payload);

// Makes the payload of `frame`, which is exactly one sample, at `offset` of the archive. Returns
// what is wrong with it, with the offset; an empty string if nothing is.
std::string ReadTarFrame(absl::Span<char> frame, uint64_t offset, std::string_view* payload);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_TAR_FRAMES_H_
