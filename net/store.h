// Object stores: which store a URL names, and how its objects are requested.

#ifndef SHARDFEED_NET_STORE_H_
#define SHARDFEED_NET_STORE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "net/http_client.h"

namespace shardfeed {

// One version of an object.
struct ObjectInfo {
  std::string path;  // URL, as users write it
  uint64_t size = 0;
  std::string version;       // ETag with its quotes; empty if the store sends none
  std::string writer;        // UploadGroup::id of the group that wrote it; empty if unknown
  std::time_t modified = 0;  // when it was written; 0: the store does not say
};

struct ObjectListing {
  std::vector<ObjectInfo> objects;   // objects in the folder, with their full paths
  std::vector<std::string> folders;  // names of the folders in it, without slashes
};

class UploadProtocol;

// A store, such as a bucket of S3. Thread-safe, and immutable except for its credentials and what
// it learns. All functions except Of and List return at once.
class Store {
 public:
  // The store that a URL is in. A process makes one store for each bucket. InvalidArgument: not a
  // URL, or one of an unknown scheme; the message names the known ones. Unavailable: the configured
  // credentials cannot be obtained.
  static absl::StatusOr<std::shared_ptr<const Store>> Of(std::string_view url);

  virtual ~Store() = default;

  // A signed request for the object, or for the bucket if the path has no key. `query`: by name,
  // unescaped. `headers`: by lower-case name, as S3 has them; they are signed too, and a store with
  // other names for them translates them. Valid for some minutes.
  virtual absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query = {},
      const std::map<std::string, std::string>& headers = {}) const = 0;

  // Called with a request when its body and the headers of the transfer have been added, for stores
  // whose signatures cover them. `query`: that of Request.
  virtual void Sign(const std::map<std::string, std::string>& /*query*/,
                    HttpRequest* /*request*/) const {}

  // The error for a response that is not repeated, or that was the last one. The message begins
  // with the path and names the remedy.
  //
  // NotFound: no such object or bucket. PermissionDenied: credentials are missing, wrong, expired
  // or insufficient. Aborted: the object was replaced. Unavailable: all others.
  virtual absl::Status ErrorOf(std::string_view path, const HttpResponse& response) const;

  // How often the store has learned from a response; to be read before a request is signed.
  uint64_t times_learned() const { return times_learned_; }

  // Called with a response that is an error. Returns whether the store has learned from it
  // (credentials have expired, the bucket is in another region), or has learned from the response
  // to another request since this one was signed, so that the request is worth repeating. `before`:
  // times_learned() when it was signed.
  bool Learn(const HttpResponse& response, uint64_t before) const;

  // Whether an error is final although requests with its status are usually repeated.
  virtual bool Stays(const HttpResponse& /*response*/) const { return false; }

  // How long the store takes to answer a request for a small object or a range, by the median of
  // the last answers that no other requests delayed; 0 before the first.
  std::chrono::microseconds latency() const;
  // Adds the latency of an answer; 0: it is not known.
  void AddLatency(std::chrono::microseconds latency) const;

  // Whether size and version are requested by a range of one byte rather than by HEAD, whose errors
  // have no body and therefore no reason.
  virtual bool stat_by_range() const { return false; }

  // The header of requests and responses that holds ObjectInfo::writer; empty if there is none.
  virtual std::string_view writer_header() const { return ""; }

  // How objects are written. Not null for paths that CheckWritable accepts; lives as long as the
  // store.
  virtual const UploadProtocol* uploads() const { return nullptr; }

  // InvalidArgument: objects of this store are read-only, or cannot have this name; the message
  // begins with the path.
  virtual absl::Status CheckWritable(std::string_view path) const;

  // The objects and folders directly in a folder, whose path must not end with '/'. Waits for the
  // store. Unimplemented: the store cannot list.
  virtual absl::StatusOr<ObjectListing> List(const std::string& folder) const;

 private:
  // Returns whether the response changes how requests are made.
  virtual bool LearnFrom(const HttpResponse& /*response*/) const { return false; }

  mutable std::atomic<uint64_t> times_learned_ = 0;

  mutable Mutex latency_mutex_;
  mutable std::array<std::chrono::microseconds, 15> latencies_ ABSL_GUARDED_BY(latency_mutex_) = {};
  mutable size_t latencies_added_ ABSL_GUARDED_BY(latency_mutex_) = 0;
};

// InvalidArgument: listings could not give the name, which is not UTF-8. `where`: "S3".
absl::Status CheckUtf8(std::string_view path, std::string_view where);

// What is known of an object. Waits for the store. Errors: those of Store::ErrorOf.
absl::StatusOr<ObjectInfo> StatObject(const std::string& path);

// Whether the object exists. Waits for the store. Errors: those of Store::ErrorOf.
absl::StatusOr<bool> ObjectExists(const std::string& path);

// Reads a whole small object. `info`, unless null, receives its size and version.
// ResourceExhausted: it is larger than `max_bytes`. Other errors: those of Store::ErrorOf.
absl::StatusOr<std::string> ReadObject(const std::string& path, uint64_t max_bytes,
                                       ObjectInfo* info = nullptr);

// The first bytes of an object, up to `bytes`. `info` receives its size and version. Aborted: the
// object is empty. ResourceExhausted: it is longer, and the server sends no parts of objects.
// Others: Store::ErrorOf's.
absl::StatusOr<std::string> ReadObjectStart(const std::string& path, uint64_t bytes,
                                            ObjectInfo* info);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_STORE_H_
