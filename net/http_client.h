// HTTP requests in flight: one attempt each. See transfers.h for what is retried.

#ifndef SHARDFEED_NET_HTTP_CLIENT_H_
#define SHARDFEED_NET_HTTP_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
  // Shared, because a part of an object is large and is sent again when an attempt fails.
  std::shared_ptr<const std::string> body;
  bool follow_redirects = false;
  // Where the body of a 206 response goes, which must be as long; the body of any other response is
  // HttpResponse::body. Valid until the request is done.
  absl::Span<char> into;
  // For a 206 response: the first byte that is expected, and the size of the whole object, unless
  // 0.
  uint64_t first_byte = 0;
  uint64_t object_size = 0;
  // A body that is not for `into` may be no longer.
  size_t max_body = 64 << 10;
  // The request fails when no byte has been sent or received for so long, or no connection was
  // made.
  std::chrono::seconds stall = std::chrono::seconds(5);
  std::chrono::seconds connect = std::chrono::seconds(10);
};

struct HttpResponse {
  int status = 0;                                           // 0: there was no response
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;
  size_t received = 0;  // bytes that are in place in `into`
  // Why the response is not whole. DeadlineExceeded: stalled. Unavailable: the connection failed.
  // PermissionDenied: the server's certificate is not trusted. FailedPrecondition: it ignores
  // ranges. DataLoss: another range or length than asked for. Aborted: the object has another size.
  // ResourceExhausted: longer than max_body. Cancelled: see Cancel.
  absl::Status transport;
  // The host could not be found, or refuses connections.
  bool unreachable = false;

  std::string_view Header(std::string_view name) const;
};

struct HttpStats {
  uint64_t requests = 0;
  uint64_t throttled = 0;  // responses 429 and 503
  uint64_t bytes = 0;      // bytes of bodies received
  uint64_t connections = 0;
  uint64_t active = 0;  // requests under way
};

// Requests of this process, on one thread of its own, over connections that are kept alive.
// HTTP/1.1, which is faster than HTTP/2 for large bodies; TLS is verified; proxies are those of the
// environment. A host that answers more than a tenth of its requests with 429 or 503 gets half as
// many at once, and then slowly more.
//
// CA certificates: SSL_CERT_FILE and SSL_CERT_DIR, or where distributions keep them.
class HttpClient {
 public:
  // The client of this process: another one in a child after fork. Lives as long as the process.
  static HttpClient& Get();

  // At most so many requests are in flight, to one host; further ones wait.
  static constexpr int kMaxConnections = 128;
  // Memory of each of them. Fewer and larger reads from the socket take half of the processor time
  // of libcurl's default of 16 KiB.
  static constexpr long kBufferBytes = 512 << 10;

  using Done = std::function<void(HttpResponse)>;
  // Starts a request after `delay`. `done` is called once, by the client's thread, which it must
  // not block. Thread-safe, also within `done`.
  uint64_t Start(HttpRequest request, Done done,
                 std::chrono::milliseconds delay = std::chrono::milliseconds(0));
  // Calls `work`, as `done` is called, after `delay`. Thread-safe.
  void After(std::chrono::milliseconds delay, std::function<void()> work);
  // Ends a request, which is then done soon, with Cancelled unless it already was. Thread-safe.
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
