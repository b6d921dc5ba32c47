// Records separated by "||": a schema that remembers the layout of earlier records equals the sum
// of the schemas of single records, and that of its halves.

#include "shard/schema/schema.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {
namespace {

void ExpectSame(const Schema& a, const Schema& b) {
  FUZZ_EXPECT(a.records() == b.records());
  FUZZ_EXPECT(a.not_examples() == b.not_examples());
  FUZZ_EXPECT(a.features().size() == b.features().size());
  auto in_b = b.features().begin();
  for (const auto& [name, feature] : a.features()) {
    FUZZ_EXPECT(in_b->first == name);
    const FeatureSchema& other = (in_b++)->second;
    FUZZ_EXPECT(feature == other);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest = testing::View(data, size);
  Schema all;
  Schema halves[2];
  Schema sum;
  for (int i = 0; !rest.empty(); ++i) {
    const size_t end = rest.find("||");
    const std::string_view record = rest.substr(0, end);
    const bool ok = all.AddRecord(record).ok();
    FUZZ_EXPECT(halves[i % 2].AddRecord(record).ok() == ok);
    Schema one;
    FUZZ_EXPECT(one.AddRecord(record).ok() == ok);
    sum.Merge(one);
    rest = end == std::string_view::npos ? "" : rest.substr(end + 2);
  }
  ExpectSame(all, sum);
  halves[0].Merge(halves[1]);
  ExpectSame(all, halves[0]);
  return 0;
}

}  // namespace shardfeed
