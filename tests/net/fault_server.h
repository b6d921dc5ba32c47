// An HTTP server that serves objects and, on request, fails in the ways in which stores fail.

#ifndef SHARDFEED_TESTS_NET_FAULT_SERVER_H_
#define SHARDFEED_TESTS_NET_FAULT_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace shardfeed::testing {

class FolderBucket;

// A request that was received.
struct SeenRequest {
  uint64_t number = 0;  // number of earlier requests
  std::string method;
  std::string target;                          // path and query, with escapes
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct Fault {
  enum Kind {
    kNone,
    kStatus,       // answers `status` with `headers` and `body`
    kReset,        // closes the connection before an answer
    kShort,        // closes the connection in the middle of the body
    kStall,        // sends half of the body, and then nothing for `wait`
    kIgnoreRange,  // answers 200 with the whole object
    kWrongRange,   // answers with bytes shifted by one
    kLongBody,     // sends more than Content-Range says, without Content-Length
    kOtherTag,     // another version of the object
    kIgnoreMatch,  // the same, whatever version If-Match demands
    kNoTag,        // no ETag
    kDelay,        // answers correctly after `wait`
    kEncoded,      // says that the bytes are compressed
    kGarbage,      // not HTTP
    kSlow,         // sends the body in small pieces, within `wait`
  };
  Kind kind = kNone;
  int status = 503;
  std::string headers;  // "Name: value\r\n"
  std::string body;
  std::chrono::milliseconds wait = std::chrono::milliseconds(0);
};

class FaultServer {
 public:
  // Listens on a free port of this machine.
  FaultServer();
  ~FaultServer();

  const std::string& url() const { return url_; }  // "http://127.0.0.1:PORT"
  int port() const { return port_; }

  // Adds objects: one at a time, and the files of a folder. `modified`: when it was written, in
  // seconds; 0: the server does not say. Thread-safe.
  void Put(const std::string& path, std::string bytes, std::time_t modified = 0);
  void Remove(const std::string& path);
  void ServeFolder(const std::string& folder);
  // The files of a folder as a bucket of S3 (folder_bucket.h), which is written, too. Faults that
  // change the body of an answer happen to objects alone, the others to every request.
  void ServeBucket(const std::string& name, const std::string& folder);

  // Decides what happens to a request. Called by the server's threads, possibly concurrently.
  using Decide = std::function<Fault(const SeenRequest&)>;
  void SetFaults(Decide decide);
  // A function that may answer instead of all this, such as a service of credentials.
  using Answer = std::function<std::optional<std::string>(const SeenRequest&)>;
  void SetAnswers(Answer answer);

  std::vector<SeenRequest> requests() const;
  size_t connections() const;  // that are open
  void ForgetRequests();

 private:
  struct Object {
    std::string bytes;
    std::shared_ptr<const std::string> shared = nullptr;  // if not null, instead of `bytes`
    std::string tag;
    std::string file;  // if not empty, the file that has the bytes
    uint64_t size = 0;
    std::string writer;
    std::time_t modified = 0;  // 0: the server does not say

    // Bytes [first, end).
    std::string Part(uint64_t first, uint64_t end) const;
  };
  void Accept();
  void Serve(int fd);
  bool Respond(int fd, SeenRequest request);
  std::optional<Object> Find(const std::string& path) const;

  int listening_ = -1;
  int port_ = 0;
  std::string url_;
  std::thread accepting_;
  std::atomic<bool> stopping_ = false;
  mutable Mutex mutex_;
  std::map<std::string, Object> objects_ ABSL_GUARDED_BY(mutex_);
  std::string folder_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<FolderBucket> bucket_ ABSL_GUARDED_BY(mutex_);
  Decide decide_ ABSL_GUARDED_BY(mutex_);
  Answer answer_ ABSL_GUARDED_BY(mutex_);
  std::vector<SeenRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::set<int> open_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;  // started by accepting_
};

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_NET_FAULT_SERVER_H_
