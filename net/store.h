// Object stores: what a URL names, and how its objects are asked for.

#ifndef SHARDFEED_NET_STORE_H_
#define SHARDFEED_NET_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/http_client.h"

namespace shardfeed {

// One version of an object.
struct ObjectInfo {
  std::string path;  // URL, as users write it
  uint64_t size = 0;
  std::string version;  // ETag, with its quotes; empty if the store gives none
  std::string writer;   // UploadGroup::id of the group that wrote it; empty if it is not known
};

// The header of requests and responses that is ObjectInfo::writer.
inline constexpr std::string_view kWriterHeader = "x-amz-meta-shardfeed-writer";

struct ObjectListing {
  std::vector<ObjectInfo> objects;   // objects in the folder, with their full paths
  std::vector<std::string> folders;  // names of the folders in it, without slashes
};

// A store, such as a bucket of S3. Thread-safe, immutable but for its credentials. All functions
// but Of and List return at once.
class Store {
 public:
  // The store that a URL is in. Stores are made once a process and bucket. InvalidArgument: the URL
  // is none, or of an unknown scheme; the message names the known ones. Unavailable: the
  // credentials that are configured cannot be had.
  static absl::StatusOr<std::shared_ptr<const Store>> Of(std::string_view url);

  virtual ~Store() = default;

  // A signed request for the object (or the bucket, for a path without key). `query`: by name,
  // unescaped. `headers`: by name in lower case; they are signed too. Valid for some minutes.
  virtual absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view path,
      const std::map<std::string, std::string>& query = {},
      const std::map<std::string, std::string>& headers = {}) const = 0;

  // The error of a response that is none of those that are repeated, or of the last one that was.
  // The message begins with the path and names the remedy.
  //
  // NotFound: no such object or bucket. PermissionDenied: credentials are missing, wrong, expired
  // or do not allow it. Aborted: the object was replaced. Unavailable: all others.
  virtual absl::Status ErrorOf(std::string_view path, const HttpResponse& response) const;

  // Called with a response that is an error. True: the store has learnt from it (credentials have
  // expired, the bucket is in another region), and the request is worth repeating.
  virtual bool Learn(const HttpResponse& /*response*/) const { return false; }

  // Whether size and version are asked for by a range of one byte rather than by HEAD, whose errors
  // have no body and therefore no reason.
  virtual bool stat_by_range() const { return false; }

  // InvalidArgument: objects of this store are only read, or not with such a name; the message
  // begins with the path.
  virtual absl::Status CheckWritable(std::string_view path) const;

  // The objects and folders directly in a folder, whose path has no '/' at its end. Waits for the
  // store. Unimplemented: it cannot list.
  virtual absl::StatusOr<ObjectListing> List(const std::string& folder) const;
};

// Size, version and writer of an object. Waits for the store. Errors: Store::ErrorOf's.
absl::StatusOr<ObjectInfo> StatObject(const std::string& path);

// A small object, whole. `info`, unless null, receives its size and version. ResourceExhausted: it
// is larger than `max_bytes`. Others: Store::ErrorOf's.
absl::StatusOr<std::string> ReadObject(const std::string& path, uint64_t max_bytes,
                                       ObjectInfo* info = nullptr);

// The first bytes of an object, up to `bytes`. `info` receives its size and version. Aborted: the
// object is empty. ResourceExhausted: it is longer, and the server sends no parts of objects.
// Others: Store::ErrorOf's.
absl::StatusOr<std::string> ReadObjectStart(const std::string& path, uint64_t bytes,
                                            ObjectInfo* info);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_STORE_H_
