// Specs with an '@': stem@10, stem@*.
//
// All functions are thread safe.

#ifndef SHARDFEED_SHARD_AT_FORM_H_
#define SHARDFEED_SHARD_AT_FORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shard/folder_listing.h"
#include "shardfeed/spec.h"

namespace shardfeed {

// The file name part of a spec with an '@'.
struct AtForm {
  std::string_view stem;
  std::optional<uint64_t> count;  // none for '*'
  std::string_view suffix;
};

// Nullopt: what follows the last '@' is not N or *, then nothing or .suffix.
std::optional<AtForm> ParseAtForm(std::string_view name);
// What to say then.
std::string AfterAtError(std::string_view name);

// The shards of that name in `directory`, which `folder` lists. NotFound: there are none, with what
// is there instead. DataLoss: some are missing, or there twice. InvalidArgument: of several sets.
absl::StatusOr<ShardSet> ResolveAt(std::string_view spec, const std::string& directory,
                                   const Folder& folder, const AtForm& form);

// What to say where `stem` was not found: sets of nearly that name, else any; and that somebody is
// writing it.
std::string Hint(const std::string& directory, std::string_view stem, const Folder& folder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_AT_FORM_H_
