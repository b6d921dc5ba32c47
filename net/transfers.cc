#include "net/transfers.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/environment.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "net/url.h"

namespace shardfeed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstWait(100);
constexpr milliseconds kLongestWait(20'000);
// A host that cannot be reached at all rarely can be a little later.
constexpr int kUnreachableAttempts = 4;
// What a store learns may take effect later: new credentials come from a server.
constexpr int kMaxLearned = 4;
constexpr milliseconds kLearningWait(400);
constexpr std::chrono::seconds kStall(5);
constexpr std::chrono::seconds kLongestStall(30);

std::atomic<uint64_t> retries = 0;
std::atomic<uint64_t> hedges = 0;
std::atomic<uint64_t> hedges_won = 0;
std::atomic<uint64_t> range_bytes = 0;    // requested
std::atomic<uint64_t> hedged_bytes = 0;   // requested a second time
std::atomic<uint64_t> hedging_bytes = 0;  // memory in use for these
constexpr uint64_t kHedgedAtFirst = 16 << 20;

// How many of the bytes may be requested a second time.
uint64_t HedgedPercent() {
  uint64_t percent;
  const bool given = absl::SimpleAtoi(Env("SHARDFEED_NET_HEDGED_PERCENT"), &percent);
  return given && percent <= 100 ? percent : 5;
}

bool IsSuccess(const HttpResponse& response) {
  return response.transport.ok() && response.status >= 200 && response.status < 300;
}

// Whether another attempt may succeed. `store`: null if the server is not a store.
bool MayPass(const Store* store, const HttpResponse& response) {
  if (!response.transport.ok()) {
    return absl::IsUnavailable(response.transport);
  }
  if (store != nullptr && store->Stays(response)) return false;
  const int status = response.status;
  // What the server cannot do or has no room for stays. Proxies have numbers of their own, such as
  // 520 to 524.
  if (status >= 500) return status != 501 && status != 505 && status != 507;
  // 409: another request to the same object was in progress.
  return status == 408 || status == 409 || status == 429;
}

// Decides about the next attempt.
class Attempts {
 public:
  // Tells that something has arrived.
  void Progress() {
    since_ = Clock::now();
    attempts_ = 0;
  }
  // Tells that the server took this long to answer with an error that is repeated. It is alive, and
  // most of the time of a large body is its transfer, so this time is not held against it.
  void Answered(Clock::duration after) { since_ += after; }
  // How long to wait before the next attempt; nullopt to give up.
  std::optional<milliseconds> Next(const HttpResponse& response) {
    ++attempts_;
    ++all_;
    if (response.unreachable && attempts_ >= kUnreachableAttempts) return std::nullopt;
    const double bound =
        std::min<double>(kLongestWait.count(), static_cast<double>(kFirstWait.count()) *
                                                   std::exp2(std::min(attempts_, 20)));
    thread_local std::minstd_rand random(std::random_device{}());
    milliseconds wait(static_cast<int64_t>(std::uniform_real_distribution<>(0, bound)(random)));
    const std::string_view after = response.Header("retry-after");
    int64_t seconds = 0;
    if (const std::optional<std::time_t> date = ParseHttpDate(after)) {
      const std::optional<std::time_t> now = ParseHttpDate(response.Header("date"));
      seconds = *date - now.value_or(std::time(nullptr));
    } else if (int32_t number = 0;
               std::from_chars(after.data(), after.data() + after.size(), number).ec ==
               std::errc()) {
      seconds = number;
    }
    if (seconds > 0 && seconds <= INT32_MAX) {
      wait = std::max(wait, milliseconds(seconds * int64_t{1000}));
    }
    if (Clock::now() + wait - since_ > patience_) return std::nullopt;
    ++retries;
    return wait;
  }
  std::chrono::seconds stall() const {
    return std::min(kLongestStall, kStall * (1 << std::min(attempts_, 4)));
  }
  // Adds the number of attempts and their time to the error of the last one.
  absl::Status Describe(absl::Status status) const {
    if (all_ < 2) return status;
    const auto seconds = std::chrono::duration<double>(Clock::now() - since_).count();
    return absl::Status(status.code(), fmt::format("{} (the last of {} attempts in {:.1f} s)",
                                                   std::string(status.message()), all_, seconds));
  }

 private:
  const std::chrono::seconds patience_ = NetPatience();
  Clock::time_point since_ = Clock::now();
  int attempts_ = 0;  // attempts since something arrived
  int all_ = 0;
};

bool Learns(const Store& store, const HttpResponse& response, uint64_t before) {
  return response.transport.ok() && response.status >= 300 && store.Learn(response, before);
}

absl::Status ErrorOf(const Store& store, const std::string& path, const HttpResponse& response) {
  // A status of its own, because ThreadSanitizer does not see Abseil's reference counting.
  if (absl::IsCancelled(response.transport)) return absl::CancelledError("cancelled");
  if (!response.transport.ok()) {
    return absl::Status(response.transport.code(),
                        fmt::format("{}: {}", path, std::string(response.transport.message())));
  }
  return store.ErrorOf(path, response);
}

// Whether the response's tag is that of another version than the one that was demanded. A server
// that ignores If-Match sends whatever it has.
bool IsOther(const HttpResponse& response, std::string_view version) {
  std::string_view tag = response.Header("etag");
  if (version.empty() || tag.empty()) return false;
  if (tag.starts_with("W/")) tag.remove_prefix(2);
  return tag != version;
}

// Recent durations of ranges, by size.
class Durations {
 public:
  static Durations& Get() {
    static auto* const durations = new Durations();
    return *durations;
  }

  void Add(size_t size, Clock::duration duration) {
    MutexLock lock(mutex_);
    Class& c = classes_[std::bit_width(size)];
    c.last[c.count++ % kKept] = std::chrono::duration_cast<milliseconds>(duration);
  }
  // The time after which a range is late; nullopt while too few durations are known.
  std::optional<milliseconds> Late(size_t size) {
    MutexLock lock(mutex_);
    const Class& c = classes_[std::bit_width(size)];
    if (c.count < kKept / 4) return std::nullopt;
    std::array<milliseconds, kKept> sorted = c.last;
    const auto end = sorted.begin() + std::min<size_t>(c.count, kKept);
    std::sort(sorted.begin(), end);
    const auto at = [&](double share) {
      return sorted[static_cast<size_t>(share * static_cast<double>(end - sorted.begin() - 1))];
    };
    return std::max({at(0.95), 2 * at(0.5), kSoonest});
  }

 private:
  static constexpr size_t kKept = 128;
  static constexpr milliseconds kSoonest{20};
  struct Class {
    std::array<milliseconds, kKept> last = {};
    size_t count = 0;
  };
  Mutex mutex_;
  std::array<Class, 65> classes_ ABSL_GUARDED_BY(mutex_);
};

// A read with its attempts. Everything happens on the client's thread, except the first Start and
// Cancel.
class Reading : public Transfer, public std::enable_shared_from_this<Reading> {
 public:
  Reading(std::shared_ptr<const Store> store, RangeRead read,
          std::function<void(absl::Status, const ReadVersion&)> done)
      : store_(std::move(store)), read_(std::move(read)), done_(std::move(done)) {
    range_bytes += read_.into.size();
  }

  void Start(milliseconds delay) {
    known_ = store_->times_learned();
    absl::StatusOr<HttpRequest> request = MakeRequest(read_.into.subspan(received_));
    if (!request.ok()) return End(request.status());
    const uint64_t attempt = ++attempt_;
    const size_t size = request->into.size();
    // The first read determines the version, and two requests might find different ones.
    const bool may_hedge = !read_.version.empty();
    started_ = Clock::now() + delay;
    // Once the request has been started, it may end at any time, and this read with it.
    {
      MutexLock lock(mutex_);
      if (cancelled_) {
        lock.Unlock();
        return End(absl::CancelledError("cancelled"));
      }
      id_ = HttpClient::Get().Start(
          *std::move(request),
          [self = shared_from_this()](HttpResponse response) {
            self->Finished(std::move(response));
          },
          delay);
    }
    const auto late = Durations::Get().Late(size);
    if (!late || !may_hedge || HedgedPercent() == 0) return;
    HttpClient::Get().After(delay + *late, [weak = weak_from_this(), attempt] {
      if (const auto self = weak.lock()) self->Hedge(attempt);
    });
  }

  void Cancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (id_ != 0) HttpClient::Get().Cancel(id_);
    if (hedge_id_ != 0) HttpClient::Get().Cancel(hedge_id_);
  }

 private:
  // A request for the last `into.size()` bytes of the range.
  absl::StatusOr<HttpRequest> MakeRequest(absl::Span<char> into) const {
    absl::StatusOr<HttpRequest> request = store_->Request("GET", read_.path);
    if (!request.ok()) return request;
    request->first_byte = read_.offset + (read_.into.size() - into.size());
    request->object_size = read_.object_size;
    request->into = into;
    request->stall = attempts_.stall();
    request->headers.push_back(fmt::format("Range: bytes={}-{}", request->first_byte,
                                           request->first_byte + into.size() - 1));
    // A server that compresses would send other bytes, unless the store knows better.
    const auto is_encoding = [](const std::string& header) {
      return header.starts_with("Accept-Encoding:");
    };
    if (std::none_of(request->headers.begin(), request->headers.end(), is_encoding)) {
      request->headers.push_back("Accept-Encoding: identity");
    }
    if (!read_.version.empty()) request->headers.push_back("If-Match: " + read_.version);
    store_->Sign({}, &*request);
    return request;
  }

  void Finished(HttpResponse response) {
    if (hedge_won_) return TakeHedge();
    if (response.status == 206 && IsOther(response, read_.version)) {
      return End(ErrorOf(*store_, read_.path, HttpResponse{.status = 412}));
    }
    if (response.status == 206) {
      // If the version was unknown, the bytes that have arrived belong to this one.
      const std::string_view version = response.Header("etag");
      // A weak tag does not guarantee identical bytes.
      if (read_.version.empty() && !version.starts_with("W/")) read_.version = version;
      modified_ = ParseHttpDate(response.Header("last-modified")).value_or(0);
      now_ = ParseHttpDate(response.Header("date")).value_or(0);
      if (response.received > 0) attempts_.Progress();
      received_ += response.received;
    }
    if (IsSuccess(response) && response.status == 206) {
      Durations::Get().Add(response.received, Clock::now() - started_);
      store_->AddLatency(response.latency);
      return End(absl::OkStatus());
    }
    // The other request may still succeed.
    if (hedging_ && !absl::IsCancelled(response.transport)) {
      failed_ = std::move(response);
      return;
    }
    GoOn(response);
  }

  // Continues after a failed attempt.
  void GoOn(const HttpResponse& response) {
    if (IsSuccess(response)) {
      return End(absl::UnavailableError(
          fmt::format("{}: the server answered {} to a range", read_.path, response.status)));
    }
    if (learned_ < kMaxLearned && Learns(*store_, response, known_)) {
      return Start(kLearningWait * learned_++);
    }
    if (MayPass(store_.get(), response)) {
      if (const auto wait = attempts_.Next(response)) return Start(*wait);
    }
    End(attempts_.Describe(ErrorOf(*store_, read_.path, response)));
  }

  // Requests the rest of a late attempt a second time, into separate memory, because the first may
  // go on.
  void Hedge(uint64_t attempt) {
    if (attempt != attempt_ || done_ == nullptr || hedging_) return;
    const size_t size = read_.into.size() - received_;
    const uint64_t most = range_bytes / 100 * HedgedPercent();
    if (hedged_bytes + size > most + kHedgedAtFirst) return;
    if (hedging_bytes + size > kMostHedgedAtOnce) return;
    const std::shared_ptr<Buffer> memory = Buffer::Allocate(size);
    hedging_bytes += size;
    hedge_ =
        std::shared_ptr<Buffer>(memory.get(), [memory, size](Buffer*) { hedging_bytes -= size; });
    absl::StatusOr<HttpRequest> request = MakeRequest({hedge_->data(), size});
    if (!request.ok()) return;
    hedged_bytes += size;
    ++hedges;
    hedge_size_ = size;
    MutexLock lock(mutex_);
    if (cancelled_) return;
    hedging_ = true;
    hedge_id_ = HttpClient::Get().Start(*std::move(request),
                                        [self = shared_from_this()](const HttpResponse& response) {
                                          self->HedgeFinished(response);
                                        });
  }

  void HedgeFinished(const HttpResponse& response) {
    hedging_ = false;
    if (done_ == nullptr) return;
    if (IsSuccess(response) && response.status == 206 && !IsOther(response, read_.version)) {
      hedge_won_ = true;
      if (failed_) return TakeHedge();
      MutexLock lock(mutex_);
      HttpClient::Get().Cancel(id_);  // Finished then calls TakeHedge
      return;
    }
    if (failed_) GoOn(*std::exchange(failed_, std::nullopt));
  }

  void TakeHedge() {
    ++hedges_won;
    Durations::Get().Add(hedge_size_, Clock::now() - started_);
    std::memcpy(read_.into.data() + (read_.into.size() - hedge_size_), hedge_->data(), hedge_size_);
    End(absl::OkStatus());
  }

  // What `done` keeps may keep this.
  void End(absl::Status status) {
    {
      MutexLock lock(mutex_);
      if (hedging_) HttpClient::Get().Cancel(hedge_id_);
    }
    std::exchange(done_, nullptr)(std::move(status), {std::move(read_.version), modified_, now_});
  }

  const std::shared_ptr<const Store> store_;
  RangeRead read_;
  std::function<void(absl::Status, const ReadVersion&)> done_;  // null when it was called
  std::time_t modified_ = 0;
  std::time_t now_ = 0;
  size_t received_ = 0;
  int learned_ = 0;
  uint64_t known_ = 0;  // how often the store had learned when the attempt was signed
  Attempts attempts_;
  uint64_t attempt_ = 0;
  Clock::time_point started_;  // when the attempt began

  bool hedging_ = false;  // a second request is in progress
  bool hedge_won_ = false;
  std::shared_ptr<Buffer> hedge_;
  size_t hedge_size_ = 0;
  std::optional<HttpResponse>
      failed_;  // response to the first request, while the second is in progress

  Mutex mutex_;
  uint64_t id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t hedge_id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// A call with its attempts. Everything happens on the client's thread, except the first Start and
// Cancel. `store` must outlive this.
class Calling : public Transfer, public std::enable_shared_from_this<Calling> {
 public:
  using Done = std::function<void(absl::StatusOr<HttpResponse>)>;
  Calling(const Store& store, std::shared_ptr<const Store> owner, std::string path, StoreCall call,
          Done done)
      : store_(store),
        owner_(std::move(owner)),
        path_(std::move(path)),
        call_(std::move(call)),
        done_(std::move(done)) {}

  void Start(milliseconds delay) {
    known_ = store_.times_learned();
    absl::StatusOr<HttpRequest> request =
        store_.Request(call_.method, path_, call_.query, call_.store_headers);
    if (!request.ok()) return End(request.status());
    request->headers.insert(request->headers.end(), call_.headers.begin(), call_.headers.end());
    request->body = call_.body;
    request->max_body = call_.max_body;
    request->stall = std::max(attempts_.stall(), call_.patience);
    store_.Sign(call_.query, &*request);
    started_ = Clock::now() + delay;
    MutexLock lock(mutex_);
    if (cancelled_) {
      lock.Unlock();
      return End(absl::CancelledError("cancelled"));
    }
    id_ = HttpClient::Get().Start(
        *std::move(request),
        [self = shared_from_this()](HttpResponse response) { self->Finished(std::move(response)); },
        delay);
  }

  void Cancel() override {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (id_ != 0) HttpClient::Get().Cancel(id_);
  }

 private:
  void Finished(HttpResponse response) {
    if (IsSuccess(response)) {
      // A listing takes longer than an object.
      if (call_.method == "GET" && call_.query.empty()) store_.AddLatency(response.latency);
      return End(std::move(response));
    }
    if (learned_ < kMaxLearned && Learns(store_, response, known_)) {
      return Start(kLearningWait * learned_++);
    }
    if (MayPass(&store_, response)) {
      if (response.transport.ok()) attempts_.Answered(Clock::now() - started_);
      if (const auto wait = attempts_.Next(response)) return Start(*wait);
    }
    End(attempts_.Describe(ErrorOf(store_, path_, response)));
  }

  // What `done` keeps may keep this.
  void End(absl::StatusOr<HttpResponse> result) {
    std::exchange(done_, nullptr)(std::move(result));
  }

  const Store& store_;
  const std::shared_ptr<const Store> owner_;  // keeps the store alive; null if the caller does
  const std::string path_;
  const StoreCall call_;
  Done done_;
  Attempts attempts_;
  Clock::time_point started_;  // when the attempt began
  int learned_ = 0;
  uint64_t known_ = 0;  // how often the store had learned when the attempt was signed

  Mutex mutex_;
  uint64_t id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

HttpResponse CallOnce(HttpRequest request, milliseconds delay, bool may_stop) {
  std::promise<HttpResponse> promise;
  const uint64_t id = HttpClient::Get().Start(
      std::move(request),
      [&promise](HttpResponse response) { promise.set_value(std::move(response)); }, delay);
  std::future<HttpResponse> result = promise.get_future();
  if (may_stop && !AwaitWanted(result)) HttpClient::Get().Cancel(id);
  return result.get();
}

}  // namespace

std::chrono::seconds NetPatience() {
  uint32_t seconds = 0;
  const bool given = absl::SimpleAtoi(Env("SHARDFEED_NET_SECONDS"), &seconds);
  return std::chrono::seconds(given && seconds > 0 ? seconds : 60);
}

absl::Status CheckNetSettings() {
  const auto check = [](const char* name, uint32_t least, uint32_t most, std::string_view what) {
    const std::string text = Env(name);
    uint32_t number = 0;
    if (text.empty() || (absl::SimpleAtoi(text, &number) && number >= least && number <= most)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(fmt::format("{}: expected {}, got '{}'", name, what, text));
  };
  absl::Status status =
      check("SHARDFEED_NET_SECONDS", 1, INT32_MAX, "a number of seconds, 1 or more");
  status.Update(check("SHARDFEED_NET_HEDGED_PERCENT", 0, 100, "a number from 0 to 100"));
  return status;
}

std::shared_ptr<Transfer> StartRead(std::shared_ptr<const Store> store, RangeRead read,
                                    std::function<void(absl::Status, const ReadVersion&)> done) {
  const milliseconds delay = read.delay;
  auto reading = std::make_shared<Reading>(std::move(store), std::move(read), std::move(done));
  reading->Start(delay);
  return reading;
}

absl::StatusOr<std::string> ReadNow(std::shared_ptr<const Store> store, RangeRead read) {
  std::promise<absl::StatusOr<std::string>> promise;
  const std::shared_ptr<Transfer> transfer = StartRead(
      std::move(store), std::move(read), [&](absl::Status status, const ReadVersion& read) {
        if (status.ok()) {
          promise.set_value(read.version);
        } else {
          promise.set_value(std::move(status));
        }
      });
  return AwaitTransfer(promise.get_future(), *transfer);
}

std::shared_ptr<Transfer> StartCall(std::shared_ptr<const Store> store, std::string path,
                                    StoreCall call,
                                    std::function<void(absl::StatusOr<HttpResponse>)> done) {
  const Store& known = *store;
  auto calling = std::make_shared<Calling>(known, std::move(store), std::move(path),
                                           std::move(call), std::move(done));
  calling->Start(milliseconds(0));
  return calling;
}

absl::StatusOr<HttpResponse> CallStore(const Store& store, const std::string& path,
                                       StoreCall call) {
  // What a request has changed by then would not be known.
  const bool changes = call.method != "GET" && call.method != "HEAD";
  std::promise<absl::StatusOr<HttpResponse>> promise;
  const auto calling = std::make_shared<Calling>(
      store, nullptr, path, std::move(call),
      [&promise](absl::StatusOr<HttpResponse> result) { promise.set_value(std::move(result)); });
  calling->Start(milliseconds(0));
  if (changes) return promise.get_future().get();
  return AwaitTransfer(promise.get_future(), *calling);
}

absl::StatusOr<HttpResponse> CallServer(const HttpRequest& request, const std::string& name,
                                        HttpResponse* refused) {
  Attempts attempts;
  milliseconds wait(0);
  while (true) {
    HttpResponse response = CallOnce(request, wait, /*may_stop=*/true);
    if (IsSuccess(response)) return response;
    if (absl::IsCancelled(response.transport)) return absl::CancelledError("interrupted");
    const auto next = MayPass(nullptr, response) ? attempts.Next(response) : std::nullopt;
    if (next) {
      wait = *next;
      continue;
    }
    if (response.transport.ok()) {
      const int status = response.status;
      if (refused != nullptr) *refused = std::move(response);
      return attempts.Describe(
          absl::UnavailableError(fmt::format("{}: answered {}", ShownUrl(name), status)));
    }
    return attempts.Describe(absl::UnavailableError(
        fmt::format("{}: {}", ShownUrl(name), std::string(response.transport.message()))));
  }
}

HttpResponse CallServerOnce(HttpRequest request) {
  return CallOnce(std::move(request), milliseconds(0), /*may_stop=*/false);
}

TransferStats GetTransferStats() {
  TransferStats stats = {
      .retries = retries, .hedges = hedges, .hedges_won = hedges_won, .bytes_wanted = range_bytes};
  if (stats.bytes_wanted == 0 && stats.retries == 0) return stats;  // there is no client yet
  const HttpStats http = HttpClient::Get().stats();
  stats.requests = http.requests;
  stats.throttled = http.throttled;
  stats.bytes_moved = http.bytes;
  return stats;
}

}  // namespace shardfeed
