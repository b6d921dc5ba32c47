// CSV: a row means the same whether its text comes whole or in two parts, and whole files are
// converted or refused. The first byte chooses the dialect.

#include "convert/csv.h"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  CsvOptions options;
  options.dialect.quotes = (data[0] & 1) == 0;
  if (data[0] & 2) options.dialect.delimiter = '\t';
  const std::string_view text = testing::View(data + 1, size - 1);

  std::vector<CsvCell> cells;
  std::string_view rest = text;
  while (!rest.empty()) {
    const CsvSplit whole = SplitCsvRow(rest, /*at_end=*/true, options.dialect, &cells);
    FUZZ_EXPECT(whole.bytes <= rest.size());
    if (whole.result != CsvSplit::kRow) break;
    FUZZ_EXPECT(whole.bytes > 0 && !cells.empty());
    const size_t num_cells = cells.size();
    const CsvSplit part = SplitCsvRow(rest, /*at_end=*/false, options.dialect, &cells);
    FUZZ_EXPECT(
        part.result == CsvSplit::kIncomplete ||
        (part.result == CsvSplit::kRow && part.bytes == whole.bytes && cells.size() == num_cells));
    rest.remove_prefix(whole.bytes);
  }

  const testing::FuzzFile file("a.csv", text);
  for (const bool skip : {false, true}) {
    const auto source = MakeCsvSource({file.path()}, options);
    if (source.ok()) testing::RunSource(**source, skip);
  }
  return 0;
}

}  // namespace shardfeed
