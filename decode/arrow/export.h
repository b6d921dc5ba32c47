// tf.train.Examples as record batches of Arrow.

#ifndef SHARDFEED_DECODE_ARROW_EXPORT_H_
#define SHARDFEED_DECODE_ARROW_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decode/arrow/abi.h"
#include "decode/features/example_parser.h"
#include "shardfeed/schema.h"

namespace shardfeed {

// One column: int64, float or binary (32-bit offsets), or lists of these (32-bit offsets, or of
// fixed size). A record without the feature is a null row.
struct ArrowField {
  enum class Form : uint8_t { kScalar, kList, kFixedList };

  std::string name;
  FeatureKind kind = FeatureKind::kInt64;  // not kNone
  Form form = Form::kScalar;
  int64_t width = 1;  // length of the lists of kFixedList
};

// Why a batch could not be made: a record that does not fit the fields.
struct ArrowFailure {
  absl::Status status;
  size_t row = 0;
};

// Makes record batches from serialized records. Immutable; thread-safe.
class ArrowExporter {
 public:
  // With `raw`, the one column "record" has the records themselves, and there are no fields.
  // `sampled`: the fields are all features that some of the records have, and a record with
  // another one is an error. InvalidArgument: a name appears twice, or a width is below 1.
  static absl::StatusOr<std::shared_ptr<const ArrowExporter>> Make(std::vector<ArrowField> fields,
                                                                   bool raw = false,
                                                                   bool sampled = false);

  // The caller releases `out`.
  void GetSchema(ArrowSchema* out) const;

  // Converts all records; the batch has memory of its own. The caller releases `out` unless this
  // fails. A record must fit the fields: of a scalar, one value; of a list of fixed size, as many
  // as its width; always of the field's kind. A batch holds less than 2 GiB of strings, and of
  // elements of lists 2^31 - 1.
  ArrowFailure Convert(absl::Span<const std::string_view> records, ArrowArray* out) const;

 private:
  ArrowExporter(std::vector<ArrowField> fields, bool raw) : fields_(std::move(fields)), raw_(raw) {}

  const std::vector<ArrowField> fields_;
  const bool raw_;
  std::shared_ptr<const ExampleParser> parser_;  // null if `raw_`, or if there are no fields
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_ARROW_EXPORT_H_
