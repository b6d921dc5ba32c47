// Images inside records: values of bytes features of a serialized tf.train.Example or of the
// context of a SequenceExample.

#ifndef SHARDFEED_CONVERT_FEATURES_EXAMPLE_IMAGES_H_
#define SHARDFEED_CONVERT_FEATURES_EXAMPLE_IMAGES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "convert/features/image_rewriter.h"

namespace shardfeed {

// Appends the record to `out` with each value that is a JPEG replaced by the result of `rewriter`.
// All other bytes are unchanged, as is a record that is not an Example. `name` identifies the
// record in notes and errors. Thread-safe.
//
// ResourceExhausted: out of memory.
absl::Status RewriteExampleImages(std::string_view record, std::string_view name,
                                  const ImageRewriter& rewriter, std::string* out);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_EXAMPLE_IMAGES_H_
