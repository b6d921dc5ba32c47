// Writes to object stores: objects in parts that are invisible until they are published, and small
// objects that are created only if there is none. The requests are those of the store's
// UploadProtocol.
//
// All functions wait for the store and repeat requests (transfers.h), unless they say otherwise.
// Errors: those of Store::ErrorOf.

#ifndef SHARDFEED_NET_UPLOAD_H_
#define SHARDFEED_NET_UPLOAD_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/store.h"
#include "net/upload_protocol.h"

namespace shardfeed {

// Errors: those of Store::Of and of Store::CheckWritable.
absl::Status CheckWritable(const std::string& path);

// Objects that are written together by one process. Thread-safe.
class UploadGroup {
 public:
  // Bytes of whole parts that the store has not yet confirmed.
  static constexpr uint64_t kMaxBytesInFlight = 256 << 20;
  // Bytes of partial parts in memory, one for each object that is being written. Parts beyond it go
  // to unnamed files in the folder for temporary files (TMPDIR).
  static constexpr uint64_t kMaxBytesBuffered = 256 << 20;
  // The first thousand parts of an object have this size, the next thousand twice this size, and so
  // on: ten thousand parts, the most that S3 accepts, hold more than its largest object.
  static constexpr size_t kPartBytes = 8 << 20;

  // Begins a group of objects of the store that `folder` is in. Errors: those of CheckWritable.
  static absl::StatusOr<std::unique_ptr<UploadGroup>> Begin(const std::string& folder);
  // Waits until the parts of abandoned uploads and other objects are removed, as far as the store
  // allows it; once the work is not needed any more (see WorkStop), for a second.
  ~UploadGroup();

  // Removes another object of the store, in the background.
  void Remove(const std::string& path) const;

  // The name of the group: 32 random hexadecimal digits.
  const std::string& id() const;

 private:
  friend class Upload;
  struct State;
  explicit UploadGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}

  const std::shared_ptr<State> state_;
};

// One object of a group. Not thread-safe.
class Upload {
 public:
  // Makes no request yet.
  Upload(const UploadGroup& group, std::string path);
  // Removes the parts from the store in the background, unless Keep was called.
  ~Upload();

  // Copies the bytes. Waits while too many bytes of the group are in flight. The error may concern
  // an earlier part or a temporary file; after one, all calls fail.
  absl::Status Append(std::string_view bytes);
  // Sends what remains, without waiting for it. Append must not follow.
  absl::Status Close();
  // Closes, and waits until all parts are stored durably. Cancelled: `stop` was requested, or
  // without one the work of this thread is not needed any more (see WorkStop).
  absl::StatusOr<PendingObject> Finish(const std::stop_token& stop = {});
  // Keeps the parts in the store, because something else refers to them.
  void Keep() { kept_ = true; }
  // Bytes that were appended.
  uint64_t size() const { return size_; }

 private:
  struct State;

  struct Spill;

  absl::Status Add(std::string_view bytes);
  absl::StatusOr<std::string> TakePart();
  absl::Status SendPart();

  const std::shared_ptr<State> state_;
  // The next part: its beginning in a file, if there is one, and the rest in memory.
  std::unique_ptr<Spill> spill_;
  std::string part_;
  size_t part_bytes_ = UploadGroup::kPartBytes;
  uint64_t parts_ = 0;
  uint64_t size_ = 0;
  bool closed_ = false;
  bool kept_ = false;
};

// Makes an object visible, replacing any other of its name. May be repeated, also by another
// process, whether or not it has succeeded. Returns the object's version. DataLoss: the parts are
// gone, and the object does not exist.
absl::StatusOr<std::string> Publish(const PendingObject& object);

// Removes the parts of an object that was not published; does nothing to a published one, or if
// the store takes no request to remove parts (UnfinishedUpload::expires).
absl::Status Discard(const PendingObject& object);

// Returns the positions of the objects of a dataset whose parts are not, or no longer, in the
// store. This includes published objects, but not empty ones.
absl::StatusOr<std::vector<size_t>> WithoutParts(const std::vector<PendingObject>& objects);

// Creates a small object if there is none. OK also if an object with the same bytes exists.
// AlreadyExists: another object exists. Unimplemented: the store would replace it.
absl::Status CreateObject(const std::string& path, std::string_view bytes);

// Writes a small object, replacing any other of its name. `writer` becomes its ObjectInfo::writer.
absl::Status PutObject(const std::string& path, std::string_view bytes,
                       const std::string& writer = "");

// Removes an object; OK if there is none.
absl::Status RemoveObject(const std::string& path);

// Returns the objects in the folder (no deeper) whose upload was begun and neither published nor
// removed, as far as the store lists them.
absl::StatusOr<std::vector<UnfinishedUpload>> ListUploads(const std::string& folder);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_UPLOAD_H_
