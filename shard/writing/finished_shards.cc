#include "shard/writing/finished_shards.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/file.h"
#include "io/output_file.h"
#include "nlohmann/json.hpp"
#include "shard/index/index.h"
#include "shard/statistics/value_statistics.h"
#include "shardfeed/verify.h"

namespace shardfeed {
namespace {

constexpr char kPlan[] = "plan";
constexpr uint64_t kMaxPlanBytes = 64 << 10;
constexpr uint64_t kMaxDoneBytes = 64 << 20;

std::string PlanPath(const std::string& folder) { return folder + "/" + kPlan; }

}  // namespace

nlohmann::json FinishedToJson(const FinishedShard& shard) {
  return {{"bytes", shard.bytes},
          {"records", shard.records},
          {"records_digest", shard.records_digest},
          {"not_examples", shard.schema.not_examples()},
          {"features", shard.schema.ToJson()},
          {"skipped", shard.skipped.count},
          {"skipped_first", shard.skipped.first}};
}

std::optional<FinishedShard> FinishedFromJson(const nlohmann::json& json) {
  if (!json.is_object()) return std::nullopt;
  FinishedShard shard;
  JsonMembers members;
  shard.bytes = members.Number(json, "bytes");
  shard.records = members.Number(json, "records");
  shard.records_digest = static_cast<uint32_t>(members.Number(json, "records_digest", UINT32_MAX));
  shard.skipped.count = members.Number(json, "skipped", SkippedRecords::kMaxCount);
  shard.skipped.first = members.Texts(json, "skipped_first");
  const uint64_t not_examples = members.Number(json, "not_examples");
  const nlohmann::json& features = members.Object(json, "features");
  if (!members.status().ok() || !shard.skipped.IsPlausible() ||
      !shard.schema.FromJson(features, shard.records, not_examples).ok()) {
    return std::nullopt;
  }
  return shard;
}

bool HasPlan(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(PlanPath(folder), error);
}

bool PlanIs(const std::string& folder, std::string_view plan) {
  const absl::StatusOr<std::string> earlier = ReadFile(PlanPath(folder), kMaxPlanBytes);
  return earlier.ok() && *earlier == plan;
}

absl::Status WritePlan(const std::string& folder, std::string_view plan, bool sync) {
  return WriteFile(PlanPath(folder), plan, sync);
}

absl::Status WriteFinished(const std::string& folder, size_t number, const FinishedShard& shard,
                           bool sync) {
  nlohmann::json json = FinishedToJson(shard);
  if (shard.values != nullptr) {
    json["statistics"] = shard.values->FormatText(/*whole=*/true);
  }
  const std::string path = fmt::format("{}/{:05}.done", folder, number);
  return ReplaceFile(path, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                     sync);
}

absl::StatusOr<std::optional<FinishedShard>> ReadFinished(const std::string& folder, size_t number,
                                                          const std::stop_token& stop) {
  const std::string base = fmt::format("{}/{:05}", folder, number);
  const absl::StatusOr<std::string> text = ReadFile(base + ".done", kMaxDoneBytes);
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = ShardIndex::Open(base + ".index");
  if (!text.ok() || !index.ok()) return std::nullopt;
  nlohmann::json json;
  if (!ParseBoundedJson(*text, &json).ok()) return std::nullopt;
  std::optional<FinishedShard> shard = FinishedFromJson(json);
  if (!shard || !json.contains("statistics") || !json["statistics"].is_string()) {
    return std::nullopt;
  }
  shard->values =
      ValueStatistics::ParseText(json["statistics"].get_ref<const std::string&>(), shard->records);
  if (shard->values == nullptr) return std::nullopt;
  VerifyOptions verifying;
  verifying.stop = stop;
  const absl::StatusOr<ShardReport> report = VerifyShard(base + ".shard", verifying);
  if (absl::IsCancelled(report.status())) return report.status();
  const bool sound = report.ok() && report->num_defects == 0 && report->bytes == shard->bytes &&
                     report->records == shard->records &&
                     report->records_digest == shard->records_digest &&
                     (*index)->summary().records_digest == shard->records_digest &&
                     (*index)->summary().shard_bytes == shard->bytes;
  if (!sound) return std::nullopt;
  return shard;
}

std::vector<std::string> FilesOfFinished(const std::vector<size_t>& numbers) {
  std::vector<std::string> files = {kPlan};
  for (size_t number : numbers) {
    for (const char* suffix : {"shard", "index", "done"}) {
      files.push_back(fmt::format("{:05}.{}", number, suffix));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace shardfeed
