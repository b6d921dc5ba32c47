// Credentials that are renewed before they expire, and those that the program provides.

#ifndef SHARDFEED_NET_CREDENTIALS_H_
#define SHARDFEED_NET_CREDENTIALS_H_

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "shardfeed/credentials.h"

namespace shardfeed {

// Looks for credentials. Nullopt: there are none. An error: some are configured, but cannot be
// obtained. May wait for servers.
using FindCredentials = std::function<absl::StatusOr<std::optional<Credentials>>()>;

// Credentials that a background thread renews minutes before they expire.
// Thread-safe.
class CredentialsCache {
 public:
  // Looks for the first credentials, in this thread. Null: there are none. Errors: those of `find`.
  static absl::StatusOr<std::unique_ptr<CredentialsCache>> Make(FindCredentials find);

  // Does not wait.
  Credentials Get();
  // Called when the credentials were refused as expired: looks for others before the next Get
  // returns, unless that was done just now. Does not wait. Returns whether another attempt may
  // succeed.
  bool Expired();
  // Text for errors that refuse them: where they are from, and why there are no newer ones, if that
  // was tried.
  std::string Describe();

 private:
  struct State;
  explicit CredentialsCache(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void Refresh();

  const std::shared_ptr<State> state_;
};

// What SetCredentials was called with for a store.
struct GivenCredentials {
  FindCredentials find;  // checks what the function gives; null: there is none
  uint64_t number = 0;   // differs for each call of SetCredentials
};
GivenCredentials CredentialsGivenFor(std::string_view scheme, std::string_view host);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_CREDENTIALS_H_
