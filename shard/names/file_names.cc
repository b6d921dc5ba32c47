#include "shard/names/file_names.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

// Returns "1 file", "2 files" and so on.
std::string Count(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::vector<std::string> NamesOf(const std::vector<Member>& members) {
  std::vector<std::string> names;
  names.reserve(members.size());
  for (const Member& member : members) names.emplace_back(member.name);
  return names;
}

}  // namespace

std::string FirstOf(const std::vector<std::string>& names, uint64_t total) {
  const size_t shown = std::min(names.size(), kNamesShown);
  const std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  return total > shown ? fmt::format("{} and {} more", text, total - shown) : text;
}

std::string FirstOf(const std::vector<std::string>& names) { return FirstOf(names, names.size()); }

bool IsSidecar(std::string_view name) {
  return name.starts_with('.') || name.ends_with(".idx") || name.ends_with(".tfindex") ||
         name.ends_with(".crc") || name.ends_with(".json") || name == "_SUCCESS" ||
         name.find(".tmp") != name.npos;
}

void Names::Add(std::string_view directory, std::string_view name) {
  if (const std::optional<ShardNameView> shard = ViewShardName(name)) {
    sets[{directory, shard->stem, shard->suffix, shard->count}].push_back({shard->index, name});
  } else if (const std::optional<SparkName> part = ParseSparkName(name)) {
    spark.push_back({directory, name, *part});
  } else {
    plain.push_back({directory, name});
  }
}

void Names::AddAllButSidecars(std::string_view directory, const std::vector<std::string>& files) {
  for (const std::string& name : files) {
    if (!IsSidecar(name)) Add(directory, name);
  }
}

std::vector<std::string> Describe(const Names& names) {
  std::vector<std::string> texts;
  for (const auto& [key, unsorted] : names.sets) {
    std::vector<Member> members = unsorted;
    std::sort(members.begin(), members.end());
    const bool whole = members.size() == key.count;
    texts.push_back(fmt::format("{} ({} of {}{}{})", key.Spec(), members.size(),
                                Count(key.count, "shard"), whole ? "" : ": ",
                                whole ? "" : FirstOf(NamesOf(members))));
  }
  std::map<std::string_view, std::vector<std::string>> jobs;
  for (const SparkFile& file : names.spark) {
    jobs[file.parsed.job].push_back(JoinPath(file.directory, file.name));
  }
  for (auto& [job, paths] : jobs) {
    std::sort(paths.begin(), paths.end());
    texts.push_back(fmt::format("{} of Spark job {} ({})", Count(paths.size(), "file"),
                                job.empty() ? "without an id" : job, FirstOf(paths)));
  }
  if (!names.plain.empty()) {
    std::vector<std::string> paths;
    for (const PathParts& file : names.plain) paths.push_back(JoinPath(file.directory, file.name));
    std::sort(paths.begin(), paths.end());
    texts.push_back(
        fmt::format("{} without a shard number ({})", Count(paths.size(), "file"), FirstOf(paths)));
  }
  return texts;
}

absl::StatusOr<ShardSet> WholeSet(std::string_view spec, const SetKey& key,
                                  std::vector<Member> members, std::string_view advice) {
  std::sort(members.begin(), members.end());
  const auto shard_name = [&key](uint64_t index) {
    return ShardName(key.stem, index, key.count, key.suffix);
  };

  const auto past =
      std::find_if(members.begin(), members.end(), [&](auto& m) { return m.index >= key.count; });
  if (past != members.end()) {
    std::string last;
    if (key.count > 0) {
      last = fmt::format(", so the last of {} is {}", key.count, shard_name(key.count - 1));
    }
    return absl::DataLossError(fmt::format("{}: numbered past the total: {}; numbers start at 0{}",
                                           spec, FirstOf(NamesOf({past, members.end()})), last));
  }

  std::vector<std::string> twice;
  std::vector<std::string> missing;
  uint64_t next = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const uint64_t index = members[i].index;
    if ((i > 0 && members[i - 1].index == index) ||
        (i + 1 < members.size() && members[i + 1].index == index)) {
      twice.emplace_back(members[i].name);
    }
    for (; next < index && missing.size() < kNamesShown; ++next) {
      missing.push_back(shard_name(next));
    }
    next = index + 1;
  }
  for (; next < key.count && missing.size() < kNamesShown; ++next) {
    missing.push_back(shard_name(next));
  }
  if (!twice.empty()) {
    return absl::DataLossError(
        fmt::format("{}: the same shard under more than one name: {}; remove the wrong one", spec,
                    FirstOf(twice)));
  }
  if (!missing.empty()) {
    const uint64_t total = key.count - members.size();
    return absl::DataLossError(fmt::format("{}: {} of {} {} missing: {}{}", spec, total,
                                           Count(key.count, "shard"), total == 1 ? "is" : "are",
                                           FirstOf(missing, total), advice));
  }

  ShardSet set{.directory = std::string(key.directory),
               .stem = std::string(key.stem),
               .suffix = std::string(key.suffix),
               .paths = {},
               .sharded_name = true};
  set.paths.reserve(members.size());
  for (const Member& member : members) set.paths.push_back(JoinPath(key.directory, member.name));
  return set;
}

absl::StatusOr<ShardSet> SparkSet(std::string_view spec, const Names& names) {
  std::vector<SparkFile> files = names.spark;
  const auto rank = [](const SparkFile& f) {
    return std::tuple(f.directory, f.parsed.part, f.parsed.bucket, f.parsed.file);
  };
  std::sort(files.begin(), files.end(), [&](const SparkFile& a, const SparkFile& b) {
    return std::tuple(rank(a), a.name) < std::tuple(rank(b), b.name);
  });
  for (const SparkFile& file : files) {
    const std::string_view job = files[0].parsed.job;
    if (file.parsed.job == job) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: files of more than one Spark job: {}; name those of one job by a glob, as "
        "in {}, or those of each by a glob of its own",
        spec, fmt::join(Describe(names), ", "),
        JoinPath(file.directory,
                 fmt::format("part-*{}*", file.parsed.job.empty() ? job : file.parsed.job))));
  }
  ShardSet set;
  set.directory = files[0].directory;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i > 0 && rank(files[i - 1]) == rank(files[i])) {
      return absl::DataLossError(
          fmt::format("{}: the same part under more than one name: {}, {}; remove the wrong one",
                      spec, files[i - 1].name, files[i].name));
    }
    set.paths.push_back(JoinPath(files[i].directory, files[i].name));
  }
  return set;
}

absl::StatusOr<ShardSet> OnlyOne(std::string_view spec, const Names& names,
                                 std::string_view advice) {
  const size_t kinds = names.sets.size() + !names.spark.empty() + !names.plain.empty();
  if (kinds > 1) {
    return absl::InvalidArgumentError(fmt::format("{}: files that do not belong together: {}; {}",
                                                  spec, fmt::join(Describe(names), ", "), advice));
  }
  if (!names.sets.empty()) {
    return WholeSet(spec, names.sets.begin()->first, names.sets.begin()->second,
                    "; to read a part of the set, name its files one by one");
  }
  if (!names.spark.empty()) return SparkSet(spec, names);
  ShardSet set;
  for (const PathParts& file : names.plain) {
    set.paths.push_back(JoinPath(file.directory, file.name));
  }
  std::sort(set.paths.begin(), set.paths.end());
  set.directory = SplitPath(set.paths[0]).directory;
  return set;
}

}  // namespace shardfeed
