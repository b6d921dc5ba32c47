#include "shard/commit/store_record.h"

#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

constexpr char kRecordFormat[] = "shardfeed store commit 1";

}  // namespace

std::string FormatStoreCommit(const StoreCommit& commit, const std::string& suffix) {
  const auto format = [&commit](const PendingObject& object) {
    nlohmann::ordered_json json = PendingToJson(object);
    if (object.writer != commit.writer) json["writer"] = object.writer;
    return json;
  };
  nlohmann::ordered_json objects = nlohmann::ordered_json::array();
  for (size_t i = 0; i + 1 < commit.objects.size(); ++i) {
    objects.push_back(format(commit.objects[i]));
  }
  // Names may have bytes that are not UTF-8.
  nlohmann::ordered_json old = nlohmann::ordered_json::array();
  for (const std::string& name : commit.old) old.push_back(absl::CHexEscape(name));
  nlohmann::ordered_json record = {
      {"format", kRecordFormat},       {"writer", commit.writer},
      {"before", commit.before},       {"suffix", absl::CHexEscape(suffix)},
      {"objects", std::move(objects)}, {"indexes", format(commit.objects.back())},
      {"old", std::move(old)},         {"manifest", commit.manifest}};
  if (!commit.job.empty()) record["job"] = commit.job;
  return record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<StoreCommit> ParseStoreCommit(std::string_view text, const std::string& path,
                                             const std::string& directory,
                                             const std::string& stem) {
  const auto broken = [&path](const std::string& what) {
    return absl::DataLossError(fmt::format(
        "{}: invalid commit record: {}; remove it, and write the dataset again", path, what));
  };
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) {
    return broken(std::string(parsed.message()));
  }
  JsonMembers members;
  StoreCommit commit;
  if (members.Text(json, "format") != kRecordFormat) return broken("unknown format");
  commit.writer = members.Text(json, "writer");
  commit.before = members.Text(json, "before");
  commit.manifest = members.Text(json, "manifest");
  if (json.contains("job")) commit.job = members.Text(json, "job");
  std::string suffix;
  bool escaped = absl::CUnescape(members.Text(json, "suffix"), &suffix);
  for (const std::string& name : members.Texts(json, "old")) {
    escaped &= absl::CUnescape(name, &commit.old.emplace_back());
  }
  const auto add = [&](const nlohmann::json& object) {
    PendingObject& pending = commit.objects.emplace_back(PendingFromJson(members, object));
    // Shards of a job have writers of their own.
    pending.writer = object.contains("writer") ? members.Text(object, "writer") : commit.writer;
  };
  for (const nlohmann::json& object : members.Array(json, "objects")) add(object);
  if (!members.status().ok()) return broken(std::string(members.status().message()));
  if (!escaped) return broken("its names are not escaped as they should be");
  if (commit.job.starts_with('/') || commit.job.find("..") != commit.job.npos) {
    return broken(fmt::format("'{}' is not the name of a job", commit.job));
  }
  // Objects are replaced and removed only if their names belong to this dataset.
  const size_t shards = commit.objects.size() / 2;
  const std::string first = ShardName(stem, 0, shards, suffix);
  const std::optional<ShardNameView> parsed = ViewShardName(first);
  const bool paired = commit.objects.size() % 2 == 0;
  // Writers of earlier versions made no pack.
  if (json.contains("indexes")) {
    add(members.Object(json, "indexes"));
    if (!members.status().ok()) return broken(std::string(members.status().message()));
    commit.objects.back().path = IndexPackPath(directory, stem);
  }
  if (shards == 0 || !paired || !parsed || parsed->stem != stem || parsed->suffix != suffix ||
      first.find('/') != first.npos) {
    return broken("its shards would have invalid names");
  }
  std::set<std::string> names;
  for (size_t i = 0; i < shards; ++i) {
    const std::string name = ShardName(stem, i, shards, suffix);
    commit.objects[2 * i].path = JoinPath(directory, name);
    commit.objects[2 * i + 1].path = IndexPath(JoinPath(directory, name));
    names.insert(name);
  }
  for (const std::string& name : commit.old) {
    const std::optional<ShardNameView> shard = ViewShardName(name);
    if (!shard || shard->stem != stem || name.find('/') != name.npos || names.contains(name)) {
      return broken(fmt::format("'{}' is not the name of an old shard", name));
    }
  }
  return commit;
}

nlohmann::ordered_json PendingToJson(const PendingObject& object) {
  return {{"bytes", object.bytes}, {"upload", object.upload}, {"parts", object.parts}};
}

PendingObject PendingFromJson(JsonMembers& members, const nlohmann::json& json) {
  PendingObject object;
  object.bytes = members.Number(json, "bytes");
  object.upload = members.Text(json, "upload");
  object.parts = members.Texts(json, "parts");
  return object;
}

}  // namespace shardfeed
