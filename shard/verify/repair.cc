#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "io/parallel.h"
#include "shard/declarations/tfds_features.h"
#include "shard/manifest/manifest.h"
#include "shard/verify/salvage.h"
#include "shard/writing/block.h"
#include "shard/writing/writer.h"
#include "shardfeed/verify.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

std::string Joined(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

bool IsSameFolder(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::weakly_canonical(a.empty() ? "." : a, error) ==
         fs::weakly_canonical(b.empty() ? "." : b, error);
}

// Returns a defect if an undamaged shard has other records than the manifest lists for it.
std::optional<DamagedPlace> OtherRecords(const std::string& path, const Manifest& manifest,
                                         uint32_t digest, const ShardAccount& account) {
  const std::string file = fs::path(path).filename().string();
  const auto same = [&](const ManifestShard& shard) {
    return shard.records == account.records && shard.records_digest == digest;
  };
  bool cut = false;
  const ManifestShard* found = nullptr;
  for (const ManifestShard& shard : manifest.shards) {
    if (same(shard)) found = &shard;
    if (shard.file != file) continue;
    if (same(shard)) return std::nullopt;
    cut = account.records < shard.records;
  }
  DamagedPlace place;
  place.kind = "other records";
  place.file_end = account.bytes;
  if (found != nullptr) {
    place.records = 0;
    place.detail =
        fmt::format("{}: holds the records that the manifest lists for {}", path, found->file);
    return place;
  }
  // A shard cut between two records is reported separately.
  if (cut) return std::nullopt;
  place.detail =
      fmt::format("{}: holds other records than the manifest lists; they are kept", path);
  return place;
}

// Reads one shard and passes its intact records to `take`, which may be empty.
absl::Status SalvageShard(const std::string& path, const SalvageOptions& salvaging,
                          const RepairOptions& options, const Manifest* manifest,
                          ShardAccount* account,
                          const std::function<absl::Status(const RecordBlock&)>& take) {
  absl::StatusOr<std::unique_ptr<ShardSalvager>> salvager = ShardSalvager::Open(path, salvaging);
  // The path is a folder, a FIFO or another special file.
  const bool no_file = absl::IsFailedPrecondition(salvager.status());
  if (no_file || absl::IsNotFound(salvager.status())) {
    account->missing = true;
    account->records_lost = salvaging.records;
    DamagedPlace place;
    place.kind = "missing shard";
    place.records = salvaging.records;
    place.detail = no_file ? std::string(salvager.status().message())
                           : fmt::format("{}: the shard is missing", path);
    account->damage.push_back(std::move(place));
    return absl::OkStatus();
  }
  if (!salvager.ok()) return salvager.status();
  account->bytes = (*salvager)->file().size();
  RecordBlock block;
  RecordsDigest digest((*salvager)->framing());
  uint64_t passed = 0;
  while (true) {
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
    absl::Status status = (*salvager)->Next(&block);
    if (!status.ok()) return status;
    if (options.bytes_passed != nullptr) {
      const uint64_t position = std::clamp((*salvager)->file_position(), passed, account->bytes);
      *options.bytes_passed += position - passed;
      passed = position;
    }
    if (block.records.empty()) break;
    account->records += block.records.size();
    digest.Add(block.records);
    if (take) status = take(block);
    if (!status.ok()) return status;
  }
  account->damage = (*salvager)->damage();
  account->records_lost = (*salvager)->records_lost();
  account->bytes_skipped = (*salvager)->bytes_skipped();
  account->numbers_exact = (*salvager)->numbers_exact();
  if (manifest && account->records_lost == 0) {
    std::optional<DamagedPlace> place = OtherRecords(path, *manifest, digest.value(), *account);
    if (place) {
      account->records_lost = place->records;
      account->damage.push_back(*std::move(place));
      return absl::OkStatus();
    }
  }
  // Report records that only the manifest knows about.
  if (salvaging.records && account->records_lost &&
      account->records + *account->records_lost < *salvaging.records) {
    const uint64_t known = account->records + *account->records_lost;
    DamagedPlace place;
    place.kind = "cut shard";
    place.record = known;
    place.records = *salvaging.records - known;
    place.file_begin = place.file_end = account->bytes;
    place.detail = fmt::format("{}: holds {} records, but the manifest lists {}", path, known,
                               *salvaging.records);
    *account->records_lost += *place.records;
    account->damage.push_back(std::move(place));
  }
  return absl::OkStatus();
}

// InvalidArgument: the output has another number of shards than the input, or its name.
absl::Status CheckOutput(const ShardSet& input, const OutputSpec& output) {
  if (*output.count != input.paths.size()) {
    return absl::InvalidArgumentError(fmt::format(
        "the input has {} shards, so the output cannot have {}: repair does not move records "
        "between shards; 'shardfeed reshard' changes the number of shards of an intact "
        "dataset",
        input.paths.size(), *output.count));
  }
  for (const std::string& input_path : input.paths) {
    const fs::path path = input_path;
    const auto shard = ParseShardName(path.filename().string());
    const std::string stem = shard ? shard->stem : path.filename().string();
    if (stem == output.stem && IsSameFolder(path.parent_path().string(), output.directory)) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: the output has the name of the input, which repair never touches; choose "
          "another name",
          FormatSpec(output.directory, output.stem, output.count, output.suffix)));
    }
  }
  return absl::OkStatus();
}

// Returns the compression of most shards, because that of a shard whose beginning is damaged may be
// a guess.
absl::StatusOr<Compression> CompressionOfMost(const ShardSet& input) {
  std::map<Compression, size_t> found;
  for (const std::string& path : input.paths) {
    absl::StatusOr<std::unique_ptr<ShardSalvager>> opened = ShardSalvager::Open(path, {});
    if (absl::IsNotFound(opened.status()) || absl::IsFailedPrecondition(opened.status())) continue;
    if (!opened.ok()) return opened.status();
    if ((*opened)->file().size() > 0) ++found[(*opened)->compression()];
  }
  const auto most = std::max_element(
      found.begin(), found.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most != found.end() ? most->first : Compression::kNone;
}

// Returns the output's manifest as far as it is known: what the input's `manifest`, which may be
// null, or else `tfds` declares, and notes on what was lost.
Manifest Describe(const Manifest* manifest, const std::optional<TfdsDeclared>& tfds,
                  const RepairAccount& account, const RepairOptions& options) {
  Manifest described;
  described.made_by = options.made_by;
  if (manifest != nullptr) {
    described.classes = manifest->classes;
    described.notes = manifest->notes;
    described.skipped = manifest->skipped;
  } else if (tfds) {
    described.classes = tfds->classes;
    described.notes = tfds->notes;
  }
  for (const ShardAccount& shard : account.shards) {
    for (const DamagedPlace& place : shard.damage) {
      if (described.notes.size() >= SkippedRecords::kMaxFirst) break;
      if (place.records != 0) described.notes.push_back("lost in repair: " + place.detail);
    }
  }
  return described;
}

}  // namespace

uint64_t RepairAccount::records() const {
  uint64_t sum = 0;
  for (const ShardAccount& shard : shards) sum += shard.records;
  return sum;
}

std::optional<uint64_t> RepairAccount::records_lost() const {
  uint64_t sum = 0;
  for (const ShardAccount& shard : shards) {
    if (!shard.records_lost) return std::nullopt;
    sum += *shard.records_lost;
  }
  return sum;
}

uint64_t RepairAccount::num_damaged_places() const {
  uint64_t sum = 0;
  for (const ShardAccount& shard : shards) sum += shard.damage.size();
  return sum;
}

absl::StatusOr<ShardSet> ResolveForRepair(const std::string& spec) {
  absl::StatusOr<ShardSet> set = ResolveSpec(spec);
  if (set.ok()) return set;
  const absl::StatusOr<OutputSpec> name = ParseOutputSpec(spec);
  if (!name.ok()) return set.status();
  const absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(name->directory, name->stem));
  uint64_t count = name->count.value_or(0);
  std::string suffix = name->suffix;
  if (count == 0 && manifest.ok() && spec.find('@') != spec.npos) {
    count = manifest->shards.size();
    suffix = manifest->suffix;
  }
  ShardSet all{name->directory,
               name->stem,
               suffix,
               {},
               true,
               DatasetVersion::Of(name->directory, name->stem)};
  bool any = false;
  for (uint64_t i = 0; i < count; ++i) {
    all.paths.push_back(Joined(name->directory, ShardName(name->stem, i, count, suffix)));
    std::error_code error;
    any |= fs::exists(all.paths.back(), error);
  }
  if (!any) return set.status();
  return all;
}

absl::StatusOr<RepairAccount> Repair(const ShardSet& input, OutputSpec output,
                                     const RepairOptions& options) {
  const size_t num_shards = input.paths.size();
  if (!output.count) output.count = num_shards;
  if (absl::Status status = CheckOutput(input, output); !status.ok()) return status;
  const std::shared_ptr<const Manifest> manifest = FindManifest(input);
  RepairAccount account;
  account.shards.resize(num_shards);
  const auto pass = [&](size_t i, const std::function<absl::Status(const RecordBlock&)>& take) {
    SalvageOptions salvaging;
    if (manifest) {
      salvaging.compression = manifest->compression;
      salvaging.records = manifest->shards[i].records;
    }
    account.shards[i] = {};
    account.shards[i].shard = input.paths[i];
    return SalvageShard(input.paths[i], salvaging, options, manifest.get(), &account.shards[i],
                        take);
  };
  if (options.dry_run) {
    absl::Status status = ParallelFor(num_shards, ThreadCount(options.threads), options.stop,
                                      [&](size_t i) { return pass(i, /*take=*/nullptr); });
    if (status.ok()) status = input.version.CheckUnchanged();
    if (!status.ok()) return status;
    return account;
  }
  const absl::StatusOr<Compression> compression =
      manifest ? manifest->compression : CompressionOfMost(input);
  if (!compression.ok()) return compression.status();
  // A dataset of TFDS has its types in a file of its own.
  absl::StatusOr<std::optional<TfdsDeclared>> tfds = std::nullopt;
  if (!manifest) tfds = FindTfdsDeclared(input);
  if (!tfds.ok()) return tfds.status();
  if (*compression == Compression::kSnappy) {
    return absl::InvalidArgumentError(
        "SNAPPY can be read, but not written: convert the dataset to another compression, leaving "
        "out broken records");
  }
  DatasetWriterOptions writing;
  writing.encode.compression = *compression;
  writing.encode.level = options.level;
  writing.threads = options.threads;
  writing.overwrite = options.overwrite;
  writing.sync = options.sync;
  writing.stop = options.stop;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer = DatasetWriter::Create(output, writing);
  if (!writer.ok()) return writer.status();
  if (manifest) {
    (*writer)->SetTypes(manifest->schema.Types());
  } else if (*tfds) {
    (*writer)->SetTypes(std::move((*tfds)->types));
  }
  for (size_t i = 0; i < num_shards; ++i) {
    absl::Status status = pass(i, [&](const RecordBlock& block) {
      return (*writer)->Submit(i, [block](RecordBatch& out) {
        for (const Record& record : block.records) out.Add(record.payload);
        return absl::OkStatus();
      });
    });
    if (status.ok()) status = (*writer)->CloseShard(i);
    if (!status.ok()) return status;
  }
  // Otherwise the saved records may belong to two different datasets.
  if (absl::Status status = input.version.CheckUnchanged(); !status.ok()) return status;
  absl::StatusOr<Manifest> finished =
      (*writer)->Finish(Describe(manifest.get(), *tfds, account, options));
  if (!finished.ok()) return finished.status();
  return account;
}

}  // namespace shardfeed
