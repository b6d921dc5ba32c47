#include "shard/spec.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <compare>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "nlohmann/json.hpp"
#include "shard/manifest_seal.h"
#include "shard/staging.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

// Digits of the number in the name of a Spark or Hadoop file.
constexpr size_t kMinPartDigits = 5;
// A manifest has some hundred bytes a shard.
constexpr uint64_t kMaxJsonBytes = 512 << 20;
constexpr char kNulError[] = "the name of a dataset has a NUL character in it";
// Names in one list of an error message.
constexpr size_t kNamesShown = 5;

// ---- Text

bool HasWildcard(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes `text` off the front of `rest` if it stands there.
bool Consume(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

// "a, b, c and 7 more" of `total` names, the first of which are given.
std::string FirstOf(const std::vector<std::string>& names, uint64_t total) {
  const size_t shown = std::min(names.size(), kNamesShown);
  const std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  return total > shown ? fmt::format("{} and {} more", text, total - shown) : text;
}

std::string FirstOf(const std::vector<std::string>& names) { return FirstOf(names, names.size()); }

// "1 file", "2 files"
std::string Count(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

// A file that Spark or Hadoop wrote: part-[r-]PART[-JOB][_BUCKET][-cFILE][.suffix]. One task writes
// several buckets and, past maxRecordsPerFile, several files.
struct SparkName {
  std::string_view job;  // a UUID, empty where Hadoop wrote the file
  uint64_t part = 0;
  uint64_t bucket = 0;
  uint64_t file = 0;
};

bool IsUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool hex = IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    if (dash ? c != '-' : !hex) return false;
  }
  return true;
}

std::optional<SparkName> ParseSparkName(std::string_view name) {
  SparkName result;
  std::string_view rest = name;
  if (!Consume(rest, "part-")) return std::nullopt;
  if (!Consume(rest, "r-")) Consume(rest, "m-");
  const size_t digits = LeadingDigits(rest);
  const std::optional<uint64_t> part = ParseNumber(rest.substr(0, digits));
  if (digits < kMinPartDigits || !part) return std::nullopt;
  result.part = *part;
  rest.remove_prefix(digits);
  if (rest.starts_with('-') && IsUuid(rest.substr(1, 36))) {
    result.job = rest.substr(1, 36);
    rest.remove_prefix(37);
  }
  // A number after `mark`, up to a character that ends it.
  const auto number = [&rest](std::string_view mark, uint64_t& value) {
    if (!rest.starts_with(mark)) return;
    const std::string_view after = rest.substr(mark.size());
    const size_t digits = LeadingDigits(after);
    const std::optional<uint64_t> parsed = ParseNumber(after.substr(0, digits));
    const bool ends = after.size() == digits || after[digits] == '.' || after[digits] == '-';
    if (!parsed || !ends) return;
    value = *parsed;
    rest = after.substr(digits);
  };
  number("_", result.bucket);
  const std::string_view before_file = rest;
  number("-c", result.file);
  // Spark writes ".c000" in partitioned output.
  if (rest == before_file) number(".c", result.file);
  if (!rest.empty() && rest[0] != '.') return std::nullopt;
  return result;
}

// What lies beside shards without being one: hidden files, indexes, checksums, descriptions, marks,
// files being written.
bool IsSidecar(std::string_view name) {
  return name.starts_with('.') || name.ends_with(".idx") || name.ends_with(".tfindex") ||
         name.ends_with(".crc") || name.ends_with(".json") || name == "_SUCCESS" ||
         name.find(".tmp") != name.npos;
}

// ---- Specs

// The file name part of a spec with an '@'.
struct AtForm {
  std::string_view stem;
  std::optional<uint64_t> count;  // none for '*'
  std::string_view suffix;
};

// nullopt: what follows the last '@' is not N or *, then nothing or .suffix.
std::optional<AtForm> ParseAtForm(std::string_view name) {
  const size_t at = name.rfind('@');
  if (at == name.npos) return std::nullopt;
  AtForm form{.stem = name.substr(0, at), .count = {}, .suffix = name.substr(at + 1)};
  if (!Consume(form.suffix, "*")) {
    const size_t digits = LeadingDigits(form.suffix);
    form.count = ParseNumber(form.suffix.substr(0, digits));
    if (!form.count) return std::nullopt;
    form.suffix.remove_prefix(digits);
  }
  if (!form.suffix.empty() && (form.suffix[0] != '.' || form.suffix.size() == 1)) {
    return std::nullopt;
  }
  return form;
}

std::string AfterAtError(std::string_view name) {
  return fmt::format(
      "after '@' expected a number of shards or *, then nothing or .suffix, as in "
      "train@64.tfrecord; found '{}'",
      name.substr(name.rfind('@') + 1));
}

// Whether `directory` belongs to the kernel, so that what is written there is not kept. /dev/shm is
// a folder like others, in memory.
bool IsSystemFolder(std::string_view directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::weakly_canonical(directory.empty() ? "." : directory, error);
  if (error) path = fs::path(directory).lexically_normal();
  const std::string real = path.string() + "/";
  if (real.starts_with("/dev/shm/")) return false;
  return real.starts_with("/dev/") || real.starts_with("/proc/") || real.starts_with("/sys/");
}

// ---- Folders

struct Folder {
  std::vector<std::string> files;
  std::vector<std::string> folders;

  bool HasFile(std::string_view name) const {
    return std::find(files.begin(), files.end(), name) != files.end();
  }
  bool HasFolder(std::string_view name) const {
    return std::find(folders.begin(), folders.end(), name) != folders.end();
  }
};

// In no order. Pipes, sockets and devices are left out, but those that have the name of a shard:
// who opens it tells what it is.
absl::StatusOr<Folder> List(const std::string& path) {
  const std::string display = path.empty() ? "." : path;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(display.c_str()), ::closedir);
  if (directory == nullptr) return ErrnoStatus(errno, display, "list the folder");
  Folder folder;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, display, "list the folder");
      return folder;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    bool is_folder = entry->d_type == DT_DIR;
    bool is_file = entry->d_type == DT_REG;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
      struct stat info;
      const bool found = ::fstatat(::dirfd(directory.get()), entry->d_name, &info, 0) == 0;
      is_folder = found && S_ISDIR(info.st_mode);
      is_file = !found || S_ISREG(info.st_mode);
    }
    is_file |= !is_folder && ViewShardName(name).has_value();
    if (is_folder) folder.folders.emplace_back(name);
    if (is_file) folder.files.emplace_back(name);
  }
}

// The datasets of the folders that were looked at, each as it was before the folder was listed.
using Versions = std::vector<DatasetVersion>;

// The listing of a folder in which every dataset that was committed is in place. `sidecars`, if
// asked for, is that of the hidden folder.
absl::StatusOr<Folder> ListCommitted(const std::string& path, Versions* seen,
                                     Folder* sidecars = nullptr) {
  absl::StatusOr<Folder> hidden = List(SidecarPath(path));
  const bool absent =
      absl::IsNotFound(hidden.status()) || absl::IsFailedPrecondition(hidden.status());
  if (!hidden.ok() && !absent) return hidden.status();
  bool moved = false;
  if (!hidden.ok()) hidden = Folder();
  for (const std::vector<std::string>* names : {&hidden->files, &hidden->folders}) {
    for (const std::string& name : *names) {
      if (!name.ends_with(kCommitEnding)) continue;
      const std::string stem = name.substr(0, name.size() - kCommitEnding.size());
      if (absl::Status status = FinishCommit(path, stem); !status.ok()) return status;
      moved = true;
    }
  }
  if (moved) hidden = List(SidecarPath(path));
  if (!hidden.ok()) return hidden.status();
  for (const std::string& name : hidden->files) {
    if (!name.ends_with(kManifestEnding)) continue;
    seen->push_back(DatasetVersion::Of(path, name.substr(0, name.size() - kManifestEnding.size())));
  }
  if (sidecars != nullptr) *sidecars = *std::move(hidden);
  return List(path);
}

// ---- Files sorted by what their names say

struct SetKey {
  std::string_view directory;
  std::string_view stem;
  std::string_view suffix;
  uint64_t count;

  auto operator<=>(const SetKey&) const = default;

  std::string Spec() const { return FormatSpec(directory, stem, count, suffix); }
};

struct Member {
  uint64_t index;
  std::string_view name;

  auto operator<=>(const Member&) const = default;
};

struct SparkFile {
  std::string_view directory;
  std::string_view name;
  SparkName parsed;
};

// Views into the listing of the folders, which must outlive this.
struct Names {
  std::map<SetKey, std::vector<Member>> sets;
  std::vector<SparkFile> spark;
  std::vector<PathParts> plain;

  void Add(std::string_view directory, std::string_view name) {
    if (const std::optional<ShardNameView> shard = ViewShardName(name)) {
      sets[{directory, shard->stem, shard->suffix, shard->count}].push_back({shard->index, name});
    } else if (const std::optional<SparkName> part = ParseSparkName(name)) {
      spark.push_back({directory, name, *part});
    } else {
      plain.push_back({directory, name});
    }
  }

  void AddAllButSidecars(std::string_view directory, const std::vector<std::string>& files) {
    for (const std::string& name : files) {
      if (!IsSidecar(name)) Add(directory, name);
    }
  }
};

std::vector<std::string> NamesOf(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (const Member& member : members) names.emplace_back(member.name);
  return names;
}

// One text for each dataset that the names make up, and one for all other files.
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

// ---- From names to a ShardSet

// Checks that `members` are all shards of the set, each once. `advice` ends the message about
// missing ones.
absl::StatusOr<ShardSet> WholeSet(std::string_view spec, const SetKey& key,
                                  std::vector<Member> members, std::string_view advice = "") {
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

// The files of one Spark job in the order of their parts. Spark leaves empty parts out.
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

// ---- stem@10, stem@*

// `a` and `b` may be two ways of writing one name: train, train.tfrecord.
bool Related(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

// What to say where `stem` was not found: sets of nearly that name, else any; and that somebody is
// writing it.
std::string Hint(const std::string& directory, std::string_view stem, const Folder& folder) {
  Names names;
  names.AddAllButSidecars(directory, folder.files);
  std::string_view example;
  std::vector<std::string> related;
  std::vector<std::string> others;
  for (const auto& [key, members] : names.sets) {
    if (!Related(stem, key.stem)) {
      others.push_back(key.Spec());
      continue;
    }
    if (related.empty()) example = std::min_element(members.begin(), members.end())->name;
    related.push_back(key.Spec());
  }
  std::string hint;
  struct stat info;
  const std::string staging = StagingPath(directory, stem);
  const bool being_written = ::stat(staging.c_str(), &info) == 0;
  if (being_written) {
    hint = fmt::format("; it is being written, or its writer did not finish: {} is there", staging);
  }
  if (!related.empty()) {
    hint += fmt::format("; found {} ...; did you mean {}", example,
                        fmt::join(related.begin(),
                                  related.begin() + std::min(related.size(), kNamesShown), " or "));
  } else if (!others.empty() && !being_written) {
    hint = fmt::format("; the folder has {}", FirstOf(others));
  }
  return hint;
}

absl::StatusOr<ShardSet> ResolveAt(std::string_view spec, const std::string& directory,
                                   const Folder& folder, const AtForm& form) {
  Names found;
  for (const std::string& name : folder.files) {
    const std::optional<ShardNameView> shard = ViewShardName(name);
    if (shard && shard->stem == form.stem && shard->suffix == form.suffix &&
        (!form.count || shard->count == *form.count)) {
      found.Add(directory, name);
    }
  }
  if (found.sets.size() == 1) {
    return WholeSet(spec, found.sets.begin()->first, found.sets.begin()->second);
  }
  if (found.sets.empty()) {
    return absl::NotFoundError(
        fmt::format("{}: no such shards{}", spec, Hint(directory, form.stem, folder)));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: shards of more than one set: {}; name one of them, or remove the leftovers",
                  spec, fmt::join(Describe(found), ", ")));
}

// ---- Globs

// The listing of a folder that a wildcard led to: empty where there is no such folder, for then the
// name just does not match. A folder that the user wrote out must be there.
absl::StatusOr<Folder> ListMatch(const std::string& path, bool behind_wildcard, Versions* seen) {
  absl::StatusOr<Folder> folder = ListCommitted(path, seen);
  const bool absent =
      absl::IsNotFound(folder.status()) || absl::IsFailedPrecondition(folder.status());
  if (behind_wildcard && absent) return Folder();
  return folder;
}

// The folders that a pattern names; behind a wildcard, not all of them need to exist.
absl::StatusOr<std::vector<std::string>> ExpandFolders(std::string_view pattern, Versions* seen) {
  std::vector<std::string> found = {pattern.starts_with('/') ? "/" : ""};
  bool behind_wildcard = false;
  while (!pattern.empty()) {
    const std::string part(pattern.substr(0, pattern.find('/')));
    pattern.remove_prefix(std::min(part.size() + 1, pattern.size()));
    if (part.empty()) continue;
    std::vector<std::string> next;
    for (const std::string& directory : found) {
      if (!HasWildcard(part)) {
        next.push_back(JoinPath(directory, part));
        continue;
      }
      absl::StatusOr<Folder> folder = ListMatch(directory, behind_wildcard, seen);
      if (!folder.ok()) return folder.status();
      for (const std::string& name : folder->folders) {
        if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) {
          next.push_back(JoinPath(directory, name));
        }
      }
    }
    behind_wildcard |= HasWildcard(part);
    found = std::move(next);
  }
  return found;
}

// The set, the Spark job or the plain files that `names` are, whichever they all are.
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

absl::StatusOr<ShardSet> ResolveGlob(const std::string& spec, Versions* seen) {
  // fnmatch would take it for '*', and what lies deeper would be left out without a word.
  if (fmt::format("/{}/", spec).find("/**/") != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: '**' is not known; write one * for each level of folders", spec));
  }
  const PathParts parts = SplitPath(spec);
  absl::StatusOr<std::vector<std::string>> directories = ExpandFolders(parts.directory, seen);
  if (!directories.ok()) return directories.status();
  const std::string pattern(parts.name);
  const auto matches = [&pattern](const std::string& name) {
    return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
  };
  std::vector<std::pair<std::string, Folder>> listed;
  for (const std::string& directory : *directories) {
    absl::StatusOr<Folder> folder = ListMatch(directory, HasWildcard(parts.directory), seen);
    if (!folder.ok()) return folder.status();
    listed.emplace_back(directory, *std::move(folder));
  }
  Names names;
  std::vector<std::string> left_out;
  for (const auto& [directory, folder] : listed) {
    for (const std::string& name : folder.files) {
      if (!matches(name)) continue;
      if (IsSidecar(name)) {
        left_out.push_back(name);
      } else {
        names.Add(directory, name);
      }
    }
    for (const std::string& name : folder.folders) {
      if (matches(name)) left_out.push_back(name + "/");
    }
  }
  if (names.sets.empty() && names.spark.empty() && names.plain.empty()) {
    std::sort(left_out.begin(), left_out.end());
    return absl::NotFoundError(fmt::format(
        "{}: no file matches{}{}", spec,
        left_out.empty() ? "" : "; folders and sidecars are left out: ", FirstOf(left_out)));
  }
  return OnlyOne(spec, names, "name one dataset by stem@N, or narrow the pattern");
}

// ---- Folders that are datasets

// A dataset in a folder, as a description there tells.
struct Described {
  std::string stem;
  std::optional<uint64_t> count;
  std::string suffix;

  std::string Spec(std::string_view directory) const {
    return FormatSpec(directory, stem, count, suffix);
  }
  absl::StatusOr<ShardSet> Resolve(const std::string& directory, const Folder& folder) const {
    return ResolveAt(Spec(directory), directory, folder, {stem, count, suffix});
  }
};

// The member `key` where it is a text, else nothing.
std::string TextOf(const Json& object, const char* key) {
  const auto member = object.find(key);
  return member != object.end() && member->is_string() ? member->get<std::string>() : "";
}

absl::StatusOr<Described> ReadManifestName(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  // The list of shards may be long, and is not needed.
  Json json;
  absl::Status status = ParseTopOfJson(*text, &json);
  if (status.ok()) status = CheckManifestSeal(*text, json);
  JsonMembers members;
  const std::string stem = status.ok() ? members.Text(json, "stem") : "";
  const std::string suffix = status.ok() ? members.Text(json, "suffix") : "";
  const uint64_t count = status.ok() ? members.Number(json, "num_shards") : 0;
  if (status.ok() && stem.empty()) members.Fail("\"stem\" is empty");
  status.Update(members.status());
  if (!status.ok()) {
    return absl::DataLossError(fmt::format(
        "{}: not a manifest of shardfeed: {}; name the shards by stem@N instead of the folder",
        path, std::string(status.message())));
  }
  if (SplitPath(path).name != stem + std::string(kManifestEnding)) {
    return absl::DataLossError(
        fmt::format("{}: describes '{}'; was it renamed? Name the shards by stem@N instead of the "
                    "folder",
                    path, stem));
  }
  return Described{stem, count, suffix};
}

absl::StatusOr<ShardSet> ResolveManifests(const std::string& spec, const Folder& folder,
                                          const std::vector<std::string>& manifests) {
  std::vector<Described> datasets;
  for (const std::string& name : manifests) {
    absl::StatusOr<Described> dataset =
        ReadManifestName(fmt::format("{}/{}", JoinPath(spec, kSidecarFolder), name));
    if (!dataset.ok()) return dataset.status();
    datasets.push_back(*std::move(dataset));
  }
  if (datasets.size() == 1) return datasets[0].Resolve(spec, folder);
  std::vector<std::string> specs;
  for (const Described& dataset : datasets) specs.push_back(dataset.Spec(spec));
  std::sort(specs.begin(), specs.end());
  return absl::InvalidArgumentError(fmt::format("{}: holds {} datasets; name one of them: {}", spec,
                                                specs.size(), FirstOf(specs)));
}

// `text` with each {NAME} replaced. nullopt: a name that is not known.
std::optional<std::string> Fill(std::string_view text,
                                const std::map<std::string_view, std::string_view>& values) {
  std::string filled;
  while (!text.empty()) {
    if (text[0] != '{') {
      filled += text[0];
      text.remove_prefix(1);
      continue;
    }
    const size_t end = text.find('}');
    if (end == text.npos) return std::nullopt;
    const auto value = values.find(text.substr(1, end - 1));
    if (value == values.end()) return std::nullopt;
    filled += value->second;
    text.remove_prefix(end + 1);
  }
  return filled;
}

constexpr char kTfdsInfo[] = "dataset_info.json";

// The splits of a TFDS dataset, with their names; none where `path` is not the description of one.
// That is tensorflow_datasets' DatasetInfo as proto3 JSON: 64-bit numbers are strings, and what is
// empty is left out.
absl::StatusOr<std::vector<std::pair<std::string, Described>>> ReadTfdsSplits(
    const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxJsonBytes);
  if (!text.ok()) return text.status();
  Json info;
  if (absl::Status status = ParseBoundedJson(*text, &info); !status.ok()) {
    return absl::DataLossError(
        fmt::format("{}: cannot be read as TFDS's description of a dataset: it is not JSON: {}",
                    path, std::string(status.message())));
  }
  std::vector<std::pair<std::string, Described>> splits;
  // Hugging Face has a file of this name too; its splits are not a list, and say nothing of files.
  const auto listed = info.find("splits");
  if (listed == info.end() || !listed->is_array()) return splits;
  const std::string dataset = TextOf(info, "name");
  std::string format = TextOf(info, "fileFormat");
  if (format.empty()) format = "tfrecord";
  if (format != "tfrecord") {
    return absl::InvalidArgumentError(
        fmt::format("{}: the shards are {} files; only tfrecord files can be read", path, format));
  }
  for (const Json& split : *listed) {
    const std::string name = TextOf(split, "name");
    std::string pattern = TextOf(split, "filepathTemplate");
    if (pattern.empty()) pattern = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}";
    // The name of some shard tells what all of them share.
    const std::optional<std::string> example = Fill(pattern, {{"DATASET", dataset},
                                                              {"SPLIT", name},
                                                              {"FILEFORMAT", format},
                                                              {"SHARD_X_OF_Y", "00000-of-00001"},
                                                              {"SHARD_INDEX", "00000"},
                                                              {"NUM_SHARDS", "00001"}});
    const std::optional<ShardNameView> shard = example ? ViewShardName(*example) : std::nullopt;
    if (name.empty() || !shard || example->find('/') != std::string::npos) {
      return absl::DataLossError(
          fmt::format("{}: the files of split '{}' cannot be told from its filepathTemplate '{}'; "
                      "name them by a glob",
                      path, name, pattern));
    }
    const auto lengths = split.find("shardLengths");
    std::optional<uint64_t> count;
    if (lengths != split.end() && lengths->is_array()) count = lengths->size();
    splits.emplace_back(name,
                        Described{std::string(shard->stem), count, std::string(shard->suffix)});
  }
  if (splits.empty()) return absl::NotFoundError(fmt::format("{}: lists no splits", path));
  return splits;
}

absl::StatusOr<ShardSet> ResolveFolder(const std::string& spec, Versions* seen) {
  Folder sidecars;
  absl::StatusOr<Folder> folder = ListCommitted(spec, seen, &sidecars);
  if (!folder.ok()) return folder.status();
  std::vector<std::string> manifests;
  for (const std::string& name : sidecars.files) {
    if (name.ends_with(kManifestEnding)) manifests.push_back(name);
  }
  if (!manifests.empty()) return ResolveManifests(spec, *folder, manifests);
  if (folder->HasFile(kTfdsInfo)) {
    const auto splits = ReadTfdsSplits(JoinPath(spec, kTfdsInfo));
    if (!splits.ok()) return splits.status();
    if (splits->size() == 1) return splits->front().second.Resolve(spec, *folder);
    std::vector<std::string> names;
    for (const auto& [name, split] : *splits) names.push_back(JoinPath(spec, name));
    if (!names.empty()) {
      return absl::InvalidArgumentError(fmt::format("{}: a TFDS dataset of {} splits; name one: {}",
                                                    spec, names.size(), fmt::join(names, ", ")));
    }
  }
  Names names;
  names.AddAllButSidecars(spec, folder->files);
  if (!names.spark.empty() && names.sets.empty()) {
    if (!folder->HasFile("_SUCCESS")) {
      return absl::FailedPreconditionError(fmt::format(
          "{}: the Spark job that wrote it did not finish: there is no _SUCCESS; to read what is "
          "there all the same, name the files by a glob: {}",
          spec, JoinPath(spec, "part-*")));
    }
    names.plain.clear();
    return SparkSet(spec, names);
  }
  if (names.sets.size() == 1 && names.spark.empty()) {
    return WholeSet(spec, names.sets.begin()->first, names.sets.begin()->second);
  }
  if (!names.sets.empty()) {
    names.plain.clear();
    return absl::InvalidArgumentError(
        fmt::format("{}: holds several sets of shards; name one of them: {}", spec,
                    fmt::join(Describe(names), ", ")));
  }
  if (names.plain.empty()) {
    std::vector<std::string> below;
    for (const std::string& name : folder->folders) {
      if (!name.starts_with('.')) below.push_back(JoinPath(spec, name));
    }
    std::sort(below.begin(), below.end());
    return absl::NotFoundError(fmt::format("{}: the folder holds no shards{}{}", spec,
                                           below.empty() ? "" : "; the folders in it are ",
                                           FirstOf(below)));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: the folder holds no set of shards, but {}; name files by a glob", spec,
                  fmt::join(Describe(names), ", ")));
}

// ---- Lists of files

// One file under two spellings of its folder counts as twice.
absl::Status CheckNoneTwice(const std::vector<std::string>& paths) {
  std::unordered_map<std::string_view, std::string> real_folders;
  std::vector<std::pair<std::string, std::string_view>> files;  // the real path, and as written
  files.reserve(paths.size());
  for (const std::string& path : paths) {
    const PathParts parts = SplitPath(path);
    const auto [folder, added] = real_folders.try_emplace(parts.directory, parts.directory);
    if (added) {
      std::error_code error;
      const std::filesystem::path written(parts.directory.empty() ? "." : parts.directory);
      const std::filesystem::path real = std::filesystem::canonical(written, error);
      if (!error) folder->second = real.string();
    }
    files.emplace_back(JoinPath(folder->second, parts.name), path);
  }
  std::sort(files.begin(), files.end());
  for (size_t i = 1; i < files.size(); ++i) {
    if (files[i - 1].first != files[i].first) continue;
    const bool same = files[i - 1].second == files[i].second;
    return absl::InvalidArgumentError(fmt::format("{}: named twice{}{}", files[i - 1].second,
                                                  same ? "" : ", also as ",
                                                  same ? "" : files[i].second));
  }
  return absl::OkStatus();
}

// ---- Specs that are read

constexpr int kMaxListings = 20;

// ResolveSpec, while nobody replaces the dataset.
absl::StatusOr<ShardSet> Resolve(const std::string& spec, Versions* seen) {
  if (spec.empty()) return absl::InvalidArgumentError("an empty name names no dataset");
  if (absl::Status status = CheckIsPath(spec); !status.ok()) return status;
  std::string path = spec;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.find('\0') != path.npos) return absl::InvalidArgumentError(kNulError);
  struct stat info;
  const bool exists = ::stat(path.c_str(), &info) == 0;
  // A glob may be longer than a name can be.
  if (!exists && errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG) {
    return ErrnoStatus(errno, path, "look up");
  }
  const PathParts parts = SplitPath(path);
  // A disk has a size and can be read anywhere, as a file can; a pipe cannot.
  if (exists && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: neither a file nor a folder; write what it gives to a file first", spec));
  }
  if (exists && !S_ISDIR(info.st_mode)) {
    ShardSet set;
    set.directory = parts.directory;
    set.stem = parts.name;
    set.paths = {path};
    return set;
  }
  if (exists) return ResolveFolder(path, seen);
  const std::optional<AtForm> form = ParseAtForm(parts.name);
  if (form && !HasWildcard(form->stem) && !HasWildcard(parts.directory)) {
    if (form->stem.empty()) {
      return absl::InvalidArgumentError(fmt::format("{}: a name is missing before '@'", spec));
    }
    if (form->count == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the number of shards is 0, and must be from 1 on, or *", spec));
    }
    const std::string directory(parts.directory);
    if (absl::Status status = FinishCommit(directory, std::string(form->stem)); !status.ok()) {
      return status;
    }
    seen->push_back(DatasetVersion::Of(directory, std::string(form->stem)));
    absl::StatusOr<Folder> folder = List(directory);
    if (!folder.ok()) return folder.status();
    return ResolveAt(path, directory, *folder, *form);
  }
  if (HasWildcard(path)) return ResolveGlob(path, seen);
  if (parts.name.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", spec, AfterAtError(parts.name)));
  }
  absl::StatusOr<Folder> folder = ListCommitted(std::string(parts.directory), seen);
  if (!folder.ok()) return folder.status();
  if (folder->HasFile(kTfdsInfo)) {
    const auto splits = ReadTfdsSplits(JoinPath(parts.directory, kTfdsInfo));
    if (!splits.ok()) return splits.status();
    for (const auto& [name, split] : *splits) {
      if (name == parts.name) return split.Resolve(std::string(parts.directory), *folder);
    }
  }
  return absl::NotFoundError(fmt::format("{}: no such file or folder{}", spec,
                                         Hint(std::string(parts.directory), parts.name, *folder)));
}

}  // namespace

absl::Status CheckIsPath(std::string_view path) {
  const size_t end = path.find("://");
  const std::string_view scheme = path.substr(0, end == path.npos ? 0 : end);
  const bool is_scheme =
      !scheme.empty() && std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
      });
  if (!is_scheme) return absl::OkStatus();
  const std::string_view rest = path.substr(end + 3);
  if (scheme == "file" && rest.starts_with('/')) {
    return absl::InvalidArgumentError(fmt::format("{}: write it as the plain path {}", path, rest));
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: {}:// is not known; what is read and written are local paths (of a folder "
                  "that is called so, ./{}:/...)",
                  path, scheme, scheme));
}

absl::StatusOr<OutputSpec> ParseOutputSpec(std::string_view spec) {
  if (spec.find('\0') != spec.npos) return absl::InvalidArgumentError(kNulError);
  if (absl::Status status = CheckIsPath(spec); !status.ok()) return status;
  const PathParts parts = SplitPath(spec);
  const auto wrong = [&spec](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", spec, what));
  };
  if (spec == "-") {
    return wrong(
        "a dataset is several files, which standard output cannot be; write it as folder/name@N, "
        "for example out/train@16");
  }
  if (IsSystemFolder(parts.directory)) {
    return wrong(fmt::format(
        "a dataset is several files, and {} is not a folder on a disk; write it as folder/name@N, "
        "for example out/train@16",
        parts.directory));
  }
  OutputSpec output;
  output.directory = parts.directory;
  if (parts.name.find('@') == std::string_view::npos) {
    output.stem = parts.name;
  } else {
    const std::optional<AtForm> form = ParseAtForm(parts.name);
    if (!form) return wrong(AfterAtError(parts.name));
    if (form->count && (*form->count == 0 || *form->count > kMaxShards)) {
      return wrong(
          fmt::format("the number of shards is {}, and must be 1 to {}", *form->count, kMaxShards));
    }
    output.stem = form->stem;
    output.suffix = form->suffix;
    output.count = form->count;
  }
  if (output.stem.empty()) {
    return wrong("a name is missing: write it as folder/name@N, for example out/train@16");
  }
  if (output.stem.starts_with('-')) {
    return wrong("a dataset's name must not begin with '-', which programs take for an option");
  }
  if (output.stem.find('@') != std::string::npos || HasWildcard(output.stem) ||
      HasWildcard(output.suffix)) {
    return wrong("a dataset's name must not contain @, *, ? or [");
  }
  if (const std::optional<ShardNameView> shard = ViewShardName(output.stem)) {
    return wrong(fmt::format("this is the name of one shard; name the dataset, as in {}",
                             FormatSpec(output.directory, shard->stem,
                                        std::max<uint64_t>(shard->count, 1), shard->suffix)));
  }
  const std::string name = ShardName(output.stem, 0, output.count.value_or(1), output.suffix);
  if (IsSidecar(name)) {
    return wrong("files of this name would be taken for hidden files or sidecars");
  }
  const std::optional<ShardNameView> parsed = ViewShardName(name);
  if (!parsed || parsed->stem != output.stem || parsed->suffix != output.suffix) {
    return wrong("shards of this name could not be told apart again");
  }
  return output;
}

absl::StatusOr<ShardSet> ResolveSpec(const std::string& spec) {
  for (int attempt = 1;; ++attempt) {
    Versions seen;
    absl::StatusOr<ShardSet> set = Resolve(spec, &seen);
    absl::Status unchanged;
    if (!set.ok()) {
      // What seems to be missing may have been replaced while the folder was listed.
      for (const DatasetVersion& version : seen) unchanged.Update(version.CheckUnchanged());
    } else if (set->sharded_name) {
      const auto it = std::find_if(seen.begin(), seen.end(), [&](const DatasetVersion& version) {
        return version.directory() == set->directory && version.stem() == set->stem;
      });
      set->version = it != seen.end() ? *it : DatasetVersion(set->directory, set->stem);
      unchanged = set->version.CheckUnchanged();
    }
    if (unchanged.ok()) return set;
    if (attempt == kMaxListings) return unchanged;
  }
}

absl::StatusOr<ShardSet> ResolveSpecs(const std::vector<std::string>& specs) {
  if (specs.empty()) return absl::InvalidArgumentError("no dataset is named");
  if (specs.size() == 1) return ResolveSpec(specs[0]);
  ShardSet all;
  for (const std::string& spec : specs) {
    absl::StatusOr<ShardSet> set = ResolveSpec(spec);
    if (!set.ok()) return set.status();
    if (all.paths.empty()) all.directory = set->directory;
    all.paths.insert(all.paths.end(), set->paths.begin(), set->paths.end());
  }
  if (absl::Status status = CheckNoneTwice(all.paths); !status.ok()) return status;
  // What the shell made of a glob: one whole set, in its order?
  const PathParts first = SplitPath(all.paths[0]);
  const std::optional<ShardNameView> shard = ViewShardName(first.name);
  if (!shard || shard->count != all.paths.size()) return all;
  for (size_t i = 0; i < all.paths.size(); ++i) {
    const std::string name = ShardName(shard->stem, i, shard->count, shard->suffix);
    if (all.paths[i] != JoinPath(first.directory, name)) return all;
  }
  // The files that the shell named may be of the old dataset and of the new one.
  absl::Status status = FinishCommit(std::string(first.directory), std::string(shard->stem));
  if (!status.ok()) return status;
  all.stem = shard->stem;
  all.suffix = shard->suffix;
  all.sharded_name = true;
  all.version = DatasetVersion::Of(all.directory, all.stem);
  return all;
}

}  // namespace shardfeed
