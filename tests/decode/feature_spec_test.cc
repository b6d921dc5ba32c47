#include "decode/features/feature_spec.h"

#include "tests/testing/files.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

FeatureSpec Spec(DType dtype, Layout layout = Layout::kFixed, std::vector<int64_t> shape = {}) {
  FeatureSpec spec;
  spec.name = "x";
  spec.dtype = dtype;
  spec.layout = layout;
  spec.shape = std::move(shape);
  return spec;
}

FeatureSpec Raw(FeatureSpec spec) {
  spec.decode_raw = true;
  return spec;
}

FeatureSpec Default(FeatureSpec spec, FeatureValues values) {
  spec.default_value = std::move(values);
  return spec;
}

FeatureSpec RaggedSteps(FeatureSpec spec) {
  spec.ragged_steps = true;
  return spec;
}

TEST(FeatureSpec, KindFollowsFromTheType) {
  EXPECT_EQ(ListKind(Spec(DType::kInt64)), FeatureKind::kInt64);
  EXPECT_EQ(ListKind(Spec(DType::kInt32)), FeatureKind::kInt64);
  EXPECT_EQ(ListKind(Spec(DType::kUInt8)), FeatureKind::kInt64);
  EXPECT_EQ(ListKind(Spec(DType::kInt8)), FeatureKind::kInt64);
  EXPECT_EQ(ListKind(Spec(DType::kUInt16)), FeatureKind::kInt64);
  EXPECT_EQ(ListKind(Spec(DType::kFloat32)), FeatureKind::kFloat);
  EXPECT_EQ(ListKind(Spec(DType::kFloat64)), FeatureKind::kFloat);
  EXPECT_EQ(ListKind(Spec(DType::kFloat16)), FeatureKind::kFloat);
  EXPECT_EQ(ListKind(Spec(DType::kBFloat16)), FeatureKind::kFloat);
  EXPECT_EQ(ListKind(Spec(DType::kBytes)), FeatureKind::kBytes);
  EXPECT_EQ(ListKind(Raw(Spec(DType::kFloat64))), FeatureKind::kBytes);
  EXPECT_EQ(NumValues(Spec(DType::kUInt8, Layout::kFixed, {2, 3, 4})), 24);
  EXPECT_EQ(NumValues(Spec(DType::kUInt8)), 1);
}

TEST(FeatureSpec, SoundOnesPass) {
  for (Layout layout : {Layout::kFixed, Layout::kRagged, Layout::kPadded, Layout::kSparse}) {
    for (DType dtype :
         {DType::kUInt8, DType::kInt8, DType::kUInt16, DType::kInt16, DType::kInt32, DType::kInt64,
          DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kBytes}) {
      EXPECT_OK(Validate(Spec(dtype, layout), false));
      if (layout != Layout::kFixed) {
        EXPECT_OK(Validate(Spec(dtype, layout), true));
        EXPECT_OK(Validate(RaggedSteps(Spec(dtype, layout)), true));
      }
    }
    for (DType dtype : {DType::kInt8, DType::kUInt16, DType::kInt16, DType::kFloat64}) {
      EXPECT_OK(Validate(Raw(Spec(dtype, layout)), false));
    }
  }
  EXPECT_OK(
      Validate(Default(Spec(DType::kInt32, Layout::kFixed, {2}), std::vector<int64_t>{1}), false));
  EXPECT_OK(Validate(Default(Spec(DType::kFloat16, Layout::kFixed, {2}), std::vector<float>{1, 2}),
                     false));
  EXPECT_OK(Validate(
      Default(Spec(DType::kBytes, Layout::kPadded, {2}), std::vector<std::string>{"-"}), false));
  EXPECT_OK(Validate(
      Default(Raw(Spec(DType::kInt16, Layout::kFixed, {2})), std::vector<std::string>{"abcd"}),
      false));
}

TEST(FeatureSpec, DefectsAreToldWithTheirRemedy) {
  EXPECT_FAILS(Validate(Default(Spec(DType::kInt16), std::vector<int64_t>{32768}), false),
               kInvalidArgument, "feature 'x': its default 32768 does not fit int16");
  EXPECT_FAILS(Validate(Raw(Spec(DType::kBytes)), false), kInvalidArgument,
               "decode_raw produces numbers, so its type cannot be bytes");
  EXPECT_FAILS(Validate(Spec(DType::kInt64, Layout::kFixed, {2, -1}), false), kInvalidArgument,
               "a dimension of its shape [2, -1] is -1, which must be at least 1; for rows of any "
               "length ask for it as ragged");
  EXPECT_FAILS(Validate(Spec(DType::kInt64, Layout::kRagged, {0}), false), kInvalidArgument,
               "a dimension of its shape [0] is 0");
  EXPECT_FAILS(
      Validate(Spec(DType::kInt64, Layout::kFixed, {int64_t{1} << 40, int64_t{1} << 40}), false),
      kInvalidArgument, "is larger than any record can be (2 GiB)");
  EXPECT_FAILS(Validate(Spec(DType::kInt64, Layout::kSparse, {3}), false), kInvalidArgument,
               "sparse values are scalars, so it cannot have the shape [3]");
  EXPECT_FAILS(Validate(Spec(DType::kInt64), true), kInvalidArgument,
               "feature list 'x': a feature list has any number of steps: ask for it as ragged");
  EXPECT_FAILS(Validate(RaggedSteps(Spec(DType::kInt64, Layout::kRagged)), false), kInvalidArgument,
               "only feature lists have steps");
}

TEST(FeatureSpec, DefaultsMustFit) {
  const auto check = [](const FeatureSpec& spec, std::string_view text) {
    EXPECT_FAILS(Validate(spec, false), kInvalidArgument, std::string(text));
  };
  check(Default(Spec(DType::kInt64, Layout::kRagged), std::vector<int64_t>{1}),
        "it has a default, which only fixed and padded features have");
  check(Default(Spec(DType::kInt64), std::vector<float>{1}),
        "its default is of kind float, expected int64");
  check(Default(Spec(DType::kInt64, Layout::kFixed, {3}), std::vector<int64_t>{1, 2}),
        "its default has 2 values, expected 1 or 3");
  check(Default(Spec(DType::kInt64, Layout::kPadded, {3}), std::vector<int64_t>{1, 2, 3}),
        "its default has 3 values, expected 1");
  check(Default(Spec(DType::kInt64), std::vector<int64_t>{}),
        "its default has 0 values, expected 1");
  check(Default(Spec(DType::kUInt8), std::vector<int64_t>{256}),
        "its default 256 does not fit uint8");
  check(Default(Spec(DType::kInt32), std::vector<int64_t>{int64_t{1} << 31}),
        "its default 2147483648 does not fit int32");
  check(Default(Raw(Spec(DType::kInt16, Layout::kFixed, {2})), std::vector<std::string>{"abc"}),
        "its default must be one string of 4 bytes");
}

// Protocol Buffers refuse a record with another name.
TEST(FeatureSpec, NamesAreUtf8AsProtobufSeesIt) {
  std::vector<std::string> names = {"",
                                    "plain",
                                    "größe",
                                    "日本",
                                    "\U0001f600",
                                    "\xed\x9f\xbf",
                                    "\xee\x80\x80",
                                    "\xf4\x8f\xbf\xbf",
                                    std::string("a\0b", 3)};
  for (int lead = 0x80; lead < 0x100; ++lead) {
    for (const char* rest :
         {"", "\x80", "\xbf", "\x9f\xbf", "\xa0\x80", "\x80\x80", "\x8f\xbf\xbf", "\x90\x80\x80",
          "\x80\x80\x80", "\xc0\x80", "\x80\xc0", "\x80\x80\x80\x80"}) {
      names.push_back(static_cast<char>(lead) + std::string(rest));
    }
  }
  for (const std::string& name : names) {
    Example example;
    (*example.mutable_features()->mutable_feature())[name];
    // Serializing only warns; parsing refuses.
    const std::string record = example.SerializeAsString();
    FeatureSpec spec = Spec(DType::kInt64);
    spec.name = name;
    EXPECT_EQ(Validate(spec, false).ok(), example.ParseFromString(record))
        << ::testing::PrintToString(name);
  }
  FeatureSpec spec = Spec(DType::kInt64);
  spec.name = "\xff";
  EXPECT_FAILS(Validate(spec, false), kInvalidArgument, "its name is not UTF-8");
}

}  // namespace
}  // namespace shardfeed
