// Reports the requests that this process has sent to stores.

#ifndef SHARDFEED_CLI_REPORTS_STORE_REPORT_H_
#define SHARDFEED_CLI_REPORTS_STORE_REPORT_H_

#include "nlohmann/json.hpp"

namespace shardfeed {

// Null if nothing was read from a store.
nlohmann::ordered_json StoreJson();
// Prints a line, or nothing if nothing was read from a store.
void PrintStore();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_STORE_REPORT_H_
