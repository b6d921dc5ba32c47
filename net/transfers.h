// Requests to object stores, repeated until they succeed or a repetition is pointless.
//
// Requests are repeated after 408, 409, 429, 5xx (but 501, 505 and 507), failed connections, bodies
// that end early, and stalls. A range continues at the byte that it has reached. A range that takes
// longer than nearly all recent ones of its size is requested a second time; the first response
// counts, and at most 5 % of the bytes (SHARDFEED_NET_HEDGED_PERCENT) are requested twice. Waits
// between attempts are random, from zero to a bound that doubles (full jitter), and not shorter
// than the server's Retry-After. A request fails if nothing has arrived for 60 s
// (SHARDFEED_NET_SECONDS), or at once if the error is permanent.

#ifndef SHARDFEED_NET_TRANSFERS_H_
#define SHARDFEED_NET_TRANSFERS_H_

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/work_stop.h"
#include "net/http_client.h"
#include "net/store.h"

namespace shardfeed {

// Memory for ranges that are requested a second time, at any moment.
inline constexpr uint64_t kMostHedgedAtOnce = 32 << 20;

// How long attempts may fail before that is an error: 60 s, or SHARDFEED_NET_SECONDS.
std::chrono::seconds NetPatience();
// InvalidArgument: SHARDFEED_NET_SECONDS or SHARDFEED_NET_HEDGED_PERCENT is not such a number.
absl::Status CheckNetSettings();

// A range of an object.
struct RangeRead {
  std::string path;
  uint64_t offset = 0;
  absl::Span<char> into;     // not empty, valid until the read is done
  std::string version;       // expected version of the object; empty accepts any
  uint64_t object_size = 0;  // expected size of the object; 0 accepts any
  // Before it is requested.
  std::chrono::milliseconds delay{0};
};

// What was read.
struct ReadVersion {
  std::string version;       // ETag with its quotes; empty if the store sends none
  std::time_t modified = 0;  // when the object was written; 0: the store does not say
  std::time_t now = 0;       // the server's time; 0: it does not say
};

// A request in progress, with its repetitions.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Makes the request end soon, with Cancelled unless it already had ended. Thread-safe.
  virtual void Cancel() = 0;
};

// Starts to read. `done` is called once, by the HTTP client's thread, which it must not block, or
// within this call. Aborted: the object is another version, or
// has another size. Other errors: those of Store::ErrorOf.
std::shared_ptr<Transfer> StartRead(std::shared_ptr<const Store> store, RangeRead read,
                                    std::function<void(absl::Status, const ReadVersion&)> done);

// Functions that wait for a result end with Cancelled if the work of their thread is not needed any
// more (see WorkStop), except those whose request changes something.

// Reads and waits for the result. Returns the version.
absl::StatusOr<std::string> ReadNow(std::shared_ptr<const Store> store, RangeRead read);

// A request other than for a range.
struct StoreCall {
  std::string method = "GET";
  std::map<std::string, std::string> query = {};
  // Headers of the store's own protocol, by lower-case names; they are signed.
  std::map<std::string, std::string> store_headers = {};
  std::vector<std::string> headers = {};  // "Name: value"; not signed
  std::shared_ptr<const std::string> body = nullptr;
  size_t max_body = 64 << 10;  // maximum size of the response
  // The time that the server may take at least to answer before the request is repeated.
  std::chrono::seconds patience = std::chrono::seconds(0);
};

// Waits for the result of a transfer.
template <typename Result>
Result AwaitTransfer(std::future<Result> result, Transfer& transfer) {
  if (AwaitWanted(result)) return result.get();
  transfer.Cancel();
  Result last = result.get();
  if (!last.ok()) return absl::CancelledError("interrupted");
  return last;
}

// Sends the request until it succeeds (2xx). `done` is called once, by the HTTP client's thread,
// which it must not block, or within this call. Errors: those of Store::ErrorOf.
std::shared_ptr<Transfer> StartCall(std::shared_ptr<const Store> store, std::string path,
                                    StoreCall call,
                                    std::function<void(absl::StatusOr<HttpResponse>)> done);

// Sends the request and waits for the result. Must not be called by the HTTP client's thread.
absl::StatusOr<HttpResponse> CallStore(const Store& store, const std::string& path, StoreCall call);

// Sends an unsigned request to a server that is not a store, for example for credentials, and
// waits. `refused`, unless null, receives the last response if it is an error.
absl::StatusOr<HttpResponse> CallServer(const HttpRequest& request, const std::string& name,
                                        HttpResponse* refused = nullptr);

// The same in a single attempt, which is waited for in any case: without an answer there is no
// server.
HttpResponse CallServerOnce(HttpRequest request);

// Counts of this process so far.
struct TransferStats {
  uint64_t requests = 0;
  uint64_t retries = 0;    // attempts that were repeated
  uint64_t throttled = 0;  // answers 429 and 503
  uint64_t hedges = 0;     // ranges that were requested a second time
  uint64_t hedges_won = 0;
  uint64_t bytes_wanted = 0;  // bytes of the ranges
  uint64_t bytes_moved = 0;   // bytes of all responses
};
TransferStats GetTransferStats();

}  // namespace shardfeed

#endif  // SHARDFEED_NET_TRANSFERS_H_
