#include "shardfeed/verify.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/commit/staging.h"
#include "shard/formats/mds_file.h"
#include "shard/formats/shard_reader.h"
#include "shard/formats/tar_index.h"
#include "shard/index/index_pack.h"
#include "shard/indexing/index_build.h"
#include "shard/indexing/index_check.h"
#include "shard/manifest/manifest.h"
#include "shard/names/names.h"
#include "shard/schema/schema.h"
#include "shard/spec/mds_folder.h"
#include "shard/statistics/dataset_statistics.h"
#include "shard/statistics/statistics_json.h"
#include "shard/verify/salvage.h"
#include "shard/verify/shard_report.h"
#include "tfrecord/tar_frames.h"

namespace shardfeed {
namespace {

class ShardVerifier {
 public:
  // The shard is number `number` of those that `pack`, unless it is null, has indexes of.
  ShardVerifier(const std::string& path, const VerifyOptions& options, const IndexPack* pack,
                size_t number)
      : options_(options), index_name_(IndexPath(path)), pack_(pack), number_(number) {
    report_.shard = path;
  }

  // One record that does not fit into memory must not prevent the verification of other shards.
  absl::StatusOr<ShardReport> Verify() {
    try {
      return VerifyAll();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(fmt::format(
          "{}: record {} at byte {}: out of memory; the whole record must fit into memory",
          report_.shard, next_record_, next_offset_));
    }
  }

 private:
  absl::StatusOr<ShardReport> VerifyAll() {
    const std::string& path = report_.shard;
    absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
    if (!file.ok()) return file.status();
    report_.bytes = (*file)->size();
    if (options_.level == VerifyLevel::kHeaders) {
      const absl::StatusOr<ShardFormat> format = DetectShardFormat(**file);
      if (!format.ok() && !absl::IsDataLoss(format.status())) return format.status();
      if (format.ok() && format->compression == Compression::kNone) {
        absl::StatusOr<bool> sound = VerifyHeaders();
        if (!sound.ok()) return sound.status();
        if (*sound) return report_;
        // There is a defect: read record by record to find all defects.
      }
    }
    absl::Status status = VerifyRecords();
    if (!status.ok()) return status;
    report_.schema = std::make_shared<const Schema>(statistics_.TakeSchema());
    report_.values = std::make_shared<const ValueStatistics>(statistics_.TakeValues());
    return report_;
  }

  void Add(std::string kind, uint64_t record, uint64_t offset, std::string detail) {
    ++report_.num_defects;
    if (report_.defects.size() < options_.max_defects) {
      report_.defects.push_back(
          {report_.shard, std::move(kind), record, offset, std::move(detail)});
    }
  }
  void Pass(uint64_t bytes) {
    if (options_.bytes_passed != nullptr) *options_.bytes_passed += bytes;
  }

  // Verifies a raw shard quickly; returns false if it is damaged.
  absl::StatusOr<bool> VerifyHeaders() {
    IndexBuildOptions walking;
    walking.stop = options_.stop;
    walking.bytes_passed = options_.bytes_passed;
    walking.notes = &report_.notes;
    absl::StatusOr<std::shared_ptr<const ShardIndex>> found = BuildIndex(report_.shard, walking);
    if (absl::IsDataLoss(found.status())) return false;
    if (!found.ok()) return found.status();
    report_.records = (*found)->records();
    report_.records_digest = (*found)->summary().records_digest;
    OpenIndex();
    AddIndexDefects(index_ == nullptr ? absl::OkStatus()
                                      : CompareRawIndexes(*index_, **found, index_name_));
    return true;
  }

  absl::Status VerifyRecords() {
    SalvageOptions reading;
    reading.check = options_.level == VerifyLevel::kHeaders ? CrcCheck::kHeader : CrcCheck::kAll;
    OpenIndex();
    const uint64_t defects_before_records = report_.num_defects;
    std::optional<IndexCheck> check;
    if (index_ != nullptr) {
      check.emplace(index_, index_name_);
      reading.decompress = check->Watch();
    }
    absl::StatusOr<std::unique_ptr<ShardSalvager>> opened =
        ShardSalvager::Open(report_.shard, reading);
    if (!opened.ok()) return opened.status();
    ShardSalvager& salvager = **opened;
    report_.compression = salvager.compression();
    const bool tar = salvager.framing() == Framing::kTar;
    TarNotes notes;
    RecordsDigest digest(salvager.framing());
    RecordBlock block;
    uint64_t passed = 0;
    size_t told = 0;
    while (true) {
      if (options_.stop.stop_requested()) return absl::CancelledError("interrupted");
      absl::Status status = salvager.Next(&block);
      if (!status.ok()) return status;
      const uint64_t position = std::max(salvager.file_position(), passed);
      Pass(position - passed);
      passed = position;
      const bool ended = block.records.empty();
      // The last damaged place may still grow.
      while (told + (ended ? 0 : 1) < salvager.damage().size()) Add(salvager.damage()[told++]);
      if (ended) break;
      report_.records += block.records.size();
      digest.Add(block.records);
      for (const Record& record : block.records) {
        if (tar) notes.AddKey(TarKeyOf(record.payload), record.offset);
      }
      if (check) check->Add(block.records);
      next_record_ = block.first_record + block.records.size();
      next_offset_ = salvager.stream_bytes();
      if (options_.level >= VerifyLevel::kExamples) status = CheckExamples(block, salvager);
      if (!status.ok()) return status;
    }
    notes.AddSkipped(salvager.tar_members_skipped());
    report_.notes = notes.Texts(report_.shard);
    if (salvager.mds() != nullptr) report_.notes = salvager.mds()->columns->Notes();
    Pass(report_.bytes - std::min(passed, report_.bytes));
    report_.skipped_bytes = salvager.bytes_skipped();
    report_.records_lost = salvager.records_lost();
    IndexSummary found;
    found.compression = report_.compression;
    found.framing = salvager.framing();
    found.shard_bytes = report_.bytes;
    found.records = report_.records;
    found.stream_bytes = salvager.stream_bytes();
    found.records_digest = digest.value();
    if (report_.num_defects - content_defects_ == defects_before_records) {
      report_.records_digest = found.records_digest;
      absl::Status fits = check ? check->End(found) : absl::OkStatus();
      const ArrayRecordFooter* const footer = salvager.array_record();
      if (fits.ok() && check && footer != nullptr) {
        fits = CompareChunks(*index_, *footer, index_name_);
      }
      AddIndexDefects(fits);
    }
    return absl::OkStatus();
  }

  void Add(const DamagedPlace& place) {
    // If an intact shard is shorter than its index says, IndexCheck reports it.
    if (place.kind == "cut shard") return;
    Add(place.kind, place.record, place.offset, place.detail);
  }

  absl::Status CheckExamples(const RecordBlock& block, const ShardSalvager& salvager) {
    for (size_t i = 0; i < block.records.size(); ++i) {
      absl::Status status = statistics_.Add(block.records[i]);
      const uint64_t number = block.first_record + i;
      const auto place = [&] { return salvager.PlaceOf(number, block.records[i].offset); };
      const auto told = [&](std::string_view what) {
        return fmt::format("{}: record {} at byte {}: {}", report_.shard, number, place(), what);
      };
      const auto add = [&](const char* kind, std::string_view what) {
        ++content_defects_;
        Add(kind, number, place(), told(what));
      };
      if (!status.ok()) {
        add("not an Example", std::string(status.message()));
      } else if (options_.level == VerifyLevel::kImages && options_.check_images) {
        std::vector<std::string> broken;
        status = options_.check_images(block.records[i].payload, &broken);
        if (!status.ok()) return {status.code(), told(std::string(status.message()))};
        for (const std::string& what : broken) add("image", what);
      }
    }
    return absl::OkStatus();
  }

  // Opens the index beside the shard, if there is one, and stores damage of the index itself.
  void OpenIndex() {
    if (index_opened_) return;
    index_opened_ = true;
    absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
        ShardIndex::Open(IndexPath(report_.shard));
    if (index.ok()) {
      index_ = *std::move(index);
    } else if (absl::IsDataLoss(index.status())) {
      index_damage_ = index.status();
    } else if (!absl::IsNotFound(index.status())) {
      Add("unreadable", 0, 0, std::string(index.status().message()));
    }
    if (pack_ != nullptr) OpenPacked();
  }
  // The index in the pack must be the one beside the shard, or right if there is none.
  void OpenPacked() {
    absl::StatusOr<std::shared_ptr<const ShardIndex>> packed = pack_->Index(number_);
    if (absl::IsDataLoss(packed.status())) {
      packed_damage_ = packed.status();
    } else if (!packed.ok()) {
      Add("unreadable", 0, 0, std::string(packed.status().message()));
    } else if (index_ == nullptr) {
      index_ = *std::move(packed);
      index_name_ = pack_->path();
    } else if ((*packed)->bytes() != index_->bytes()) {
      packed_damage_ = absl::DataLossError(fmt::format(
          "{}: has another index for shard {} than {}; rebuild it with 'shardfeed index'",
          pack_->path(), number_, index_name_));
    }
  }
  // Adds what is wrong with the indexes of a sound shard. `compared` says it of index_.
  void AddIndexDefects(const absl::Status& compared) {
    AddIndexDefect(compared);
    AddIndexDefect(index_damage_);
    // If the shard's own index is wrong, the pack may differ from it and be right.
    if (compared.ok()) AddIndexDefect(packed_damage_);
  }
  void AddIndexDefect(const absl::Status& status) {
    if (!status.ok()) Add("index", 0, 0, std::string(status.message()));
  }

  const VerifyOptions& options_;
  ShardReport report_;
  DatasetStatistics statistics_;
  // Number and stream offset of the next record.
  uint64_t next_record_ = 0;
  uint64_t next_offset_ = 0;
  uint64_t content_defects_ = 0;  // defects in the content of sound frames
  bool index_opened_ = false;
  // Null if there is no intact index.
  std::shared_ptr<const ShardIndex> index_;
  std::string index_name_;
  absl::Status index_damage_;
  // The index pack, unless it is null, and the number of the shard in it.
  const IndexPack* const pack_;
  const size_t number_;
  absl::Status packed_damage_;
};

// Compares the manifest of the set, if there is one, with the `report` of the shards, and with the
// `schema` and the statistics of their records unless these are null. Cancelled: it was not read.
absl::Status CompareManifest(const ShardSet& set, const Schema* schema,
                             const ValueStatistics* values, VerifyReport* report) {
  const std::string manifest_path = ManifestPath(set.directory, set.stem);
  const auto add = [&](std::string detail, const char* kind = "manifest") {
    report->manifest_defects.push_back({manifest_path, kind, 0, 0, std::move(detail)});
  };
  absl::StatusOr<Manifest> manifest = ReadManifest(manifest_path);
  if (absl::IsCancelled(manifest.status())) return manifest.status();
  if (absl::IsNotFound(manifest.status())) return absl::OkStatus();
  report->has_manifest = true;
  if (!manifest.ok()) {
    add(std::string(manifest.status().message()),
        absl::IsDataLoss(manifest.status()) ? "manifest" : "unreadable");
    return absl::OkStatus();
  }
  if (!Describes(*manifest, set)) {
    add(fmt::format(
        "{}: describes {} shards named {}, but {} were verified", manifest_path,
        manifest->shards.size(),
        FormatSpec(set.directory, manifest->stem, manifest->shards.size(), manifest->suffix),
        set.paths.size()));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < set.paths.size(); ++i) {
    const ManifestShard& stored = manifest->shards[i];
    const ShardReport& found = report->shards[i];
    if (!found.was_read) continue;
    std::string wrong;
    const auto compare = [&](std::string_view what, uint64_t in_manifest, uint64_t in_shard) {
      if (in_manifest == in_shard) return;
      if (!wrong.empty()) wrong += ", ";
      wrong += fmt::format("{} {} instead of {}", what, in_manifest, in_shard);
    };
    compare("bytes", stored.bytes, found.bytes);
    // Damage of the shard is reported separately; its count and digest would add nothing.
    if (found.records_digest) {
      compare("records", stored.records, found.records);
      compare("records digest", stored.records_digest, *found.records_digest);
    }
    // The compression of an empty shard cannot be detected.
    if (found.records > 0 && manifest->compression != found.compression) {
      wrong +=
          fmt::format("{}compression {} instead of {}", wrong.empty() ? "" : ", ",
                      CompressionName(manifest->compression), CompressionName(found.compression));
    }
    if (!wrong.empty()) {
      add(fmt::format("{}: does not match {}: {}", manifest_path, stored.file, wrong));
    }
  }
  // If the manifest describes other records, that has been reported already.
  const bool is_about_these =
      report->manifest_defects.empty() &&
      std::all_of(report->shards.begin(), report->shards.end(),
                  [](const ShardReport& shard) { return shard.records_digest.has_value(); });
  if (schema == nullptr || !is_about_these) return absl::OkStatus();
  const std::string difference = DifferenceOf(manifest->schema, *schema);
  if (!difference.empty()) {
    add(fmt::format("{}: does not match the records: {}", manifest_path, difference));
  } else if (manifest->values != nullptr && values != nullptr) {
    const std::string wrong = DifferenceOf(*manifest->values, *values, *schema);
    if (!wrong.empty()) {
      add(fmt::format("{}: its statistics do not match the records: {}", manifest_path, wrong));
    }
  }
  return absl::OkStatus();
}

// Compares what the index.json beside MDS shards says, if there is one, with the `report`.
// Cancelled: it was not read.
absl::Status CompareMdsFolder(const ShardSet& set, VerifyReport* report) {
  if (std::none_of(set.paths.begin(), set.paths.end(), IsNamedMds)) return absl::OkStatus();
  const std::string path = JoinPath(set.directory, kMdsFolderIndex);
  const auto add = [&](std::string detail, const char* kind = "manifest") {
    report->manifest_defects.push_back({path, kind, 0, 0, std::move(detail)});
  };
  const auto listed = ReadMdsFolder(set.directory);
  if (absl::IsCancelled(listed.status())) return listed.status();
  if (absl::IsNotFound(listed.status())) return absl::OkStatus();
  if (!listed.ok()) {
    add(std::string(listed.status().message()),
        absl::IsDataLoss(listed.status()) ? "manifest" : "unreadable");
    return absl::OkStatus();
  }
  if (!*listed) return absl::OkStatus();
  std::map<std::string, const MdsListed*> by_path;
  for (const MdsListed& shard : **listed) by_path[JoinPath(set.directory, shard.name)] = &shard;
  for (const ShardReport& found : report->shards) {
    const auto known = by_path.find(found.shard);
    if (known == by_path.end() || !found.was_read) continue;
    const MdsListed& shard = *known->second;
    // Damage of the shard is reported separately.
    const bool same =
        shard.bytes == found.bytes && (found.num_defects > 0 || shard.samples == found.records);
    if (same) continue;
    add(fmt::format("{}: says that {} has {} samples in {} bytes, but it has {} in {}", path,
                    shard.name, shard.samples, shard.bytes, found.records, found.bytes));
  }
  return absl::OkStatus();
}

// Returns the index pack of the set, or null if there is none that is sound.
std::shared_ptr<const IndexPack> OpenPack(const ShardSet& set, std::optional<Defect>* defect) {
  const std::optional<IndexPackName> named = IndexPackNameOf(set);
  if (!named) return nullptr;
  absl::StatusOr<std::shared_ptr<const IndexPack>> pack =
      IndexPack::Open(set.directory, named->stem, set.paths.size(), named->suffix);
  if (pack.ok()) return *std::move(pack);
  // Who may not list a bucket is not told that there is no such object.
  if (absl::IsNotFound(pack.status()) ||
      (IsRemote(set.directory) && absl::IsPermissionDenied(pack.status()))) {
    return nullptr;
  }
  const bool damaged = absl::IsDataLoss(pack.status());
  *defect = {IndexPackPath(set.directory, named->stem), damaged ? "index" : "unreadable", 0, 0,
             std::string(pack.status().message())};
  return nullptr;
}

}  // namespace

absl::StatusOr<ShardReport> VerifyShardOfSet(const std::string& path,
                                             const VerifyOptions& options) {
  const PathParts parts = SplitPath(path);
  const std::optional<ShardNameView> name = ViewShardName(parts.name);
  std::shared_ptr<const IndexPack> pack;
  if (name && name->index < name->count) {
    // Damage to the pack itself is found when the reports are merged.
    absl::StatusOr<std::shared_ptr<const IndexPack>> opened = IndexPack::Open(
        std::string(parts.directory), std::string(name->stem), name->count, name->suffix);
    if (opened.ok()) pack = *std::move(opened);
  }
  return ShardVerifier(path, options, pack.get(), pack == nullptr ? 0 : name->index).Verify();
}

absl::StatusOr<ShardReport> VerifyShard(const std::string& path, const VerifyOptions& options) {
  return ShardVerifier(path, options, nullptr, 0).Verify();
}

uint64_t VerifyReport::num_defects() const {
  uint64_t sum = manifest_defects.size();
  for (const ShardReport& shard : shards) sum += shard.num_defects;
  return sum;
}

uint64_t VerifyReport::num_records() const {
  uint64_t sum = 0;
  for (const ShardReport& shard : shards) sum += shard.records;
  return sum;
}

uint64_t VerifyReport::num_bytes() const {
  uint64_t sum = 0;
  for (const ShardReport& shard : shards) sum += shard.bytes;
  return sum;
}

ShardReport UnreadableShard(const std::string& path, const absl::Status& why) {
  ShardReport report;
  report.shard = path;
  report.was_read = false;
  report.num_defects = 1;
  report.defects.push_back({path, "unreadable", 0, 0, std::string(why.message())});
  return report;
}

namespace {

// The report on a dataset whose shards have these reports, whose schemas are merged into `schema`.
// `values` are the statistics of their records; null: not known.
absl::StatusOr<VerifyReport> Merge(const ShardSet& set, std::vector<ShardReport> shards,
                                   const ValueStatistics* values, VerifyLevel level,
                                   std::optional<Defect> pack_defect, Schema* schema) {
  VerifyReport report;
  report.shards = std::move(shards);
  for (ShardReport& shard : report.shards) {
    if (shard.schema != nullptr) schema->Merge(*shard.schema);
    shard.schema = nullptr;
    shard.values = nullptr;
  }
  // Otherwise the results may belong to two different datasets.
  if (absl::Status status = set.version.CheckUnchanged(); !status.ok()) return status;
  absl::Status status =
      set.sharded_name ? CompareManifest(set, level >= VerifyLevel::kExamples ? schema : nullptr,
                                         values, &report)
                       : CompareMdsFolder(set, &report);
  if (!status.ok()) return status;
  if (pack_defect) report.manifest_defects.push_back(*std::move(pack_defect));
  return report;
}

// The merged statistics of shards. Thread-safe.
class MergedValues {
 public:
  void Add(const ValueStatistics& values) {
    MutexLock lock(mutex_);
    values_.Merge(values);
  }
  ValueStatistics Take() {
    MutexLock lock(mutex_);
    return std::move(values_);
  }

 private:
  Mutex mutex_;
  ValueStatistics values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<VerifyReport> MergeShardReports(const ShardSet& set, std::vector<ShardReport> shards,
                                               VerifyLevel level) {
  std::optional<Defect> pack_defect;
  OpenPack(set, &pack_defect);
  // Reports that were sent as text lack the statistics.
  Schema schema;
  return Merge(set, std::move(shards), nullptr, level, std::move(pack_defect), &schema);
}

absl::StatusOr<VerifyReport> Verify(const ShardSet& set, const VerifyOptions& options) {
  DatasetStatistics found;
  return Verify(set, options, &found);
}

absl::StatusOr<VerifyReport> Verify(const ShardSet& set, const VerifyOptions& options,
                                    DatasetStatistics* found) {
  std::optional<Defect> pack_defect;
  const std::shared_ptr<const IndexPack> pack = OpenPack(set, &pack_defect);
  std::vector<ShardReport> shards(set.paths.size());
  // Merged at once, because those of thousands of shards would fill the memory.
  MergedValues merged;
  absl::Status status = ParallelFor(
      set.paths.size(), ThreadCount(options.threads), options.stop, [&](size_t i) -> absl::Status {
        absl::StatusOr<ShardReport> shard =
            ShardVerifier(set.paths[i], options, pack.get(), i).Verify();
        if (absl::IsCancelled(shard.status())) return shard.status();
        shards[i] = shard.ok() ? *std::move(shard) : UnreadableShard(set.paths[i], shard.status());
        if (const auto one = std::exchange(shards[i].values, nullptr)) {
          merged.Add(*one);
        }
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  Schema schema;
  ValueStatistics values = merged.Take();
  absl::StatusOr<VerifyReport> report =
      Merge(set, std::move(shards), &values, options.level, std::move(pack_defect), &schema);
  *found = DatasetStatistics(std::move(schema), std::move(values));
  return report;
}

}  // namespace shardfeed
