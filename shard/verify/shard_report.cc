#include "shard/verify/shard_report.h"

#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"
#include "shard/schema/schema.h"

namespace shardfeed {

std::string ShardReportToText(const ShardReport& report, std::string_view level) {
  nlohmann::json defects = nlohmann::json::array();
  for (const Defect& defect : report.defects) {
    defects.push_back({{"kind", defect.kind},
                       {"record", defect.record},
                       {"offset", defect.offset},
                       {"detail", defect.detail}});
  }
  nlohmann::json json = {{"shard", report.shard},
                         {"level", level},
                         {"was_read", report.was_read},
                         {"compression", CompressionName(report.compression)},
                         {"bytes", report.bytes},
                         {"records", report.records},
                         {"skipped_bytes", report.skipped_bytes},
                         {"num_defects", report.num_defects},
                         {"defects", std::move(defects)}};
  if (!report.notes.empty()) json["notes"] = report.notes;
  if (report.records_lost) json["records_lost"] = *report.records_lost;
  if (report.records_digest) json["records_digest"] = *report.records_digest;
  if (report.schema != nullptr) {
    json["schema"] = {{"records", report.schema->records()},
                      {"not_examples", report.schema->not_examples()},
                      {"features", report.schema->ToJson()}};
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<ShardReport> ShardReportFromText(std::string_view text, std::string* level) {
  const auto broken = [](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("not the report on a shard: {}", what));
  };
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) {
    return broken(std::string(parsed.message()));
  }
  JsonMembers members;
  ShardReport report;
  report.shard = members.Text(json, "shard");
  *level = members.Text(json, "level");
  report.was_read = members.Flag(json, "was_read");
  const std::optional<Compression> compression =
      ParseCompression(members.Text(json, "compression"));
  report.bytes = members.Number(json, "bytes");
  report.records = members.Number(json, "records");
  report.skipped_bytes = members.Number(json, "skipped_bytes");
  report.num_defects = members.Number(json, "num_defects");
  if (json.contains("notes")) report.notes = members.Texts(json, "notes");
  for (const nlohmann::json& one : members.Array(json, "defects")) {
    Defect& defect = report.defects.emplace_back();
    defect.shard = report.shard;
    defect.kind = members.Text(one, "kind");
    defect.record = members.Number(one, "record");
    defect.offset = members.Number(one, "offset");
    defect.detail = members.Text(one, "detail");
  }
  report.records_lost = std::nullopt;
  if (json.contains("records_lost")) report.records_lost = members.Number(json, "records_lost");
  if (json.contains("records_digest")) {
    report.records_digest =
        static_cast<uint32_t>(members.Number(json, "records_digest", UINT32_MAX));
  }
  if (json.contains("schema")) {
    const nlohmann::json& part = members.Object(json, "schema");
    const uint64_t records = members.Number(part, "records");
    const uint64_t not_examples = members.Number(part, "not_examples");
    auto schema = std::make_shared<Schema>();
    const absl::Status found =
        schema->FromJson(members.Object(part, "features"), records, not_examples);
    if (members.status().ok() && !found.ok()) return broken(std::string(found.message()));
    report.schema = std::move(schema);
  }
  if (!members.status().ok()) return broken(std::string(members.status().message()));
  if (!compression) return broken("unknown compression");
  if (report.defects.size() > report.num_defects) return broken("it has more defects than it says");
  report.compression = *compression;
  return report;
}

}  // namespace shardfeed
