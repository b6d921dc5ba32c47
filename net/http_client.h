// Sends HTTP requests, each once. transfers.h repeats those that fail.

#ifndef SHARDFEED_NET_HTTP_CLIENT_H_
#define SHARDFEED_NET_HTTP_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace shardfeed {

struct HttpRequest {
  std::string method = "GET";
  std::string url;                   // absolute, with escapes
  std::vector<std::string> headers;  // "Name: value"
  // Requests of one group, such as a bucket, are paced together. Empty: the host's.
  std::string group;
  // Shared, because a part of an object is large and is sent again when an attempt fails.
  std::shared_ptr<const std::string> body;
  bool follow_redirects = false;
  // Where the body of a 206 response goes, which must have this size; the body of any other
  // response goes to HttpResponse::body. Must be valid until the request is done.
  absl::Span<char> into;
  // For a 206 response: the expected first byte, and the size of the whole object, or 0 if it is
  // unknown.
  uint64_t first_byte = 0;
  uint64_t object_size = 0;
  // The most bytes of a body that does not go to `into`.
  size_t max_body = 64 << 10;
  // The request fails if no byte was sent or received for `stall`, or no connection was made within
  // `connect`.
  std::chrono::seconds stall = std::chrono::seconds(5);
  std::chrono::seconds connect = std::chrono::seconds(10);
};

struct HttpResponse {
  int status = 0;                                           // 0 without a response
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;
  size_t received = 0;  // bytes that are in place in `into`
  // Why the response is incomplete. Unavailable: the connection failed, or stalled.
  // PermissionDenied: the server's certificate is not trusted. FailedPrecondition: the server
  // ignores ranges, or encodes the object. DataLoss: the range or length is not the requested one.
  // Aborted: the object has another size. ResourceExhausted: longer than max_body. Cancelled: see
  // Cancel.
  absl::Status transport;
  // Whether the host could not be found or refused the connection.
  bool unreachable = false;
  // How long the server took to answer the request, without connecting; 0 if that is unknown, or so
  // many other requests were under way that they may have delayed it.
  std::chrono::microseconds latency = std::chrono::microseconds(0);

  std::string_view Header(std::string_view name) const;
};

// Call it before anything uses OpenSSL, which then does not clean up at exit: the client's thread
// still runs then, and signs requests that are repeated.
void KeepOpenSsl();

// The time of a header: "Mon, 23 Nov 2026 20:43:13 GMT".
std::optional<std::time_t> ParseHttpDate(std::string_view text);

struct HttpStats {
  uint64_t requests = 0;
  uint64_t throttled = 0;  // responses 429 and 503
  uint64_t bytes = 0;      // bytes of bodies received
  uint64_t connections = 0;
  uint64_t active = 0;  // requests under way
};

// Sends the requests of this process on a thread of its own, over connections that are kept alive.
// Uses HTTP/1.1, which is faster than HTTP/2 for large bodies, verifies TLS certificates, and uses
// the proxies of the environment. At most kMaxConnections requests are under way; others wait, and
// groups take turns. A group that answers more than a tenth of its requests with 429 or 503 gets
// half as many at once, and then gradually more again (net/request_queue.h).
//
// CA certificates are taken from SSL_CERT_FILE and SSL_CERT_DIR, or from where distributions keep
// them.
class HttpClient {
 public:
  // The client of this process. A child has another one after fork. Lives as long as the process.
  static HttpClient& Get();

  // The most requests in flight, and the most connections.
  static constexpr int kMaxConnections = 128;
  // Memory of each of them. Fewer and larger reads from the socket take half of the processor time
  // of libcurl's default of 16 KiB.
  static constexpr long kBufferBytes = 512 << 10;

  using Done = std::function<void(HttpResponse)>;
  // Starts a request after `delay` and returns its id. `done` is called once, by the client's
  // thread, which it must not block. Thread-safe, also within `done`.
  uint64_t Start(HttpRequest request, Done done,
                 std::chrono::milliseconds delay = std::chrono::milliseconds(0));
  // Calls `work` after `delay`, in the same way as `done`. Thread-safe.
  void After(std::chrono::milliseconds delay, std::function<void()> work);
  // Cancels a request, which is then done soon, with Cancelled unless it already was. Thread-safe.
  void Cancel(uint64_t id);
  // Thread-safe.
  HttpStats stats() const;

 private:
  class Loop;
  HttpClient();

  std::shared_ptr<Loop> loop_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_NET_HTTP_CLIENT_H_
