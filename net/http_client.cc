#include "net/http_client.h"

#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/count_text.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/thread.h"
#include "net/request_queue.h"
#include "net/url.h"

namespace shardfeed {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUnsentBytes = 256 << 10;
constexpr long kMaxRedirects = 5;
// With more requests at once, the line between the hosts may be what an answer waits for.
constexpr size_t kFewRequests = 8;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// "https://host:port" of a URL.
std::string HostOf(std::string_view url) {
  const size_t begin = url.find("://");
  if (begin == url.npos) return std::string(url);
  return std::string(url.substr(0, url.find('/', begin + 3)));
}

// The certificates that the system trusts, from the places where distributions keep them.
struct Trusted {
  std::string file;
  std::string folder;

  static const Trusted& Get() {
    static const auto* const trusted = new Trusted(Find());
    return *trusted;
  }

 private:
  static Trusted Find() {
    Trusted found;
    for (const char* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"}) {
      const char* value = std::getenv(name);
      if (found.file.empty() && value != nullptr) found.file = value;
    }
    if (const char* folder = std::getenv("SSL_CERT_DIR")) found.folder = folder;
    for (const char* path :
         {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
          "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem", "/etc/ssl/cert.pem"}) {
      if (found.file.empty() && ::access(path, R_OK) == 0) found.file = path;
    }
    return found;
  }
};

// libcurl's errors repeat the addresses of proxies, which may contain passwords.
std::string WithoutProxies(std::string text) {
  for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string address = value;
    if (address.find('@') == address.npos) continue;
    for (size_t at; (at = text.find(address)) != text.npos;) {
      text.replace(at, address.size(), fmt::format("${}", name));
    }
  }
  return text;
}

// The first byte, last byte and size in "bytes 0-99/1234" (a size of '*' is 0); nullopt for
// anything else.
struct ContentRange {
  uint64_t first;
  uint64_t last;
  uint64_t size = 0;
};
std::optional<ContentRange> ParseContentRange(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) return std::nullopt;
  const char* at = text.data() + 6;
  const char* const end = text.data() + text.size();
  auto [dash, error] = std::from_chars(at, end, range.first);
  if (error != std::errc() || dash == end || *dash != '-') return std::nullopt;
  auto [slash, error2] = std::from_chars(dash + 1, end, range.last);
  if (error2 != std::errc() || slash == end || *slash != '/') return std::nullopt;
  std::from_chars(slash + 1, end, range.size);
  return range;
}

}  // namespace

void KeepOpenSsl() {
  static const int initialized = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  (void)initialized;
}

std::optional<std::time_t> ParseHttpDate(std::string_view text) {
  std::tm time = {};
  if (::strptime(std::string(text).c_str(), "%a, %d %b %Y %H:%M:%S", &time) == nullptr) {
    return std::nullopt;
  }
  return ::timegm(&time);
}

std::string_view HttpResponse::Header(std::string_view name) const {
  const auto it = headers.find(name);
  return it == headers.end() ? std::string_view() : it->second;
}

class HttpClient::Loop {
 public:
  Loop() {
    KeepOpenSsl();
    static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)initialized;
    multi_ = curl_multi_init();
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, long{kMaxConnections});
    // Those without a request count, too: one of them is closed when another is opened.
    curl_multi_setopt(multi_, CURLMOPT_MAX_TOTAL_CONNECTIONS, long{kMaxConnections});
  }

  uint64_t Start(HttpRequest request, Done done, std::chrono::milliseconds delay) {
    auto call = std::make_unique<Call>();
    call->request = std::move(request);
    call->done = std::move(done);
    if (call->request.group.empty()) call->request.group = HostOf(call->request.url);
    uint64_t id;
    {
      MutexLock lock(mutex_);
      id = call->id = ++last_id_;
      arriving_.emplace_back(Clock::now() + delay, std::move(call));
    }
    curl_multi_wakeup(multi_);
    return id;
  }

  void After(std::chrono::milliseconds delay, std::function<void()> work) {
    auto call = std::make_unique<Call>();
    call->timer = std::move(work);
    {
      MutexLock lock(mutex_);
      arriving_.emplace_back(Clock::now() + delay, std::move(call));
    }
    curl_multi_wakeup(multi_);
  }

  void Cancel(uint64_t id) {
    {
      MutexLock lock(mutex_);
      cancelled_.push_back(id);
    }
    curl_multi_wakeup(multi_);
  }

  HttpStats stats() const {
    HttpStats stats;
    stats.requests = requests_;
    stats.throttled = throttled_;
    stats.bytes = bytes_;
    stats.connections = connections_;
    stats.active = active_;
    return stats;
  }

  // The body of the client's thread; never returns.
  void Run() {
    // Memory may run out; a request that is lost then has not been registered by the thread.
    while (true) CatchAll([this] { Work(); }).IgnoreError();
  }

 private:
  void Work() {
    while (true) {
      TakeArrivals();
      StartWaiting();
      int running = 0;
      curl_multi_perform(multi_, &running);
      int left = 0;
      bool any = false;
      while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
        if (message->msg != CURLMSG_DONE) continue;
        any = true;
        Finish(message->easy_handle, message->data.result);
      }
      if (any) continue;  // waiting requests may be started now
      int timeout = 1000;
      if (!delayed_.empty()) {
        const auto until = std::chrono::duration_cast<std::chrono::milliseconds>(
            delayed_.begin()->first - Clock::now());
        timeout = static_cast<int>(std::clamp<int64_t>(until.count() + 1, 0, timeout));
      }
      curl_multi_poll(multi_, nullptr, 0, timeout, nullptr);
    }
  }

  struct Call {
    uint64_t id = 0;
    std::function<void()> timer;  // if set, there is no request
    HttpRequest request;
    Done done;
    HttpResponse response;
    curl_slist* headers = nullptr;
    bool to_buffer = false;  // the body goes to request.into
    bool one_of_few = false;
    char error[CURL_ERROR_SIZE] = {};
  };

  void TakeArrivals() {
    std::vector<std::pair<Clock::time_point, std::unique_ptr<Call>>> arrived;
    std::vector<uint64_t> cancelled;
    {
      MutexLock lock(mutex_);
      arrived.swap(arriving_);
      cancelled.swap(cancelled_);
    }
    for (auto& [when, call] : arrived) delayed_.emplace(when, std::move(call));
    for (uint64_t id : cancelled) CancelNow(id);
    while (!delayed_.empty() && delayed_.begin()->first <= Clock::now()) {
      std::unique_ptr<Call> call = std::move(delayed_.begin()->second);
      delayed_.erase(delayed_.begin());
      if (call->timer) {
        call->timer();
        continue;
      }
      const auto [waiting, added] = waiting_.emplace(call->id, std::move(call));
      queue_.Add(waiting->second->request.group, waiting->first);
    }
  }

  void CancelNow(uint64_t id) {
    const auto is = [id](const auto& entry) { return entry.second->id == id; };
    if (auto it = std::find_if(delayed_.begin(), delayed_.end(), is); it != delayed_.end()) {
      std::unique_ptr<Call> call = std::move(it->second);
      delayed_.erase(it);
      return Drop(std::move(call));
    }
    if (auto it = std::find_if(running_.begin(), running_.end(), is); it != running_.end()) {
      it->second->response.transport = absl::CancelledError("cancelled");
      return Finish(it->first, CURLE_ABORTED_BY_CALLBACK);
    }
    if (queue_.Remove(id)) Drop(std::move(waiting_.extract(id).mapped()));
  }

  static void Drop(std::unique_ptr<Call> call) {
    call->response.transport = absl::CancelledError("cancelled");
    call->done(std::move(call->response));
  }

  void StartWaiting() {
    while (const std::optional<uint64_t> id = queue_.Next()) {
      Begin(std::move(waiting_.extract(*id).mapped()));
    }
  }

  // Bodies are passed to the kernel in small pieces: bytes in its buffers count as sent, so that a
  // large buffer would look like progress and then like a stall.
  static int OnSocket(void* /*data*/, curl_socket_t socket, curlsocktype /*purpose*/) {
    const int most = kUnsentBytes;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &most, sizeof(most));
    return CURL_SOCKOPT_OK;
  }

  void Begin(std::unique_ptr<Call> call) {
    CURL* easy;
    if (idle_.empty()) {
      easy = curl_easy_init();
    } else {
      easy = idle_.back();
      idle_.pop_back();
      curl_easy_reset(easy);
    }
    const HttpRequest& request = call->request;
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, static_cast<long>(request.connect.count()));
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall.count()));
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
    if (request.follow_redirects) {
      curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
      curl_easy_setopt(easy, CURLOPT_MAXREDIRS, kMaxRedirects);
    }
    const Trusted& trusted = Trusted::Get();
    if (!trusted.file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, trusted.file.c_str());
    if (!trusted.folder.empty()) curl_easy_setopt(easy, CURLOPT_CAPATH, trusted.folder.c_str());
    if (request.method == "HEAD") {
      curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (request.method != "GET") {
      curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request.method.c_str());
      const std::string_view body = request.body == nullptr ? "" : std::string_view(*request.body);
      if (request.method != "DELETE" || !body.empty()) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
      }
    }
    for (const std::string& header : request.headers) {
      call->headers = curl_slist_append(call->headers, header.c_str());
    }
    // Remove the headers that libcurl adds to a body.
    for (const char* header : {"Expect:", "Content-Type:"}) {
      const std::string name = Lower(header);
      const bool given =
          std::any_of(request.headers.begin(), request.headers.end(),
                      [&](const std::string& given) { return Lower(given).starts_with(name); });
      if (!given) call->headers = curl_slist_append(call->headers, header);
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "shardfeed");
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call.get());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call.get());
    ++requests_;
    ++active_;
    call->one_of_few = running_.size() < kFewRequests;
    running_.emplace(easy, std::move(call));
    curl_multi_add_handle(multi_, easy);
  }

  static size_t OnHeader(char* data, size_t, size_t size, void* user) {
    Call& call = *static_cast<Call*>(user);
    const std::string_view line = Trim({data, size});
    if (line.starts_with("HTTP/")) {  // a redirect is followed by another response
      call.response.headers.clear();
      call.response.status = 0;
      const size_t space = line.find(' ');
      if (space != line.npos) {
        std::from_chars(line.data() + space + 1, line.data() + line.size(), call.response.status);
      }
    } else if (const size_t colon = line.find(':'); colon != line.npos) {
      call.response.headers[Lower(line.substr(0, colon))] =
          std::string(Trim(line.substr(colon + 1)));
    } else if (line.empty() && call.response.status == 200 && !call.request.into.empty()) {
      call.response.transport = absl::FailedPreconditionError(
          "the server does not serve parts of objects: it answered 200 to a range; use a server "
          "that honors 'Range'");
      return 0;
    } else if (line.empty() && call.response.status == 206 && !call.request.into.empty()) {
      // The body must be checked before any of it is stored.
      const std::string_view encoding = call.response.Header("content-encoding");
      if (!encoding.empty() && encoding != "identity") {
        call.response.transport = absl::FailedPreconditionError(fmt::format(
            "the server encodes the object as {}; store it without Content-Encoding", encoding));
        return 0;
      }
      const auto range = ParseContentRange(call.response.Header("content-range"));
      const uint64_t first = call.request.first_byte;
      if (!range || range->first != first ||
          range->last - range->first + 1 != call.request.into.size()) {
        call.response.transport = absl::DataLossError(fmt::format(
            "expected bytes {}-{}, got '{}'", first, first + call.request.into.size() - 1,
            call.response.Header("content-range")));
        return 0;
      }
      if (call.request.object_size != 0 && range->size != 0 &&
          range->size != call.request.object_size) {
        call.response.transport = absl::AbortedError(fmt::format(
            "the object has {}, but had {} when the dataset was opened or indexed; open "
            "it again, or index it anew with 'shardfeed index'",
            CountText(range->size, "byte"), call.request.object_size));
        return 0;
      }
      call.to_buffer = true;
    }
    return size;
  }

  static size_t OnBody(char* data, size_t, size_t size, void* user) {
    Call& call = *static_cast<Call*>(user);
    HttpResponse& response = call.response;
    if (call.to_buffer) {
      if (size > call.request.into.size() - response.received) {
        response.transport =
            absl::DataLossError(fmt::format("the response is longer than the requested {}",
                                            CountText(call.request.into.size(), "byte")));
        return 0;
      }
      std::memcpy(call.request.into.data() + response.received, data, size);
      response.received += size;
      return size;
    }
    if (size > call.request.max_body - std::min(call.request.max_body, response.body.size())) {
      response.transport = absl::ResourceExhaustedError(
          fmt::format("the response is longer than {}", CountText(call.request.max_body, "byte")));
      return 0;
    }
    response.body.append(data, size);
    return size;
  }

  absl::Status TransportStatus(const Call& call, CURLcode code, bool* unreachable) const {
    const std::string host = ShownUrl(HostOf(call.request.url));
    const std::string text =
        fmt::format("{}: {}", host,
                    WithoutProxies(call.error[0] != '\0' ? call.error : curl_easy_strerror(code)));
    switch (code) {
      case CURLE_OK:
        if (call.to_buffer && call.response.received < call.request.into.size()) {
          return absl::UnavailableError(fmt::format("{}: the response ended early", host));
        }
        return absl::OkStatus();
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
      case CURLE_SSL_CONNECT_ERROR:
        *unreachable = true;
        return absl::UnavailableError(text);
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        // That of another host is not made right by other roots.
        if (text.find("subject name") != text.npos) return absl::PermissionDeniedError(text);
        return absl::PermissionDeniedError(fmt::format(
            "{}; trusted certificates were read from {}; set SSL_CERT_FILE to use another file",
            text, Trusted::Get().file.empty() ? "no file" : Trusted::Get().file));
      case CURLE_UNSUPPORTED_PROTOCOL:  // also what is not HTTP, which passes
      case CURLE_URL_MALFORMAT: {
        const std::string_view to = call.response.Header("location");
        if (!to.empty() && !to.starts_with("http")) {
          return absl::FailedPreconditionError(
              fmt::format("{}: the server redirects to {}, and only http:// and https:// are "
                          "followed",
                          host, ShownUrl(to)));
        }
        const bool passes =
            code == CURLE_UNSUPPORTED_PROTOCOL && call.request.url.starts_with("http");
        return passes ? absl::UnavailableError(text) : absl::InvalidArgumentError(text);
      }
      case CURLE_TOO_MANY_REDIRECTS:
        return absl::InvalidArgumentError(text);
      default:
        return absl::UnavailableError(text);
    }
  }

  void Finish(CURL* easy, CURLcode code) {
    const auto it = running_.find(easy);
    if (it == running_.end()) return;
    const std::unique_ptr<Call> call = std::move(it->second);
    running_.erase(it);
    --active_;
    HttpResponse& response = call->response;
    if (response.transport.ok()) {
      response.transport = TransportStatus(*call, code, &response.unreachable);
    }
    curl_off_t bytes = 0;
    if (curl_easy_getinfo(easy, CURLINFO_SIZE_DOWNLOAD_T, &bytes) == CURLE_OK) bytes_ += bytes;
    long connects = 0;
    if (curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects) == CURLE_OK) {
      connections_ += connects;
    }
    curl_off_t sent = 0;
    curl_off_t answered = 0;
    if (call->one_of_few &&
        curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &sent) == CURLE_OK &&
        curl_easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &answered) == CURLE_OK) {
      response.latency = std::chrono::microseconds(std::max<curl_off_t>(0, answered - sent));
    }
    curl_multi_remove_handle(multi_, easy);
    curl_slist_free_all(call->headers);
    idle_.push_back(easy);
    if (queue_.End(call->request.group, response.status, Clock::now())) ++throttled_;
    call->done(std::move(response));
  }

  CURLM* multi_;

  // Used by the client's thread only.
  std::multimap<Clock::time_point, std::unique_ptr<Call>> delayed_;
  std::map<CURL*, std::unique_ptr<Call>> running_;
  std::vector<CURL*> idle_;
  RequestQueue queue_{kMaxConnections};
  std::map<uint64_t, std::unique_ptr<Call>> waiting_;  // the requests of queue_

  std::atomic<uint64_t> requests_ = 0;
  std::atomic<uint64_t> throttled_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<uint64_t> connections_ = 0;
  std::atomic<uint64_t> active_ = 0;

  Mutex mutex_;
  std::vector<std::pair<Clock::time_point, std::unique_ptr<Call>>> arriving_
      ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> cancelled_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

HttpClient::HttpClient() : loop_(std::make_shared<Loop>()) {
  absl::StatusOr<std::thread> thread = StartThread([loop = loop_] { loop->Run(); });
  // Without the thread, requests would wait forever.
  if (!thread.ok()) throw std::bad_alloc();
  thread->detach();
}

namespace {

struct ProcessClient {
  Mutex mutex;
  HttpClient* client ABSL_GUARDED_BY(mutex) = nullptr;

  // Never destroyed: the client's thread runs until the process ends.
  static ProcessClient& Get() {
    static auto* const instance = new ProcessClient();
    // A child must not touch its parent's client, above all its connections.
    static const int registered =
        ::pthread_atfork(nullptr, nullptr, [] { new (&Get()) ProcessClient(); });
    (void)registered;
    return *instance;
  }
};

}  // namespace

HttpClient& HttpClient::Get() {
  ProcessClient& process = ProcessClient::Get();
  MutexLock lock(process.mutex);
  if (process.client == nullptr) process.client = new HttpClient();
  return *process.client;
}

uint64_t HttpClient::Start(HttpRequest request, Done done, std::chrono::milliseconds delay) {
  return loop_->Start(std::move(request), std::move(done), delay);
}
void HttpClient::After(std::chrono::milliseconds delay, std::function<void()> work) {
  loop_->After(delay, std::move(work));
}
void HttpClient::Cancel(uint64_t id) { loop_->Cancel(id); }
HttpStats HttpClient::stats() const { return loop_->stats(); }

}  // namespace shardfeed
