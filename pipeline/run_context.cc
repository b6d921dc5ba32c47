#include "pipeline/run_context.h"

#include "fmt/format.h"

namespace shardfeed {

std::string RunContext::Describe(const Batch& batch, size_t row) const {
  RowOrigin origin;
  if (!batch.OriginOf(row, &origin)) return "";
  if (origin.source < describe.size() && describe[origin.source]) {
    return describe[origin.source](origin.epoch, origin.position);
  }
  return fmt::format("element {} of epoch {}", origin.position, origin.epoch);
}

}  // namespace shardfeed
