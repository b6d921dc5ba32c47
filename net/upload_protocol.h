// How a store takes objects in parts: what differs between the protocols of stores. What they have
// in common is in upload.h.

#ifndef SHARDFEED_NET_UPLOAD_PROTOCOL_H_
#define SHARDFEED_NET_UPLOAD_PROTOCOL_H_

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "net/http_client.h"
#include "net/transfers.h"

namespace shardfeed {

// An object whose parts are in the store, where nobody sees them before Publish.
struct PendingObject {
  std::string path;
  std::string upload;              // the store's name for it; empty if the object is empty
  std::vector<std::string> parts;  // the store's names for them, in order
  uint64_t bytes = 0;
  std::string writer;  // UploadGroup::id of its group
};

// An object that was begun and neither published nor removed.
struct UnfinishedUpload {
  std::string path;
  std::string upload;     // empty: the store does not say
  std::time_t begun = 0;  // 0: the store does not say
  bool expires = false;   // the store removes it by itself, and takes no request to do so
};

// The protocol of a store, which must outlive it. Thread-safe. Functions that return a StoreCall
// send nothing; the others wait for the store.
class UploadProtocol {
 public:
  using Body = std::shared_ptr<const std::string>;

  virtual ~UploadProtocol() = default;

  // Writes a small object, whole. `writer`: ObjectInfo::writer, if not empty. Without `replace`, an
  // object that is there is an error (Aborted), unless the store ignores the condition.
  virtual StoreCall Put(Body body, const std::string& writer, bool replace) const = 0;

  // The name of a new upload of group `writer` (UploadGroup::id); empty: the store gives it, in its
  // answer to Begin.
  virtual std::string NewUpload(const std::string& /*writer*/) const { return ""; }
  virtual StoreCall Begin(const std::string& /*writer*/) const { return {}; }
  virtual absl::StatusOr<std::string> BegunUpload(const std::string& /*path*/,
                                                  const HttpResponse& /*response*/) const {
    return "";
  }

  // The query of the PutCall that sends part `number`, from 0, and the part's name, which is not
  // empty.
  virtual std::map<std::string, std::string> PartQuery(const std::string& upload,
                                                       uint64_t number) const = 0;
  virtual absl::StatusOr<std::string> PartName(const std::string& path, const std::string& upload,
                                               uint64_t number,
                                               const HttpResponse& response) const = 0;

  // Makes the parts an object, which is not empty. An error of NotFound means that the parts are
  // not there, or not any more. `Completed` is the version of the object, or an error in the answer
  // that may pass.
  virtual StoreCall Complete(const PendingObject& object) const = 0;
  virtual absl::StatusOr<std::string> Completed(const std::string& path,
                                                const HttpResponse& response) const = 0;

  // Removes the parts of an upload; nothing: the store does that by itself, in time.
  virtual std::optional<StoreCall> Discard(const std::string& upload) const = 0;

  // The objects, of a folder or two, whose parts are not all in the store, by their place in
  // `objects`. Those that are empty have none.
  virtual absl::StatusOr<std::vector<size_t>> WithoutParts(
      const std::vector<PendingObject>& objects) const = 0;

  // Unfinished uploads of objects in the folder, no deeper, as far as the store lists them.
  virtual absl::StatusOr<std::vector<UnfinishedUpload>> List(const std::string& folder) const = 0;
};

// A PUT of the body, which the store compares with its Content-MD5. Computing the MD5 takes a
// while.
StoreCall PutCall(UploadProtocol::Body body);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_UPLOAD_PROTOCOL_H_
