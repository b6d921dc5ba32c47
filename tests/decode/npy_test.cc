#include "decode/features/npy.h"

#include <random>
#include <vector>

#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

std::string Npy(const std::string& descr, const std::string& shape, const std::string& values,
                const std::string& fortran = "False") {
  const std::string text =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
  return "\x93NUMPY\1\0"s + static_cast<char>(text.size()) + '\0' + text + values;
}

TEST(NpyTest, TypesAndShapes) {
  const std::string bytes = Npy("<i4", "(2, 1)", "12345678");
  const absl::StatusOr<NpyArray> array = ParseNpy(bytes);
  ASSERT_OK(array);
  EXPECT_EQ(array->dtype, DType::kInt32);
  EXPECT_THAT(array->shape, ElementsAre(2, 1));
  EXPECT_EQ(array->values, "12345678");
  for (const auto& [descr, dtype] :
       std::initializer_list<std::pair<const char*, DType>>{{"|b1", DType::kUInt8},
                                                            {"|u1", DType::kUInt8},
                                                            {"|i1", DType::kInt8},
                                                            {"<u2", DType::kUInt16},
                                                            {"<i2", DType::kInt16},
                                                            {"<i8", DType::kInt64},
                                                            {"<f2", DType::kFloat16},
                                                            {"<f4", DType::kFloat32},
                                                            {"<f8", DType::kFloat64}}) {
    const absl::StatusOr<NpyArray> scalar =
        ParseNpy(Npy(descr, "()", std::string(DTypeSize(dtype), 'x')));
    ASSERT_OK(scalar);
    EXPECT_EQ(scalar->dtype, dtype);
    EXPECT_THAT(scalar->shape, ElementsAre());
  }
  EXPECT_OK(ParseNpy(Npy("<f4", "(0, 3)", "")));
  // The order does not matter with one dimension.
  EXPECT_OK(ParseNpy(Npy("|u1", "(3,)", "abc", "True")));
}

TEST(NpyTest, BadInput) {
  const auto expect = [](const std::string& bytes, std::string_view text) {
    EXPECT_FAILS(ParseNpy(bytes), kDataLoss, std::string(text));
  };
  expect("", "not a .npy file: it starts with \"\"");
  expect("PK\3\4 and so on", "an .npz file is an archive of .npy files");
  expect(Npy("<f4", "(2,)", "1234567"),
         "the header says [2] values of 4 bytes each, but 7 bytes follow it: the file is cut off");
  expect(Npy("<f4", "(2,)", "123456789"), "there is data after the end");
  expect(Npy(">f4", "(1,)", "1234"), "big-endian; save it with a.astype");
  expect(Npy("<c8", "(1,)", "12345678"), "values of type \"<c8\"; expected booleans");
  expect(Npy("|O", "(1,)", "12345678"), "values of type \"|O\"; expected");
  expect(Npy("", "(1,)", ""), "values of type \"\"");
  expect(Npy("<f4", "(1, 1)", "1234", "True"), "in Fortran order (columns first); save it with");
  expect(Npy("<f4", "(9223372036854775808,)", ""), "a dimension of 9223372036854775808");
  expect(Npy("<f4", "(9223372036854775807, 9223372036854775807, 99)", ""), "the file is cut off");
}

TEST(NpyTest, AnyBytesAreSafe) {
  const std::string sound = Npy("<f4", "(3, 4)", std::string(48, 'x'));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = sound;
    for (int n = random() % 4; n > 0; --n) {
      bytes[6 + random() % 70] = " '{}[](),:x0L9"[random() % 14];
    }
    bytes.resize(random() % 2 == 0 ? bytes.size() : random() % bytes.size());
    // In memory of exactly this size, so that AddressSanitizer detects any read past the end.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    ParseNpy({exact.data(), exact.size()}).status().IgnoreError();
  }
}

}  // namespace
}  // namespace shardfeed
