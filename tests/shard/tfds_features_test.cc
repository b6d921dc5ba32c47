#include "shard/declarations/tfds_features.h"

#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kModule[] = "tensorflow_datasets.core.features.any.";

std::string Feature(std::string_view name, std::string_view member, std::string_view content) {
  return fmt::format(R"({{"pythonClassName": "{}{}", "{}": {}}})", kModule, name, member, content);
}

std::string Dict(std::string_view features) {
  return Feature("FeaturesDict", "featuresDict",
                 fmt::format(R"({{"features": {{{}}}}})", features));
}

std::string Tensor(std::string_view dtype, std::string_view dimensions,
                   std::string_view rest = R"("encoding": "none")") {
  return Feature("Tensor", "tensor",
                 fmt::format(R"({{"dtype": "{}", "shape": {{"dimensions": [{}]}}, {}}})", dtype,
                             dimensions, rest));
}

// The features of a dictionary with one feature `x`.
std::vector<TfdsFeature> Parse(const std::string& feature) {
  const absl::StatusOr<TfdsFeatures> parsed =
      ParseTfdsFeatures(Dict(R"("x": )" + feature), "d/features.json");
  EXPECT_OK(parsed);
  return parsed.ok() ? parsed->features : std::vector<TfdsFeature>();
}

TfdsFeature ParseOne(const std::string& feature) {
  const std::vector<TfdsFeature> features = Parse(feature);
  EXPECT_EQ(features.size(), 1);
  return features.size() == 1 ? features[0] : TfdsFeature();
}

std::vector<std::string> NamesOf(const std::vector<TfdsFeature>& features) {
  std::vector<std::string> names;
  for (const TfdsFeature& feature : features) names.push_back(feature.name);
  return names;
}

TEST(TfdsFeatures, TensorsHaveTypeAndShape) {
  const TfdsFeature x = ParseOne(Tensor("float64", R"("3", "-1")"));
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.kind, FeatureKind::kFloat);
  EXPECT_EQ(x.dtype, "float64");
  EXPECT_THAT(x.shape, ElementsAre(3, -1));
  EXPECT_EQ(x.connector, "Tensor");
  EXPECT_THAT(x.problem, IsEmpty());
  EXPECT_EQ(ParseOne(Tensor("bool", "")).kind, FeatureKind::kInt64);
  EXPECT_EQ(ParseOne(Tensor("string", "")).kind, FeatureKind::kBytes);
  EXPECT_TRUE(ParseOne(Tensor("int64", "", R"("optional": true)")).optional);
}

TEST(TfdsFeatures, EncodedTensorsAreStrings) {
  const TfdsFeature x = ParseOne(Tensor("int16", R"("2", "3")", R"("encoding": "zlib")"));
  EXPECT_EQ(x.kind, FeatureKind::kBytes);
  EXPECT_EQ(x.dtype, "int16");
  EXPECT_EQ(x.encoding, TfdsEncoding::kZlib);
  EXPECT_EQ(x.array_rank, 2);
  // Audio writes the name of the encoding in capitals.
  EXPECT_EQ(
      ParseOne(Feature("Audio", "audio", R"({"dtype": "int16", "encoding": "BYTES"})")).encoding,
      TfdsEncoding::kBytes);
}

TEST(TfdsFeatures, SeveralUnknownLengthsAreAFeature) {
  const auto features = Parse(Tensor("int16", R"("-1", "-1", "3")", R"("encoding": "bytes")"));
  ASSERT_THAT(NamesOf(features), ElementsAre("x/shape", "x/value"));
  EXPECT_EQ(features[0].dtype, "int32");
  EXPECT_THAT(features[0].shape, ElementsAre(3));
  EXPECT_THAT(features[1].shape, ElementsAre(-1, -1, 3));
}

TEST(TfdsFeatures, NestedSequencesAreValuesAndLengths) {
  const std::string inner =
      Feature("Sequence", "sequence",
              fmt::format(R"({{"feature": {}, "length": "-1"}})", Tensor("int8", R"("2")")));
  const auto features = Parse(
      Feature("Sequence", "sequence", fmt::format(R"({{"feature": {}, "length": "3"}})", inner)));
  ASSERT_THAT(NamesOf(features), ElementsAre("x/ragged_row_lengths_0", "x/ragged_flat_values"));
  EXPECT_THAT(features[0].shape, ElementsAre(-1));
  EXPECT_THAT(features[1].shape, ElementsAre(-1, 2));
  EXPECT_EQ(features[1].connector, "Sequence(Sequence(Tensor))");
  // The proto leaves out a length of 0.
  EXPECT_THAT(ParseOne(Feature("Sequence", "sequence",
                               fmt::format(R"({{"feature": {}}})", Tensor("int8", ""))))
                  .shape,
              ElementsAre(0));
}

TEST(TfdsFeatures, ConnectorsStandForWhatTheyStore) {
  const TfdsFeature image = ParseOne(
      Feature("Image", "image", R"({"shape": {"dimensions": ["28", "28", "1"]}, "dtype": "uint8",
                                             "encodingFormat": "png"})"));
  EXPECT_EQ(image.kind, FeatureKind::kBytes);
  EXPECT_EQ(image.connector, "Image of uint8 [28, 28, 1]");
  EXPECT_EQ(image.image_format, "png");
  const TfdsFeature label =
      ParseOne(Feature("ClassLabel", "classLabel", R"({"numClasses": "10"})"));
  EXPECT_EQ(label.kind, FeatureKind::kInt64);
  EXPECT_EQ(label.num_classes, 10);
  EXPECT_EQ(label.labels_file, "x.labels.txt");
  EXPECT_THAT(ParseOne(Feature("BBoxFeature", "boundingBox", "{}")).shape, ElementsAre(4));
  const TfdsFeature video =
      ParseOne(Feature("Video", "video", R"({"shape": {"dimensions": ["-1", "64", "64", "3"]}})"));
  EXPECT_THAT(video.shape, ElementsAre(-1));
  EXPECT_EQ(video.kind, FeatureKind::kBytes);
  EXPECT_THAT(ParseOne(Feature("Audio", "audio", "{}")).shape, ElementsAre(-1));
  EXPECT_EQ(ParseOne(Feature("Audio", "audio", R"({"lazyDecode": true})")).dtype, "bytes");
  EXPECT_THAT(
      NamesOf(Parse(Feature("Translation", "translation", R"({"languages": ["de", "en"]})"))),
      ElementsAre("x/de", "x/en"));
  EXPECT_THAT(NamesOf(Parse(Feature("TranslationVariableLanguages", "translation", "{}"))),
              ElementsAre("x/language", "x/translation"));
}

TEST(TfdsFeatures, FilesOfLabelsAreNamedByTheirPlace) {
  const auto features = ParseTfdsFeatures(
      Dict(R"("a/b": )" + Dict(R"("c/d": )" + Feature("ClassLabel", "classLabel", "{}"))), "p");
  ASSERT_OK(features);
  ASSERT_EQ(features->features.size(), 1);
  EXPECT_EQ(features->features[0].name, "a/b/c/d");
  EXPECT_EQ(features->features[0].labels_file, "a.b-c.d.labels.txt");
}

TEST(TfdsFeatures, WhatCannotBeParsedHasAProblem) {
  EXPECT_THAT(ParseOne(R"({"pythonClassName": "my.Graph", "tensor": {}})").problem,
              HasSubstr("is a my.Graph, and only that class knows what it stores"));
  EXPECT_THAT(ParseOne(Feature("Unheard", "tensor", "{}")).problem,
              HasSubstr("which is not known"));
  EXPECT_THAT(ParseOne(Tensor("complex64", "")).problem,
              HasSubstr("'complex64', which has no counterpart"));
  EXPECT_THAT(ParseOne(Tensor("int8", "", R"("encoding": "lzma")")).problem,
              HasSubstr("encoding 'lzma'"));
  EXPECT_THAT(ParseOne(Tensor("string", "", R"("encoding": "zlib")")).problem,
              HasSubstr("encoded array of strings"));
  EXPECT_THAT(
      ParseOne(Feature("Text", "jsonFeature", R"({"json": "{\"use_encoder\": true}"})")).problem,
      HasSubstr("text in the numbers of a vocabulary"));
  const std::string lists =
      fmt::format(R"({{"feature": {}, "length": "-1"}})", Tensor("int8", R"("-1")"));
  EXPECT_THAT(ParseOne(Feature("Sequence", "sequence", lists)).problem,
              HasSubstr("lengths are not stored"));
}

TEST(TfdsFeatures, ShapesThatNoRecordHoldsAreRefused) {
  for (const char* encoding : {R"("encoding": "none")", R"("encoding": "zlib")"}) {
    EXPECT_THAT(
        ParseOne(Tensor("int8", R"("2147483647", "2147483647", "2147483647")", encoding)).problem,
        HasSubstr("has more values than a record can hold"));
    EXPECT_THAT(ParseOne(Tensor("int8", R"("1000", "1000", "268")", encoding)).problem, IsEmpty());
  }
}

TEST(TfdsFeatures, TheOlderFormMeansTheSame) {
  const auto features = ParseTfdsFeatures(
      R"({"type": "tensorflow_datasets.core.features.features_dict.FeaturesDict", "content": {
            "image": {"type": "tensorflow_datasets.core.features.image_feature.Image",
                      "content": {"shape": [null, null, 3], "dtype": "uint8", "encoding_format": "jpeg"}},
            "list": {"type": "tensorflow_datasets.core.features.sequence_feature.Sequence",
                     "content": {"length": null, "feature":
                       {"type": "tensorflow_datasets.core.features.feature.Tensor",
                        "content": {"shape": [2], "dtype": "int16"}}}},
            "label": {"type": "tensorflow_datasets.core.features.class_label_feature.ClassLabel",
                      "content": "{\"numClasses\": \"7\"}", "proto_cls": "tensorflow_datasets.ClassLabel"}}})",
      "p");
  ASSERT_OK(features);
  ASSERT_THAT(NamesOf(features->features), ElementsAre("image", "label", "list"));
  EXPECT_EQ(features->features[0].connector, "Image of uint8 [any, any, 3]");
  EXPECT_EQ(features->features[0].image_format, "jpeg");
  EXPECT_EQ(features->features[1].num_classes, 7);
  EXPECT_THAT(features->features[2].shape, ElementsAre(-1, 2));
}

TEST(TfdsFeatures, DamageIsNamed) {
  const auto fails = [](std::string_view text, std::string_view reason) {
    EXPECT_FAILS(ParseTfdsFeatures(text, "d/features.json").status(), kDataLoss,
                 fmt::format("d/features.json: not TFDS's description of features: {}", reason));
  };
  fails("{", "");
  fails("[]", "a feature names no class");
  fails(R"({"pythonClassName": 3})", "'python_class_name' is not a string");
  fails(Dict(R"("x": 1)"), "a feature names no class");
  fails(Dict(R"("x": )" + Tensor("int8", R"("1e3")")), "'shape' is not a size");
  fails(Dict(R"("x": )" + Tensor("int8", "99999999999")), "'shape' is not a size");
  fails(Dict(R"("x": )" + Tensor("int8", "", R"("optional": 1)")), "'optional' is not a flag");
  fails(Dict(R"("x": )" + Feature("Sequence", "sequence", "{}")), "'x' has no 'feature'");
  fails(Dict(R"("x": )" + Feature("Translation", "translation", "{}")), "'x' has no 'languages'");
  fails(Dict(R"("x": )" + Feature("Text", "jsonFeature", R"({"json": "{"})")),
        "'json' is not JSON");
  std::string deep = Tensor("int8", "");
  for (int i = 0; i < 40; ++i) {
    deep = Feature("Sequence", "sequence", fmt::format(R"({{"feature": {}}})", deep));
  }
  fails(deep, "");
}

TEST(TfdsFeatures, TypesAreThoseOfASchema) {
  const auto features = ParseTfdsFeatures(
      Dict(fmt::format(R"("a": {}, "b": {}, "c": {})", Tensor("uint8", R"("-1", "4")"),
                       Tensor("float64", R"("4", "-1")"), Tensor("string", ""))),
      "p");
  ASSERT_OK(features);
  const FeatureTypes types = TypesOf(*features);
  EXPECT_EQ(types.at("a"), (FeatureType{"uint8", {-1, 4}}));
  EXPECT_EQ(types.at("b"), (FeatureType{"float64", {}}));
  EXPECT_EQ(types.count("c"), 0);
}

}  // namespace
}  // namespace shardfeed
