// Columns that tell which record a row comes from.

#ifndef SHARDFEED_PIPELINE_STAGES_NUMBER_COLUMNS_H_
#define SHARDFEED_PIPELINE_STAGES_NUMBER_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "pipeline/data/batch_builder.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/batch.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// The spec of shards' records: a bytes column "record".
std::shared_ptr<const RowSpec> RecordSpec();

// Names of the columns; see Dataset::NumberRecords.
struct NumberColumns {
  std::string number;
  std::string source;

  bool any() const { return !number.empty() || !source.empty(); }
  // RecordSpec followed by these columns.
  std::shared_ptr<const RowSpec> Spec() const;
};

// Immutable and thread-safe.
class RecordNumbers {
 public:
  // `mixture` is that of the records in `table`, or null.
  RecordNumbers(const NumberColumns& columns, const Mixture* mixture, const ShardTable& table);

  // Adds the columns to `rows`, which hold the records with these numbers, which count through all
  // sources.
  void AddTo(absl::Span<const uint64_t> numbers, Batch* rows) const;

 private:
  const bool number_;
  const bool source_;
  const std::shared_ptr<const RowSpec> spec_;
  std::vector<uint64_t> begins_;  // number of the first record of each source
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_STAGES_NUMBER_COLUMNS_H_
