// Credentials for object stores that the program itself provides. See docs/stores.md.

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
  std::string session_token = {};  // if S3 issued the key with one
  std::string token = {};          // OAuth; for Google and Azure (Azure accepts no keys here)
  // Seconds since the Unix epoch; nullopt: they do not expire.
  std::optional<std::time_t> expires = std::nullopt;
  // Where they are from, as messages name it: "the environment".
  std::string source = {};
};

using CredentialsFunction = std::function<absl::StatusOr<Credentials>()>;

// From now on, this process and its forks use the credentials that `function` returns instead of
// those of the environment: for one bucket or container ("s3://bucket", "gs://bucket",
// "az://container"), or for all of a scheme without a function of their own ("s3://"). Null
// restores the credentials of the environment. Open datasets and writers keep what they have.
// Thread-safe.
//
// `function` is called by the first thread that uses the bucket. It is called again on a separate
// thread five minutes before the credentials expire, and whenever the store refuses them as
// expired; several threads may call it at once for several buckets. Its error becomes that of the
// operation that used the bucket. While credentials are being renewed, an error only counts once
// the store refuses the old ones.
//
// InvalidArgument: `url` is not such a URL.
absl::Status SetCredentials(std::string_view url, CredentialsFunction function);

}  // namespace shardfeed

#endif  // SHARDFEED_CREDENTIALS_H_
