// Examples as text beside Protocol Buffers: both refuse a record, or print the same.

#include <google/protobuf/stubs/logging.h>

#include "tests/fuzz/fuzz.h"
#include "tests/tfrecord/text_proto.h"
#include "tfrecord/example_text.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Protocol Buffers would print each name that is not UTF-8.
  static const google::protobuf::LogSilencer silencer;
  const std::string_view record = testing::View(data, size);
  const std::optional<std::string> expected = testing::TextProtoOfProtobuf(std::string(record));
  const absl::StatusOr<std::string> text = ExampleToTextProto(record);
  FUZZ_EXPECT(text.ok() == expected.has_value());
  if (text.ok()) FUZZ_EXPECT(*text == *expected);
  FUZZ_EXPECT(ExampleToJson(record).ok() == text.ok());
  FUZZ_EXPECT(ExampleToSummary(record).ok() == text.ok());
  FUZZ_EXPECT(ExampleToValues(record).ok() == text.ok());
  return 0;
}

}  // namespace shardfeed
