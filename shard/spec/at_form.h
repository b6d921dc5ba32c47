// Specs with an '@': stem@10, stem@*.
//
// All functions are thread-safe.

#ifndef SHARDFEED_SHARD_SPEC_AT_FORM_H_
#define SHARDFEED_SHARD_SPEC_AT_FORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shard/spec/folder_listing.h"
#include "shardfeed/spec.h"

namespace shardfeed {

inline constexpr char kNulError[] = "the name of a dataset has a NUL character in it";

inline bool HasWildcard(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

// The file name part of a spec with an '@'.
struct AtForm {
  std::string_view stem;
  std::optional<uint64_t> count;  // Nullopt for '*'.
  std::string_view suffix;
};

// Parses a name. Nullopt: the last '@' is not followed by N or *, and then by nothing or .suffix.
std::optional<AtForm> ParseAtForm(std::string_view name);
// Returns the message for a name that ParseAtForm rejects.
std::string AfterAtError(std::string_view name);

// Returns the shards of that name in `directory`, whose listing is `folder`. NotFound: there are
// none; the message says what the folder has instead. DataLoss: shards are missing, or appear
// twice. InvalidArgument: the shards belong to several sets.
absl::StatusOr<ShardSet> ResolveAt(std::string_view spec, const std::string& directory,
                                   const Folder& folder, const AtForm& form);

// Returns the end of the message for a `stem` that was not found: it says whether the dataset is
// being written, and lists sets of a similar name, or otherwise any sets.
std::string Hint(const std::string& directory, std::string_view stem, const Folder& folder);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPEC_AT_FORM_H_
