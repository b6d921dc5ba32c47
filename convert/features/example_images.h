// Images inside of records: the values of the bytes features of a serialised tf.train.Example or,
// for the context, SequenceExample.

#ifndef SHARDFEED_CONVERT_FEATURES_EXAMPLE_IMAGES_H_
#define SHARDFEED_CONVERT_FEATURES_EXAMPLE_IMAGES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "convert/features/image_rewriter.h"

namespace shardfeed {

// Appends the record to `out`, with what `rewriter` makes of each value that is a JPEG in its
// place. All other bytes stay as they are; so does all of a record that is no Example. `name` says
// which record it is, for notes and errors. Thread safe.
//
// ResourceExhausted: there is not enough memory.
absl::Status RewriteExampleImages(std::string_view record, std::string_view name,
                                  const ImageRewriter& rewriter, std::string* out);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_EXAMPLE_IMAGES_H_
