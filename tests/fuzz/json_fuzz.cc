// JSON Lines and arrays beside nlohmann/json: a file whose records are accepted is valid JSON,
// apart from NaN and infinities. The first byte chooses the layout, and whether numbers become
// text.

#include <algorithm>

#include "convert/input/json_numbers.h"
#include "convert/sources/json.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const JsonLayout layout = data[0] & 1 ? JsonLayout::kArray : JsonLayout::kLines;
  const std::string_view text = testing::View(data + 1, size - 1);
  const testing::FuzzFile file("a.json", text);
  JsonOptions options;
  if (data[0] & 2) options.choice.kinds = {{"a", ColumnKind::kBytes}, {"b.c", ColumnKind::kBytes}};
  for (const bool skip : {false, true}) {
    const auto source = MakeJsonSource({file.path()}, layout, options);
    if (source.ok()) testing::RunSource(**source, skip);
  }
  // Beyond the other parser's numbers.
  if (!options.choice.kinds.empty()) return 0;
  const auto source = MakeJsonSource({file.path()}, layout, options);
  if (!source.ok() || !(*source)->Scan({}, {}).ok() || (*source)->num_records() == 0) return 0;
  if (layout == JsonLayout::kArray) {
    FUZZ_EXPECT(nlohmann::json::accept(WithoutNonFinite(text)));
    return 0;
  }
  ExampleBuilder builder;
  const absl::Status built = (*source)->ForEach([&](const Item& item) {
    std::string record;
    return (*source)->BuildRecord(item, builder, &record);
  });
  if (!built.ok()) return 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    FUZZ_EXPECT(nlohmann::json::accept(WithoutNonFinite(line)));
  }
  return 0;
}

}  // namespace shardfeed
