// Steps that decode a column of bytes: raw tensors, NumPy's arrays, text, sound.

#ifndef SHARDFEED_PIPELINE_ROWS_DECODERS_H_
#define SHARDFEED_PIPELINE_ROWS_DECODERS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "pipeline/rows/row_step.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// `number` is that of the column of bytes in the chain before the step. What the bytes cannot be
// is an error that names the column (and, from the run, the record).

// The values as they stand, little-endian. `output` replaces the column; a ragged one takes any
// number of elements. InvalidArgument: bytes that are not just those of the shape.
std::shared_ptr<const RowStep> MakeDecodeRawStep(ColumnSpec output, size_t number);
// A .npy file: see decode/features/npy.h. InvalidArgument: of another type or shape than `output`.
std::shared_ptr<const RowStep> MakeDecodeNpyStep(ColumnSpec output, size_t number);
// Checks that the bytes are UTF-8 (RFC 3629) and leaves them as they are. DataLoss: they are not.
std::shared_ptr<const RowStep> MakeDecodeTextStep(std::string column, size_t number);
// A WAV file: see decode/features/wav.h. The column becomes ragged float32 of elements [channels],
// one for each frame; `rate` is a column of int32, frames in a second. InvalidArgument: another
// number of channels.
std::shared_ptr<const RowStep> MakeDecodeWavStep(std::string column, size_t number,
                                                 int64_t channels, std::string rate);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_DECODERS_H_
