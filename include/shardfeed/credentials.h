// Credentials for object stores that the program itself gives: docs/stores.md.

#ifndef SHARDFEED_CREDENTIALS_H_
#define SHARDFEED_CREDENTIALS_H_

#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// A key, which signs requests, or a token, which is sent with them.
struct Credentials {
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};  // of a key of S3's that has one
  std::string token = {};          // OAuth; for Google and Azure, which takes no keys here
  // Seconds since the epoch; nothing: they stay valid.
  std::optional<std::time_t> expires = std::nullopt;
  // Where they are from, as messages name it: "the environment".
  std::string source = {};
};

using CredentialsFunction = std::function<absl::StatusOr<Credentials>()>;

// From now on, credentials for a bucket or container ("s3://bucket", "gs://bucket",
// "az://container"), or for all of a scheme that have none of their own ("s3://"), are those that
// `function` gives, in this process and its forks, instead of those that the environment names.
// Null: those of the environment again. Datasets and writers that are open keep what they have.
// Thread-safe.
//
// `function` is called when the bucket is first used, by the thread that uses it, and again five
// minutes before the credentials expire and where the store refuses them as expired, by a thread of
// its own; by several threads at once where several buckets need it. Its errors are those of what
// used the bucket; while credentials are replaced, they only count once the old ones are refused.
//
// InvalidArgument: `prefix` is no such URL.
absl::Status SetCredentials(std::string_view prefix, CredentialsFunction function);

}  // namespace shardfeed

#endif  // SHARDFEED_CREDENTIALS_H_
