// clean: what killed writers of datasets left behind.

#include <ctime>
#include <memory>

#include "cli/commands.h"
#include "cli/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/clean.h"

namespace shardfeed {
namespace {

struct CleanFlags {
  std::string dataset;
  std::string older_than = "24h";
  bool dry_run = false;
};

int RunClean(const CleanFlags& flags, const CommandOptions& options) {
  const std::optional<uint64_t> age = ParseDuration(flags.older_than);
  if (!age) {
    return ReportError(absl::InvalidArgumentError(
        fmt::format("--older-than {}: not a time such as 90s, 30m, 24h or 7d", flags.older_than)));
  }
  CleanOptions cleaning;
  cleaning.begun_before = std::time(nullptr) + 1 - static_cast<std::time_t>(*age);
  cleaning.dry_run = flags.dry_run;
  const absl::StatusOr<CleanSummary> summary = CleanDatasets(flags.dataset, cleaning);
  if (!summary.ok()) return ReportError(summary.status());
  if (options.json) {
    const nlohmann::ordered_json json = {{"dry_run", flags.dry_run},
                                         {"finished", summary->finished},
                                         {"removed", summary->removed},
                                         {"kept", summary->kept}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }
  if (options.quiet) return kExitDone;
  for (const std::string& stem : summary->finished) {
    fmt::print("{}: the dataset that was committed {} put into place\n", stem,
               flags.dry_run ? "would be" : "is");
  }
  for (const std::string& path : summary->removed) {
    fmt::print("{}: {}removed\n", path, flags.dry_run ? "would be " : "");
  }
  if (!summary->kept.empty()) {
    const bool one = summary->kept.size() == 1;
    fmt::print("{} unfinished {} younger than {} and {}: a writer may be at work\n",
               FormatCount(summary->kept.size()), one ? "upload or job is" : "uploads or jobs are",
               flags.older_than, one ? "stays" : "stay");
  }
  if (summary->finished.empty() && summary->removed.empty() && summary->kept.empty()) {
    fmt::print("nothing was left behind\n");
  }
  return kExitDone;
}

}  // namespace

void AddCleanCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command =
      app.add_subcommand("clean", "Remove what killed writers of datasets left behind");
  auto flags = std::make_shared<CleanFlags>();
  command
      ->add_option("DATASET", flags->dataset,
                   "folder/name or s3://bucket/folder/name; all names of a folder: folder/ (with "
                   "the slash)")
      ->required();
  command
      ->add_option(
          "--older-than", flags->older_than,
          "remove uploads to a store that began, and jobs in a folder that were last written to, "
          "as long ago or longer (90s, 30m, 24h, 7d): younger ones may be those of a living writer")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "change nothing, tell what would be done");
  AddCommonOptions(*command, options);
  command->footer(
      "A dataset that had been committed is put into place as a whole. Of one that had not,\n"
      "everything is removed, finished shards that --resume would take over included; the dataset\n"
      "that had the name before stays. In a folder, a writer at work is noticed, and an error.\n\n"
      "Examples:\n"
      "  shardfeed clean s3://bucket/out/train\n"
      "  shardfeed clean s3://bucket/out/ --older-than 7d --dry-run\n"
      "  shardfeed clean out/train\n");
  command->callback([flags, &options, exit] { *exit = RunClean(*flags, options); });
}

}  // namespace shardfeed
