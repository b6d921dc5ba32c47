// Runs a source over its whole input, as the converter does.

#ifndef SHARDFEED_TESTS_FUZZ_SOURCE_FUZZ_H_
#define SHARDFEED_TESTS_FUZZ_SOURCE_FUZZ_H_

#include <string>

#include "convert/items/source.h"
#include "shardfeed/examples.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed::testing {

// Scans and builds all records. A source that was scanned without skipping defects must hand out
// the number of items that it counted.
inline void RunSource(Source& source, bool skip_defects) {
  if (skip_defects) source.SkipDefects([](const absl::Status&, uint64_t) {});
  if (!source.Scan({}, {}).ok()) return;
  (void)source.notes();
  (void)source.columns();
  uint64_t items = 0;
  ExampleBuilder builder;
  const absl::Status status = source.ForEach([&](const Item& item) {
    ++items;
    std::string record;
    (void)source.BuildRecord(item, builder, &record);
    return absl::OkStatus();
  });
  FUZZ_EXPECT(!status.ok() || items == source.num_records());
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_FUZZ_SOURCE_FUZZ_H_
