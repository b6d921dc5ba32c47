// What this process has asked of stores, for reports.

#ifndef SHARDFEED_CLI_STORE_REPORT_H_
#define SHARDFEED_CLI_STORE_REPORT_H_

#include "nlohmann/json.hpp"

namespace shardfeed {

// Null if nothing was read from a store.
nlohmann::ordered_json StoreJson();
// A line, or nothing.
void PrintStore();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_STORE_REPORT_H_
