// Finds credentials for S3 in the places where Amazon's own tools look.

#ifndef SHARDFEED_NET_AWS_CREDENTIALS_H_
#define SHARDFEED_NET_AWS_CREDENTIALS_H_

#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "net/sigv4.h"

namespace shardfeed {

struct AwsCredentials {
  SigningKey key;
  std::optional<std::time_t> expires;
  std::string source;  // where they were found, for messages: "the environment"
};

// Looks in this order:
//
//   1. AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   2. AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: Kubernetes' service accounts, by STS
//   3. `profile`: aws_access_key_id and aws_secret_access_key of ReadProfile()
//   4. AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI: containers of ECS and EKS
//   5. the metadata service of EC2, version 2, unless AWS_EC2_METADATA_DISABLED is true
//
// Returns nullopt if there are none. Unavailable: credentials are configured, but cannot be
// obtained. Waits for servers.
absl::StatusOr<std::optional<AwsCredentials>> FindAwsCredentials(
    const std::map<std::string, std::string>& profile, const std::string& region);

// Credentials that a background thread renews minutes before they expire. Thread-safe.
class AwsCredentialsCache {
 public:
  AwsCredentialsCache(std::map<std::string, std::string> profile, std::string region,
                      AwsCredentials first);

  // Returns the current credentials without waiting.
  AwsCredentials Get();
  // Tells that the server refused the credentials as expired. Starts to renew them, unless that was
  // tried just now, and does not wait. Returns whether new credentials can be expected.
  bool Expired();

 private:
  struct State {
    Mutex mutex;
    AwsCredentials credentials ABSL_GUARDED_BY(mutex);
    bool refreshing ABSL_GUARDED_BY(mutex) = false;
    std::time_t tried ABSL_GUARDED_BY(mutex) = 0;
    std::time_t replaced ABSL_GUARDED_BY(mutex) = 0;
  };
  void Refresh() const;

  const std::map<std::string, std::string> profile_;
  const std::string region_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_AWS_CREDENTIALS_H_
