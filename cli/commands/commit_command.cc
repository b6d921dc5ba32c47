// The commit command: makes the shards that the tasks of a job have written a dataset.

#include <memory>
#include <utility>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/flags/common_flags.h"
#include "cli/flags/job_flags.h"
#include "cli/reports/dataset_report.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/spec/spec.h"
#include "shard/writing/job_commit.h"

namespace shardfeed {
namespace {

struct CommitFlags {
  std::string output;
  std::string job;
  bool overwrite = false;
  bool dry_run = false;
};

int RunCommit(const CommitFlags& flags, const CommandOptions& options) {
  const Stopwatch watch;
  absl::StatusOr<OutputSpec> spec = ParseOutputSpec(flags.output);
  if (!spec.ok()) return ReportError(spec.status());
  absl::StatusOr<JobCommit> commit =
      CommitSharedJob(*spec, flags.job, flags.overwrite, flags.dry_run, InterruptToken());
  if (!commit.ok()) return ReportError(commit.status());

  DatasetReport report;
  report.notes = commit->manifest.notes;
  report.skipped = commit->manifest.skipped.count;
  report.output = *spec;
  report.output.suffix = commit->manifest.suffix;
  report.manifests.push_back(std::move(commit->manifest));
  AddSiblingNotes(spec->directory, report.manifests, /*takes_class_map=*/false, &report.notes);
  report.seconds = watch.Seconds();
  report.job = flags.job;
  if (commit->earlier)
    report.notes.push_back(fmt::format("job {} was committed earlier", report.job));
  if (flags.dry_run && !commit->earlier) {
    report.notes.push_back(
        fmt::format("all parts of job {} are finished; nothing was changed", report.job));
  }
  PrintReport(report, options,
              {{"committed_earlier", commit->earlier}, {"dry_run", flags.dry_run}});
  return report.skipped > 0 ? kExitDefects : kExitDone;
}

}  // namespace

void AddCommitCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "commit", "Make a dataset of the shards that the tasks of a job have written");
  auto flags = std::make_shared<CommitFlags>();
  command->add_option("OUT", flags->output, "the name that the tasks write: folder/name@N")
      ->required();
  AddJobFlag(*command, flags->job);
  command->get_option("--job")->required();
  command->add_flag("--overwrite", flags->overwrite, "replace a dataset of the same name");
  command->add_flag("--dry-run", flags->dry_run,
                    "change nothing; tell whether all parts are finished and may be committed");
  AddCommonOptions(*command, options);
  command->footer(
      "The dataset appears as a whole, with the bytes that a single process would have written,\n"
      "or not at all. The command may be repeated: it finishes a commit that was killed, and\n"
      "changes nothing if the job was committed. What killed tasks left behind is removed.\n\n"
      "Examples:\n"
      "  shardfeed convert csv t.csv out/train@8 --only-shards 0-3 --job 4711   # on one machine\n"
      "  shardfeed convert csv t.csv out/train@8 --only-shards 4-7 --job 4711   # on another one\n"
      "  shardfeed commit out/train@8 --job 4711\n"
      "  shardfeed commit out/train@8 --job 4711 --dry-run\n");
  command->callback([flags, &options, exit] { *exit = RunCommit(*flags, options); });
}

}  // namespace shardfeed
