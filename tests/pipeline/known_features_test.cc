#include "pipeline/data/known_features.h"

#include <filesystem>
#include <map>

#include "fmt/format.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "shardfeed/dataset.h"
#include "shardfeed/examples.h"
#include "shardfeed/index.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using testing::TestFolder;

std::string Record(uint64_t n, bool late, size_t bytes) {
  ExampleBuilder builder;
  builder.AddInt64("n", static_cast<int64_t>(n));
  builder.AddBytes("image", std::string(bytes, 'x'));
  if (late) builder.AddFloat("late", 1);
  std::string record;
  builder.SerializeExample(&record);
  return record;
}

class KnownFeaturesTest : public ::testing::Test {
 protected:
  // Writes shards without a manifest and without indexes, whose last records have another feature.
  ShardSet Write(size_t shards, uint64_t records, size_t bytes, uint64_t late_from) {
    const std::string spec = fmt::format("{}/d@{}", folder_.path(), shards);
    DatasetWriterOptions options;
    options.sync = false;
    options.overwrite = true;
    auto writer = DatasetWriter::Create(*ParseOutputSpec(spec), options);
    EXPECT_OK(writer);
    for (uint64_t n = 0; n < records; ++n) {
      EXPECT_OK((*writer)->Write(Record(n, n >= late_from, bytes)));
    }
    EXPECT_OK((*writer)->Finish({}));
    std::filesystem::remove_all(folder_.path() + "/.shardfeed");
    const absl::StatusOr<ShardSet> set = ResolveSpec(spec);
    EXPECT_OK(set);
    return *set;
  }

  TestFolder folder_;
};

TEST_F(KnownFeaturesTest, SmallDatasetsAreKnownCompletely) {
  const absl::StatusOr<FoundSchema> found = FindSchema(Write(3, 3000, 100, 2999));
  ASSERT_OK(found);
  EXPECT_FALSE(found->sampled);
  EXPECT_EQ(found->schema.records(), 3000);
  EXPECT_EQ(found->schema.features().at("late").records, 1);
}

TEST_F(KnownFeaturesTest, OfLargeOnesThePlacesThatIndexesTell) {
  const ShardSet set = Write(2, 3000, 30'000, 2900);
  const absl::StatusOr<FoundSchema> without = FindSchema(set);
  ASSERT_OK(without);
  EXPECT_TRUE(without->sampled);
  EXPECT_LT(without->schema.records(), 1000);
  EXPECT_EQ(without->schema.features().count("late"), 0);
  const auto table = ShardTable::Open(set);
  ASSERT_OK(table);
  const absl::StatusOr<FoundSchema> with = FindSchema(set, table->get());
  ASSERT_OK(with);
  EXPECT_TRUE(with->sampled);
  EXPECT_EQ(with->schema.features().count("late"), 1);
}

TEST_F(KnownFeaturesTest, WhatASampleDoesNotHaveIsAnErrorAndNotLost) {
  const ShardSet set = Write(2, 3000, 30'000, 2900);
  const Dataset ds = Dataset::Read(set).Parse();
  ASSERT_OK(ds.status());
  const auto it = ds.Batch(100).Start();
  ASSERT_OK(it);
  absl::Status status;
  Batch batch;
  while ((status = (*it)->Next(&batch)).ok() && !batch.empty()) {
  }
  EXPECT_FAILS(status, kInvalidArgument, "feature 'late' is not known");
  EXPECT_FAILS(status, kInvalidArgument, "-of-00002: record 1450 at byte");
}

Schema With(const std::vector<std::string>& records) {
  Schema schema;
  for (const std::string& record : records) EXPECT_OK(schema.AddRecord(record));
  return schema;
}

TEST(FeaturesOf, RestoresTypesAndShapes) {
  ExampleBuilder builder;
  builder.AddInt64List("pixels", {1, 2, 3, 4, 5, 6});
  builder.AddInt64List("boxes", {1, 2, 3, 4});
  builder.AddFloatList("half", {1});
  builder.AddInt64("flag", 1);
  builder.AddInt64("wide", 1);
  builder.AddFloatList("list", {1, 2});
  std::string record;
  builder.SerializeExample(&record);
  Schema schema = With({record, record});
  schema.SetTypes({{"pixels", {"uint8", {2, 3}}},
                   {"boxes", {"int32", {-1, 4}}},
                   {"half", {"float16", {1}}},
                   {"flag", {"bool", {}}},
                   {"wide", {"uint32", {}}},
                   {"list", {"uint8", {-1}}}});
  const absl::StatusOr<KnownFeatures> known = FeaturesOf(schema);
  ASSERT_OK(known);
  std::map<std::string, FeatureSpec> specs;
  for (const FeatureSpec& spec : known->features) specs[spec.name] = spec;
  EXPECT_EQ(specs["pixels"].dtype, DType::kUInt8);
  EXPECT_THAT(specs["pixels"].shape, ElementsAre(2, 3));
  EXPECT_EQ(specs["pixels"].layout, Layout::kFixed);
  EXPECT_EQ(specs["boxes"].dtype, DType::kInt32);
  EXPECT_THAT(specs["boxes"].shape, ElementsAre(4));
  EXPECT_EQ(specs["boxes"].layout, Layout::kRagged);
  EXPECT_EQ(specs["half"].dtype, DType::kFloat16);
  EXPECT_THAT(specs["half"].shape, ElementsAre(1));
  EXPECT_EQ(specs["flag"].dtype, DType::kUInt8);
  EXPECT_EQ(specs["wide"].dtype, DType::kInt64);
  // A note that the records contradict counts for nothing.
  EXPECT_EQ(specs["list"].dtype, DType::kFloat32);
  EXPECT_EQ(specs["list"].layout, Layout::kRagged);
}

TEST(FeaturesOf, ShapesOfFeaturesThatSomeRecordsLackAreRagged) {
  ExampleBuilder builder;
  std::string empty;
  builder.SerializeExample(&empty);
  builder.AddInt64List("x", {1, 2, 3, 4, 5, 6});
  std::string record;
  builder.SerializeExample(&record);
  Schema schema = With({record, empty});
  schema.SetTypes({{"x", {"int64", {2, 3}}}});
  const absl::StatusOr<KnownFeatures> known = FeaturesOf(schema);
  ASSERT_OK(known);
  EXPECT_EQ(known->features[0].layout, Layout::kRagged);
  EXPECT_THAT(known->features[0].shape, ElementsAre(3));
}

TEST(FeaturesOf, FeaturesWithoutAnyValueAreEmptyColumns) {
  // A map entry 'x' without a kind.
  const Schema schema = With({std::string("\x0a\x05\x0a\x03\x0a\x01x", 7)});
  const absl::StatusOr<KnownFeatures> known = FeaturesOf(schema);
  ASSERT_OK(known);
  ASSERT_EQ(known->features.size(), 1);
  EXPECT_EQ(known->features[0].dtype, DType::kBytes);
  EXPECT_EQ(known->features[0].layout, Layout::kRagged);
}

TEST(FeaturesOf, SeveralKindsAreAnError) {
  ExampleBuilder builder;
  builder.AddInt64("x", 1);
  std::string one;
  builder.SerializeExample(&one);
  builder.Clear();
  builder.AddFloat("x", 0.5);
  std::string other;
  builder.SerializeExample(&other);
  EXPECT_FAILS(FeaturesOf(With({one, other})).status(), kInvalidArgument,
               "feature 'x' is int64 in some records and of another kind in 1: name the features");
}

TfdsFeature Declared(FeatureKind kind, std::string dtype, std::vector<int64_t> shape) {
  TfdsFeature feature;
  feature.name = "x";
  feature.connector = "Tensor";
  feature.kind = kind;
  feature.dtype = std::move(dtype);
  feature.shape = std::move(shape);
  return feature;
}

KnownFeatures OfTfds(TfdsFeature feature) {
  const absl::StatusOr<KnownFeatures> known =
      FeaturesOf(TfdsFeatures{"d/features.json", {feature}});
  EXPECT_OK(known);
  return known.ok() ? *known : KnownFeatures();
}

TEST(FeaturesOfTfds, ListsKeepTheirTypeOrAreConverted) {
  KnownFeatures known = OfTfds(Declared(FeatureKind::kInt64, "bool", {2}));
  EXPECT_EQ(known.features[0].dtype, DType::kUInt8);
  EXPECT_THAT(known.features[0].shape, ElementsAre(2));
  EXPECT_TRUE(known.tfds_columns.empty());
  EXPECT_EQ(known.origin, "The features are those of d/features.json");
  known = OfTfds(Declared(FeatureKind::kInt64, "int8", {-1, 3}));
  EXPECT_EQ(known.features[0].dtype, DType::kInt64);
  EXPECT_EQ(known.features[0].layout, Layout::kRagged);
  EXPECT_THAT(known.features[0].shape, ElementsAre(3));
  ASSERT_EQ(known.tfds_columns.size(), 1);
  EXPECT_EQ(known.tfds_columns[0].output, (ColumnSpec{"x", DType::kInt8, {3}, true}));
  known = OfTfds(Declared(FeatureKind::kFloat, "float64", {}));
  EXPECT_EQ(known.features[0].dtype, DType::kFloat32);
  EXPECT_EQ(known.tfds_columns[0].output.dtype, DType::kFloat64);
  known = OfTfds(Declared(FeatureKind::kInt64, "uint64", {}));
  EXPECT_EQ(known.tfds_columns[0].output.dtype, DType::kInt64);
}

TEST(FeaturesOfTfds, ShapesThatNoColumnHasAreFlat) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, -1}, std::vector<int64_t>{-1, -1}, std::vector<int64_t>{2, 0}}) {
    const KnownFeatures known = OfTfds(Declared(FeatureKind::kInt64, "int64", shape));
    EXPECT_EQ(known.features[0].layout, Layout::kRagged);
    EXPECT_TRUE(known.features[0].shape.empty());
  }
}

TEST(FeaturesOfTfds, EncodedArraysAreStringsFirst) {
  TfdsFeature feature = Declared(FeatureKind::kBytes, "uint32", {-1, 2, 3});
  feature.encoding = TfdsEncoding::kZlib;
  feature.array_rank = 2;
  const KnownFeatures known = OfTfds(feature);
  EXPECT_EQ(known.features[0].dtype, DType::kBytes);
  EXPECT_EQ(known.features[0].layout, Layout::kRagged);
  EXPECT_EQ(known.tfds_columns[0].array_values, 6);
  EXPECT_EQ(known.tfds_columns[0].output, (ColumnSpec{"x", DType::kInt64, {2, 3}, true}));
}

TEST(FeaturesOfTfds, OptionalOnesHaveDefaults) {
  TfdsFeature feature = Declared(FeatureKind::kInt64, "int16", {});
  feature.optional = true;
  EXPECT_EQ(OfTfds(feature).features[0].default_value, FeatureValues(std::vector<int64_t>{-32768}));
  feature.dtype = "bool";
  EXPECT_EQ(OfTfds(feature).features[0].default_value, FeatureValues(std::vector<int64_t>{0}));
  feature = Declared(FeatureKind::kBytes, "bytes", {});
  feature.optional = true;
  EXPECT_EQ(OfTfds(feature).features[0].default_value, FeatureValues(std::vector<std::string>{""}));
  feature.shape = {-1};
  EXPECT_FALSE(OfTfds(feature).features[0].default_value.has_value());
}

TEST(FeaturesOfTfds, ProblemsAreNamed) {
  TfdsFeature feature = Declared(FeatureKind::kNone, "", {});
  feature.problem = "is a riddle";
  EXPECT_FAILS(FeaturesOf(TfdsFeatures{"d/features.json", {feature}}).status(), kInvalidArgument,
               "d/features.json: feature 'x' (Tensor) is a riddle: name the features to parse");
}

}  // namespace
}  // namespace shardfeed
