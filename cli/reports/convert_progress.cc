#include "cli/reports/convert_progress.h"

#include <filesystem>

namespace shardfeed {

uint64_t InputBytes(const std::vector<std::string>& paths) {
  uint64_t sum = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return 0;
    const uint64_t size = std::filesystem::file_size(path, error);
    if (error) return 0;
    sum += size;
  }
  return sum;
}

Progress PhaseOf(const ConvertProgress& converting, uint64_t input_bytes,
                 const std::string& output) {
  if (converting.records_to_write == 0 && converting.items_selected > 0) {
    return {.what = "selecting",
            .name = output,
            .done = converting.items_selected,
            .total = converting.items_to_select};
  }
  if (converting.records_to_write == 0) {
    return {.what = "scanning",
            .name = output,
            .done = converting.bytes_scanned,
            .total = input_bytes,
            .bytes = true};
  }
  return {.what = "writing",
          .name = output,
          .done = converting.records,
          .total = converting.records_to_write,
          .taken_over = converting.records_taken_over};
}

}  // namespace shardfeed
