// Steps that decode a bytes column: raw tensors, NumPy arrays, text, sound.

#ifndef SHARDFEED_PIPELINE_ROWS_DECODERS_H_
#define SHARDFEED_PIPELINE_ROWS_DECODERS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "pipeline/rows/row_step.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// `number` is the number of the bytes column before the step. Bytes that cannot be decoded are an
// error that names the column (and, in a run, the record).

// Copies little-endian values. `output` replaces the column; if it is ragged, any number of
// elements is accepted. InvalidArgument: the number of bytes does not fit the shape.
std::shared_ptr<const RowStep> MakeDecodeRawStep(const ColumnSpec& output, size_t number);
// A .npy file: see decode/features/npy.h. InvalidArgument: its type or shape differs from `output`.
std::shared_ptr<const RowStep> MakeDecodeNpyStep(const ColumnSpec& output, size_t number);
// Checks that the bytes are UTF-8 (RFC 3629), without changing them. DataLoss: they are not.
std::shared_ptr<const RowStep> MakeDecodeTextStep(std::string column, size_t number);
// A WAV file: see decode/features/wav.h. The column becomes ragged float32 with elements
// [channels], one per frame; `rate` is an int32 column with frames per second. InvalidArgument:
// another number of channels.
std::shared_ptr<const RowStep> MakeDecodeWavStep(std::string column, size_t number,
                                                 int64_t channels, std::string rate);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_DECODERS_H_
