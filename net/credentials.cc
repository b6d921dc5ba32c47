#include "net/credentials.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "io/thread.h"
#include "net/secret_text.h"
#include "net/url.h"

namespace shardfeed {
namespace {

// Credentials are renewed this many seconds before they expire,
constexpr std::time_t kEarly = 300;
// and at most once in this many seconds.
constexpr std::time_t kPause = 20;
constexpr std::string_view kSchemes[] = {"s3", "gs", "az", "abfss"};

struct Functions {
  Mutex mutex;
  uint64_t last ABSL_GUARDED_BY(mutex) = 0;
  // By "s3://bucket" or "s3://".
  std::map<std::string, GivenCredentials> given ABSL_GUARDED_BY(mutex);

  // Never destroyed: threads may look while the process ends.
  static Functions& Get() {
    static auto* const functions = new Functions();
    return *functions;
  }
};

absl::Status Check(const Credentials& given, std::string_view prefix) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{} gave {}", given.source, what));
  };
  if (given.access_key_id.empty() != given.secret_access_key.empty()) {
    return wrong("an access_key_id or a secret_access_key without the other");
  }
  if (given.access_key_id.empty() == given.token.empty()) {
    return wrong(given.token.empty() ? "neither a token nor an access_key_id"
                                     : "both a token and an access_key_id");
  }
  for (const auto& [name, value] :
       {std::pair("access_key_id", &given.access_key_id),
        std::pair("secret_access_key", &given.secret_access_key),
        std::pair("session_token", &given.session_token), std::pair("token", &given.token)}) {
    if (!IsSoundSecret(*value)) {
      return wrong(fmt::format("a {} that has blanks or other characters that none has", name));
    }
  }
  if (!given.token.empty() && prefix.starts_with("s3:")) {
    return wrong("a token, which S3 does not take; it takes a key");
  }
  if (given.expires && *given.expires <= std::time(nullptr)) {
    return wrong("credentials that have expired already");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Credentials>> CallFunction(const CredentialsFunction& function,
                                                        const std::string& prefix) {
  absl::StatusOr<Credentials> given = Credentials();
  absl::Status thrown = CatchAll([&] { given = function(); });
  if (thrown.ok()) thrown = given.status();
  if (!thrown.ok()) {
    // Not found is for objects.
    const auto code = absl::IsNotFound(thrown) ? absl::StatusCode::kUnavailable : thrown.code();
    return absl::Status(
        code, fmt::format("credentials for {}: {}", prefix, std::string(thrown.message())));
  }
  if (given->source.empty()) given->source = fmt::format("the function for {}", prefix);
  if (absl::Status status = Check(*given, prefix); !status.ok()) {
    return absl::Status(status.code(), fmt::format("credentials for {}: {}", prefix,
                                                   std::string(status.message())));
  }
  return std::optional(*std::move(given));
}

}  // namespace

absl::Status SetCredentials(std::string_view url, CredentialsFunction function) {
  const std::optional<std::string_view> scheme = SchemeOf(url);
  const bool known =
      scheme && std::find(std::begin(kSchemes), std::end(kSchemes), *scheme) != std::end(kSchemes);
  if (!known || url.find('/', scheme->size() + 3) != url.npos || url.find('@') != url.npos) {
    return absl::InvalidArgumentError(fmt::format(
        "credentials are set for a bucket or container, such as s3://bucket, gs://bucket "
        "or az://container, or for all of a scheme: s3://, gs://, az:// or abfss://; "
        "not for '{}'",
        url.find('@') == url.npos ? url : "...@..."));
  }
  std::string key(url);
  GivenCredentials given;
  if (function != nullptr) {
    given.find = [function = std::move(function), key] { return CallFunction(function, key); };
  }
  Functions& functions = Functions::Get();
  // What was there is destroyed without the mutex: it may be anything.
  {
    MutexLock lock(functions.mutex);
    given.number = ++functions.last;
    std::swap(functions.given[key], given);
  }
  return absl::OkStatus();
}

GivenCredentials CredentialsGivenFor(std::string_view scheme, std::string_view host) {
  Functions& functions = Functions::Get();
  MutexLock lock(functions.mutex);
  for (const std::string& key :
       {fmt::format("{}://{}", scheme, host), fmt::format("{}://", scheme)}) {
    const auto it = functions.given.find(key);
    if (it != functions.given.end() && it->second.find != nullptr) return it->second;
  }
  return {};
}

struct CredentialsCache::State {
  FindCredentials find;
  Mutex mutex;
  Credentials credentials ABSL_GUARDED_BY(mutex);
  bool refreshing ABSL_GUARDED_BY(mutex) = false;
  pid_t pid ABSL_GUARDED_BY(mutex) = 0;  // the process that began to
  std::time_t tried ABSL_GUARDED_BY(mutex) = 0;
  std::time_t replaced ABSL_GUARDED_BY(mutex) = 0;
  std::string problem ABSL_GUARDED_BY(mutex);  // why the last attempt to replace them failed

  // A thread of the parent is not in its child.
  bool IsRefreshing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return refreshing && pid == ::getpid();
  }
  void Begin(std::time_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    refreshing = true;
    pid = ::getpid();
    tried = now;
  }
};

absl::StatusOr<std::unique_ptr<CredentialsCache>> CredentialsCache::Make(FindCredentials find) {
  absl::StatusOr<std::optional<Credentials>> first = find();
  if (!first.ok()) return first.status();
  if (!*first) return std::unique_ptr<CredentialsCache>();
  auto state = std::make_shared<State>();
  state->find = std::move(find);
  MutexLock lock(state->mutex);
  state->credentials = **std::move(first);
  return std::unique_ptr<CredentialsCache>(new CredentialsCache(state));
}

Credentials CredentialsCache::Get() {
  bool refresh = false;
  Credentials credentials;
  {
    MutexLock lock(state_->mutex);
    credentials = state_->credentials;
    const std::time_t now = std::time(nullptr);
    refresh = credentials.expires && now > *credentials.expires - kEarly &&
              !state_->IsRefreshing() && now - state_->tried >= kPause;
    if (refresh) state_->Begin(now);
  }
  if (refresh) Refresh();
  return credentials;
}

bool CredentialsCache::Expired() {
  {
    MutexLock lock(state_->mutex);
    const std::time_t now = std::time(nullptr);
    // If they were just replaced, the request was signed with the previous ones.
    if (state_->IsRefreshing() || now - state_->replaced < kPause) return true;
    if (now - state_->tried < kPause) return false;
    state_->Begin(now);
  }
  Refresh();
  return true;
}

std::string CredentialsCache::Describe() {
  MutexLock lock(state_->mutex);
  const std::string& source = state_->credentials.source;
  if (state_->problem.empty()) return source;
  return fmt::format("{}, which could not be replaced: {};", source, state_->problem);
}

void CredentialsCache::Refresh() {
  absl::StatusOr<std::thread> thread = StartThread([state = state_] {
    absl::StatusOr<std::optional<Credentials>> found;
    const absl::Status thrown = CatchAll([&] { found = state->find(); });
    if (!thrown.ok()) found = thrown;
    MutexLock lock(state->mutex);
    state->refreshing = false;
    // On failure, the current credentials may still be valid for a while.
    if (!found.ok() || !*found) {
      state->problem =
          found.ok() ? "there are none any more" : std::string(found.status().message());
      return;
    }
    state->credentials = **std::move(found);
    state->replaced = std::time(nullptr);
    state->problem.clear();
  });
  if (thread.ok()) {
    thread->detach();
    return;
  }
  MutexLock lock(state_->mutex);
  state_->refreshing = false;
  state_->problem = std::string(thread.status().message());
}

}  // namespace shardfeed
