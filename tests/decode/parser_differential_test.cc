// Compares ExampleParser with Protocol Buffers: for any bytes, both must accept or refuse, and find
// the same values.

#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <cstring>
#include <optional>

#include "decode/features/example_parser.h"
#include "tests/decode/random_wire.h"
#include "tests/testing/files.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;
using testing::RandomWire;

// ---- what Protocol Buffers say

// The fields of a message without a schema; null if it is invalid.
std::unique_ptr<UnknownFieldSet> FieldsOf(const std::string& message) {
  google::protobuf::Empty parsed;
  if (!parsed.ParseFromString(message)) return nullptr;
  auto fields = std::make_unique<UnknownFieldSet>();
  fields->MergeFrom(parsed.GetReflection()->GetUnknownFields(parsed));
  return fields;
}

bool IsBytes(const UnknownField& field, int number) {
  return field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED;
}

std::string Serialize(const UnknownFieldSet& fields) {
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

// The record with only the entries of `name` in map `map_field`. Values of other features are not
// checked, and their names need not be UTF-8, so this is what has to be accepted; nullopt if the
// rest is invalid.
std::optional<std::string> Only(const std::string& record, int map_field, const std::string& name) {
  const auto message = FieldsOf(record);
  if (!message) return std::nullopt;
  UnknownFieldSet reduced;
  for (int m = 0; m < message->field_count(); ++m) {
    if (!IsBytes(message->field(m), map_field)) continue;
    const auto map = FieldsOf(message->field(m).length_delimited());
    if (!map) return std::nullopt;
    UnknownFieldSet entries;
    for (int e = 0; e < map->field_count(); ++e) {
      if (!IsBytes(map->field(e), 1)) continue;
      const auto entry = FieldsOf(map->field(e).length_delimited());
      if (!entry) return std::nullopt;
      std::string found_name;
      UnknownFieldSet with_one_name;
      for (int f = 0; f < entry->field_count(); ++f) {
        if (IsBytes(entry->field(f), 1)) {
          found_name = entry->field(f).length_delimited();
        } else {
          with_one_name.AddField(entry->field(f));
        }
      }
      if (found_name != name) continue;
      with_one_name.AddLengthDelimited(1, name);
      entries.AddLengthDelimited(1, Serialize(with_one_name));
    }
    reduced.AddLengthDelimited(map_field, Serialize(entries));
  }
  return Serialize(reduced);
}

// ---- rows as text, so that they can be compared and printed

struct Row {
  std::vector<std::string> values;
  std::vector<int64_t> steps;  // number of values in each

  friend bool operator==(const Row&, const Row&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) {
    for (const std::string& value : row.values) out << ::testing::PrintToString(value) << " ";
    return out << "steps " << ::testing::PrintToString(row.steps);
  }
};

template <typename T>
std::string Text(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

FeatureKind KindOf(const Feature& feature) {
  return static_cast<FeatureKind>(static_cast<int>(feature.kind_case()));
}

void Append(const Feature& feature, Row* row) {
  for (const std::string& value : feature.bytes_list().value()) row->values.push_back(value);
  for (float value : feature.float_list().value()) row->values.push_back(Text(value));
  for (int64_t value : feature.int64_list().value()) row->values.push_back(Text(value));
}

// The expected row of `spec`; nullopt if the record must be refused.
std::optional<Row> ExpectedRow(const std::string& record, const FeatureSpec& spec, bool is_list) {
  const auto reduced = Only(record, is_list ? 2 : 1, spec.name);
  SequenceExample parsed;
  if (!reduced || !parsed.ParseFromString(*reduced)) return std::nullopt;
  const size_t values = NumValues(spec);
  Row row;
  if (is_list) {
    const auto it = parsed.feature_lists().feature_list().find(spec.name);
    if (it == parsed.feature_lists().feature_list().end()) return row;
    for (const Feature& step : it->second.feature()) {
      const FeatureKind kind = KindOf(step);
      if (kind != ListKind(spec) && (kind != FeatureKind::kNone || !spec.ragged_steps)) {
        return std::nullopt;
      }
      const size_t before = row.values.size();
      Append(step, &row);
      const size_t n = row.values.size() - before;
      if (spec.ragged_steps ? n % values != 0 : n != values) return std::nullopt;
      row.steps.push_back(n);
    }
    return row;
  }
  const auto it = parsed.context().feature().find(spec.name);
  const FeatureKind kind =
      it == parsed.context().feature().end() ? FeatureKind::kNone : KindOf(it->second);
  if (kind == FeatureKind::kNone) {
    if (spec.layout != Layout::kFixed) return row;
    if (!spec.default_value) return std::nullopt;
    std::visit(
        [&](const auto& all) {
          for (size_t i = 0; i < values; ++i) {
            if constexpr (std::is_same_v<decltype(all[0]), const std::string&>) {
              row.values.push_back(all[0]);
            } else {
              row.values.push_back(Text(all[0]));
            }
          }
        },
        *spec.default_value);
    return row;
  }
  if (kind != ListKind(spec)) return std::nullopt;
  Append(it->second, &row);
  const size_t n = row.values.size();
  if (spec.layout == Layout::kFixed ? n != values : n % values != 0) return std::nullopt;
  return row;
}

// ---- what ExampleParser says

class Subject {
 public:
  Subject(std::vector<FeatureSpec> features, std::vector<FeatureSpec> lists)
      : parser_(*ExampleParser::Make(features, lists)),
        columns_(parser_->MakeColumns()),
        num_context_(features.size()) {
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      memory_.emplace_back(parser_->bytes(i) / 8 + 1);
      columns_.SetFixed(i, reinterpret_cast<char*>(memory_[i].data()));
    }
  }

  // Parses a record and compares the result with Protocol Buffers. Returns whether it was accepted.
  bool Check(const std::string& record) {
    columns_.Clear();
    // In memory of its own, so that AddressSanitizer detects any read past the end.
    const std::unique_ptr<char[]> copy(new char[record.size()]);
    if (!record.empty()) std::memcpy(copy.get(), record.data(), record.size());
    const absl::Status status = parser_->Parse({copy.get(), record.size()}, 0, &columns_);
    bool accept = true;
    std::vector<Row> expected;
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      auto row = ExpectedRow(record, parser_->spec(i), i >= num_context_);
      accept &= row.has_value();
      if (row) expected.push_back(*row);
    }
    EXPECT_EQ(status.ok(), accept) << status.ToString();
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      if (parser_->spec(i).layout == Layout::kFixed) continue;
      EXPECT_EQ(columns_.variable(i).num_rows(), status.ok());
    }
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsInvalidArgument(status));
      return false;
    }
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(RowOf(i), expected[i]) << i;
    return true;
  }

 private:
  Row RowOf(size_t feature) const {
    const FeatureSpec& spec = parser_->spec(feature);
    const bool is_list = feature >= num_context_;
    const VariableColumn& column = columns_.variable(feature);
    const char* at = spec.layout == Layout::kFixed
                         ? reinterpret_cast<const char*>(memory_[feature].data())
                         : column.elements();
    const int64_t values =
        NumValues(spec) * (spec.layout == Layout::kFixed ? 1 : column.num_elements());
    Row row;
    for (int64_t i = 0; i < values; ++i, at += DTypeSize(spec.dtype)) {
      if (spec.dtype == DType::kBytes) {
        row.values.emplace_back(*reinterpret_cast<const std::string_view*>(at));
      } else {
        row.values.emplace_back(at, DTypeSize(spec.dtype));
      }
    }
    if (is_list && spec.ragged_steps) {
      int64_t begin = 0;
      for (int64_t end : column.step_ends()) {
        row.steps.push_back((end - begin) * NumValues(spec));
        begin = end;
      }
      EXPECT_EQ(column.row_ends().back(), column.num_steps());
    } else if (is_list) {
      row.steps.assign(column.num_elements(), NumValues(spec));
    }
    if (spec.layout != Layout::kFixed && !(is_list && spec.ragged_steps)) {
      EXPECT_EQ(column.row_ends().back(), column.num_elements());
    }
    return row;
  }

  std::shared_ptr<const ExampleParser> parser_;
  ParsedColumns columns_;
  size_t num_context_;
  std::vector<std::vector<uint64_t>> memory_;
};

// The kinds that RandomWire produces: bytes, float, int64 in turn.
const std::vector<std::string> kNames = {
    "b", "floats", "y", "a name longer than 16 bytes", "", "a name longer than 16 Bytes"};

DType TypeOf(size_t name) {
  return name % 3 == 0 ? DType::kBytes : name % 3 == 1 ? DType::kFloat32 : DType::kInt64;
}

FeatureSpec Spec(size_t name, DType dtype, Layout layout, std::vector<int64_t> shape = {}) {
  FeatureSpec spec;
  spec.name = kNames[name];
  spec.dtype = dtype;
  spec.layout = layout;
  spec.shape = std::move(shape);
  return spec;
}

FeatureSpec WithDefault(FeatureSpec spec) {
  if (spec.dtype == DType::kBytes) spec.default_value = std::vector<std::string>{"default"};
  if (spec.dtype == DType::kFloat32) spec.default_value = std::vector<float>{-1.5f};
  if (spec.dtype == DType::kInt64) spec.default_value = std::vector<int64_t>{-7};
  return spec;
}

std::vector<Subject> ExampleSubjects() {
  std::vector<Subject> subjects;
  // Each feature by itself, as each kind.
  for (size_t name = 0; name < 3; ++name) {
    for (DType dtype : {DType::kBytes, DType::kFloat32, DType::kInt64}) {
      subjects.emplace_back(std::vector{Spec(name, dtype, Layout::kRagged)},
                            std::vector<FeatureSpec>());
    }
  }
  // All features together: ragged, fixed, and scalars, which usually match the order in the record.
  std::vector<FeatureSpec> ragged;
  std::vector<FeatureSpec> fixed;
  std::vector<FeatureSpec> scalars;
  for (size_t name = 0; name < kNames.size(); ++name) {
    ragged.push_back(Spec(name, TypeOf(name), Layout::kRagged));
    fixed.push_back(WithDefault(Spec(name, TypeOf(name), Layout::kFixed, {3})));
    scalars.push_back(WithDefault(Spec(name, TypeOf(name), Layout::kFixed)));
  }
  subjects.emplace_back(ragged, std::vector<FeatureSpec>());
  subjects.emplace_back(fixed, std::vector<FeatureSpec>());
  subjects.emplace_back(scalars, std::vector<FeatureSpec>());
  subjects.emplace_back(std::vector{fixed[1], scalars[2]}, std::vector<FeatureSpec>());
  subjects.emplace_back(std::vector{Spec(1, DType::kFloat32, Layout::kRagged, {3}),
                                    Spec(2, DType::kInt64, Layout::kFixed)},
                        std::vector<FeatureSpec>());
  return subjects;
}

std::vector<Subject> SequenceSubjects() {
  std::vector<Subject> subjects;
  std::vector<FeatureSpec> context;
  std::vector<FeatureSpec> steps;
  std::vector<FeatureSpec> ragged_steps;
  for (size_t name = 0; name < kNames.size(); ++name) {
    context.push_back(Spec(name, TypeOf(name), Layout::kRagged));
    steps.push_back(Spec(name, TypeOf(name), Layout::kRagged, {3}));
    ragged_steps.push_back(Spec(name, TypeOf(name), Layout::kRagged));
    ragged_steps.back().ragged_steps = true;
    subjects.emplace_back(std::vector<FeatureSpec>(), std::vector{steps.back()});
    subjects.emplace_back(std::vector<FeatureSpec>(), std::vector{ragged_steps.back()});
  }
  subjects.emplace_back(context, ragged_steps);
  subjects.emplace_back(std::vector<FeatureSpec>(), ragged_steps);
  subjects.emplace_back(context, std::vector<FeatureSpec>());
  return subjects;
}

struct Verdicts {
  int accepted = 0;
  int refused = 0;
};

void CheckAll(const std::string& record, std::vector<Subject>* subjects, Verdicts* verdicts) {
  for (Subject& subject : *subjects) {
    subject.Check(record) ? ++verdicts->accepted : ++verdicts->refused;
  }
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (unsigned char c : bytes)
    hex += "0123456789abcdef"[c >> 4], hex += "0123456789abcdef"[c & 15];
  return hex;
}

TEST(ParserDifferential, EveryFormOfExample) {
  RandomWire wire(1, kNames);
  auto subjects = ExampleSubjects();
  Verdicts verdicts;
  for (int i = 0; i < 800 && !HasFailure(); ++i) {
    const std::string record = wire.Example();
    SCOPED_TRACE(Hex(record));
    Example parsed;
    EXPECT_TRUE(parsed.ParseFromString(record)) << "RandomWire is wrong";
    CheckAll(record, &subjects, &verdicts);
  }
  EXPECT_GT(verdicts.accepted, 1500);
  EXPECT_GT(verdicts.refused, 1500);
}

TEST(ParserDifferential, DamagedExamples) {
  RandomWire wire(2, kNames);
  auto subjects = ExampleSubjects();
  Verdicts verdicts;
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    const std::string record = wire.Mutated(wire.Example());
    SCOPED_TRACE(Hex(record));
    CheckAll(record, &subjects, &verdicts);
  }
  EXPECT_GT(verdicts.accepted, 1500);
  EXPECT_GT(verdicts.refused, 1500);
}

TEST(ParserDifferential, EveryFormOfSequenceExample) {
  RandomWire wire(3, kNames);
  auto subjects = SequenceSubjects();
  Verdicts verdicts;
  for (int i = 0; i < 700 && !HasFailure(); ++i) {
    const std::string record = wire.SequenceExample();
    SCOPED_TRACE(Hex(record));
    SequenceExample parsed;
    EXPECT_TRUE(parsed.ParseFromString(record)) << "RandomWire is wrong";
    CheckAll(record, &subjects, &verdicts);
  }
  EXPECT_GT(verdicts.accepted, 1500);
  EXPECT_GT(verdicts.refused, 1500);
}

TEST(ParserDifferential, DamagedSequenceExamples) {
  RandomWire wire(4, kNames);
  auto subjects = SequenceSubjects();
  Verdicts verdicts;
  for (int i = 0; i < 1300 && !HasFailure(); ++i) {
    const std::string record = wire.Mutated(wire.SequenceExample());
    SCOPED_TRACE(Hex(record));
    CheckAll(record, &subjects, &verdicts);
  }
  EXPECT_GT(verdicts.accepted, 1500);
  EXPECT_GT(verdicts.refused, 1500);
}

TEST(ParserDifferential, TruncatedAtEveryByte) {
  RandomWire wire(5, kNames);
  auto examples = ExampleSubjects();
  auto sequences = SequenceSubjects();
  Verdicts verdicts;
  for (int i = 0; i < 3; ++i) {
    const std::string example = wire.Example();
    for (size_t size = 0; size < example.size() && !HasFailure(); ++size) {
      SCOPED_TRACE(Hex(example.substr(0, size)));
      CheckAll(example.substr(0, size), &examples, &verdicts);
    }
    const std::string sequence = wire.SequenceExample();
    for (size_t size = 0; size < sequence.size() && !HasFailure(); ++size) {
      SCOPED_TRACE(Hex(sequence.substr(0, size)));
      CheckAll(sequence.substr(0, size), &sequences, &verdicts);
    }
  }
}

// Concatenated messages are one merged message.
TEST(ParserDifferential, ConcatenatedMessages) {
  RandomWire wire(6, kNames);
  auto examples = ExampleSubjects();
  auto sequences = SequenceSubjects();
  Verdicts verdicts;
  for (int i = 0; i < 200 && !HasFailure(); ++i) {
    CheckAll(wire.Example() + wire.Example(), &examples, &verdicts);
    CheckAll(wire.SequenceExample() + wire.SequenceExample(), &sequences, &verdicts);
  }
}

}  // namespace
}  // namespace shardfeed
