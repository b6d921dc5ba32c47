// Record batches of Arrow as columns of features.

#ifndef SHARDFEED_DECODE_ARROW_IMPORT_H_
#define SHARDFEED_DECODE_ARROW_IMPORT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "decode/arrow/abi.h"
#include "decode/features/example_columns.h"

namespace shardfeed {

// The columns of a record batch: a struct array whose fields are booleans, integers, half, single
// or double floats, strings or binaries (of 32- or 64-bit offsets, views, or of fixed size), or
// lists of these (of 32- or 64-bit offsets, or of fixed size). A null row is one without the
// feature. The columns borrow the batch's memory.
//
// InvalidArgument: the batch has another type, or its structures contradict each other; the message
// names the column, and says what to cast it to. Buffers themselves are the producer's word, as
// always in this interface.
absl::StatusOr<std::vector<ExampleColumn>> ColumnsFromArrow(const ArrowSchema& schema,
                                                            const ArrowArray& batch);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_ARROW_IMPORT_H_
