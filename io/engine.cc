#include "io/engine.h"

#include "fmt/format.h"

namespace shardfeed {

absl::Status FileTooShort(const File& file, uint64_t offset, uint64_t end) {
  return absl::DataLossError(
      fmt::format("{}: ends at byte {}, expected data up to byte {}", file.path(), offset, end));
}

}  // namespace shardfeed
