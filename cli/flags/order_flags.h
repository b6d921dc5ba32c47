// The options of bench, plan and replay that say what is read and in which order.

#ifndef SHARDFEED_CLI_FLAGS_ORDER_FLAGS_H_
#define SHARDFEED_CLI_FLAGS_ORDER_FLAGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "cli/terminal/console.h"
#include "reader/reader.h"
#include "reader/shards/shard_table.h"

namespace shardfeed {

struct OrderFlags {
  std::vector<std::string> specs;
  std::string order = "sequential";
  uint64_t cycle = 16;
  uint64_t block = 1;
  std::optional<uint64_t> seed;
  std::string window;  // records, a size, or "all"
  std::string chunk;   // records, or a size
  uint64_t lanes = 64;
  std::string records;  // ranges
  uint64_t rank = 0;
  uint64_t world = 1;
  uint64_t batch = 1;
  std::string end = "drop";
  std::string budget;
  std::vector<std::string>
      weights;  // weights of the specs, which are then mixed; later ones have positions
  uint64_t length = 0;
  std::optional<uint64_t> mix_seed;  // draws the sources at random
};

// Declares these options, including DATASET.
void AddOrderFlags(CLI::App& command, OrderFlags& flags);

// Declares the options of a mixture.
void AddMixFlags(CLI::App& command, OrderFlags& flags);

// Resolves the dataset and opens its indexes. Shows progress while missing indexes are built and
// then prints a note about them to standard error. See ShardTableOptions for `salvage`.
absl::StatusOr<std::shared_ptr<const ShardTable>> OpenTable(const OrderFlags& flags,
                                                            const CommandOptions& options,
                                                            bool salvage = false);

// Prints a note to standard error if indexes were built or shards were copied.
void NoteIndexes(const ShardTable& table, const CommandOptions& options);

// Whether the flags can be understood without knowing the records: no sizes, no record numbers.
bool NeedNoTable(const OrderFlags& flags);

// `table` may be null if NeedNoTable returns true. InvalidArgument: the value of a flag is wrong.
absl::StatusOr<ReaderOptions> MakeReaderOptions(const OrderFlags& flags, const ShardTable* table);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_ORDER_FLAGS_H_
