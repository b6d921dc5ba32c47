// The features.json of TFDS: what is declared is bounded, and a parser can be made of it.

#include "decode/features/example_parser.h"
#include "pipeline/data/known_features.h"
#include "shard/declarations/tfds_features.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tfds = ParseTfdsFeatures(testing::View(data, size), "features.json");
  if (!tfds.ok()) return 0;
  for (const TfdsFeature& feature : tfds->features) {
    FUZZ_EXPECT(feature.array_rank <= feature.shape.size());
    for (const int64_t length : feature.shape) FUZZ_EXPECT(length >= -1);
  }
  TypesOf(*tfds);
  auto known = FeaturesOf(*tfds);
  if (!known.ok()) return 0;
  for (const TfdsColumn& column : known->tfds_columns) {
    FUZZ_EXPECT(column.output.bytes() > 0 && column.output.bytes() <= INT32_MAX);
    FUZZ_EXPECT(column.array_values <= INT32_MAX);
  }
  ExampleParser::Make(std::move(known->features), {}, std::move(known->origin))
      .status()
      .IgnoreError();
  return 0;
}

}  // namespace shardfeed
