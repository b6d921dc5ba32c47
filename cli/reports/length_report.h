// Length columns of a dataset, as `index` and `inspect` show them.

#ifndef SHARDFEED_CLI_REPORTS_LENGTH_REPORT_H_
#define SHARDFEED_CLI_REPORTS_LENGTH_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "shard/index/index.h"

namespace shardfeed {

// The columns of a dataset by name. Not thread-safe.
class LengthReport {
 public:
  // Adds the columns of a shard.
  void Add(const ShardIndex& index);

  bool empty() const { return columns_.empty(); }
  // Prints a line for each column, or for `only` unless it is empty. `spec` names the dataset in
  // the remedy for columns that some shards lack.
  void Print(std::string_view spec, std::string_view only = "") const;
  // Returns an object with a member for each column.
  nlohmann::ordered_json ToJson() const;

 private:
  // The totals of a column over the shards that have it.
  struct Totals {
    uint64_t shards = 0;
    uint64_t records = 0;
    uint64_t total = 0;  // UINT64_MAX if it is at least that
    uint64_t max = 0;

    double mean() const;
  };

  uint64_t shards_ = 0;
  std::map<std::string, Totals> columns_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_LENGTH_REPORT_H_
