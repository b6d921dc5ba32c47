// The clean command: removes what killed writers of datasets left behind.

#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>

#include "cli/commands/commands.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/writing/clean.h"

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
    return ReportError(absl::InvalidArgumentError(fmt::format(
        "--older-than {}: expected a time such as 90s, 30m, 24h or 7d", flags.older_than)));
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
                                         {"kept", summary->kept},
                                         {"expiring", summary->expiring}};
    fmt::print("{}\n", json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    return kExitDone;
  }
  if (options.quiet) return kExitDone;
  for (const std::string& stem : summary->finished) {
    fmt::print("{}: the committed dataset {} put into place\n", stem,
               flags.dry_run ? "would be" : "was");
  }
  for (const std::string& path : summary->removed) {
    fmt::print("{}: {}removed\n", path, flags.dry_run ? "would be " : "");
  }
  if (!summary->kept.empty()) {
    const bool one = summary->kept.size() == 1;
    fmt::print("{} unfinished {} younger than {} and {}: a writer may still be running\n",
               FormatCount(summary->kept.size()), one ? "upload or job is" : "uploads or jobs are",
               flags.older_than, one ? "was kept" : "were kept");
  }
  if (!summary->expiring.empty()) {
    fmt::print(
        "{} unfinished uploads stay: Azure alone removes them, a week after their last part\n",
        FormatCount(summary->expiring.size()));
  }
  if (summary->finished.empty() && summary->removed.empty() && summary->kept.empty() &&
      summary->expiring.empty()) {
    fmt::print("nothing was left behind\n");
    std::error_code error;
    if (!flags.dataset.ends_with('/') && std::filesystem::is_directory(flags.dataset, error)) {
      fmt::print("to clean all datasets in the folder, pass {}/\n", flags.dataset);
    }
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
                   "folder/name, s3://bucket/folder/name or az://container/folder/name, with the "
                   "micro-batches of a stream of that name; all names of a folder: folder/ (with "
                   "the slash)")
      ->required();
  command
      ->add_option("--older-than", flags->older_than,
                   "remove uploads to a store, and jobs in a folder, that are at least this old "
                   "(90s, 30m, 24h, "
                   "7d); younger ones may belong to a writer that is still running")
      ->capture_default_str();
  command->add_flag("--dry-run", flags->dry_run, "change nothing; print what would be done");
  AddCommonOptions(*command, options);
  command->footer(
      "A dataset that was committed is put into place as a whole. Everything that was written for\n"
      "a dataset that was not committed is removed, including finished shards that --resume would\n"
      "take over; an earlier dataset of the same name stays. So are temporary files of indexes "
      "and\n"
      "manifests, unless a process writes them. In a folder, clean fails if a writer is still at\n"
      "work.\n\n"
      "Examples:\n"
      "  shardfeed clean s3://bucket/out/train\n"
      "  shardfeed clean s3://bucket/out/ --older-than 7d --dry-run\n"
      "  shardfeed clean out/train\n");
  command->callback([flags, &options, exit] { *exit = RunClean(*flags, options); });
}

}  // namespace shardfeed
