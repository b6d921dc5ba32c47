#include "tfrecord/mds_columns.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "tests/testing/files.h"
#include "tests/testing/mds_shards.h"
#include "tfrecord/example_text.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MdsColumnText;
using testing::MdsConfig;
using testing::MdsSample;

// The columns and the sample's Example as JSON, or what is wrong with it.
std::string Read(const std::vector<MdsColumnText>& columns, std::string_view sample) {
  const auto parsed = MdsColumns::Parse(MdsConfig(columns));
  if (!parsed.ok()) return std::string(parsed.status().message());
  std::string example;
  const std::string wrong = (*parsed)->AppendExample(sample, &example);
  EXPECT_LE(example.size(), (*parsed)->MaxExampleBytes(1, sample.size()));
  if (wrong.empty()) return *ExampleToJson(example);
  EXPECT_THAT(example, IsEmpty());
  return wrong;
}

// The same of one column without a fixed size.
std::string Value(const std::string& encoding, const std::string& value) {
  return Read({{"x", encoding}}, MdsSample({static_cast<uint32_t>(value.size())}, {value}));
}

TEST(MdsColumns, EveryKindOfColumn) {
  EXPECT_EQ(Read({{"id", "int", 8},
                  {"image", "jpeg"},
                  {"meta", "json"},
                  {"score", "float32", 4},
                  {"text", "str"},
                  {"tokens", "ndarray:int32"}},
                 MdsSample({3, 2, 0, 14}, {Bytes<int64_t>({-7}), "jpg", "{}", Bytes<float>({0.5F}),
                                           "\x04\x03"s + Bytes<int32_t>({5, -1, 300})})),
            R"({"id":[-7],"image":["jpg"],"meta":["{}"],"score":[0.5],"text":[""],)"
            R"("tokens":[5,-1,300]})");
}

TEST(MdsColumns, NumbersOfEveryType) {
  const auto number = [](const std::string& type, const std::string& value) {
    return Read({{"x", type, static_cast<uint32_t>(value.size())}}, value);
  };
  EXPECT_EQ(number("uint8", Bytes<uint8_t>({200})), R"({"x":[200]})");
  EXPECT_EQ(number("int8", Bytes<int8_t>({-100})), R"({"x":[-100]})");
  EXPECT_EQ(number("uint16", Bytes<uint16_t>({60'000})), R"({"x":[60000]})");
  EXPECT_EQ(number("int16", Bytes<int16_t>({-30'000})), R"({"x":[-30000]})");
  EXPECT_EQ(number("uint32", Bytes<uint32_t>({4'000'000'000})), R"({"x":[4000000000]})");
  EXPECT_EQ(number("int32", Bytes<int32_t>({-2'000'000'000})), R"({"x":[-2000000000]})");
  EXPECT_EQ(number("int64", Bytes<int64_t>({INT64_MIN})), R"({"x":[-9223372036854775808]})");
  EXPECT_EQ(number("uint64", Bytes<uint64_t>({INT64_MAX})), R"({"x":[9223372036854775807]})");
  EXPECT_EQ(number("float16", Bytes<uint16_t>({0xc100})), R"({"x":[-2.5]})");
  EXPECT_EQ(number("float32", Bytes<float>({1.5F})), R"({"x":[1.5]})");
  EXPECT_EQ(number("float64", Bytes<double>({0.1})), R"({"x":[0.1]})");
  EXPECT_THAT(number("uint64", Bytes<uint64_t>({uint64_t{1} << 63})),
              HasSubstr("its column \"x\" has the value 9223372036854775808, which is outside of"));
  EXPECT_THAT(number("float64", Bytes<double>({1e300})),
              HasSubstr("its column \"x\" has the value 1e+300, which is outside of float32"));
}

TEST(MdsColumns, ArraysOfEveryForm) {
  const std::string values = Bytes<int16_t>({1, -2, 3, 4, 5, 6});
  const std::string flat = R"({"x":[1,-2,3,4,5,6]})";
  const std::string shaped = R"({"x":[1,-2,3,4,5,6],"x.shape":[2,3]})";
  EXPECT_EQ(Read({{"x", "ndarray:int16:2,3", 12}}, values), flat);
  EXPECT_EQ(Value("ndarray:int16", "\x04\x06"s + values), flat);
  EXPECT_EQ(Value("ndarray:int16", "\x05\x06\x00"s + values), flat);
  EXPECT_EQ(Value("ndarray:int16", "\x06\x06\x00\x00\x00"s + values), flat);
  EXPECT_EQ(Value("ndarray:int16", "\x07\x06\x00\x00\x00\x00\x00\x00\x00"s + values), flat);
  EXPECT_EQ(Value("ndarray:int16", "\x08\x02\x03"s + values), shaped);
  EXPECT_EQ(Value("ndarray", "\x11\x08\x02\x03"s + values), shaped);
  EXPECT_EQ(Value("ndarray:int16", "\x08\x00\x04"s), R"({"x":[],"x.shape":[0,4]})");
  EXPECT_EQ(Value("ndarray:int16", "\x08\xff\x00"s), R"({"x":[],"x.shape":[255,0]})");
  EXPECT_EQ(Value("ndarray", "\x22\x04\x02"s + Bytes<float>({0.5F, 2})), R"({"x":[0.5,2.0]})");
  EXPECT_EQ(Value("ndarray", "\x08\x04\x02\x01\xff"s), R"({"x":[1,255]})");
}

TEST(MdsColumns, ArraysThatContradictThemselves) {
  EXPECT_EQ(Value("ndarray", ""),
            "its column \"x\" is empty, where the type of its values should be");
  EXPECT_EQ(Value("ndarray", "\x07"), "its column \"x\" has values of an unknown type, 7");
  EXPECT_EQ(Value("ndarray", "\x11"), "its column \"x\" is empty, where its shape should be");
  EXPECT_EQ(Value("ndarray:int16", "\x0b\x01"), "its column \"x\" is cut within its shape");
  EXPECT_EQ(Value("ndarray:int16", "\x04\x02\x01\x00\x01"s),
            "its column \"x\" has 3 bytes, which is not the number of values of int16 that its "
            "shape says");
  EXPECT_EQ(Value("ndarray:int16", "\x04\x01\x01\x00\x01"s),
            "its column \"x\" has 3 bytes, which are not whole values of int16");
  EXPECT_EQ(Value("ndarray:uint8", "\x0f"s + std::string(24, '\xff')),
            "its column \"x\" has an impossible shape");
  EXPECT_EQ(Value("ndarray:uint8", "\x0e"s + std::string(12, '\xff')),
            "its column \"x\" has 0 bytes, which is not the number of values of uint8 that its "
            "shape says");
}

TEST(MdsColumns, SamplesThatContradictTheirSizes) {
  const std::vector<MdsColumnText> columns = {{"id", "int", 8}, {"text", "str"}};
  const std::string id = Bytes<int64_t>({1});
  EXPECT_EQ(Read(columns, "abc"), "it has 3 bytes, fewer than the sizes of its columns take");
  EXPECT_EQ(Read(columns, MdsSample({5}, {"abc"})),
            "its column \"id\" has 8 bytes, more than the 3 that are left of the sample");
  EXPECT_EQ(
      Read(columns, MdsSample({UINT32_MAX}, {id, "abc"})),
      "its column \"text\" has 4294967295 bytes, more than the 3 that are left of the sample");
  EXPECT_EQ(Read(columns, MdsSample({2}, {id, "abc"})), "its columns have 14 bytes, but it has 15");
  EXPECT_EQ(Read({{"id", "int"}}, MdsSample({4}, {"abcd"})),
            "its column \"id\" is \"int\", but has 4 bytes");
}

TEST(MdsColumns, DescriptionsThatAreNone) {
  const auto parse = [](const std::string& config) {
    const auto parsed = MdsColumns::Parse(config);
    EXPECT_FALSE(parsed.ok()) << config;
    return std::string(parsed.status().message());
  };
  EXPECT_EQ(parse("{"), "the description of the columns is not a JSON object");
  EXPECT_EQ(parse("[]"), "the description of the columns is not a JSON object");
  EXPECT_EQ(parse(R"({"format": "json", "version": 2})"),
            "the description of the columns does not say that the format is \"mds\"");
  EXPECT_EQ(parse(R"({"format": "mds", "version": 3})"),
            "the description of the columns is not of version 2, the only one that is known");
  EXPECT_EQ(parse(R"({"format": "mds", "version": 2, "column_names": []})"),
            "the description of the columns lacks column_names, column_encodings or column_sizes");
  const auto with = [&](const std::string& names, const std::string& encodings,
                        const std::string& sizes) {
    return parse(fmt::format(R"({{"format": "mds", "version": 2, "column_names": [{}], )"
                             R"("column_encodings": [{}], "column_sizes": [{}]}})",
                             names, encodings, sizes));
  };
  EXPECT_EQ(with("", "", ""),
            "the description of the columns has 0 names, 0 encodings and 0 sizes");
  EXPECT_EQ(with(R"("a", "b")", R"("int")", "8, 8"),
            "the description of the columns has 2 names, 1 encodings and 2 sizes");
  EXPECT_EQ(with("1", R"("int")", "8"),
            "the description of the columns has a name that is not text");
  EXPECT_EQ(with(R"("a")", "1", "8"),
            "the description of the columns has an encoding that is not text");
  EXPECT_EQ(with(R"("a")", R"("int")", "-8"),
            "the description of the columns has an impossible size for column \"a\"");
  EXPECT_EQ(with(R"("a", "a")", R"("int", "str")", "8, null"),
            "the description of the columns has two columns for one feature, \"a\"");
  EXPECT_EQ(with(R"("a.shape", "a")", R"("int", "ndarray")", "8, null"),
            "the description of the columns has two columns for one feature, \"a\"");
  EXPECT_EQ(with(R"("a")", R"("int")", "4"),
            "the description of the columns says that column \"a\" is \"int\", which cannot have 4 "
            "bytes");
  EXPECT_EQ(with(R"("a")", R"("ndarray:int32")", "4"),
            "the description of the columns says that column \"a\" is \"ndarray:int32\", which "
            "cannot have "
            "4 bytes");
  EXPECT_EQ(
      with(R"("a")", R"("ndarray:bool")", "null"),
      "the description of the columns says that column \"a\" is \"ndarray:bool\", an array of an "
      "unknown type");
  for (const char* shape : {"", "0", "2,,3", "x", "4294967296", "65536,65536"}) {
    EXPECT_EQ(
        with(R"("a")", fmt::format(R"("ndarray:int8:{}")", shape), "null"),
        fmt::format("the description of the columns says that column \"a\" is \"ndarray:int8:{}\", "
                    "an array of an impossible shape",
                    shape));
  }
}

TEST(MdsColumns, NotesTellWhatIsNotAsItWas) {
  const auto columns = MdsColumns::Parse(MdsConfig({{"a", "float64", 8},
                                                    {"b", "ndarray:float64"},
                                                    {"c", "pkl"},
                                                    {"d", "pil"},
                                                    {"e", "mine"},
                                                    {"f", "str"},
                                                    {"g", "int", 8}}));
  ASSERT_OK(columns);
  EXPECT_THAT(
      (*columns)->Notes(),
      ElementsAre("column \"a\": float64 becomes float32, the only float type of TFRecord",
                  "column \"b\": float64 becomes float32, the only float type of TFRecord",
                  "column \"c\": pickled objects are given as bytes; nothing is unpickled",
                  "column \"d\": images in the encoding pil are given as bytes, which decode_image "
                  "cannot decode",
                  "column \"e\": values in the unknown encoding \"mine\" are given as bytes"));
}

TEST(MdsColumns, SamplesOfRandomBytesAreReadOrRefused) {
  const auto columns = MdsColumns::Parse(
      MdsConfig({{"a", "ndarray"}, {"b", "ndarray:int8"}, {"c", "str"}, {"d", "int16", 2}}));
  ASSERT_OK(columns);
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint32_t> sizes;
    std::vector<std::string> values;
    for (int column = 0; column < 3; ++column) {
      std::string value(random() % 12, '\0');
      for (char& c : value) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 13);
      sizes.push_back(static_cast<uint32_t>(value.size() + (random() % 40 == 0 ? 1 : 0)));
      values.push_back(value);
    }
    values.emplace_back("ab");
    const std::string sample = MdsSample(sizes, values);
    std::string example;
    if ((*columns)->AppendExample(sample, &example).empty()) {
      EXPECT_TRUE(ExampleToJson(example).ok());
      EXPECT_LE(example.size(), (*columns)->MaxExampleBytes(1, sample.size()));
    }
  }
}

}  // namespace
}  // namespace shardfeed
