// What the commands convert and commit print at their end.

#ifndef SHARDFEED_CLI_REPORTS_DATASET_REPORT_H_
#define SHARDFEED_CLI_REPORTS_DATASET_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/console.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct DatasetReport {
  std::vector<Manifest> manifests;
  OutputSpec output;
  std::vector<std::string> notes;  // those of the manifests, and others
  uint64_t skipped = 0;
  uint64_t shards_taken_over = 0;
  uint64_t datasets_complete = 0;
  double seconds = 0;
  // With --only-shards: the shards that the manifest has, and the job.
  std::vector<uint64_t> only_shards;
  std::string job;
};

// Adds notes on datasets beside the written ones that number the same classes differently.
// `takes_class_map` says whether the command has an option for that.
void AddSiblingNotes(const std::string& directory, const std::vector<Manifest>& written,
                     bool takes_class_map, std::vector<std::string>* notes);

// Adds a note if the suffix of the shards names another compression than theirs.
void AddSuffixNote(std::string_view suffix, Compression compression,
                   std::vector<std::string>* notes);

// `more` is added to the JSON object.
void PrintReport(const DatasetReport& report, const CommandOptions& options,
                 const nlohmann::ordered_json& more = nlohmann::ordered_json::object());

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_REPORTS_DATASET_REPORT_H_
