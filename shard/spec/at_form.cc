#include "shard/spec/at_form.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/suggestion.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "net/open.h"
#include "shard/names/file_names.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

// Returns whether `a` and `b` may be two spellings of one name, such as train and train.tfrecord.
bool Related(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

}  // namespace

std::optional<AtForm> ParseAtForm(std::string_view name) {
  const size_t at = name.rfind('@');
  if (at == name.npos) return std::nullopt;
  AtForm form{.stem = name.substr(0, at), .count = {}, .suffix = name.substr(at + 1)};
  if (form.suffix.starts_with('*')) {
    form.suffix.remove_prefix(1);
  } else {
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

std::string Hint(const std::string& directory, std::string_view stem, const Folder& folder) {
  Names names;
  names.AddAllButSidecars(directory, folder.files);
  std::string_view example;
  std::vector<std::string> related;
  std::vector<std::string> others;
  std::vector<std::string> other_stems;
  for (const auto& [key, members] : names.sets) {
    if (!Related(stem, key.stem)) {
      others.push_back(key.Spec());
      other_stems.emplace_back(key.stem);
      continue;
    }
    if (related.empty()) example = std::min_element(members.begin(), members.end())->name;
    related.push_back(key.Spec());
  }
  std::string hint;
  struct stat info;
  const std::string staging = StagingPath(directory, stem);
  const bool being_written = !IsRemote(directory) && ::stat(staging.c_str(), &info) == 0;
  if (being_written) {
    hint = fmt::format("; it is being written, or its writer did not finish: {} exists", staging);
  }
  if (!related.empty()) {
    hint += fmt::format("; found {} ...; did you mean {}", example,
                        fmt::join(related.begin(),
                                  related.begin() + std::min(related.size(), kNamesShown), " or "));
  } else if (!others.empty() && !being_written) {
    hint = fmt::format("; the folder has {}{}", FirstOf(others), DidYouMean(stem, other_stems));
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

}  // namespace shardfeed
