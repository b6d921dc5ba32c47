#include "shard/names/names.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr size_t kMinDigits = 5;
constexpr std::string_view kStagingEnding = ".incomplete";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t TrailingDigits(std::string_view text) {
  return std::find_if_not(text.rbegin(), text.rend(), IsDigit) - text.rbegin();
}

}  // namespace

size_t LeadingDigits(std::string_view text) {
  return std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin();
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<ShardNameView> ViewShardName(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  for (size_t of = name.rfind(kOf); of != name.npos && of > 0; of = name.rfind(kOf, of - 1)) {
    const std::string_view before = name.substr(0, of);
    const std::string_view after = name.substr(of + kOf.size());
    const size_t index_digits = TrailingDigits(before);
    const size_t count_digits = LeadingDigits(after);
    if (index_digits < kMinDigits || count_digits < kMinDigits) continue;
    if (before.size() < index_digits + 2 || before[before.size() - index_digits - 1] != '-') {
      continue;
    }
    const std::string_view suffix = after.substr(count_digits);
    if (!suffix.empty() && (suffix[0] != '.' || suffix.size() == 1)) continue;
    const std::optional<uint64_t> index = ParseNumber(before.substr(before.size() - index_digits));
    const std::optional<uint64_t> count = ParseNumber(after.substr(0, count_digits));
    if (!index || !count) continue;
    return ShardNameView{before.substr(0, before.size() - index_digits - 1), *index, *count,
                         suffix};
  }
  return std::nullopt;
}

std::string ShardName(std::string_view stem, uint64_t index, uint64_t count,
                      std::string_view suffix) {
  const size_t width = std::max(kMinDigits, fmt::formatted_size("{}", count));
  return fmt::format("{}-{:0{}}-of-{:0{}}{}", stem, index, width, count, width, suffix);
}

std::optional<ParsedName> ParseShardName(std::string_view file_name) {
  const std::optional<ShardNameView> name = ViewShardName(file_name);
  if (!name) return std::nullopt;
  return ParsedName{std::string(name->stem), name->index, name->count, std::string(name->suffix)};
}

std::string NoteOnSuffix(std::string_view suffix, std::string_view compression) {
  const std::string_view last = suffix.substr(std::min(suffix.rfind('.'), suffix.size()));
  constexpr std::string_view kOthers[] = {".zip", ".bz2", ".xz", ".zst", ".lz4", ".7z", ".tgz"};
  std::string lower(last);
  absl::AsciiStrToLower(&lower);
  const std::string_view named = lower == ".gz" || lower == ".gzip" ? "gzip"
                                 : lower == ".zlib"                 ? "zlib"
                                 : std::ranges::find(kOthers, lower) != std::end(kOthers)
                                     ? "another"
                                     : compression;
  if (named == compression) return "";
  return fmt::format("the suffix {} does not choose a compression: the shards are {}{}", last,
                     compression == "none" ? "not compressed" : "compressed with ",
                     compression == "none" ? "" : compression);
}

std::string FormatSpec(std::string_view directory, std::string_view stem,
                       std::optional<uint64_t> count, std::string_view suffix) {
  return JoinPath(directory, count ? fmt::format("{}@{}{}", stem, *count, suffix)
                                   : fmt::format("{}@*{}", stem, suffix));
}

std::string SidecarPath(std::string_view directory) { return JoinPath(directory, kSidecarFolder); }

std::string IndexPath(std::string_view shard_path) {
  const PathParts parts = SplitPath(shard_path);
  return JoinPath(parts.directory, fmt::format("{}/{}.index", kSidecarFolder, parts.name));
}

std::string ManifestPath(std::string_view directory, std::string_view stem) {
  return JoinPath(directory, fmt::format("{}/{}{}", kSidecarFolder, stem, kManifestEnding));
}

std::string IndexPackPath(std::string_view directory, std::string_view stem) {
  return JoinPath(directory, fmt::format("{}/{}{}", kSidecarFolder, stem, kIndexPackEnding));
}

std::string StagingPath(std::string_view directory, std::string_view stem) {
  return JoinPath(directory, fmt::format("{}/{}{}", kSidecarFolder, stem, kStagingEnding));
}

std::string CommitPath(std::string_view directory, std::string_view stem) {
  return JoinPath(directory, fmt::format("{}/{}{}", kSidecarFolder, stem, kCommitEnding));
}

std::string JobsPath(std::string_view directory, std::string_view stem) {
  return JoinPath(directory, fmt::format("{}/{}{}", kSidecarFolder, stem, kJobsEnding));
}

PathParts SplitPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", path};
  size_t end = slash;
  while (end > 0 && path[end - 1] == '/') --end;
  return {path.substr(0, std::max<size_t>(end, 1)), path.substr(slash + 1)};
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  const bool slash = !directory.empty() && directory.back() != '/';
  return fmt::format("{}{}{}", directory, slash ? "/" : "", name);
}

}  // namespace shardfeed
