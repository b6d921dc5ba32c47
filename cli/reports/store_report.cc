#include "cli/reports/store_report.h"

#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "net/transfers.h"

namespace shardfeed {

nlohmann::ordered_json StoreJson() {
  const TransferStats stats = GetTransferStats();
  if (stats.bytes_wanted == 0) return nullptr;
  return {{"requests", stats.requests},      {"retries", stats.retries},
          {"throttled", stats.throttled},    {"hedges", stats.hedges},
          {"hedges_won", stats.hedges_won},  {"bytes_wanted", stats.bytes_wanted},
          {"bytes_moved", stats.bytes_moved}};
}

void PrintStore() {
  const TransferStats stats = GetTransferStats();
  if (stats.bytes_wanted == 0) return;
  fmt::print(
      "store: {} requests, {} repeated; {} refused with 429 or 503; {} late, of which the second "
      "request came first for {}; {} wanted, {} moved\n",
      FormatCount(stats.requests), FormatCount(stats.retries), FormatCount(stats.throttled),
      FormatCount(stats.hedges), FormatCount(stats.hedges_won), FormatSize(stats.bytes_wanted),
      FormatSize(stats.bytes_moved));
}

}  // namespace shardfeed
