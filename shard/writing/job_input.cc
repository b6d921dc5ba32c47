#include "shard/writing/job_input.h"

#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "nlohmann/json.hpp"

namespace shardfeed {

std::string FormatJobInput(const JobInput& input) {
  nlohmann::json json = {
      {"made_by", input.made_by},          {"notes", input.notes},
      {"skipped", input.skipped.count},    {"skipped_first", input.skipped.first},
      {"records", input.schema.records()}, {"not_examples", input.schema.not_examples()},
      {"features", input.schema.ToJson()}, {"classes", ClassesToJson(input.classes)},
      {"fingerprint", input.fingerprint},  {"max_skipped", input.max_skipped}};
  if (input.values != nullptr) {
    json["statistics"] = input.values->FormatText(/*whole=*/false);
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<JobInput> ParseJobInput(std::string_view text) {
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) return parsed;
  JsonMembers members;
  JobInput input;
  const nlohmann::json& made_by = members.Object(json, "made_by");
  for (const auto& [key, value] : made_by.items()) {
    input.made_by[key] = members.Text(made_by, key);
  }
  input.notes = members.Texts(json, "notes");
  input.skipped.count = members.Number(json, "skipped", SkippedRecords::kMaxCount);
  input.skipped.first = members.Texts(json, "skipped_first");
  if (!input.skipped.IsPlausible()) members.Fail("its broken records are not described");
  const uint64_t records = members.Number(json, "records");
  const uint64_t not_examples = members.Number(json, "not_examples");
  const nlohmann::json& features = members.Object(json, "features");
  input.fingerprint = members.Text(json, "fingerprint");
  input.max_skipped = members.Number(json, "max_skipped");
  if (!members.status().ok()) return members.status();
  if (absl::Status parsed = input.schema.FromJson(features, records, not_examples); !parsed.ok()) {
    return parsed;
  }
  if (json.contains("statistics")) {
    input.values = ValueStatistics::ParseText(members.Text(json, "statistics"), records);
    if (input.values == nullptr) return absl::DataLossError("its statistics are damaged");
  }
  if (!json.contains("classes")) return input;  // a job that an earlier version began
  const absl::Status read = ClassesFromJson(members.Object(json, "classes"), &input.classes);
  if (!members.status().ok()) return members.status();
  if (!read.ok()) return read;
  return input;
}

std::string DifferenceOf(const JobInput& a, const JobInput& b) {
  std::map<std::string, std::string> all = a.made_by;
  all.insert(b.made_by.begin(), b.made_by.end());
  for (const auto& [key, unused] : all) {
    const auto in_a = a.made_by.find(key);
    const auto in_b = b.made_by.find(key);
    if (in_a == a.made_by.end() || in_b == b.made_by.end() || in_a->second != in_b->second) {
      return fmt::format("'{}'", key);
    }
  }
  if (a.fingerprint != b.fingerprint) return "the names, sizes or times of the input's files";
  if (a.classes != b.classes) return "the numbers and names of the classes";
  if (a.notes != b.notes) return "the notes about the input";
  if (a.skipped != b.skipped) return "the broken records of the input";
  if (a.max_skipped != b.max_skipped) return "the number of records that may be broken";
  // The texts are compared as the manifest would have them.
  return FormatJobInput(a) == FormatJobInput(b) ? "" : "the features of the input";
}

}  // namespace shardfeed
