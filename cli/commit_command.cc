// The commit command: makes the shards that the tasks of a job have written a dataset.

#include <memory>
#include <optional>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/dataset_report.h"
#include "cli/job_flags.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/shared_job.h"
#include "shard/spec.h"

namespace shardfeed {
namespace {

struct CommitFlags {
  std::string output;
  std::string job;
  bool overwrite = false;
  bool dry_run = false;
};

absl::Status Missing(const FinishedParts& finished, const WriteJob& job) {
  const bool one = finished.missing.size() == 1;
  std::string text =
      fmt::format("{}: {} {} of {} {} missing; run the tasks again with --only-shards {}",
                  job.Folder(), one ? "part" : "parts", FormatParts(finished.missing, ", "),
                  job.num_parts(), one ? "is" : "are", FormatParts(finished.missing, ","));
  if (!finished.unsound.empty()) {
    text += fmt::format(" ({}{})", finished.unsound.front(),
                        finished.unsound.size() == 1
                            ? ""
                            : fmt::format(", and {} more", finished.unsound.size() - 1));
  }
  return absl::FailedPreconditionError(text);
}

// The manifest as it would be, for --dry-run.
Manifest Foreseen(const SharedJob& job, const FinishedParts& finished, Manifest manifest) {
  const OutputSpec& spec = job.job().spec();
  manifest.stem = spec.stem;
  manifest.suffix = spec.suffix;
  for (const PartMessage& part : finished.parts) {
    manifest.shards.push_back({ShardName(spec.stem, part.part, *spec.count, spec.suffix),
                               part.shard.bytes, part.shard.records, part.shard.records_digest});
    manifest.skipped.Append(part.shard.skipped);
  }
  return manifest;
}

absl::StatusOr<Manifest> Finish(const SharedJob& job, bool dry_run) {
  const absl::StatusOr<FinishedParts> finished = job.AllFinished();
  if (!finished.ok()) return finished.status();
  if (!finished->missing.empty()) return Missing(*finished, job.job());
  if (!dry_run) return job.Commit(*finished, InterruptToken());
  absl::StatusOr<Manifest> manifest = job.Check(*finished);
  if (!manifest.ok()) return manifest;
  if (absl::Status status = job.job().CheckMayCommit(); !status.ok()) return status;
  return Foreseen(job, *finished, *std::move(manifest));
}

int RunCommit(const CommitFlags& flags, const CommandOptions& options) {
  const Stopwatch watch;
  absl::StatusOr<OutputSpec> spec = ParseOutputSpec(flags.output);
  if (!spec.ok()) return ReportError(spec.status());
  const absl::StatusOr<SharedJob> job = SharedJob::Find(*spec, flags.overwrite, flags.job);
  if (!job.ok()) return ReportError(job.status());
  absl::StatusOr<std::optional<Manifest>> committed = job->Committed();
  if (!committed.ok()) return ReportError(committed.status());
  const bool already = committed->has_value();
  if (already && !flags.dry_run) job->RemoveLeftovers();
  absl::StatusOr<Manifest> manifest =
      already ? **std::move(committed) : Finish(*job, flags.dry_run);
  if (!manifest.ok()) return ReportError(manifest.status());

  DatasetReport report;
  report.notes = manifest->notes;
  report.skipped = manifest->skipped.count;
  report.output = *spec;
  report.output.suffix = manifest->suffix;
  report.manifests.push_back(*std::move(manifest));
  AddSiblingNotes(spec->directory, report.manifests, /*takes_class_map=*/false, &report.notes);
  report.seconds = watch.Seconds();
  report.job = job->job().id();
  if (already) report.notes.push_back(fmt::format("job {} was committed earlier", report.job));
  if (flags.dry_run && !already) {
    report.notes.push_back(
        fmt::format("all parts of job {} are finished; nothing was changed", report.job));
  }
  PrintReport(report, options, {{"committed_earlier", already}, {"dry_run", flags.dry_run}});
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
      "The dataset appears as a whole, with the bytes that a single process would have written, "
      "or\n"
      "not at all. May be repeated: a commit that was killed is finished by the next one, and a "
      "job\n"
      "that is committed stays so. What killed tasks left is removed.\n\n"
      "Examples:\n"
      "  shardfeed convert csv t.csv out/train@8 --only-shards 0-3 --job 4711   # on one machine\n"
      "  shardfeed convert csv t.csv out/train@8 --only-shards 4-7 --job 4711   # on another one\n"
      "  shardfeed commit out/train@8 --job 4711\n"
      "  shardfeed commit out/train@8 --job 4711 --dry-run\n");
  command->callback([flags, &options, exit] { *exit = RunCommit(*flags, options); });
}

}  // namespace shardfeed
