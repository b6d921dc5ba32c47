#include "net/upload.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/random_digits.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/output_file.h"
#include "net/transfers.h"

namespace shardfeed {
namespace {

constexpr uint64_t kPartsOfOneSize = 1000;
// Azure takes no more than 4,000 MiB, S3 5 GiB.
constexpr size_t kMaxPartBytes = size_t{2} << 30;
// Large objects take the store a while to put together, during which nothing comes.
constexpr std::chrono::seconds kCompletionPatience(30);
constexpr int kCompletionAttempts = 5;
// How long an interrupted writer waits until its uploads are removed.
constexpr std::chrono::seconds kRemovalPatience(1);

using Body = UploadProtocol::Body;

absl::StatusOr<std::shared_ptr<const Store>> WritableStore(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store;
  if (absl::Status status = (*store)->CheckWritable(path); !status.ok()) return status;
  return store;
}

Body Share(std::string_view bytes) { return std::make_shared<const std::string>(bytes); }

}  // namespace

absl::Status CheckWritable(const std::string& path) { return WritableStore(path).status(); }

struct UploadGroup::State : std::enable_shared_from_this<UploadGroup::State> {
  std::shared_ptr<const Store> store;
  std::string id;

  Mutex mutex;
  CondVar changed;
  uint64_t in_flight ABSL_GUARDED_BY(mutex) = 0;  // bytes
  uint64_t buffered ABSL_GUARDED_BY(mutex) = 0;   // bytes
  size_t removals ABSL_GUARDED_BY(mutex) = 0;     // uploads and objects that are being removed

  // Sends a request that removes something. What stays all the same is cleaned.
  void Remove(const std::string& path, StoreCall call) {
    StartCall(
        store, path, std::move(call),
        [self = shared_from_this()](const absl::StatusOr<HttpResponse>&) { self->Removed(); });
  }
  void Removed() {
    {
      MutexLock lock(mutex);
      --removals;
    }
    changed.NotifyAll();
  }
};

absl::StatusOr<std::unique_ptr<UploadGroup>> UploadGroup::Begin(const std::string& folder) {
  absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(folder);
  if (!store.ok()) return store.status();
  auto state = std::make_shared<State>();
  state->store = *std::move(store);
  state->id = RandomDigits(32);
  return std::unique_ptr<UploadGroup>(new UploadGroup(std::move(state)));
}

UploadGroup::~UploadGroup() {
  MutexLock lock(state_->mutex);
  const auto removed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    return state_->removals == 0;
  };
  if (AwaitWanted(state_->changed, lock, removed)) return;
  // The user has interrupted this, and the store may not answer. What stays is cleaned.
  state_->changed.WaitFor(lock, kRemovalPatience, removed);
}

void UploadGroup::Remove(const std::string& path) const {
  {
    MutexLock lock(state_->mutex);
    ++state_->removals;
  }
  state_->Remove(path, {.method = "DELETE"});
}

const std::string& UploadGroup::id() const { return state_->id; }

// Shared with the requests under way, whose ends the HTTP client's thread reports.
struct Upload::State : std::enable_shared_from_this<Upload::State> {
  struct Part {
    uint64_t number;
    StoreCall call;  // without its query
  };

  State(std::shared_ptr<UploadGroup::State> of, std::string name)
      : group(std::move(of)), path(std::move(name)), protocol(*group->store->uploads()) {}

  const std::shared_ptr<UploadGroup::State> group;
  const std::string path;
  const UploadProtocol& protocol;  // the store's

  Mutex mutex;
  CondVar changed;
  absl::Status status ABSL_GUARDED_BY(mutex);
  bool begun ABSL_GUARDED_BY(mutex) = false;  // there is a name, or the store was asked for it
  std::string upload ABSL_GUARDED_BY(mutex);  // the name
  std::vector<Part> waiting ABSL_GUARDED_BY(mutex);       // for the answer
  std::vector<std::string> parts ABSL_GUARDED_BY(mutex);  // their names
  // Parts that were added and are not yet in the store; those that are being sent, by number.
  size_t requests ABSL_GUARDED_BY(mutex) = 0;
  std::map<uint64_t, std::shared_ptr<Transfer>> running ABSL_GUARDED_BY(mutex);
  bool given_up ABSL_GUARDED_BY(mutex) = false;

  void Add(Part part);
  void Send(Part part, const std::string& id);
  void Begun(absl::StatusOr<HttpResponse> response);
  void Sent(uint64_t number, uint64_t bytes, absl::StatusOr<HttpResponse> response);
  void GiveUp();
  void Remove();
  void Release(uint64_t bytes);
};

void Upload::State::Release(uint64_t bytes) {
  {
    MutexLock lock(group->mutex);
    group->in_flight -= bytes;
  }
  group->changed.NotifyAll();
}

// The first part begins an upload. Where the store gives its name, parts wait until it has
// answered.
void Upload::State::Add(Part part) {
  MutexLock lock(mutex);
  parts.resize(std::max<size_t>(parts.size(), part.number + 1));
  ++requests;
  const bool first = !std::exchange(begun, true);
  if (first) upload = protocol.NewUpload(group->id);
  if (!upload.empty()) {
    const std::string id = upload;
    lock.Unlock();
    return Send(std::move(part), id);
  }
  waiting.push_back(std::move(part));
  lock.Unlock();
  if (!first) return;
  StartCall(group->store, path, protocol.Begin(group->id),
            [self = shared_from_this()](absl::StatusOr<HttpResponse> response) {
              self->Begun(std::move(response));
            });
}

void Upload::State::Begun(absl::StatusOr<HttpResponse> response) {
  std::string id;
  absl::Status failed = response.status();
  if (failed.ok()) {
    absl::StatusOr<std::string> name = protocol.BegunUpload(path, *response);
    failed = name.status();
    if (name.ok()) id = *std::move(name);
  }
  std::vector<Part> held;
  bool send = false;
  bool last = false;
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex);
    upload = id;
    held.swap(waiting);
    if (status.ok()) status = failed;
    send = status.ok() && !given_up;
    if (!send) {
      requests -= held.size();
      for (const Part& part : held) bytes += part.call.body->size();
    }
    last = !send && given_up;
  }
  if (send) {
    for (Part& part : held) Send(std::move(part), id);
    return;
  }
  Release(bytes);
  changed.NotifyAll();
  if (last) Remove();
}

void Upload::State::Send(Part part, const std::string& id) {
  const uint64_t number = part.number;
  const uint64_t bytes = part.call.body->size();
  part.call.query = protocol.PartQuery(id, number);
  const std::shared_ptr<Transfer> transfer =
      StartCall(group->store, path, std::move(part.call),
                [self = shared_from_this(), number, bytes](absl::StatusOr<HttpResponse> response) {
                  self->Sent(number, bytes, std::move(response));
                });
  MutexLock lock(mutex);
  // It may be done already.
  if (parts[number].empty() && status.ok()) running[number] = transfer;
  if (given_up) transfer->Cancel();
}

void Upload::State::Sent(uint64_t number, uint64_t bytes, absl::StatusOr<HttpResponse> response) {
  absl::Status failed = response.status();
  std::string name;
  if (failed.ok()) {
    std::string id;
    {
      MutexLock lock(mutex);
      id = upload;
    }
    absl::StatusOr<std::string> given = protocol.PartName(path, id, number, *response);
    failed = given.status();
    if (given.ok()) name = *std::move(given);
  }
  std::shared_ptr<Transfer> done;  // destroyed without the mutex
  bool last = false;
  {
    MutexLock lock(mutex);
    parts[number] = std::move(name);
    if (status.ok()) status = failed;
    if (const auto it = running.find(number); it != running.end()) {
      done = std::move(it->second);
      running.erase(it);
    }
    last = --requests == 0 && given_up;
  }
  Release(bytes);
  changed.NotifyAll();
  if (last) Remove();
}

void Upload::State::GiveUp() {
  bool idle = false;
  {
    MutexLock lock(group->mutex);
    ++group->removals;
  }
  {
    MutexLock lock(mutex);
    given_up = true;
    for (const auto& [number, transfer] : running) transfer->Cancel();
    // Otherwise, the last request that ends removes the upload, because a part that arrived later
    // than that would stay.
    idle = requests == 0;
  }
  if (idle) Remove();
}

// Called once, after GiveUp, when no request is under way.
void Upload::State::Remove() {
  std::string id;
  {
    MutexLock lock(mutex);
    id = upload;
  }
  std::optional<StoreCall> call;
  if (!id.empty()) call = protocol.Discard(id);
  if (!call) return group->Removed();
  group->Remove(path, *std::move(call));
}

// A file that has the beginning of a part.
struct Upload::Spill {
  explicit Spill(int descriptor) : fd(descriptor), name(fmt::format("/proc/self/fd/{}", fd)) {}
  ~Spill() { ::close(fd); }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  uint64_t size() const { return file == nullptr ? 0 : file->size(); }

  const int fd;
  const std::string name;
  std::unique_ptr<OutputFile> file;  // null: empty
};

Upload::Upload(const UploadGroup& group, std::string path)
    : state_(std::make_shared<State>(group.state_, std::move(path))) {}

Upload::~Upload() {
  if (!part_.empty()) {
    MutexLock lock(state_->group->mutex);
    state_->group->buffered -= part_.size();
  }
  if (!kept_) state_->GiveUp();
}

absl::Status Upload::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t there = part_.size() + (spill_ == nullptr ? 0 : spill_->size());
    const std::string_view next = bytes.substr(0, part_bytes_ - there);
    if (absl::Status status = Add(next); !status.ok()) return status;
    bytes.remove_prefix(next.size());
    size_ += next.size();
    if (there + next.size() < part_bytes_) continue;
    if (absl::Status status = SendPart(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Upload::Add(std::string_view bytes) {
  UploadGroup::State& group = *state_->group;
  {
    MutexLock lock(group.mutex);
    if (group.buffered + bytes.size() <= UploadGroup::kMaxBytesBuffered) {
      group.buffered += bytes.size();
      part_.append(bytes);
      return absl::OkStatus();
    }
  }
  if (spill_ == nullptr) {
    const absl::StatusOr<int> fd = OpenUnnamedFile();
    if (!fd.ok()) return fd.status();
    spill_ = std::make_unique<Spill>(*fd);
  }
  if (spill_->file == nullptr) {
    absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(spill_->name);
    if (!file.ok()) return file.status();
    spill_->file = *std::move(file);
  }
  absl::Status status = spill_->file->Append(part_);
  if (status.ok()) status = spill_->file->Append(bytes);
  if (!status.ok()) {
    return absl::Status(status.code(),
                        fmt::format("a part of {} cannot be kept in the folder for temporary files "
                                    "(TMPDIR): {}",
                                    state_->path, std::string(status.message())));
  }
  MutexLock lock(group.mutex);
  group.buffered -= part_.size();
  part_ = {};
  return absl::OkStatus();
}

absl::StatusOr<std::string> Upload::TakePart() {
  std::string part;
  if (spill_ != nullptr && spill_->file != nullptr) {
    part.resize(spill_->size());
    const absl::StatusOr<std::shared_ptr<File>> file = File::Open(spill_->name);
    if (!file.ok()) return file.status();
    absl::Status status = (*file)->ReadExactlyAt(0, absl::MakeSpan(part));
    if (!status.ok()) return status;
    spill_->file.reset();
  }
  {
    MutexLock lock(state_->group->mutex);
    state_->group->buffered -= part_.size();
  }
  if (part.empty()) return std::exchange(part_, {});
  part += std::exchange(part_, {});
  return part;
}

absl::Status Upload::SendPart() {
  UploadGroup::State& group = *state_->group;
  {
    MutexLock lock(state_->mutex);
    if (!state_->status.ok()) return state_->status;
  }
  absl::StatusOr<std::string> part = TakePart();
  if (!part.ok()) return part.status();
  const uint64_t bytes = part->size();
  {
    MutexLock lock(group.mutex);
    const auto room = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(group.mutex) {
      return group.in_flight == 0 || group.in_flight + bytes <= UploadGroup::kMaxBytesInFlight;
    };
    if (!AwaitWanted(group.changed, lock, room)) return absl::CancelledError("interrupted");
    group.in_flight += bytes;
  }
  state_->Add({parts_++, PutCall(std::make_shared<const std::string>(*std::move(part)))});
  if (parts_ % kPartsOfOneSize == 0) part_bytes_ = std::min(2 * part_bytes_, kMaxPartBytes);
  return absl::OkStatus();
}

absl::Status Upload::Close() {
  const bool empty = part_.empty() && (spill_ == nullptr || spill_->size() == 0);
  if (std::exchange(closed_, true) || empty) return absl::OkStatus();
  return SendPart();
}

absl::StatusOr<PendingObject> Upload::Finish(const std::stop_token& stop) {
  std::optional<WorkStop> wanted;
  if (stop.stop_possible()) wanted.emplace(stop);
  absl::Status status = Close();
  if (!status.ok()) return status;
  State& state = *state_;
  MutexLock lock(state.mutex);
  const auto done = [&]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { return state.requests == 0; };
  if (!AwaitWanted(state.changed, lock, done)) return absl::CancelledError("interrupted");
  if (!state.status.ok()) return state.status;
  return PendingObject{state.path, state.upload, state.parts, size_, state.group->id};
}

absl::StatusOr<std::string> Publish(const PendingObject& object) {
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(object.path);
  if (!store.ok()) return store.status();
  const UploadProtocol& protocol = *(*store)->uploads();
  if (object.upload.empty()) {
    absl::StatusOr<HttpResponse> response =
        CallStore(**store, object.path, protocol.Put(Share(""), object.writer, /*replace=*/true));
    if (!response.ok()) return response.status();
    return std::string(response->Header("etag"));
  }
  StoreCall call = protocol.Complete(object);
  call.patience = kCompletionPatience;
  absl::Status status;
  for (int attempt = 1; attempt <= kCompletionAttempts; ++attempt) {
    absl::StatusOr<HttpResponse> response = CallStore(**store, object.path, call);
    if (response.ok()) {
      absl::StatusOr<std::string> version = protocol.Completed(object.path, *response);
      if (version.ok()) return version;
      status = version.status();
      continue;
    }
    status = response.status();
    if (!absl::IsNotFound(status)) return status;
    // The store does not have the parts: it is done, or they were removed.
    absl::StatusOr<ObjectInfo> info = StatObject(object.path);
    if (info.ok() && info->writer == object.writer && info->size == object.bytes)
      return info->version;
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    return absl::DataLossError(fmt::format(
        "{}: its uploaded parts were removed from the store before it was complete", object.path));
  }
  return status;
}

absl::Status Discard(const PendingObject& object) {
  if (object.upload.empty()) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(object.path);
  if (!store.ok()) return store.status();
  std::optional<StoreCall> call = (*store)->uploads()->Discard(object.upload);
  if (!call) return absl::OkStatus();
  const absl::Status status = CallStore(**store, object.path, *std::move(call)).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<size_t>> WithoutParts(const std::vector<PendingObject>& objects) {
  if (objects.empty()) return std::vector<size_t>();
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(objects[0].path);
  if (!store.ok()) return store.status();
  return (*store)->uploads()->WithoutParts(objects);
}

absl::Status CreateObject(const std::string& path, std::string_view bytes) {
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(path);
  if (!store.ok()) return store.status();
  const WorkStop whole{std::stop_token()};  // whoever asks gets to know whether it was created
  StoreCall call = (*store)->uploads()->Put(Share(bytes), "", /*replace=*/false);
  absl::Status status = CallStore(**store, path, call).status();
  // Refused; but it may have been created by an attempt whose answer was lost.
  if (absl::IsAborted(status)) {
    const absl::StatusOr<std::string> there = ReadObject(path, bytes.size());
    if (there.ok() && *there == bytes) return absl::OkStatus();
    return absl::AlreadyExistsError(fmt::format("{}: there is one already", path));
  }
  if (!status.ok()) return status;
  // A store that does not know the condition ignores it.
  absl::Status again = CallStore(**store, path, std::move(call)).status();
  if (absl::IsAborted(again)) return absl::OkStatus();
  RemoveObject(path).IgnoreError();
  if (!again.ok()) return again;
  return absl::UnimplementedError(fmt::format(
      "{}: the store replaces objects where it is asked not to (a condition of creation), so that "
      "two writers of one dataset could not be told apart; write to a path and copy it",
      path));
}

absl::Status PutObject(const std::string& path, std::string_view bytes, const std::string& writer) {
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(path);
  if (!store.ok()) return store.status();
  return CallStore(**store, path, (*store)->uploads()->Put(Share(bytes), writer, /*replace=*/true))
      .status();
}

absl::Status RemoveObject(const std::string& path) {
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(path);
  if (!store.ok()) return store.status();
  const absl::Status status = CallStore(**store, path, {.method = "DELETE"}).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<UnfinishedUpload>> ListUploads(const std::string& folder) {
  const absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(folder);
  if (!store.ok()) return store.status();
  return (*store)->uploads()->List(folder);
}

}  // namespace shardfeed
