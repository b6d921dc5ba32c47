// Tokens that servers give for a time.

#ifndef SHARDFEED_NET_TOKEN_CACHE_H_
#define SHARDFEED_NET_TOKEN_CACHE_H_

#include <ctime>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace shardfeed {

struct AccessToken {
  std::string value;
  std::time_t expires = 0;
};

// A token that is asked for again minutes before it expires, by a thread in the background.
// Thread-safe.
class TokenCache {
 public:
  // Waits for the server that gives them.
  using Find = std::function<absl::StatusOr<AccessToken>()>;
  TokenCache(Find find, AccessToken first);

  // Does not wait.
  std::string Get();
  // The token was refused as expired: asks for another one, unless that was done just now. Does not
  // wait; true if there is hope.
  bool Expired();

 private:
  struct State {
    Mutex mutex;
    AccessToken token ABSL_GUARDED_BY(mutex);
    bool refreshing ABSL_GUARDED_BY(mutex) = false;
    std::time_t tried ABSL_GUARDED_BY(mutex) = 0;
    std::time_t replaced ABSL_GUARDED_BY(mutex) = 0;
  };
  void Refresh() const;

  const Find find_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_TOKEN_CACHE_H_
