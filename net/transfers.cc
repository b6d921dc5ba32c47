#include "net/transfers.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <optional>
#include <random>
#include <utility>

#include "base/mutex.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstWait(100);
constexpr milliseconds kLongestWait(20'000);
// A host that cannot be reached at all seldom can a little later.
constexpr int kUnreachableAttempts = 4;
// What a store learns may take a moment: new credentials come from a server.
constexpr int kMaxLearnt = 4;
constexpr milliseconds kLearningWait(400);
constexpr std::chrono::seconds kStall(5);
constexpr std::chrono::seconds kLongestStall(30);

std::atomic<uint64_t> retries = 0;

std::chrono::seconds Patience() {
  const char* text = std::getenv("SHARDFEED_NET_SECONDS");
  const int seconds = text == nullptr ? 0 : std::atoi(text);
  return std::chrono::seconds(seconds > 0 ? seconds : 60);
}

bool IsSuccess(const HttpResponse& response) {
  return response.transport.ok() && response.status >= 200 && response.status < 300;
}

// Whether another attempt may succeed.
bool MayPass(const HttpResponse& response) {
  if (!response.transport.ok()) {
    return absl::IsUnavailable(response.transport) || absl::IsDeadlineExceeded(response.transport);
  }
  const int status = response.status;
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504;
}

// Decides about the next attempt.
class Attempts {
 public:
  // Something has come.
  void Progress() {
    since_ = Clock::now();
    attempts_ = 0;
  }
  // How long to wait before the next attempt; nothing: give up.
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
    int seconds = 0;
    if (std::from_chars(after.data(), after.data() + after.size(), seconds).ec == std::errc() &&
        seconds >= 0) {
      wait = std::max(wait, milliseconds(seconds * int64_t{1000}));
    }
    if (Clock::now() + wait - since_ > patience_) return std::nullopt;
    ++retries;
    return wait;
  }
  std::chrono::seconds stall() const {
    return std::min(kLongestStall, kStall * (1 << std::min(attempts_, 4)));
  }
  // The error of the last one, with what was tried.
  absl::Status Describe(absl::Status status) const {
    if (all_ < 2) return status;
    const auto seconds = std::chrono::duration<double>(Clock::now() - since_).count();
    return absl::Status(status.code(), fmt::format("{} (the last of {} attempts in {:.1f} s)",
                                                   std::string(status.message()), all_, seconds));
  }

 private:
  const std::chrono::seconds patience_ = Patience();
  Clock::time_point since_ = Clock::now();
  int attempts_ = 0;  // attempts since something came
  int all_ = 0;
};

bool Learns(const Store& store, const HttpResponse& response) {
  return response.transport.ok() && response.status >= 300 && store.Learn(response);
}

absl::Status ErrorOf(const Store& store, const std::string& path, const HttpResponse& response) {
  if (absl::IsCancelled(response.transport)) return response.transport;
  if (!response.transport.ok()) {
    return absl::Status(response.transport.code(),
                        fmt::format("{}: {}", path, std::string(response.transport.message())));
  }
  return store.ErrorOf(path, response);
}

// One read with its attempts. All of it happens on the client's thread, but Start and Cancel.
class Reading : public RangeTransfer, public std::enable_shared_from_this<Reading> {
 public:
  Reading(std::shared_ptr<const Store> store, RangeRead read,
          std::function<void(absl::Status, std::string)> done)
      : store_(std::move(store)), read_(std::move(read)), done_(std::move(done)) {}

  void Start(milliseconds delay) {
    absl::StatusOr<HttpRequest> request = store_->Request("GET", read_.path);
    if (!request.ok()) return End(request.status());
    request->first_byte = read_.offset + received_;
    request->object_size = read_.object_size;
    request->into = read_.into.subspan(received_);
    request->stall = attempts_.stall();
    request->headers.push_back(fmt::format("Range: bytes={}-{}", request->first_byte,
                                           request->first_byte + request->into.size() - 1));
    // Servers that compress would send other bytes than those asked for.
    request->headers.push_back("Accept-Encoding: identity");
    if (!read_.version.empty()) request->headers.push_back("If-Match: " + read_.version);
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
    if (response.status == 206) {
      // What has come of a version that was not known yet belongs to this one.
      const std::string_view version = response.Header("etag");
      // A weak tag does not tell that bytes are the same.
      if (read_.version.empty() && !version.starts_with("W/")) read_.version = version;
      if (response.received > 0) attempts_.Progress();
      received_ += response.received;
    }
    if (IsSuccess(response) && response.status == 206) return End(absl::OkStatus());
    if (IsSuccess(response)) {
      return End(absl::UnavailableError(
          fmt::format("{}: the server answered {} to a range", read_.path, response.status)));
    }
    if (learnt_ < kMaxLearnt && Learns(*store_, response)) return Start(kLearningWait * learnt_++);
    if (MayPass(response)) {
      if (const auto wait = attempts_.Next(response)) return Start(*wait);
    }
    End(attempts_.Describe(ErrorOf(*store_, read_.path, response)));
  }

  // What `done` keeps may keep this.
  void End(absl::Status status) {
    std::exchange(done_, nullptr)(std::move(status), std::move(read_.version));
  }

  const std::shared_ptr<const Store> store_;
  RangeRead read_;
  std::function<void(absl::Status, std::string)> done_;
  size_t received_ = 0;
  int learnt_ = 0;
  Attempts attempts_;

  Mutex mutex_;
  uint64_t id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

HttpResponse CallOnce(HttpRequest request, milliseconds delay) {
  std::promise<HttpResponse> promise;
  HttpClient::Get().Start(
      std::move(request),
      [&promise](HttpResponse response) { promise.set_value(std::move(response)); }, delay);
  return promise.get_future().get();
}

}  // namespace

std::shared_ptr<RangeTransfer> StartRead(std::shared_ptr<const Store> store, RangeRead read,
                                         std::function<void(absl::Status, std::string)> done) {
  auto reading = std::make_shared<Reading>(std::move(store), std::move(read), std::move(done));
  reading->Start(milliseconds(0));
  return reading;
}

absl::StatusOr<std::string> ReadNow(std::shared_ptr<const Store> store, RangeRead read) {
  std::promise<absl::StatusOr<std::string>> promise;
  StartRead(std::move(store), std::move(read), [&](absl::Status status, std::string version) {
    if (status.ok()) {
      promise.set_value(std::move(version));
    } else {
      promise.set_value(std::move(status));
    }
  });
  return promise.get_future().get();
}

absl::StatusOr<HttpResponse> CallStore(const Store& store, const std::string& path,
                                       StoreCall call) {
  Attempts attempts;
  int learnt = 0;
  milliseconds wait(0);
  while (true) {
    absl::StatusOr<HttpRequest> request = store.Request(call.method, path, call.query);
    if (!request.ok()) return request.status();
    request->headers.insert(request->headers.end(), call.headers.begin(), call.headers.end());
    request->max_body = call.max_body;
    request->stall = attempts.stall();
    HttpResponse response = CallOnce(*std::move(request), wait);
    if (IsSuccess(response)) return response;
    if (learnt < kMaxLearnt && Learns(store, response)) {
      wait = kLearningWait * learnt++;
      continue;
    }
    const auto next = MayPass(response) ? attempts.Next(response) : std::nullopt;
    if (!next) return attempts.Describe(ErrorOf(store, path, response));
    wait = *next;
  }
}

absl::StatusOr<HttpResponse> CallServer(HttpRequest request, const std::string& name) {
  Attempts attempts;
  milliseconds wait(0);
  while (true) {
    HttpResponse response = CallOnce(request, wait);
    if (IsSuccess(response)) return response;
    const auto next = MayPass(response) ? attempts.Next(response) : std::nullopt;
    if (next) {
      wait = *next;
      continue;
    }
    if (response.transport.ok()) {
      return attempts.Describe(
          absl::UnavailableError(fmt::format("{}: answered {}", name, response.status)));
    }
    return attempts.Describe(absl::UnavailableError(
        fmt::format("{}: {}", name, std::string(response.transport.message()))));
  }
}

HttpResponse CallServerOnce(HttpRequest request) {
  return CallOnce(std::move(request), milliseconds(0));
}

uint64_t RetryCount() { return retries; }

}  // namespace shardfeed
