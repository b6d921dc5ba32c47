// JSON Lines and arrays beside nlohmann/json: a file whose records are accepted is valid JSON. The
// first byte chooses the layout.

#include "convert/json.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const JsonLayout layout = data[0] & 1 ? JsonLayout::kArray : JsonLayout::kLines;
  const std::string_view text = testing::View(data + 1, size - 1);
  const testing::FuzzFile file("a.json", text);
  for (const bool skip : {false, true}) {
    const auto source = MakeJsonSource({file.path()}, layout);
    if (source.ok()) testing::RunSource(**source, skip);
  }
  if (layout == JsonLayout::kArray) {
    const auto source = MakeJsonSource({file.path()}, layout);
    if (source.ok() && (*source)->Scan({}, {}).ok() && (*source)->num_records() > 0) {
      FUZZ_EXPECT(nlohmann::json::accept(text));
    }
  }
  return 0;
}

}  // namespace shardfeed
