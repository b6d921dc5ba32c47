#include "net/upload.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/output_file.h"
#include "net/transfers.h"
#include "net/url.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

constexpr size_t kMaxListingBytes = 16 << 20;
constexpr uint64_t kPartsOfOneSize = 1000;
// Large objects take the store a while to put together, during which nothing comes.
constexpr std::chrono::seconds kCompletionPatience(30);
constexpr int kCompletionAttempts = 5;
// Between the last bytes of a part and the answer.
constexpr std::chrono::seconds kPartPatience(30);

using Body = std::shared_ptr<const std::string>;

// The store compares a body with it.
std::string Md5Header(std::string_view body) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(body.data(), body.size(), digest, &size, EVP_md5(), nullptr);
  return "Content-MD5: " + absl::Base64Escape({reinterpret_cast<const char*>(digest), size});
}

StoreCall Put(Body body) {
  StoreCall call;
  call.method = "PUT";
  call.headers = {Md5Header(*body)};
  call.body = std::move(body);
  call.patience = kPartPatience;
  return call;
}

std::string RandomId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

// Of responses whose root element is not the one that is expected.
absl::Status Unexpected(std::string_view path, const pugi::xml_document& xml) {
  const pugi::xml_node error = xml.child("Error");
  return absl::UnavailableError(
      error
          ? fmt::format("{}: {}: {}", path, error.child_value("Code"), error.child_value("Message"))
          : fmt::format("{}: the server answered something that is not S3's protocol", path));
}

absl::StatusOr<std::shared_ptr<const Store>> WritableStore(const std::string& path) {
  absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path);
  if (!store.ok()) return store;
  if (absl::Status status = (*store)->CheckWritable(path); !status.ok()) return status;
  return store;
}

absl::StatusOr<HttpResponse> Call(const std::string& path, StoreCall call) {
  absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(path);
  if (!store.ok()) return store.status();
  return CallStore(**store, path, std::move(call));
}

}  // namespace

absl::Status CheckWritable(const std::string& path) { return WritableStore(path).status(); }

struct UploadGroup::State {
  std::shared_ptr<const Store> store;
  std::string id;

  Mutex mutex;
  CondVar changed;
  uint64_t in_flight ABSL_GUARDED_BY(mutex) = 0;  // bytes
  uint64_t buffered ABSL_GUARDED_BY(mutex) = 0;   // bytes
  size_t removals ABSL_GUARDED_BY(mutex) = 0;     // uploads that are being removed
};

absl::StatusOr<std::unique_ptr<UploadGroup>> UploadGroup::Begin(const std::string& folder) {
  absl::StatusOr<std::shared_ptr<const Store>> store = WritableStore(folder);
  if (!store.ok()) return store.status();
  auto state = std::make_shared<State>();
  state->store = *std::move(store);
  state->id = RandomId();
  return std::unique_ptr<UploadGroup>(new UploadGroup(std::move(state)));
}

UploadGroup::~UploadGroup() {
  MutexLock lock(state_->mutex);
  state_->changed.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex) {
    return state_->removals == 0;
  });
}

const std::string& UploadGroup::id() const { return state_->id; }

// Shared with the requests under way, whose ends the HTTP client's thread reports.
struct Upload::State : std::enable_shared_from_this<Upload::State> {
  struct Part {
    uint64_t number;
    StoreCall call;
  };

  State(std::shared_ptr<UploadGroup::State> of, std::string name)
      : group(std::move(of)), path(std::move(name)) {}

  const std::shared_ptr<UploadGroup::State> group;
  const std::string path;

  Mutex mutex;
  StopCondVar changed;
  absl::Status status ABSL_GUARDED_BY(mutex);
  bool begun ABSL_GUARDED_BY(mutex) = false;         // the store was asked for an upload
  std::string upload ABSL_GUARDED_BY(mutex);         // its answer
  std::vector<Part> waiting ABSL_GUARDED_BY(mutex);  // for the answer
  std::vector<std::string> tags ABSL_GUARDED_BY(mutex);
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

// The first part makes the store begin an upload; until it has answered, parts wait.
void Upload::State::Add(Part part) {
  std::string id;
  {
    MutexLock lock(mutex);
    tags.resize(std::max<size_t>(tags.size(), part.number + 1));
    ++requests;
    id = upload;
    if (id.empty()) waiting.push_back(std::move(part));
    if (id.empty() && std::exchange(begun, true)) return;
  }
  if (!id.empty()) return Send(std::move(part), id);
  StoreCall call;
  call.method = "POST";
  call.query = {{"uploads", ""}};
  call.store_headers = {{std::string(kWriterHeader), group->id}};
  StartCall(group->store, path, std::move(call),
            [self = shared_from_this()](absl::StatusOr<HttpResponse> response) {
              self->Begun(std::move(response));
            });
}

void Upload::State::Begun(absl::StatusOr<HttpResponse> response) {
  std::string id;
  absl::Status failed = response.status();
  if (failed.ok()) {
    pugi::xml_document xml;
    xml.load_buffer(response->body.data(), response->body.size());
    id = xml.child("InitiateMultipartUploadResult").child_value("UploadId");
    if (id.empty()) failed = Unexpected(path, xml);
  }
  std::vector<Part> parts;
  bool send = false;
  bool last = false;
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex);
    upload = id;
    parts.swap(waiting);
    if (status.ok()) status = failed;
    send = status.ok() && !given_up;
    if (!send) {
      requests -= parts.size();
      for (const Part& part : parts) bytes += part.call.body->size();
    }
    last = !send && given_up;
  }
  if (send) {
    for (Part& part : parts) Send(std::move(part), id);
    return;
  }
  Release(bytes);
  changed.NotifyAll();
  if (last) Remove();
}

void Upload::State::Send(Part part, const std::string& id) {
  const uint64_t number = part.number;
  const uint64_t bytes = part.call.body->size();
  part.call.query = {{"partNumber", fmt::format("{}", number + 1)}, {"uploadId", id}};
  const std::shared_ptr<Transfer> transfer =
      StartCall(group->store, path, std::move(part.call),
                [self = shared_from_this(), number, bytes](absl::StatusOr<HttpResponse> response) {
                  self->Sent(number, bytes, std::move(response));
                });
  MutexLock lock(mutex);
  // It may be done already.
  if (tags[number].empty() && status.ok()) running[number] = transfer;
  if (given_up) transfer->Cancel();
}

void Upload::State::Sent(uint64_t number, uint64_t bytes, absl::StatusOr<HttpResponse> response) {
  absl::Status failed = response.status();
  std::string tag;
  if (failed.ok()) {
    tag = response->Header("etag");
    if (tag.empty()) {
      failed = absl::UnavailableError(
          fmt::format("{}: the server gave no ETag for part {}", path, number + 1));
    }
  }
  std::shared_ptr<Transfer> done;  // destroyed without the mutex
  bool last = false;
  {
    MutexLock lock(mutex);
    tags[number] = std::move(tag);
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
  const auto removed = [of = group](const absl::StatusOr<HttpResponse>& /*what stays is cleaned*/) {
    {
      MutexLock lock(of->mutex);
      --of->removals;
    }
    of->changed.NotifyAll();
  };
  if (id.empty()) return removed(HttpResponse());
  StoreCall call;
  call.method = "DELETE";
  call.query = {{"uploadId", id}};
  StartCall(group->store, path, std::move(call), removed);
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
    group.changed.Wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(group.mutex) {
      return group.in_flight == 0 || group.in_flight + bytes <= UploadGroup::kMaxBytesInFlight;
    });
    group.in_flight += bytes;
  }
  state_->Add({parts_++, Put(std::make_shared<const std::string>(*std::move(part)))});
  if (parts_ % kPartsOfOneSize == 0) part_bytes_ *= 2;
  return absl::OkStatus();
}

absl::Status Upload::Close() {
  const bool empty = part_.empty() && (spill_ == nullptr || spill_->size() == 0);
  if (std::exchange(closed_, true) || empty) return absl::OkStatus();
  return SendPart();
}

absl::StatusOr<PendingObject> Upload::Finish(const std::stop_token& stop) {
  absl::Status status = Close();
  if (!status.ok()) return status;
  State& state = *state_;
  MutexLock lock(state.mutex);
  const auto done = [&]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) { return state.requests == 0; };
  while (!state.changed.WaitFor(lock, stop, std::chrono::hours(1), done)) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
  }
  if (!state.status.ok()) return state.status;
  return PendingObject{state.path, state.upload, state.tags, size_};
}

absl::StatusOr<std::string> Publish(const PendingObject& object, const std::string& writer) {
  const std::map<std::string, std::string> headers = {{std::string(kWriterHeader), writer}};
  StoreCall call;
  call.patience = kCompletionPatience;
  if (object.upload.empty()) {
    call = Put(std::make_shared<const std::string>());
    call.store_headers = headers;
    absl::StatusOr<HttpResponse> response = Call(object.path, std::move(call));
    if (!response.ok()) return response.status();
    return std::string(response->Header("etag"));
  }
  call.method = "POST";
  call.query = {{"uploadId", object.upload}};
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < object.parts.size(); ++i) {
    body += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                        absl::StrReplaceAll(object.parts[i], {{"&", "&amp;"}, {"<", "&lt;"}}));
  }
  body += "</CompleteMultipartUpload>";
  call.body = std::make_shared<const std::string>(std::move(body));
  absl::Status status;
  for (int attempt = 1; attempt <= kCompletionAttempts; ++attempt) {
    absl::StatusOr<HttpResponse> response = Call(object.path, call);
    if (response.ok()) {
      // The answer begins before the store is done, so it says 200 even where it fails.
      pugi::xml_document xml;
      xml.load_buffer(response->body.data(), response->body.size());
      if (const pugi::xml_node done = xml.child("CompleteMultipartUploadResult")) {
        return std::string(done.child_value("ETag"));
      }
      status = Unexpected(object.path, xml);
      continue;
    }
    status = response.status();
    if (!absl::IsNotFound(status)) return status;
    // The store does not know the upload: it is done, or was removed.
    absl::StatusOr<ObjectInfo> info = StatObject(object.path);
    if (info.ok() && info->writer == writer && info->size == object.bytes) return info->version;
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    return absl::DataLossError(fmt::format(
        "{}: its uploaded parts were removed from the store before it was complete", object.path));
  }
  return status;
}

absl::Status Discard(const PendingObject& object) {
  if (object.upload.empty()) return absl::OkStatus();
  StoreCall call;
  call.method = "DELETE";
  call.query = {{"uploadId", object.upload}};
  const absl::Status status = Call(object.path, std::move(call)).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::Status CreateObject(const std::string& path, std::string_view bytes) {
  StoreCall call = Put(std::make_shared<const std::string>(bytes));
  call.store_headers = {{"if-none-match", "*"}};
  const absl::Status status = Call(path, call).status();
  // Refused; but it may have been created by an attempt whose answer was lost.
  if (absl::IsAborted(status)) {
    const absl::StatusOr<std::string> there = ReadObject(path, bytes.size());
    if (there.ok() && *there == bytes) return absl::OkStatus();
    return absl::AlreadyExistsError(fmt::format("{}: there is one already", path));
  }
  if (!status.ok()) return status;
  // A store that does not know the condition ignores it.
  const absl::Status again = Call(path, std::move(call)).status();
  if (absl::IsAborted(again)) return absl::OkStatus();
  RemoveObject(path).IgnoreError();
  if (!again.ok()) return again;
  return absl::UnimplementedError(fmt::format(
      "{}: the store replaces objects where it is asked not to (a condition of creation), so that "
      "two writers of one dataset could not be told apart; write to a path and copy it",
      path));
}

absl::Status PutObject(const std::string& path, std::string_view bytes) {
  return Call(path, Put(std::make_shared<const std::string>(bytes))).status();
}

absl::Status RemoveObject(const std::string& path) {
  StoreCall call;
  call.method = "DELETE";
  const absl::Status status = Call(path, std::move(call)).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::vector<UnfinishedUpload>> ListUploads(const std::string& folder) {
  const UrlParts parts = SplitUrl(folder);
  const std::string prefix = parts.key.empty() ? "" : std::string(parts.key) + "/";
  const std::string bucket = fmt::format("{}://{}/", parts.scheme, parts.host);
  StoreCall call;
  call.query = {{"uploads", ""}, {"prefix", prefix}};
  call.max_body = kMaxListingBytes;
  std::vector<UnfinishedUpload> found;
  while (true) {
    absl::StatusOr<HttpResponse> response = Call(bucket, call);
    if (!response.ok()) return response.status();
    pugi::xml_document xml;
    xml.load_buffer(response->body.data(), response->body.size());
    const pugi::xml_node result = xml.child("ListMultipartUploadsResult");
    if (!result) return Unexpected(folder, xml);
    for (const pugi::xml_node node : result.children("Upload")) {
      const std::string key = node.child_value("Key");
      if (!key.starts_with(prefix) || key.find('/', prefix.size()) != key.npos) continue;
      std::tm begun = {};
      ::strptime(node.child_value("Initiated"), "%Y-%m-%dT%H:%M:%S", &begun);
      found.push_back({bucket + key, node.child_value("UploadId"), ::timegm(&begun)});
    }
    const std::string next = result.child_value("NextUploadIdMarker");
    if (std::string_view(result.child_value("IsTruncated")) != "true" || next.empty()) break;
    call.query["key-marker"] = result.child_value("NextKeyMarker");
    call.query["upload-id-marker"] = next;
  }
  return found;
}

}  // namespace shardfeed
