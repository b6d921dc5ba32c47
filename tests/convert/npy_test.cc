#include "convert/sources/npy.h"

#include <random>

#include "decode/features/npy_header.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string Npy(const std::string& descr, const std::string& shape, std::string_view values,
                const std::string& order = "False") {
  std::string header =
      "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header += std::string(64 - (header.size() + 11) % 64, ' ') + "\n";
  std::string bytes = "\x93NUMPY\1\0"s;
  bytes += static_cast<char>(header.size());
  bytes += static_cast<char>(header.size() >> 8);
  return (bytes + header).append(values);
}

class NpyTest : public SourceTest {
 protected:
  std::vector<std::string> Read(std::vector<std::string> sources) {
    return Texts(Convert(**MakeNpySource(std::move(sources))));
  }
  std::vector<std::string> Read(const std::string& descr, const std::string& shape,
                                std::string_view values) {
    return Read({Write("x.npy", Npy(descr, shape, values))});
  }
  void ExpectScanError(const std::string& content, const std::string& message) {
    ExpectError(Scan(**MakeNpySource({Write("x.npy", content)})), absl::StatusCode::kDataLoss,
                message);
  }
  void ExpectBuildError(const std::string& content, const std::string& message) {
    auto source = *MakeNpySource({Write("x.npy", content)});
    ASSERT_TRUE(Scan(*source).ok());
    ExpectError(BuildItem(*source, Items(*source).back()).status(), absl::StatusCode::kDataLoss,
                message);
  }
};

TEST_F(NpyTest, Integers) {
  EXPECT_THAT(Read("'|b1'", "(2,)", "\0\1"s), ElementsAre("x=int64[0]", "x=int64[1]"));
  EXPECT_THAT(Read("'|i1'", "(1, 2)", "\xff\x7f"), ElementsAre("x=int64[-1 127]"));
  EXPECT_THAT(Read("'|u1'", "(1, 2)", "\xff\x7f"), ElementsAre("x=int64[255 127]"));
  EXPECT_THAT(Read("'<i2'", "(1,)", "\xfe\xff"), ElementsAre("x=int64[-2]"));
  EXPECT_THAT(Read("'<u2'", "(1,)", "\xfe\xff"), ElementsAre("x=int64[65534]"));
  EXPECT_THAT(Read("'<i4'", "(1,)", "\xfe\xff\xff\xff"), ElementsAre("x=int64[-2]"));
  EXPECT_THAT(Read("'<u4'", "(1,)", "\xfe\xff\xff\xff"), ElementsAre("x=int64[4294967294]"));
  EXPECT_THAT(Read("'<i8'", "(1,)", "\xfe\xff\xff\xff\xff\xff\xff\xff"),
              ElementsAre("x=int64[-2]"));
  EXPECT_THAT(Read("'<u8'", "(1,)", "\2\0\0\0\0\0\0\0"s), ElementsAre("x=int64[2]"));
}

TEST_F(NpyTest, Floats) {
  EXPECT_THAT(Read("'<f4'", "(1, 2)", "\0\0\x80?\0\0\x80\xff"s), ElementsAre("x=float[1 -inf]"));
  EXPECT_THAT(Read("'<f8'", "(1,)", "\0\0\0\0\0\0\xf8?"s), ElementsAre("x=float[1.5]"));
  // 1, -2, the smallest subnormal, 65504, inf, nan.
  EXPECT_THAT(Read("'<f2'", "(6,)", "\0\x3c\0\xc0\1\0\xff\x7b\0\x7c\1\x7c"s),
              ElementsAre("x=float[1]", "x=float[-2]", "x=float[5.96046448e-08]", "x=float[65504]",
                          "x=float[inf]", "x=float[nan]"));
}

TEST_F(NpyTest, LostDigitsAreCounted) {
  // 2^24 + 1, 1.5, 1e-50.
  auto source = *MakeNpySource(
      {Write("x.npy", Npy("'<f8'", "(3,)",
                          "\0\0\0\x10\0\0pA\0\0\0\0\0\0\xf8?\x9a\x87\x8a\xb6\x9c\x13\x8e\x35"s))});
  ASSERT_TRUE(Scan(*source).ok());
  for (const auto& item : Items(*source)) ASSERT_TRUE(BuildItem(*source, item).ok());
  EXPECT_THAT(source->built_notes(), ElementsAre(testing::MatchesRegex(
                                         "\"x\": 2 values lose digits because floats have 32 "
                                         "bits, the first is 16777217 in row 0 of .*x.npy")));
  source->ForgetBuilt();
  EXPECT_THAT(source->built_notes(), testing::IsEmpty());
}

TEST_F(NpyTest, TypesAndShapesAreKept) {
  const auto type = [this](const std::string& descr, size_t bytes) {
    auto source =
        *MakeNpySource({Write("x.npy", Npy(descr, "(1, 2, 3)", std::string(6 * bytes, '\0')))});
    EXPECT_TRUE(Scan(*source).ok());
    const FeatureTypes types = source->types();
    return types.empty() ? ""
                         : fmt::format("{} {}", types.begin()->second.dtype,
                                       fmt::join(types.begin()->second.shape, "x"));
  };
  EXPECT_EQ(type("'|b1'", 1), "bool 2x3");
  EXPECT_EQ(type("'<i2'", 2), "int16 2x3");
  EXPECT_EQ(type("'<u4'", 4), "uint32 2x3");
  EXPECT_EQ(type("'<f2'", 2), "float16 2x3");
  EXPECT_EQ(type("'<f8'", 8), "float64 2x3");
  EXPECT_EQ(type("'|S4'", 4), "");
}

TEST_F(NpyTest, Text) {
  EXPECT_THAT(Read("'|S3'", "(2,)", "ab\0a\0b"s), ElementsAre("x=bytes[ab]", "x=bytes[a\0b]"s));
  EXPECT_THAT(Read("'<U2'", "(1, 2)", "a\0\0\0\xe4\0\0\0\xac \0\0\0\xf6\1\0"s),
              ElementsAre("x=bytes[a\u00e4 \u20ac\U0001f600]"));
}

TEST_F(NpyTest, ImagesStayBytes) {
  auto source = *MakeNpySource({Write("x.npy", Npy("'|u1'", "(2, 1, 3)", "abcdef"))});
  EXPECT_THAT(Texts(Convert(*source)), ElementsAre("x=bytes[abc]", "x=bytes[def]"));
  EXPECT_THAT(source->notes(),
              ElementsAre("\"x\": each row is 1 x 3 unsigned bytes, stored as one bytes value"));
}

TEST_F(NpyTest, ArraysSideBySideAndOneAfterTheOther) {
  const std::string a = Write("a.npy", Npy("'|u1'", "(2,)", "\1\2"));
  const std::string b = Write("b=1.npy", Npy("'|u1'", "(1,)", "\3"));
  const std::string c = Write("c.npy", Npy("'|u1'", "(0,)", ""));
  const std::string y = Write("y.npy", Npy("'|S1'", "(3,)", "xyz"));
  EXPECT_THAT(
      Read({"n=" + a, "n=" + c, "n=" + b, y}),
      ElementsAre("n=int64[1] y=bytes[x]", "n=int64[2] y=bytes[y]", "n=int64[3] y=bytes[z]"));
  EXPECT_THAT(Read({b}), ElementsAre("b=1=int64[3]"));
}

TEST_F(NpyTest, EmptyRowsAreEmptyLists) {
  EXPECT_THAT(Read("'<i8'", "(2, 0)", ""), ElementsAre("x=int64[]", "x=int64[]"));
  EXPECT_THAT(Read("'<U0'", "(1,)", ""), ElementsAre("x=bytes[]"));
}

TEST_F(NpyTest, DefectsAreTold) {
  ExpectScanError("", "x.npy: not a .npy file: it starts with \"\"");
  ExpectScanError("PK\x03\x04zip", "an .npz file is an archive of .npy files: unpack it");
  ExpectScanError("\x93NUMPY", "x.npy: the file ends inside its header");
  ExpectScanError("\x93NUMPY\x09\0\1\0\0\0x"s, "x.npy: unknown version 9 of the .npy format");
  ExpectScanError("\x93NUMPY\1\0\x50\0{}"s, "x.npy: the file ends inside its header of 90 bytes");
  ExpectScanError("\x93NUMPY\2\0\0\0\0\x10{}"s, "x.npy: a header of 268435456 bytes");
  ExpectScanError("\x93NUMPY\1\0\2\0{}"s, "x.npy: the header is not what NumPy writes: \"{}\"");
  ExpectScanError(Npy("'|O'", "(1,)", ""), "x.npy: values of type \"|O\": ");
  ExpectScanError(Npy("'<c8'", "(1,)", "12345678"), "\"<c8\": expected booleans, integers");
  ExpectScanError(Npy("'<M8[ns]'", "(1,)", "12345678"), "expected booleans, integers");
  ExpectScanError(Npy("[('a', '<i4')]", "(1,)", "1234"), "expected booleans, integers");
  ExpectScanError(Npy("'<f16'", "(1,)", ""), "expected booleans, integers");
  ExpectScanError(Npy("'>i4'", "(1,)", "1234"), "\">i4\": big-endian; save it with");
  ExpectScanError(Npy("'<i4'", "()", "1234"), "x.npy: a single value, not an array");
  ExpectScanError(Npy("'<i4'", "(1, 1)", "1234", "True"), "x.npy: the array is in Fortran order");
  ExpectScanError(
      Npy("'<i4'", "(2,)", "1234"),
      "x.npy: the header announces 2 rows of 4 bytes, but 4 bytes follow it: the file is "
      "cut");
  ExpectScanError(Npy("'<i4'", "(1,)", "12345"), "data follows the array");
  ExpectScanError(Npy("'<i4'", "(18446744073709551615,)", "1234"), "the file is cut");
  ExpectScanError(Npy("'<f4'", "(4294967296, 0)", ""), "4294967296 rows without values");
  ExpectScanError(Npy("'<i4'", "(1, 18446744073709551615, 18446744073709551615)", ""),
                  "a record holds at most 2 GiB");
  ExpectScanError(Npy("'<i4'", "(0,)", ""), "x.npy: no records: the array has no rows");
  ExpectBuildError(Npy("'<u8'", "(2,)", "\1\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"s),
                   "x.npy: row 1: the value 18446744073709551615 is outside of int64");
  ExpectBuildError(Npy("'<f8'", "(1,)", "\0\0\0\0\0\0\xf0\x7e"s),
                   "x.npy: row 0: the value 2.7430620343968443e+303 is outside of float32");
  ExpectBuildError(Npy("'<U1'", "(1,)", "\0\xd8\0\0"s), "x.npy: row 0: text that is not Unicode");
}

TEST_F(NpyTest, ArraysThatDoNotAgreeAreTold) {
  const std::string a = Write("a.npy", Npy("'|u1'", "(2,)", "\1\2"));
  const std::string b = Write("b.npy", Npy("'|u1'", "(1,)", "\1"));
  const std::string c = Write("c.npy", Npy("'|i1'", "(1,)", "\1"));
  ExpectError(Scan(**MakeNpySource({a, b})), absl::StatusCode::kDataLoss,
              "b.npy: \"b\" has 1 rows, but \"a\" has 2; all arrays need the same number of rows");
  ExpectError(
      Scan(**MakeNpySource({"x=" + a, "x=" + c})), absl::StatusCode::kDataLoss,
      "c.npy: expected rows of [] |u1 as in " + a + ", which has the same name, got [] |i1");
  ExpectError(MakeNpySource({"=" + a}).status(), absl::StatusCode::kInvalidArgument,
              "\"\" cannot name a feature; give it a name, as in x=");
  ExpectError(MakeNpySource({}).status(), absl::StatusCode::kInvalidArgument,
              "expected .npy files");
}

TEST(NpyHeaderTest, TakesWhatNumpyWritesAndWroteBefore) {
  for (const char* text : {"{'descr': '<i4', 'fortran_order': False, 'shape': (3, 4), }\n",
                           "{'shape':(3L,4L),'fortran_order':False,'descr':\"<i4\"}"}) {
    const std::string version2 =
        "\x93NUMPY\2\0"s + static_cast<char>(std::string(text).size()) + "\0\0\0"s + text + "rest";
    const absl::StatusOr<NpyHeader> header = ParseNpyHeader(version2);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->descr, "<i4");
    EXPECT_THAT(header->shape, ElementsAre(3, 4));
    EXPECT_EQ(header->data_offset, version2.size() - 4);
  }
}

TEST(NpyHeaderTest, AnyBytesAreSafe) {
  const std::string sound = Npy("[('a', '<i4')]", "(3, 4)", "");
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = sound;
    for (int n = random() % 4; n >= 0; --n) {
      bytes[8 + random() % (bytes.size() - 8)] = " '{}[](),:x0L"[random() % 13];
    }
    bytes.resize(random() % 2 == 0 ? bytes.size() : random() % bytes.size());
    // In memory of exactly this size, so that AddressSanitizer detects any read past the end.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    ParseNpyHeader({exact.data(), exact.size()}).IgnoreError();
  }
}

}  // namespace
}  // namespace shardfeed
