// ExampleParser beside Protocol Buffers: in a record that they accept, each list is the same, or
// refused because it is of another kind.

#include <cstring>

#include "decode/features/example_parser.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

FeatureSpec Ragged(const std::string& name, DType dtype) {
  FeatureSpec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.layout = Layout::kRagged;
  return spec;
}

template <typename List>
void ExpectSame(const VariableColumn& column, const List& list) {
  FUZZ_EXPECT(column.num_elements() == list.size());
  const char* at = column.elements();
  for (const auto& value : list) {
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      FUZZ_EXPECT(*reinterpret_cast<const std::string_view*>(at) == value);
      at += sizeof(std::string_view);
    } else {
      FUZZ_EXPECT(std::memcmp(at, &value, sizeof(value)) == 0);
      at += sizeof(value);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view record = testing::View(data, size);
  static const std::string kNames[] = {"b", "f", "i"};
  static constexpr DType kTypes[] = {DType::kBytes, DType::kFloat32, DType::kInt64};

  // Protocol Buffers would print each name that is not UTF-8.
  static const google::protobuf::LogSilencer silencer;
  Example example;
  const bool sound = example.ParseFromArray(data, size);
  for (int i = 0; i < 3; ++i) {
    const auto parser = *ExampleParser::Make({Ragged(kNames[i], kTypes[i])});
    ParsedColumns columns = parser->MakeColumns();
    const absl::Status status = parser->Parse(record, 0, &columns);
    FUZZ_EXPECT(columns.variable(0).num_rows() == status.ok());
    if (!sound) continue;
    const auto it = example.features().feature().find(kNames[i]);
    const Feature feature = it == example.features().feature().end() ? Feature() : it->second;
    const int kind = feature.kind_case();
    FUZZ_EXPECT(status.ok() == (kind == 0 || kind == i + 1));
    if (!status.ok()) continue;
    if (i == 0) ExpectSame(columns.variable(0), feature.bytes_list().value());
    if (i == 1) ExpectSame(columns.variable(0), feature.float_list().value());
    if (i == 2) ExpectSame(columns.variable(0), feature.int64_list().value());
  }

  FeatureSpec steps = Ragged("i", DType::kInt64);
  steps.ragged_steps = true;
  const auto parser = *ExampleParser::Make({Ragged("b", DType::kBytes)}, {steps});
  ParsedColumns columns = parser->MakeColumns();
  SequenceExample sequence;
  const bool ok = parser->Parse(record, 0, &columns).ok();
  if (!ok || !sequence.ParseFromArray(data, size)) return 0;
  int64_t values = 0;
  const auto it = sequence.feature_lists().feature_list().find("i");
  if (it != sequence.feature_lists().feature_list().end()) {
    for (const Feature& step : it->second.feature()) values += step.int64_list().value_size();
  }
  FUZZ_EXPECT(columns.variable(1).num_elements() == values);
  return 0;
}

}  // namespace shardfeed
