#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <random>

#include "shardfeed/examples.h"
#include "tests/testing/files.h"
#include "tests/tfrecord/text_proto.h"
#include "tfrecord/example.pb.h"
#include "tfrecord/example_reader.h"
#include "tfrecord/example_text.h"

namespace shardfeed {
namespace {

template <typename Message>
std::string Deterministic(const Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

struct Both {
  Example proto;
  ExampleBuilder builder;

  void Bytes(const std::string& name, const std::vector<std::string>& values) {
    auto* list = (*proto.mutable_features()->mutable_feature())[name].mutable_bytes_list();
    std::vector<std::string_view> views;
    for (const std::string& v : values) {
      list->add_value(v);
      views.push_back(v);
    }
    builder.AddBytesList(name, views);
  }
  void Floats(const std::string& name, const std::vector<float>& values) {
    auto* list = (*proto.mutable_features()->mutable_feature())[name].mutable_float_list();
    for (float v : values) list->add_value(v);
    builder.AddFloatList(name, values);
  }
  void Ints(const std::string& name, const std::vector<int64_t>& values) {
    auto* list = (*proto.mutable_features()->mutable_feature())[name].mutable_int64_list();
    for (int64_t v : values) list->add_value(v);
    builder.AddInt64List(name, values);
  }
  std::string Built() {
    std::string bytes;
    builder.SerializeExample(&bytes);
    return bytes;
  }
};

TEST(ExampleBuilder, GivesTheBytesOfDeterministicProtobuf) {
  Both both;
  both.Ints("z", {1, -1, INT64_MIN, INT64_MAX, 0, 127, 128});
  both.Bytes("image/encoded", {std::string(100000, 'x')});
  both.Floats("a", {1.5f, -0.0f, 3e38f});
  both.Bytes("names", {"", "two", "three"});
  both.Ints("empty ints", {});
  both.Floats("empty floats", {});
  both.Bytes("empty bytes", {});
  EXPECT_EQ(both.Built(), Deterministic(both.proto));
}

TEST(ExampleBuilder, OrderOfAddingDoesNotMatter) {
  ExampleBuilder one;
  one.AddInt64("b", 2);
  one.AddInt64("a", 1);
  ExampleBuilder other;
  other.AddInt64("a", 1);
  other.AddInt64("b", 2);
  std::string first;
  std::string second;
  one.SerializeExample(&first);
  other.SerializeExample(&second);
  EXPECT_EQ(first, second);
}

TEST(ExampleBuilder, BorrowedBytesGiveTheSameRecord) {
  for (size_t size : {0, 1, 127, 128, 100'000}) {
    const std::string value(size, 'x');
    ExampleBuilder copied;
    copied.AddInt64("b", 1);
    copied.AddBytes("a", value);
    copied.AddBytes("c", value);
    std::string expected;
    copied.SerializeExample(&expected);
    ExampleBuilder borrowed;
    borrowed.AddBorrowedBytes("c", value);
    borrowed.AddBorrowedBytes("a", value);
    borrowed.AddInt64("b", 1);
    std::string bytes;
    borrowed.SerializeExample(&bytes);
    EXPECT_EQ(bytes, expected);
  }
}

TEST(ExampleBuilder, LaterOfEqualNamesCounts) {
  ExampleBuilder builder;
  builder.AddInt64("a", 1);
  builder.AddBytes("a", "two");
  std::string bytes;
  builder.SerializeExample(&bytes);
  Example parsed;
  ASSERT_TRUE(parsed.ParseFromString(bytes));
  EXPECT_EQ(parsed.features().feature().at("a").bytes_list().value(0), "two");
}

TEST(ExampleBuilder, ClearForgetsEverything) {
  ExampleBuilder builder;
  builder.AddInt64("a", 1);
  builder.AppendInt64Step("list", {});
  builder.Clear();
  std::string bytes;
  builder.SerializeSequenceExample(&bytes);
  EXPECT_EQ(bytes, "");
}

TEST(ExampleBuilder, RandomExamplesAgreeWithProtobuf) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Both both;
    for (int f = random() % 6; f > 0; --f) {
      const std::string name(1 + random() % 200, static_cast<char>('a' + f));
      const size_t n = random() % 5;
      if (f % 3 == 0)
        both.Bytes(name, std::vector<std::string>(n, std::string(random() % 300, 'v')));
      if (f % 3 == 1) both.Floats(name, std::vector<float>(n, 0.1f));
      if (f % 3 == 2) both.Ints(name, std::vector<int64_t>(n, static_cast<int64_t>(random()) - 9));
    }
    EXPECT_EQ(both.Built(), Deterministic(both.proto));
  }
}

TEST(ExampleBuilder, SequenceExampleAgreesWithProtobuf) {
  SequenceExample proto;
  (*proto.mutable_context()->mutable_feature())["id"].mutable_int64_list()->add_value(5);
  auto& lists = *proto.mutable_feature_lists()->mutable_feature_list();
  auto* words = &lists["words"];
  words->add_feature()->mutable_bytes_list()->add_value("hello");
  words->add_feature()->mutable_bytes_list();
  auto* numbers = lists["numbers"].add_feature()->mutable_float_list();
  numbers->add_value(1);
  numbers->add_value(2);
  lists["codes"].add_feature()->mutable_int64_list()->add_value(-3);

  ExampleBuilder builder;
  builder.AddInt64("id", 5);
  const std::string_view hello = "hello";
  builder.AppendBytesStep("words", {&hello, 1});
  builder.AppendBytesStep("words", {});
  builder.AppendFloatStep("numbers", {1.0f, 2.0f});
  builder.AppendInt64Step("codes", {-3});
  std::string bytes;
  builder.SerializeSequenceExample(&bytes);
  EXPECT_EQ(bytes, Deterministic(proto));
}

std::vector<FeatureSummary> Visit(std::string_view record, absl::Status* status) {
  std::vector<FeatureSummary> found;
  *status = VisitFeatures(record, [&](const FeatureSummary& s) { found.push_back(s); });
  return found;
}

TEST(VisitFeatures, SumsUpEachFeature) {
  Both both;
  both.Ints("i", {1, -1, 300});
  both.Floats("f", {1, 2});
  both.Bytes("b", {"a", "four"});
  both.Bytes("none", {});
  absl::Status status;
  const std::string bytes = both.Built();
  const auto found = Visit(bytes, &status);
  ASSERT_OK(status);
  ASSERT_EQ(found.size(), 4);
  EXPECT_EQ(found[0].name, "b");
  EXPECT_EQ(found[0].kind, FeatureKind::kBytes);
  EXPECT_EQ(found[0].values, 2);
  EXPECT_EQ(found[0].min_bytes, 1);
  EXPECT_EQ(found[0].max_bytes, 4);
  EXPECT_EQ(found[1].kind, FeatureKind::kFloat);
  EXPECT_EQ(found[1].values, 2);
  EXPECT_EQ(found[2].kind, FeatureKind::kInt64);
  EXPECT_EQ(found[2].values, 3);
  EXPECT_EQ(found[3].kind, FeatureKind::kBytes);
  EXPECT_EQ(found[3].values, 0);
}

TEST(VisitFeatures, UnpackedAndSplitListsAreWhole) {
  // Feature "n": int64_list with 1 unpacked, then a second int64_list field with 2 and 3 packed.
  const std::string list1("\x1a\x02\x08\x01", 4);
  const std::string list2("\x1a\x04\x0a\x02\x02\x03", 6);
  const std::string feature = list1 + list2;
  const std::string entry =
      std::string("\x0a\x01n\x12", 4) + static_cast<char>(feature.size()) + feature;
  const std::string features = std::string("\x0a") + static_cast<char>(entry.size()) + entry;
  const std::string record = std::string("\x0a") + static_cast<char>(features.size()) + features;
  Example parsed;
  ASSERT_TRUE(parsed.ParseFromString(record));
  absl::Status status;
  const auto found = Visit(record, &status);
  ASSERT_OK(status);
  ASSERT_EQ(found.size(), 1);
  EXPECT_EQ(found[0].values, parsed.features().feature().at("n").int64_list().value_size());
  EXPECT_EQ(found[0].values, 3);
}

TEST(VisitFeatures, TextIsNotAnExample) {
  absl::Status status;
  Visit("hello world", &status);
  EXPECT_FAILS(status, kDataLoss, "not a tf.train.Example: cannot be parsed at byte");
}

// For any bytes, both implementations must agree on whether they are an Example, and on the number
// of values.
TEST(VisitFeatures, MutatedExamplesAreJudgedAsProtobufJudgesThem) {
  Both both;
  both.Ints("ints", {1, -1, 300, INT64_MIN});
  both.Floats("floats", {1, 2, 3});
  both.Bytes("bytes", {"a", "bcd", ""});
  const std::string sound = both.Built();
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = sound;
    for (int n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.resize(at + 1);
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(random()));
      }
    }
    SequenceExample parsed;
    const bool accepted = parsed.ParseFromString(bytes);
    absl::Status status;
    uint64_t values = 0;
    const auto found = Visit(bytes, &status);
    // Names must be UTF-8 for Protocol Buffers, but a walk over the structure does not check that.
    bool all_text = true;
    for (const FeatureSummary& s : found) {
      values += s.values;
      for (unsigned char c : s.name) all_text &= c < 0x80;
    }
    if (!all_text) continue;
    EXPECT_EQ(status.ok(), accepted) << round;
    refused += !accepted;
    if (!accepted || !status.ok()) continue;
    uint64_t expected = 0;
    for (const auto& [name, feature] : parsed.context().feature()) {
      expected += feature.bytes_list().value_size() + feature.float_list().value_size() +
                  feature.int64_list().value_size();
    }
    if (found.size() == parsed.context().feature().size() && !parsed.has_feature_lists()) {
      EXPECT_EQ(values, expected) << round;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ExampleText, JsonKeepsEveryValue) {
  Both both;
  both.Ints("i", {1, INT64_MIN});
  both.Floats("f", {0.1f, -3, std::numeric_limits<float>::infinity()});
  both.Bytes("b", {"text", "\xff\xfe"});
  EXPECT_EQ(
      *ExampleToJson(both.Built()),
      R"({"b":["text",{"base64":"//4="}],"f":[0.1,-3.0,"Infinity"],"i":[1,-9223372036854775808]})");
}

TEST(ExampleText, SequenceExampleAsJson) {
  ExampleBuilder builder;
  builder.AddInt64("id", 5);
  builder.AppendInt64Step("steps", {1, 2});
  builder.AppendInt64Step("steps", {3});
  std::string bytes;
  builder.SerializeSequenceExample(&bytes);
  EXPECT_EQ(*ExampleToJson(bytes),
            R"({"context":{"id":[5]},"feature_lists":{"steps":[[1,2],[3]]}})");
}

TEST(ExampleText, TextProtoIsThatOfProtobuf) {
  std::mt19937 random(3);
  ExampleBuilder builder;
  std::vector<float> floats = {0.1f,     3,         -0.0f, 1e10f,           1e-10f, 16777216.0f,
                               INFINITY, -INFINITY, NAN,   1.17549435e-38f, 1e-45f};
  for (int i = 0; i < 2000; ++i) {
    const uint32_t bits = random();
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    floats.push_back(value);
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  const std::vector<std::string_view> bytes = {all, "", "\xc3\xa9 and \"'\\\n"};
  builder.AddFloatList("f", floats);
  builder.AddInt64List("i\n\xc3\xa9\"", {0, -1, INT64_MIN, INT64_MAX});
  builder.AddInt64List("", {});
  builder.AddBytesList("b", bytes);
  std::string record;
  builder.SerializeExample(&record);
  EXPECT_EQ(*ExampleToTextProto(record), *testing::TextProtoOfProtobuf(record));
  builder.AppendBytesStep("words", bytes);
  builder.AppendBytesStep("words", {});
  builder.AppendInt64Step("ints", {5});
  record.clear();
  builder.SerializeSequenceExample(&record);
  EXPECT_EQ(*ExampleToTextProto(record), *testing::TextProtoOfProtobuf(record));
  for (const std::string& none :
       {std::string(), std::string("\x0a\0", 2), std::string("\x12\0", 2)}) {
    EXPECT_EQ(*ExampleToTextProto(none), *testing::TextProtoOfProtobuf(none));
  }
  EXPECT_FAILS(ExampleToTextProto("hello world"), kDataLoss, "not a tf.train.Example");
}

TEST(ExampleText, SummaryCutsLongValues) {
  Both both;
  both.Bytes("image", {std::string(5000, '\xff')});
  both.Bytes("title", {"short"});
  both.Ints("many", std::vector<int64_t>(100, 7));
  const std::string summary = *ExampleToSummary(both.Built());
  EXPECT_THAT(summary, ::testing::HasSubstr("<5000 bytes: ffffffffffffffffffffffff...>"));
  EXPECT_THAT(summary, ::testing::HasSubstr("\"short\""));
  EXPECT_THAT(summary, ::testing::HasSubstr("... (100 values)"));
  EXPECT_THAT(*ExampleToSummary(both.Built(), "title"),
              ::testing::Not(::testing::HasSubstr("image")));
}

}  // namespace
}  // namespace shardfeed
