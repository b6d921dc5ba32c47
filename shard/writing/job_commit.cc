#include "shard/writing/job_commit.h"

#include <optional>
#include <utility>

#include "fmt/format.h"
#include "io/remedy.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "shard/writing/shared_job.h"

namespace shardfeed {
namespace {

absl::Status Missing(const FinishedParts& finished, const SharedJob& job) {
  const bool one = finished.missing.size() == 1;
  std::string text =
      fmt::format("{}: {} {} of {} {} missing", job.NameFolder(), one ? "part" : "parts",
                  FormatParts(finished.missing, ", "), job.job().num_parts(), one ? "is" : "are");
  if (!finished.unsound.empty()) {
    text += fmt::format(" ({}{})", finished.unsound.front(),
                        finished.unsound.size() == 1
                            ? ""
                            : fmt::format(", and {} more", finished.unsound.size() - 1));
  }
  return WithRemedy(absl::FailedPreconditionError(text),
                    {"only_shards", FormatParts(finished.missing, ","),
                     one ? "a task that writes it" : "tasks that write them"});
}

// The manifest as it would be.
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

absl::StatusOr<Manifest> Finish(const SharedJob& job, bool dry_run, const std::stop_token& stop) {
  const absl::StatusOr<FinishedParts> finished = job.AllFinished();
  if (!finished.ok()) return finished.status();
  if (!finished->missing.empty()) return Missing(*finished, job);
  if (!dry_run) return job.Commit(*finished, stop);
  absl::StatusOr<Manifest> manifest = job.Check(*finished);
  if (!manifest.ok()) return manifest;
  if (absl::Status status = job.job().CheckMayCommit(); !status.ok()) return status;
  return Foreseen(job, *finished, *std::move(manifest));
}

}  // namespace

absl::StatusOr<JobCommit> CommitSharedJob(const OutputSpec& spec, std::string id, bool overwrite,
                                          bool dry_run, const std::stop_token& stop) {
  const absl::StatusOr<SharedJob> job = SharedJob::Find(spec, overwrite, std::move(id));
  if (!job.ok()) return job.status();
  absl::StatusOr<std::optional<Manifest>> committed = job->Committed();
  if (!committed.ok()) return committed.status();
  if (committed->has_value()) {
    if (!dry_run) job->RemoveLeftovers();
    return JobCommit{**std::move(committed), true};
  }
  absl::StatusOr<Manifest> manifest = Finish(*job, dry_run, stop);
  if (!manifest.ok()) return manifest.status();
  return JobCommit{*std::move(manifest)};
}

}  // namespace shardfeed
