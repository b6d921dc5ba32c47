// Checks before a dataset is written and before it is committed, and what is taken over from an
// earlier writer.

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/remedy.h"
#include "net/open.h"
#include "net/store.h"
#include "shard/writing/finished_shards.h"
#include "shard/writing/output_folder.h"
#include "shard/writing/writer.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

absl::Status Taken(std::string_view message, std::string purpose = "replace it") {
  return WithRemedy(absl::AlreadyExistsError({message.data(), message.size()}),
                    {"overwrite", "", std::move(purpose)});
}

absl::Status CheckNoShards(const OutputSpec& spec) {
  absl::Status status;
  const absl::Status listed = ForEachShardOf(spec, [&](const std::string& name) {
    status = Taken(fmt::format("{}: there are shards of this name", JoinPath(spec.directory, name)),
                   "replace them");
  });
  return listed.ok() ? status : listed;
}

}  // namespace

absl::Status DatasetWriter::CheckOptions(const OutputSpec& spec, const EncodeOptions& encode) {
  if (!spec.count || *spec.count == 0) {
    return absl::InvalidArgumentError("a dataset needs a number of shards: name it as stem@N");
  }
  if (encode.compression == Compression::kSnappy) {
    return absl::InvalidArgumentError("SNAPPY can be read, but not written: use gzip or none");
  }
  if (encode.level < 1 || encode.level > 9) {
    return absl::InvalidArgumentError(
        fmt::format("level must be from 1 to 9, got {}", encode.level));
  }
  if (encode.member_bytes == 0) {
    return absl::InvalidArgumentError("member_bytes must be at least 1, got 0");
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::CheckMayResume(const OutputSpec& spec, bool resume) {
  if (!resume || !IsRemote(spec.directory)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: a dataset in a store cannot be resumed, because finished shards are kept in "
                  "folders only; write it again, or write to a folder and copy that",
                  FormatSpec(spec.directory, spec.stem, spec.count, spec.suffix)));
}

absl::Status DatasetWriter::CheckNameIsFree(const OutputSpec& spec) {
  if (IsRemote(spec.directory)) {
    const std::string manifest = ManifestPath(spec.directory, spec.stem);
    const absl::Status there = StatObject(manifest).status();
    if (there.ok()) return Taken(fmt::format("{}: there is a dataset of this name", manifest));
    return absl::IsNotFound(there) ? CheckNoShards(spec) : there;
  }
  // A link counts whatever its target, since it was created for a purpose.
  const std::string manifest = ManifestPath(spec.directory, spec.stem);
  std::error_code error;
  const fs::file_type type = fs::symlink_status(manifest, error).type();
  if (type == fs::file_type::directory) {
    return absl::FailedPreconditionError(
        fmt::format("{}: expected a manifest, found a folder; move it away", manifest));
  }
  if (type == fs::file_type::none) return ErrnoStatus(error.value(), manifest, "look up");
  if (type != fs::file_type::not_found) {
    return Taken(fmt::format("{}: there is a dataset of this name", manifest));
  }
  absl::Status free = CheckIndexesAreFree(spec);
  return free.ok() ? CheckNoShards(spec) : free;
}

absl::Status DatasetWriter::Commit(const Manifest& manifest) {
  CommitPlan plan;
  plan.suffix = spec_.suffix;
  for (const ManifestShard& shard : manifest.shards) plan.shard_bytes.push_back(shard.bytes);
  // Someone else may have written shards of this name in the meantime.
  absl::Status status = options_.overwrite ? absl::OkStatus() : CheckNameIsFree(spec_);
  if (status.ok() && options_.overwrite) {
    absl::StatusOr<std::vector<std::string>> old = OldShards(spec_);
    if (!old.ok()) return old.status();
    plan.old_shards = *std::move(old);
  }
  if (!status.ok()) return status;
  status = staging_->Commit(plan, FormatManifest(manifest), options_.sync, options_.stop);
  return absl::IsCancelled(status) ? Interrupted() : status;
}

size_t DatasetWriter::PlaceOf(size_t shard) const {
  const std::vector<uint64_t>& only = options_.only_shards;
  if (only.empty()) return shard;
  const auto found = std::lower_bound(only.begin(), only.end(), shard);
  return found != only.end() && *found == shard ? found - only.begin() : only.size();
}

bool DatasetWriter::is_taken_over(size_t shard) const {
  const size_t place = PlaceOf(shard);
  return place == taken_over_.size() || taken_over_[place];
}

bool DatasetWriter::MayBeResumed(const std::string& path) { return HasPlan(path); }

size_t DatasetWriter::num_taken_over() const {
  return std::count(taken_over_.begin(), taken_over_.end(), true);
}

}  // namespace shardfeed
