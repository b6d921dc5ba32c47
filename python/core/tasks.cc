#include "python/core/tasks.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_replace.h"
#include "decode/images/image_check.h"
#include "fmt/format.h"
#include "nanobind/stl/optional.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "pipeline/data/known_features.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "shard/indexing/index_pack_write.h"
#include "shard/manifest/manifest.h"
#include "shard/names/braces.h"
#include "shard/names/names.h"
#include "shard/verify/shard_report.h"
#include "shard/writing/job_commit.h"
#include "shardfeed/index.h"
#include "shardfeed/spec.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

VerifyLevel LevelOf(const std::string& level) {
  if (level == "headers") return VerifyLevel::kHeaders;
  if (level == "payload") return VerifyLevel::kPayload;
  if (level == "examples") return VerifyLevel::kExamples;
  if (level == "images") return VerifyLevel::kImages;
  throw nb::value_error(
      fmt::format("level is 'headers', 'payload', 'examples' or 'images', not '{}'", level)
          .c_str());
}

// (path, digest of its records in the manifest, None without one) of each shard.
std::vector<std::pair<std::string, std::optional<uint32_t>>> Resolve(
    const std::vector<std::string>& specs) {
  absl::StatusOr<ShardSet> set;
  std::shared_ptr<const Manifest> manifest;
  {
    const GilRelease release;
    set = ResolveSpecs(specs);
    if (set.ok()) manifest = FindManifest(*set);
  }
  std::vector<std::pair<std::string, std::optional<uint32_t>>> shards;
  for (std::string& path : Check(std::move(set)).paths) {
    std::optional<uint32_t> digest;
    if (manifest != nullptr) digest = manifest->shards[shards.size()].records_digest;
    shards.emplace_back(std::move(path), digest);
  }
  return shards;
}

// The number of values of a feature of this type: 0: a single one, -1: any, or not known.
int64_t DeclaredValues(const FeatureType& type) {
  if (type.shape.empty()) return type.dtype.empty() ? -1 : 0;
  int64_t values = 1;
  for (int64_t size : type.shape) {
    if (size < 0 || (size > 0 && values > INT32_MAX / size)) return -1;
    values *= size;
  }
  return values > 0 ? values : -1;
}

// (number of records, [(name, kind, is a feature list, records, least and most values, records of
// another kind, DeclaredValues)], whether there
// may be others): of the manifest or, without one, of records that were looked at.
nb::tuple FeaturesOfSpecs(const std::vector<std::string>& specs) {
  absl::StatusOr<FoundSchema> found;
  {
    const GilRelease release;
    absl::StatusOr<ShardSet> set = ResolveSpecs(specs);
    found = set.ok() ? FindSchema(*set) : set.status();
  }
  const FoundSchema all = Check(std::move(found));
  const Schema& schema = all.schema;
  nb::list features;
  for (const auto& [name, feature] : schema.features()) {
    const bool has_values = feature.max_values >= feature.min_values;
    features.append(nb::make_tuple(
        name, std::string(FeatureKindName(feature.kind)), feature.is_list, feature.records,
        has_values ? feature.min_values : 0, has_values ? feature.max_values : 0,
        feature.mixed_kinds, DeclaredValues(feature.type)));
  }
  return nb::make_tuple(schema.records(), features, all.sampled);
}

std::string VerifyPath(const std::string& path, const std::string& level) {
  VerifyOptions options;
  options.level = LevelOf(level);
  options.threads = 1;
  absl::StatusOr<ShardReport> report;
  {
    const GilRelease release;
    ImageCheck check;
    options.check_images = [&check](std::string_view record, std::vector<std::string>* defects) {
      return check.CheckRecord(record, defects);
    };
    report = VerifyShardOfSet(path, options);
  }
  return ShardReportToText(report.ok() ? *report : UnreadableShard(path, report.status()), level);
}

nb::dict Merge(const std::vector<std::string>& specs, const std::vector<std::string>& texts,
               const std::string& level) {
  const VerifyLevel how = LevelOf(level);
  absl::StatusOr<VerifyReport> merged;
  {
    const GilRelease release;
    merged = [&]() -> absl::StatusOr<VerifyReport> {
      const absl::StatusOr<ShardSet> set = ResolveSpecs(specs);
      if (!set.ok()) return set.status();
      if (texts.size() != set->paths.size()) {
        return absl::InvalidArgumentError(fmt::format("expected the reports on {} shards, got {}",
                                                      set->paths.size(), texts.size()));
      }
      std::vector<ShardReport> reports;
      for (size_t i = 0; i < texts.size(); ++i) {
        std::string found;
        absl::StatusOr<ShardReport> report = ShardReportFromText(texts[i], &found);
        if (!report.ok()) return report.status();
        if (found != level) {
          return absl::InvalidArgumentError(
              fmt::format("the report on {} is of level '{}', not '{}': give merge_reports the "
                          "level of the reports",
                          report->shard, found, level));
        }
        // Tasks may know the folder by another name.
        const std::string& path = set->paths[i];
        if (SplitPath(report->shard).name != SplitPath(path).name) {
          return absl::InvalidArgumentError(
              fmt::format("expected the report on {}, got that on {}", path, report->shard));
        }
        const auto renamed = [from = report->shard, &path](std::string* text) {
          absl::StrReplaceAll({{from, path}}, text);
        };
        for (Defect& defect : report->defects) {
          defect.shard = path;
          renamed(&defect.detail);
        }
        for (std::string& note : report->notes) renamed(&note);
        report->shard = path;
        reports.push_back(*std::move(report));
      }
      return MergeShardReports(*set, std::move(reports), how);
    }();
  }
  const VerifyReport report = Check(std::move(merged));
  nb::list defects;
  const auto add = [&defects](const std::vector<Defect>& some) {
    for (const Defect& d : some) {
      defects.append(nb::make_tuple(d.shard, d.kind, d.record, d.offset, d.detail));
    }
  };
  nb::list notes;
  for (const ShardReport& shard : report.shards) {
    add(shard.defects);
    for (const std::string& note : shard.notes) notes.append(note);
  }
  add(report.manifest_defects);
  nb::dict dict;
  dict["shards"] = report.shards.size();
  dict["records"] = report.num_records();
  dict["bytes"] = report.num_bytes();
  dict["num_defects"] = report.num_defects();
  dict["defects"] = defects;
  dict["notes"] = notes;
  return dict;
}

nb::dict Commit(const std::string& name, const std::string& job, bool overwrite, bool dry_run) {
  absl::StatusOr<JobCommit> commit;
  {
    const GilRelease release;
    const absl::StatusOr<OutputSpec> spec = ParseOutputSpec(name);
    commit = spec.ok() ? CommitSharedJob(*spec, job, overwrite, dry_run) : spec.status();
  }
  const JobCommit done = Check(std::move(commit));
  nb::dict dict;
  dict["shards"] = done.manifest.shards.size();
  dict["records"] = done.manifest.num_records();
  dict["bytes"] = done.manifest.num_bytes();
  dict["skipped"] = done.manifest.skipped.count;
  dict["committed_earlier"] = done.earlier;
  return dict;
}

}  // namespace

void BindTasks(nb::module_& m) {
  m.def("resolve_shards", &Resolve);
  m.def("names_in_braces", [](const std::string& name) { return Check(NamesInBraces(name)); });
  m.def("find_features", &FeaturesOfSpecs);
  m.def("verify_shard", &VerifyPath);
  m.def("merge_reports", &Merge);
  m.def("commit", &Commit);
  m.def("update_index_packs", [](const std::vector<std::string>& specs) {
    absl::Status status;
    {
      const GilRelease release;
      const absl::StatusOr<ShardSet> set = ResolveSpecs(specs);
      status = set.ok() ? UpdateIndexPacks(*set, {}) : set.status();
    }
    Check(status);
  });
  m.def("index_shard", [](const std::string& path) {
    absl::StatusOr<IndexSummary> summary;
    {
      const GilRelease release;
      summary = IndexShard(path, IndexBuildOptions());
    }
    return Check(std::move(summary)).records;
  });
}

}  // namespace shardfeed::python
