// The manifest of a dataset that another one is to match.

#ifndef SHARDFEED_SHARD_DECLARATIONS_NAMED_MANIFEST_H_
#define SHARDFEED_SHARD_DECLARATIONS_NAMED_MANIFEST_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "shard/manifest/manifest.h"
#include "shard/schema/schema.h"

namespace shardfeed {

struct NamedManifest {
  std::string name;  // as the user wrote it
  Manifest manifest;
};

// Whether `name` can only be that of a dataset: it is a folder, a URL or a manifest, has an '@', or
// is the stem of a dataset with a manifest.
bool NamesDataset(const std::string& name);

// Reads the manifest that `name` names: a spec (shardfeed/spec.h), a dataset's stem without its
// number of shards, or the manifest's own file.
//
// Errors: those of ResolveSpec and ReadManifest. FailedPrecondition: the dataset has no manifest,
// or one of another number of shards.
absl::StatusOr<NamedManifest> ReadNamedManifest(const std::string& name);

// Compares the features of records that become `dataset` with those of `like`. FailedPrecondition:
// one of them has another kind or shape there, or is unknown there, or, if these are the `whole`
// dataset, a feature is missing that all records have there.
absl::Status CheckIsLike(const Schema& schema, bool whole, std::string_view dataset,
                         const NamedManifest& like);

// Returns the value of an option with which 'shardfeed convert' made the dataset, such as "--jpeg";
// nullopt if it was not given, or if something else made the dataset.
std::optional<std::string> OptionOf(const Manifest& manifest, std::string_view option);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_DECLARATIONS_NAMED_MANIFEST_H_
