#include "cli/reports/length_report.h"

#include <algorithm>

#include "cli/terminal/units.h"
#include "fmt/format.h"

namespace shardfeed {

double LengthReport::Totals::mean() const {
  return records == 0 ? 0 : static_cast<double>(total) / static_cast<double>(records);
}

void LengthReport::Add(const ShardIndex& index) {
  ++shards_;
  for (const LengthColumn& column : index.lengths()) {
    Totals& totals = columns_[std::string(column.name())];
    ++totals.shards;
    totals.records += index.records();
    if (__builtin_add_overflow(totals.total, column.total(), &totals.total)) {
      totals.total = UINT64_MAX;
    }
    totals.max = std::max(totals.max, column.max());
  }
}

void LengthReport::Print(std::string_view spec, std::string_view only) const {
  for (const auto& [name, totals] : columns_) {
    if (!only.empty() && name != only) continue;
    fmt::print("lengths of {}: {} in all, mean {:.1f}, largest {}", name, FormatCount(totals.total),
               totals.mean(), FormatCount(totals.max));
    if (totals.shards < shards_) {
      fmt::print("; only {} of {} shards have them: shardfeed index {} --length {}", totals.shards,
                 shards_, spec, name);
    }
    fmt::print("\n");
  }
}

nlohmann::ordered_json LengthReport::ToJson() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [name, totals] : columns_) {
    json[name] = {{"total", totals.total},
                  {"mean", totals.mean()},
                  {"max", totals.max},
                  {"shards", totals.shards}};
  }
  return json;
}

}  // namespace shardfeed
