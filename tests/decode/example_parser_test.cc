#include "decode/features/example_parser.h"

#include <cstring>
#include <limits>
#include <thread>

#include "decode/features/float16.h"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

FeatureSpec Spec(std::string name, DType dtype, Layout layout = Layout::kFixed,
                 std::vector<int64_t> shape = {}) {
  FeatureSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.layout = layout;
  spec.shape = std::move(shape);
  return spec;
}

FeatureSpec Default(FeatureSpec spec, FeatureValues values) {
  spec.default_value = std::move(values);
  return spec;
}

FeatureSpec Raw(FeatureSpec spec) {
  spec.decode_raw = true;
  return spec;
}

FeatureSpec RaggedSteps(FeatureSpec spec) {
  spec.ragged_steps = true;
  return spec;
}

// A parser and a batch of `rows` rows.
struct Batch {
  explicit Batch(std::vector<FeatureSpec> features, std::vector<FeatureSpec> lists = {},
                 size_t rows = 4, std::string origin = {})
      : parser(*ExampleParser::Make(std::move(features), std::move(lists), std::move(origin))),
        columns(parser->MakeColumns()) {
    for (size_t i = 0; i < parser->num_features(); ++i) {
      memory.emplace_back(rows * parser->bytes(i) / 8 + 1);
      columns.SetFixed(i, reinterpret_cast<char*>(memory[i].data()));
    }
  }
  absl::Status Parse(std::string_view record, size_t row = 0) {
    return parser->Parse(record, row, &columns);
  }
  template <typename T>
  std::vector<T> Fixed(size_t feature, size_t n, size_t first = 0) const {
    const T* values = reinterpret_cast<const T*>(memory[feature].data());
    return {values + first, values + first + n};
  }
  template <typename T>
  std::vector<T> Elements(size_t feature) const {
    const VariableColumn& column = columns.variable(feature);
    const T* values = reinterpret_cast<const T*>(column.elements());
    return {values, values + column.num_elements() * column.element_bytes() / sizeof(T)};
  }

  std::shared_ptr<const ExampleParser> parser;
  ParsedColumns columns;
  std::vector<std::vector<uint64_t>> memory;
};

std::string Record(const std::function<void(ExampleBuilder*)>& add) {
  ExampleBuilder builder;
  add(&builder);
  std::string record;
  builder.SerializeExample(&record);
  return record;
}

std::string SequenceRecord(const std::function<void(ExampleBuilder*)>& add) {
  ExampleBuilder builder;
  add(&builder);
  std::string record;
  builder.SerializeSequenceExample(&record);
  return record;
}

std::string Ints(const std::vector<int64_t>& values, const std::string& name = "x") {
  return Record([&](ExampleBuilder* b) { b->AddInt64List(name, values); });
}
std::string Floats(const std::vector<float>& values, const std::string& name = "x") {
  return Record([&](ExampleBuilder* b) { b->AddFloatList(name, values); });
}
std::string Strings(const std::vector<std::string_view>& values, const std::string& name = "x") {
  return Record([&](ExampleBuilder* b) { b->AddBytesList(name, values); });
}

TEST(ExampleParser, FixedFeaturesGoToTheirRows) {
  Batch batch({Spec("x", DType::kFloat32, Layout::kFixed, {2}), Spec("y", DType::kInt64),
               Spec("name", DType::kBytes)});
  std::vector<std::string> records;
  for (int64_t row = 0; row < 4; ++row) {
    records.push_back(Record([&](ExampleBuilder* b) {
      b->AddFloatList("x", {row + 0.5f, row + 0.25f});
      b->AddInt64("y", row * 1000);
      b->AddBytes("name", "row " + std::to_string(row));
      b->AddInt64("not asked for", 7);
    }));
  }
  for (size_t row : {2, 0, 3, 1}) ASSERT_OK(batch.Parse(records[row], row));
  EXPECT_THAT(batch.Fixed<float>(0, 8),
              ElementsAre(0.5f, 0.25f, 1.5f, 1.25f, 2.5f, 2.25f, 3.5f, 3.25f));
  EXPECT_THAT(batch.Fixed<int64_t>(1, 4), ElementsAre(0, 1000, 2000, 3000));
  EXPECT_THAT(batch.Fixed<std::string_view>(2, 4), ElementsAre("row 0", "row 1", "row 2", "row 3"));
  // A view of the record, not a copy.
  const auto view = batch.Fixed<std::string_view>(2, 1)[0];
  EXPECT_GE(view.data(), records[0].data());
  EXPECT_LT(view.data(), records[0].data() + records[0].size());
}

TEST(ExampleParser, VariableFeaturesAreAppended) {
  Batch batch({Spec("x", DType::kInt64, Layout::kRagged), Spec("y", DType::kBytes, Layout::kPadded),
               Spec("z", DType::kFloat32, Layout::kRagged, {2})});
  const std::string first = Record([](ExampleBuilder* b) {
    b->AddInt64List("x", {1, -2, 300});
    b->AddFloatList("z", {1, 2, 3, 4});
  });
  const std::string second = Record([](ExampleBuilder* b) {
    b->AddInt64List("x", {});
    b->AddBytesList("y", {"a", "b"});
  });
  ASSERT_OK(batch.Parse(first));
  ASSERT_OK(batch.Parse(second));
  EXPECT_THAT(batch.Elements<int64_t>(0), ElementsAre(1, -2, 300));
  EXPECT_THAT(batch.columns.variable(0).row_ends(), ElementsAre(3, 3));
  EXPECT_THAT(batch.Elements<std::string_view>(1), ElementsAre("a", "b"));
  EXPECT_THAT(batch.columns.variable(1).row_ends(), ElementsAre(0, 2));
  EXPECT_THAT(batch.Elements<float>(2), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.columns.variable(2).row_ends(), ElementsAre(2, 2));
  batch.columns.Clear();
  EXPECT_THAT(batch.Elements<int64_t>(0), IsEmpty());
}

TEST(ExampleParser, IntsOfEverySize) {
  std::vector<int64_t> values;
  for (int bits = 0; bits < 64; ++bits) {
    for (int64_t offset : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bits) + offset;
      values.push_back(static_cast<int64_t>(value));
      values.push_back(static_cast<int64_t>(-value));
      for (int i = 0; i < 9; ++i) values.push_back(i);
    }
  }
  Batch batch({Spec("x", DType::kInt64, Layout::kRagged)});
  ASSERT_OK(batch.Parse(Ints(values)));
  EXPECT_EQ(batch.Elements<int64_t>(0), values);
}

TEST(ExampleParser, NarrowIntsAreChecked) {
  constexpr int64_t kMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  Batch narrow({Spec("x", DType::kInt32, Layout::kRagged)});
  ASSERT_OK(narrow.Parse(Ints({kMin, -1, 0, kMax})));
  EXPECT_THAT(narrow.Elements<int32_t>(0), ElementsAre(kMin, -1, 0, kMax));
  EXPECT_FAILS(
      narrow.Parse(Ints({1, 2, kMax + 1})), kInvalidArgument,
      "feature 'x': value 2147483648 at position 2 does not fit int32; ask for it as int64");
  EXPECT_FAILS(narrow.Parse(Ints({kMin - 1})), kInvalidArgument, "does not fit int32");
  EXPECT_EQ(narrow.columns.variable(0).num_rows(), 1);

  Batch bytes({Spec("x", DType::kUInt8, Layout::kFixed, {3})});
  ASSERT_OK(bytes.Parse(Ints({0, 127, 255})));
  EXPECT_THAT(bytes.Fixed<uint8_t>(0, 3), ElementsAre(0, 127, 255));
  EXPECT_FAILS(bytes.Parse(Ints({0, 256, 0})), kInvalidArgument,
               "feature 'x': value 256 at position 1 does not fit uint8");
  EXPECT_FAILS(bytes.Parse(Ints({0, 0, -1})), kInvalidArgument,
               "feature 'x': value -1 at position 2 does not fit uint8");
}

TEST(ExampleParser, FloatsBecomeHalves) {
  const std::vector<float> values = {0, -1.5f, 0.1f, 70000, 1e-7f};
  Batch batch({Spec("x", DType::kFloat16, Layout::kFixed, {5}),
               Spec("y", DType::kBFloat16, Layout::kRagged)});
  ASSERT_OK(batch.Parse(Record([&](ExampleBuilder* b) {
    b->AddFloatList("x", values);
    b->AddFloatList("y", values);
  })));
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(batch.Fixed<uint16_t>(0, 5)[i], ToFloat16(values[i]));
    EXPECT_EQ(batch.Elements<uint16_t>(1)[i], ToBFloat16(values[i]));
  }
}

TEST(ExampleParser, DecodeRawTakesBytesForNumbers) {
  const std::vector<int16_t> values = {1, -2, 300, -400};
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()), 8);
  const std::string record = Strings({bytes});
  Batch batch({Raw(Spec("x", DType::kInt16, Layout::kFixed, {2, 2}))});
  ASSERT_OK(batch.Parse(record));
  EXPECT_EQ(batch.Fixed<int16_t>(0, 4), values);
  Batch ragged({Raw(Spec("x", DType::kInt16, Layout::kRagged, {2}))});
  ASSERT_OK(ragged.Parse(record));
  ASSERT_OK(ragged.Parse(Strings({})));
  ASSERT_OK(ragged.Parse(Strings({""})));
  EXPECT_EQ(ragged.Elements<int16_t>(0), values);
  EXPECT_THAT(ragged.columns.variable(0).row_ends(), ElementsAre(2, 2, 2));

  EXPECT_FAILS(batch.Parse(Strings({"123456"})), kInvalidArgument,
               "feature 'x' has 3 values, expected 4 (shape [2, 2])");
  EXPECT_FAILS(
      batch.Parse(Strings({"1234567"})), kInvalidArgument,
      "feature 'x' has 7 bytes, which is not a whole number of int16 values (2 bytes each)");
  EXPECT_FAILS(batch.Parse(Strings({"1234", "5678"})), kInvalidArgument,
               "feature 'x' has 2 strings, but decode_raw takes one");
  EXPECT_FAILS(ragged.Parse(Strings({"12"})), kInvalidArgument,
               "feature 'x' has 1 value, expected a multiple of 2 (shape [2])");
  EXPECT_FAILS(batch.Parse(Ints({1})), kInvalidArgument,
               "feature 'x' is of kind int64, expected bytes (for int16, decode_raw)");
  // As large as an image, for which there is no fast path.
  Batch image({Raw(Spec("x", DType::kUInt8, Layout::kFixed, {100, 100}))});
  const std::string pixels(10'000, 'p');
  ASSERT_OK(image.Parse(Strings({pixels}), 3));
  EXPECT_EQ(std::memcmp(image.Fixed<char>(0, 10'000, 30'000).data(), pixels.data(), 10'000), 0);
}

TEST(ExampleParser, DefaultsForWhatIsMissing) {
  Batch batch({Default(Spec("i", DType::kInt32, Layout::kFixed, {2}), std::vector<int64_t>{-3}),
               Default(Spec("f", DType::kFloat16), std::vector<float>{0.5f}),
               Default(Spec("b", DType::kBytes, Layout::kFixed, {2}),
                       std::vector<std::string>{"a default longer than any small string", "two"}),
               Default(Raw(Spec("r", DType::kInt16, Layout::kFixed, {2})),
                       std::vector<std::string>{std::string("\1\0\2\0", 4)})});
  const std::string kindless(
      "\x0a\x05\x0a\x03\x0a\x01"
      "f",
      7);
  ASSERT_OK(batch.Parse(""));
  ASSERT_OK(batch.Parse(kindless, 1));
  EXPECT_THAT(batch.Fixed<int32_t>(0, 4), ElementsAre(-3, -3, -3, -3));
  EXPECT_THAT(batch.Fixed<uint16_t>(1, 2), ElementsAre(0x3800, 0x3800));
  EXPECT_THAT(batch.Fixed<std::string_view>(2, 2),
              ElementsAre("a default longer than any small string", "two"));
  EXPECT_THAT(batch.Fixed<int16_t>(3, 2), ElementsAre(1, 2));
}

TEST(ExampleParser, PaddingIsOneElement) {
  Batch batch({Default(Spec("x", DType::kInt32, Layout::kPadded, {2}), std::vector<int64_t>{-1}),
               Spec("y", DType::kFloat32, Layout::kPadded),
               Spec("z", DType::kBytes, Layout::kPadded),
               Default(Spec("w", DType::kBytes, Layout::kPadded), std::vector<std::string>{"-"})});
  EXPECT_EQ(batch.parser->padding(0), std::string(8, '\xff'));
  EXPECT_EQ(batch.parser->padding(1), std::string(4, '\0'));
  std::string_view string;
  ASSERT_EQ(batch.parser->padding(2).size(), sizeof(string));
  std::memcpy(&string, batch.parser->padding(2).data(), sizeof(string));
  EXPECT_EQ(string, "");
  std::memcpy(&string, batch.parser->padding(3).data(), sizeof(string));
  EXPECT_EQ(string, "-");
}

TEST(ExampleParser, MissingWrongKindAndWrongLengthAreErrors) {
  Batch batch({Spec("x", DType::kFloat32, Layout::kFixed, {2, 3})});
  EXPECT_FAILS(batch.Parse(""), kInvalidArgument,
               "feature 'x' is missing; give it a default, or ask for it as ragged");
  EXPECT_FAILS(batch.Parse(std::string_view("\x0a\x05\x0a\x03\x0a\x01x", 7)), kInvalidArgument,
               "feature 'x' has no kind, which stands for a missing value; give it a default");
  EXPECT_FAILS(batch.Parse(Ints({1})), kInvalidArgument,
               "feature 'x' is of kind int64, expected float (for float32)");
  EXPECT_FAILS(batch.Parse(Floats({1, 2, 3})), kInvalidArgument,
               "feature 'x' has 3 values, expected 6 (shape [2, 3])");
  EXPECT_FAILS(batch.Parse(Floats({})), kInvalidArgument,
               "feature 'x' has 0 values, expected 6 (shape [2, 3])");
  Batch scalar({Spec("x", DType::kInt64)});
  EXPECT_FAILS(scalar.Parse(Ints({1, 2})), kInvalidArgument,
               "feature 'x' has 2 values, expected 1 (shape [])");
}

TEST(ExampleParser, FeaturesThatASampleDoesNotHaveAreErrors) {
  Batch batch({Spec("a", DType::kInt64)}, {}, 4, "They are a sample");
  ExampleBuilder builder;
  builder.AddInt64("a", 1);
  std::string known;
  builder.SerializeExample(&known);
  EXPECT_OK(batch.Parse(known));
  builder.AddInt64("late", 2);
  std::string record;
  builder.SerializeExample(&record);
  EXPECT_FAILS(
      batch.Parse(record), kInvalidArgument,
      "feature 'late' is not known. They are a sample: name the features to parse; 'shardfeed "
      "inspect' lists all");
  EXPECT_OK(batch.Parse(known));
  // A feature 'x' without a kind has nothing that could be lost.
  const std::string without_kind("\x0a\x05\x0a\x03\x0a\x01x", 7);
  EXPECT_OK(batch.Parse(known + without_kind));
  EXPECT_FAILS(batch.Parse(without_kind), kInvalidArgument,
               "feature 'a' is missing; give it a default, or ask for it as ragged. They are a "
               "sample: name the features");
  EXPECT_FAILS(batch.Parse("hello world"), kDataLoss, "not a tf.train.Example: cannot be parsed");
  // Feature lists, of which the sample had none.
  builder.Clear();
  builder.AddInt64("a", 1);
  builder.AppendInt64Step("steps", {1});
  record.clear();
  builder.SerializeSequenceExample(&record);
  EXPECT_FAILS(batch.Parse(record), kInvalidArgument, "feature 'steps' is not known");
  EXPECT_OK(Batch({Spec("a", DType::kInt64)}).Parse(record));
  Batch lists({}, {Spec("steps", DType::kInt64, Layout::kRagged)}, 4, "They are a sample");
  EXPECT_FAILS(lists.Parse(record), kInvalidArgument, "feature 'a' is not known");
}

TEST(ExampleParser, DamageIsToldWithItsPlace) {
  Batch batch({Spec("x", DType::kInt64)});
  EXPECT_FAILS(batch.Parse("hello world"), kDataLoss,
               "not a tf.train.Example: cannot be parsed at byte 2 of its 11");
  // The list ends inside a varint.
  const std::string record("\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x80", 14);
  EXPECT_FAILS(batch.Parse(record), kDataLoss,
               "not a tf.train.Example: feature 'x' cannot be parsed at byte 13 of its 14");
}

TEST(ExampleParser, AfterAnErrorNoRowIsAdded) {
  Batch batch({Spec("a", DType::kInt64, Layout::kRagged), Spec("b", DType::kInt64, Layout::kRagged),
               Spec("c", DType::kInt64), Spec("d", DType::kInt64, Layout::kRagged)});
  const auto record = [](const std::string& kind_of_b, bool with_c) {
    return Record([&](ExampleBuilder* b) {
      b->AddInt64List("a", {1, 2});
      if (kind_of_b == "int64") b->AddInt64List("b", {3});
      if (kind_of_b == "float") b->AddFloat("b", 3);
      if (with_c) b->AddInt64("c", 5);
      b->AddInt64List("d", {6, 7, 8});
    });
  };
  ASSERT_OK(batch.Parse(record("int64", true)));
  EXPECT_FAILS(batch.Parse(record("float", true)), kInvalidArgument, "feature 'b'");
  EXPECT_FAILS(batch.Parse(record("int64", false)), kInvalidArgument, "feature 'c'");
  ASSERT_OK(batch.Parse(record("none", true)));
  EXPECT_THAT(batch.columns.variable(0).row_ends(), ElementsAre(2, 4));
  EXPECT_THAT(batch.columns.variable(1).row_ends(), ElementsAre(1, 1));
  EXPECT_THAT(batch.columns.variable(3).row_ends(), ElementsAre(3, 6));
  EXPECT_THAT(batch.Elements<int64_t>(0), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(batch.Elements<int64_t>(1), ElementsAre(3));
}

TEST(ExampleParser, OrderOfTheFeaturesMayChangeFromRecordToRecord) {
  std::vector<FeatureSpec> specs;
  for (const char* name : {"d", "a", "c", "b"}) specs.push_back(Spec(name, DType::kInt64));
  Batch batch(specs);
  std::string names = "abcd";
  int64_t n = 0;
  do {
    // Concatenated Examples are one Example.
    std::string record;
    for (char name : names) record += Ints({n + name}, std::string(1, name));
    ASSERT_OK(batch.Parse(record, n % 4));
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(batch.Fixed<int64_t>(i, 1, n % 4)[0], n + specs[i].name[0]);
    }
    ++n;
  } while (std::next_permutation(names.begin(), names.end()));
}

TEST(ExampleParser, LastOfEqualNamesCounts) {
  Batch batch({Spec("x", DType::kInt64), Spec("y", DType::kInt64, Layout::kRagged)});
  const auto y = [](const std::vector<int64_t>& values) { return Ints(values, "y"); };
  ASSERT_OK(batch.Parse(Ints({1}) + y({1, 2}) + Ints({2}) + y({3}) + Ints({300})));
  EXPECT_THAT(batch.Fixed<int64_t>(0, 1), ElementsAre(300));
  EXPECT_THAT(batch.Elements<int64_t>(1), ElementsAre(3));
  // The list that counts has the wrong kind, and then the right one.
  EXPECT_FAILS(batch.Parse(Ints({1}) + Floats({1})), kInvalidArgument, "is of kind float");
  ASSERT_OK(batch.Parse(Floats({1}) + Ints({1})));
  ASSERT_OK(batch.Parse(Ints({1, 2, 3}) + Ints({4})));
  EXPECT_THAT(batch.Fixed<int64_t>(0, 1), ElementsAre(4));
  // A replaced entry must be valid too: entry "x" with a Feature that cannot be parsed.
  const std::string broken("\x0a\x08\x0a\x06\x0a\x01x\x12\x01\xff", 10);
  EXPECT_FAILS(batch.Parse(broken + Ints({4})), kDataLoss, "cannot be parsed at byte 9");
  EXPECT_FAILS(batch.Parse(broken + Ints({400})), kDataLoss, "cannot be parsed at byte 9");
  EXPECT_FAILS(batch.Parse(Ints({4}) + broken), kDataLoss, "cannot be parsed at byte 23");
}

TEST(ExampleParser, FeaturesThatAreNotAskedForAreNotLookedAt) {
  Batch batch({Spec("x", DType::kInt64)});
  // Entry "a" has a Feature that cannot be parsed, and then a name that is not UTF-8.
  const std::string broken(
      "\x0a\x08\x0a\x06\x0a\x01"
      "a\x12\x01\xff",
      10);
  const std::string name("\x0a\x05\x0a\x03\x0a\x01\xff", 7);
  ASSERT_OK(batch.Parse(broken + Ints({5}) + name));
  EXPECT_THAT(batch.Fixed<int64_t>(0, 1), ElementsAre(5));
  Batch asked({Spec("a", DType::kInt64, Layout::kRagged)});
  EXPECT_FAILS(asked.Parse(broken), kDataLoss, "feature 'a' cannot be parsed at byte 9 of its 10");
}

TEST(ExampleParser, SequenceExamples) {
  Batch batch({Spec("id", DType::kInt64)},
              {Spec("pairs", DType::kFloat32, Layout::kRagged, {2}),
               RaggedSteps(Spec("words", DType::kBytes, Layout::kRagged)),
               RaggedSteps(Spec("id", DType::kInt32, Layout::kPadded, {2}))});
  const std::string first = SequenceRecord([](ExampleBuilder* b) {
    b->AddInt64("id", 7);
    for (float f : {1.0f, 3.0f, 5.0f}) b->AppendFloatStep("pairs", {f, f + 1});
    b->AppendBytesStep("words", {"a", "b"});
    b->AppendBytesStep("words", {});
    b->AppendBytesStep("words", {"c"});
    b->AppendInt64Step("id", {1, 2, 3, 4});
  });
  const std::string second = SequenceRecord([](ExampleBuilder* b) { b->AddInt64("id", 8); });
  ASSERT_OK(batch.Parse(first, 0));
  ASSERT_OK(batch.Parse(second, 1));
  EXPECT_THAT(batch.Fixed<int64_t>(0, 2), ElementsAre(7, 8));
  EXPECT_THAT(batch.Elements<float>(1), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch.columns.variable(1).row_ends(), ElementsAre(3, 3));
  EXPECT_THAT(batch.Elements<std::string_view>(2), ElementsAre("a", "b", "c"));
  EXPECT_THAT(batch.columns.variable(2).step_ends(), ElementsAre(2, 2, 3));
  EXPECT_THAT(batch.columns.variable(2).row_ends(), ElementsAre(3, 3));
  EXPECT_THAT(batch.Elements<int32_t>(3), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.columns.variable(3).step_ends(), ElementsAre(2));
}

TEST(ExampleParser, StepsThatDoNotFitAreErrors) {
  Batch batch({}, {Spec("x", DType::kInt64, Layout::kRagged, {2}),
                   RaggedSteps(Spec("y", DType::kUInt8, Layout::kRagged))});
  const auto x = [](const std::vector<int64_t>& last) {
    return SequenceRecord([&](ExampleBuilder* b) {
      b->AppendInt64Step("x", {1, 2});
      b->AppendInt64Step("x", last);
    });
  };
  ASSERT_OK(batch.Parse(x({3, 4})));
  EXPECT_FAILS(batch.Parse(x({3})), kInvalidArgument,
               "step 1 of feature list 'x' has 1 value, expected 2 (shape [2])");
  EXPECT_FAILS(batch.Parse(x({1, 2, 3, 4})), kInvalidArgument,
               "step 1 of feature list 'x' has 4 values, expected 2 (shape [2])");
  EXPECT_FAILS(batch.Parse(SequenceRecord([](ExampleBuilder* b) {
    b->AppendFloatStep("x", {1, 2});
  })),
               kInvalidArgument, "step 0 of feature list 'x' is of kind float, expected int64");
  EXPECT_FAILS(batch.Parse(SequenceRecord([](ExampleBuilder* b) {
    b->AppendInt64Step("y", {1, 256});
  })),
               kInvalidArgument,
               "step 0 of feature list 'y': value 256 at position 1 does not fit uint8");
  // FeatureLists with x: a step without a kind.
  const std::string kindless("\x12\x09\x0a\x07\x0a\x01x\x12\x02\x0a\x00", 11);
  EXPECT_FAILS(batch.Parse(kindless), kInvalidArgument,
               "step 0 of feature list 'x' has no kind, which stands for a missing value; ask for "
               "it with ragged steps");
  EXPECT_EQ(batch.columns.variable(0).num_rows(), 1);
  EXPECT_EQ(batch.columns.variable(1).num_rows(), 1);
}

TEST(ExampleParser, SpecsAreChecked) {
  EXPECT_FAILS(ExampleParser::Make({Spec("x", DType::kInt64), Spec("x", DType::kFloat32)}),
               kInvalidArgument, "feature 'x' appears twice");
  EXPECT_FAILS(ExampleParser::Make({Spec("x", DType::kInt16, Layout::kFixed, {0})}),
               kInvalidArgument, "feature 'x'");
  EXPECT_FAILS(ExampleParser::Make({}, {Spec("x", DType::kInt64)}), kInvalidArgument,
               "feature list 'x'");
  // One name may be a feature and a feature list.
  EXPECT_OK(
      ExampleParser::Make({Spec("x", DType::kInt64)}, {Spec("x", DType::kInt64, Layout::kRagged)}));
}

TEST(ExampleParser, NothingAskedFor) {
  Batch batch({});
  ASSERT_OK(batch.Parse(Ints({1})));
  EXPECT_FAILS(batch.Parse("hello world"), kDataLoss, "not a tf.train.Example");
}

// Workers with columns of their own fill one batch: each has its rows of the fixed features, and a
// piece of the others.
TEST(ExampleParser, WorkersShareABatch) {
  constexpr size_t kWorkers = 4;
  constexpr size_t kRows = 64;
  const auto parser = *ExampleParser::Make(
      {Spec("fixed", DType::kInt32), Spec("ragged", DType::kInt64, Layout::kRagged)});
  std::vector<std::string> records;
  for (size_t row = 0; row < kWorkers * kRows; ++row) {
    records.push_back(Record([&](ExampleBuilder* b) {
      b->AddInt64("fixed", row * 100);
      b->AddInt64List("ragged", std::vector<int64_t>(row % 5, row));
    }));
  }
  std::vector<int32_t> fixed(kWorkers * kRows);
  std::vector<ParsedColumns> columns;
  for (size_t w = 0; w < kWorkers; ++w) {
    columns.push_back(parser->MakeColumns());
    columns[w].SetFixed(0, reinterpret_cast<char*>(fixed.data()));
  }
  std::vector<std::thread> threads;
  for (size_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      for (size_t row = w * kRows; row < (w + 1) * kRows; ++row) {
        EXPECT_OK(parser->Parse(records[row], row, &columns[w]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<const VariableColumn*> pieces;
  for (const ParsedColumns& part : columns) pieces.push_back(&part.variable(1));
  const VariableSize size = Measure(pieces);
  std::vector<int64_t> elements(size.elements);
  std::vector<int64_t> splits(size.rows + 1);
  FillElements(pieces, reinterpret_cast<char*>(elements.data()));
  FillRowSplits(pieces, splits.data());
  for (size_t row = 0; row < kWorkers * kRows; ++row) {
    EXPECT_EQ(fixed[row], row * 100);
    ASSERT_EQ(splits[row + 1] - splits[row], row % 5);
    for (int64_t i = splits[row]; i < splits[row + 1]; ++i) EXPECT_EQ(elements[i], row);
  }
}

}  // namespace
}  // namespace shardfeed
