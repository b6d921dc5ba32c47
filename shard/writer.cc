#include "shard/writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "shard/index.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

// Frames in a batch of Write; less where many shards are open at once, so that all together stay
// within kPendingBudget.
constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kMinBatchBytes = 4 << 10;
constexpr size_t kPendingBudget = 64 << 20;

// A file in the staging folder that is there while shards are moved into place; it holds their
// spec.
constexpr char kMovingMark[] = "moving";
constexpr uint64_t kMaxMarkBytes = 64 << 10;

// Many shards are open at once: take as many files as the system lets us.
void RaiseFileLimit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

std::string Joined(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

}  // namespace

struct DatasetWriter::Task {
  uint64_t number;  // over all shards
  size_t shard;
  uint64_t sequence;                               // in the shard
  std::function<absl::Status(RecordBatch&)> fill;  // empty: close the shard
};

struct DatasetWriter::Shard {
  size_t number;
  // Used by the caller's thread alone.
  RecordBatch pending;
  uint64_t submitted = 0;

  std::mutex mutex;  // guards the next three
  uint64_t next = 0;
  bool appending = false;
  // Blocks that wait for those before them; no block: close.
  std::map<uint64_t, std::optional<EncodedBlock>> ready;

  // Used by the one thread that set `appending`.
  std::unique_ptr<OutputFile> file;
  std::unique_ptr<OutputFile> index_file;
  std::unique_ptr<IndexBuilder> index;
  RecordsDigest digest;
  uint32_t adler32 = 1;
  Schema schema;
  SkippedRecords skipped;
  uint64_t bytes = 0;
  uint64_t records = 0;
  bool closed = false;
};

DatasetWriter::DatasetWriter(const OutputSpec& spec, const DatasetWriterOptions& options)
    : spec_(spec), options_(options), staging_(StagingPath(spec.directory, spec.stem)) {
  const size_t threads = ThreadCount(options.threads);
  max_in_flight_ = 2 * threads + 2;
  pending_bytes_ = std::clamp(kPendingBudget / *spec.count, kMinBatchBytes, kBatchBytes);
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(
    const OutputSpec& spec, const DatasetWriterOptions& options) {
  if (!spec.count || *spec.count == 0) {
    return absl::InvalidArgumentError("a dataset needs a number of shards: name it as stem@N");
  }
  if (options.encode.compression == Compression::kSnappy) {
    return absl::InvalidArgumentError("SNAPPY can be read, but not written: use gzip or none");
  }
  if (options.encode.compression_level < 1 || options.encode.compression_level > 9) {
    return absl::InvalidArgumentError(
        fmt::format("compression_level {} is outside 1 to 9", options.encode.compression_level));
  }
  if (options.encode.member_bytes == 0) {
    return absl::InvalidArgumentError("member_bytes must be positive");
  }
  std::unique_ptr<DatasetWriter> writer(new DatasetWriter(spec, options));
  absl::Status status = writer->Prepare();
  if (!status.ok()) return status;
  return writer;
}

absl::Status DatasetWriter::CheckNameIsFree() const {
  const std::string manifest = ManifestPath(spec_.directory, spec_.stem);
  std::error_code error;
  if (fs::exists(manifest, error)) {
    return absl::AlreadyExistsError(
        fmt::format("{}: there is a dataset of this name; --overwrite replaces it", manifest));
  }
  const std::string directory = spec_.directory.empty() ? "." : spec_.directory;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const auto name = ParseShardName(it->path().filename().string());
    if (name && name->stem == spec_.stem && name->suffix == spec_.suffix) {
      return absl::AlreadyExistsError(fmt::format(
          "{}: there are shards of this name; --overwrite replaces them", it->path().string()));
    }
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::Prepare() {
  RaiseFileLimit();
  std::error_code error;
  if (!spec_.directory.empty()) fs::create_directories(spec_.directory, error);
  if (error) return ErrnoStatus(error.value(), spec_.directory, "create the folder");
  fs::create_directories(staging_, error);
  if (error) return ErrnoStatus(error.value(), staging_, "create the folder");
  const std::string lock = staging_ + "/lock";
  lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_fd_ < 0) return ErrnoStatus(errno, lock, "create");
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    const int lock_error = errno;
    ::close(std::exchange(lock_fd_, -1));
    if (lock_error != EWOULDBLOCK) return ErrnoStatus(lock_error, lock, "lock");
    return absl::FailedPreconditionError(
        fmt::format("{}: another process is writing this dataset", staging_));
  }
  absl::Status status = RemoveLeftovers();
  if (status.ok() && !options_.overwrite) status = CheckNameIsFree();
  if (!status.ok()) return status;
  for (size_t i = 0; i < *spec_.count; ++i) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->number = i;
  }
  const int threads = ThreadCount(options_.threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  return absl::OkStatus();
}

// What a killed process left: all of the staging folder and, where it was killed while it moved the
// shards into place, those that it had moved.
absl::Status DatasetWriter::RemoveLeftovers() {
  std::error_code error;
  const std::string mark = staging_ + "/" + kMovingMark;
  absl::StatusOr<std::string> spec = ReadFile(mark, kMaxMarkBytes);
  if (spec.ok() && !fs::exists(ManifestPath(spec_.directory, spec_.stem), error)) {
    const absl::StatusOr<OutputSpec> moved = ParseOutputSpec(*spec);
    for (uint64_t i = 0; moved.ok() && i < moved->count.value_or(0); ++i) {
      const std::string path =
          Joined(spec_.directory, ShardName(moved->stem, i, *moved->count, moved->suffix));
      fs::remove(path, error);
      fs::remove(IndexPath(path), error);
    }
  }
  for (fs::directory_iterator it(staging_, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename() != "lock") fs::remove_all(it->path(), error);
  }
  if (error) return ErrnoStatus(error.value(), staging_, "clear the folder");
  return absl::OkStatus();
}

DatasetWriter::~DatasetWriter() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  work_or_stop_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  shards_.clear();
  if (lock_fd_ < 0) return;
  std::error_code error;
  fs::remove_all(staging_, error);
  ::close(lock_fd_);
  // Of a first dataset that was not finished, nothing stays; folders with anything in them do.
  fs::remove(fs::path(staging_).parent_path(), error);
}

void DatasetWriter::Fail(uint64_t number, absl::Status status) {
  // Of several failures, the earliest in the input is reported, whichever thread was first.
  if (failure_.ok() || number < failure_number_) {
    failure_ = std::move(status);
    failure_number_ = number;
  }
}

void DatasetWriter::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_or_stop_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    if (failure_.ok()) {
      ++running_;
      const uint64_t number = task.number;
      lock.unlock();
      absl::Status status = Run(task);
      lock.lock();
      --running_;
      if (!status.ok()) Fail(number, std::move(status));
    }
    progress_.notify_all();
  }
}

absl::Status DatasetWriter::Run(Task& task) {
  Shard& shard = *shards_[task.shard];
  std::optional<EncodedBlock> block;
  if (task.fill) {
    RecordBatch batch(TakeSpare());
    absl::Status status = task.fill(batch);
    if (!status.ok()) return status;
    task.fill = nullptr;
    const bool compressed = options_.encode.compression != Compression::kNone;
    block =
        EncodeBlock(std::move(batch), options_.encode, compressed ? TakeSpare() : std::string());
  }
  // Whoever finds the next block in line ready appends it, and those after it that wait.
  std::unique_lock<std::mutex> lock(shard.mutex);
  shard.ready.emplace(task.sequence, std::move(block));
  if (shard.appending) return absl::OkStatus();
  shard.appending = true;
  absl::Status status;
  while (status.ok() && !shard.ready.empty() && shard.ready.begin()->first == shard.next) {
    auto node = shard.ready.extract(shard.ready.begin());
    ++shard.next;
    lock.unlock();
    status = node.mapped() ? Append(shard, *node.mapped()) : Close(shard);
    if (node.mapped()) {
      Recycle(std::move(node.mapped()->bytes));
      Recycle(std::move(node.mapped()->spare));
    }
    node = {};
    {
      // Told at once: whoever waits to submit need not wait until this thread finds nothing more.
      std::lock_guard<std::mutex> all(mutex_);
      --in_flight_;
    }
    progress_.notify_all();
    lock.lock();
  }
  shard.appending = false;
  return status;
}

absl::Status DatasetWriter::Append(Shard& shard, const EncodedBlock& block) {
  if (shard.file == nullptr) {
    const std::string base = fmt::format("{}/{:05}", staging_, shard.number);
    absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(base + ".shard");
    if (!file.ok()) return file.status();
    shard.file = *std::move(file);
    file = OutputFile::Create(base + ".index");
    if (!file.ok()) return file.status();
    shard.index_file = *std::move(file);
    shard.index = std::make_unique<IndexBuilder>(shard.index_file.get());
    if (options_.encode.compression == Compression::kZlib) {
      std::string header;
      AppendZlibHeader(&header);
      absl::Status status = shard.file->Append(header);
      if (!status.ok()) return status;
    }
  }
  for (const EncodedBlock::Restart& restart : block.restarts) {
    RestartPoint point;
    point.file_offset = shard.file->size() + restart.file_offset;
    point.stream_offset = shard.index->stream_bytes() + restart.stream_offset;
    point.at_header = options_.encode.compression == Compression::kGzip;
    shard.index->AddRestartPoint(point);
  }
  absl::Status status = shard.file->Append(block.bytes);
  if (!status.ok()) return status;
  for (size_t i = 0; i < block.frame_bytes.size(); ++i) {
    status = shard.index->AddFrame(block.frame_bytes[i]);
    if (!status.ok()) return status;
    shard.digest.Add(block.frame_bytes[i] - kFrameBytes, block.footers[i]);
  }
  for (const ZlibSegment& segment : block.zlib_segments) {
    shard.adler32 = CombineAdler32(shard.adler32, segment);
  }
  shard.schema.Merge(block.schema);
  shard.skipped.Append(block.skipped);
  shard.records += block.frame_bytes.size();
  bytes_written_ += block.bytes.size();
  records_written_ += block.frame_bytes.size();
  return absl::OkStatus();
}

absl::Status DatasetWriter::Close(Shard& shard) {
  if (std::exchange(shard.closed, true)) return absl::OkStatus();
  // A shard without records is still a file.
  absl::Status status = shard.file == nullptr ? Append(shard, EncodedBlock()) : absl::OkStatus();
  if (!status.ok()) return status;
  std::string end;
  if (options_.encode.compression == Compression::kZlib) AppendZlibEnd(shard.adler32, &end);
  // A file without any member would not be GZIP.
  if (options_.encode.compression == Compression::kGzip && shard.records == 0) {
    AppendGzipMember("", options_.encode.compression_level, &end);
  }
  status = shard.file->Append(end);
  if (!status.ok()) return status;
  shard.bytes = shard.file->size();
  IndexSummary summary;
  summary.compression = options_.encode.compression;
  summary.records_digest = shard.digest.value();
  summary.shard_bytes = shard.bytes;
  status = shard.index->Finish(summary).status();
  if (status.ok() && options_.sync) status = shard.file->Sync();
  if (status.ok() && options_.sync) status = shard.index_file->Sync();
  if (status.ok()) status = shard.file->Close();
  if (status.ok()) status = shard.index_file->Close();
  shard.index.reset();
  return status;
}

absl::Status DatasetWriter::Submit(size_t shard, std::function<absl::Status(RecordBatch&)> fill) {
  std::unique_lock<std::mutex> lock(mutex_);
  progress_.wait(lock, [this] { return in_flight_ < max_in_flight_ || !failure_.ok(); });
  if (failure_.ok() && options_.stop.stop_requested()) {
    Fail(next_number_, absl::CancelledError("interrupted; nothing was kept"));
  }
  if (!failure_.ok()) {
    // What was started before may still fail, and would then be the earlier failure.
    progress_.wait(lock, [this] { return tasks_.empty() && running_ == 0; });
    return failure_;
  }
  tasks_.push_back({next_number_++, shard, shards_[shard]->submitted++, std::move(fill)});
  ++in_flight_;
  lock.unlock();
  work_or_stop_.notify_one();
  return absl::OkStatus();
}

std::string DatasetWriter::TakeSpare() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (spares_.empty()) return std::string();
  std::string spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

void DatasetWriter::Recycle(std::string memory) {
  // Neither what is too small to matter, nor what one huge record took.
  if (memory.capacity() < kMinBatchBytes || memory.capacity() > 4 * kBatchBytes) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (spares_.size() < max_in_flight_) spares_.push_back(std::move(memory));
}

absl::Status DatasetWriter::FlushPending(size_t shard) {
  if (shards_[shard]->pending.empty()) return absl::OkStatus();
  // std::function wants to copy what it holds.
  auto batch = std::make_shared<RecordBatch>(
      std::exchange(shards_[shard]->pending, RecordBatch(TakeSpare())));
  return Submit(shard, [batch](RecordBatch& out) {
    std::swap(out, *batch);
    return absl::OkStatus();
  });
}

absl::Status DatasetWriter::Write(std::string_view record) {
  const size_t shard = next_shard_;
  next_shard_ = next_shard_ + 1 == shards_.size() ? 0 : next_shard_ + 1;
  RecordBatch& pending = shards_[shard]->pending;
  pending.Add(record);
  return pending.size() >= pending_bytes_ ? FlushPending(shard) : absl::OkStatus();
}

absl::Status DatasetWriter::CloseShard(size_t shard) {
  absl::Status status = FlushPending(shard);
  return status.ok() ? Submit(shard, nullptr) : status;
}

absl::Status DatasetWriter::WaitForAll() {
  std::unique_lock<std::mutex> lock(mutex_);
  // After a failure, blocks may be left that wait for one that will never come.
  progress_.wait(lock, [this] { return tasks_.empty() && running_ == 0; });
  return failure_;
}

absl::StatusOr<Manifest> DatasetWriter::Finish(Manifest manifest) {
  for (size_t i = 0; i < shards_.size(); ++i) {
    absl::Status status = CloseShard(i);
    if (!status.ok()) return status;
  }
  absl::Status status = WaitForAll();
  if (!status.ok()) return status;
  manifest.stem = spec_.stem;
  manifest.suffix = spec_.suffix;
  manifest.compression = options_.encode.compression;
  manifest.shards.clear();
  manifest.schema = Schema();
  for (const std::unique_ptr<Shard>& shard : shards_) {
    manifest.shards.push_back({ShardName(spec_.stem, shard->number, shards_.size(), spec_.suffix),
                               shard->bytes, shard->records, shard->digest.value()});
    manifest.schema.Merge(shard->schema);
    manifest.skipped.Append(shard->skipped);
  }
  status = MoveIntoPlace(manifest);
  if (!status.ok()) return status;
  return manifest;
}

absl::Status DatasetWriter::SyncFolder(const std::string& path) const {
  return options_.sync ? SyncDirectory(path) : absl::OkStatus();
}

absl::Status DatasetWriter::RemoveOldDataset() {
  // It ends before the new one begins: first its manifest, then its shards.
  const std::string manifest_path = ManifestPath(spec_.directory, spec_.stem);
  std::error_code error;
  const std::string directory = spec_.directory.empty() ? "." : spec_.directory;
  std::vector<std::string> old;
  absl::StatusOr<Manifest> manifest = ReadManifest(manifest_path);
  if (manifest.ok()) {
    for (const ManifestShard& shard : manifest->shards) {
      old.push_back(Joined(spec_.directory, shard.file));
    }
  }
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    const auto name = ParseShardName(file);
    if (name && name->stem == spec_.stem && name->suffix == spec_.suffix) {
      old.push_back(Joined(spec_.directory, file));
    }
  }
  fs::remove(manifest_path, error);
  absl::Status status = SyncFolder(fs::path(manifest_path).parent_path().string());
  if (!status.ok()) return status;
  for (const std::string& path : old) {
    fs::remove(IndexPath(path), error);
    if (!fs::remove(path, error) && error) {
      return ErrnoStatus(error.value(), path, "remove the old shard");
    }
  }
  return absl::OkStatus();
}

absl::Status DatasetWriter::WriteStaged(const std::string& name, std::string_view bytes) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(staging_ + "/" + name);
  if (!file.ok()) return file.status();
  absl::Status status = (*file)->Append(bytes);
  if (status.ok() && options_.sync) status = (*file)->Sync();
  if (status.ok()) status = (*file)->Close();
  return status;
}

absl::Status DatasetWriter::MoveIntoPlace(const Manifest& manifest) {
  const std::string manifest_path = ManifestPath(spec_.directory, spec_.stem);
  const std::string sidecars = fs::path(manifest_path).parent_path().string();
  absl::Status status = WriteStaged("manifest", FormatManifest(manifest));
  if (status.ok() && options_.overwrite) status = RemoveOldDataset();
  // From here on, shards without a manifest are known to be leftovers.
  if (status.ok()) {
    status = WriteStaged(kMovingMark, FormatSpec("", spec_.stem, shards_.size(), spec_.suffix));
  }
  if (status.ok()) status = SyncFolder(staging_);
  for (size_t i = 0; status.ok() && i < manifest.shards.size(); ++i) {
    const std::string base = fmt::format("{}/{:05}", staging_, i);
    const std::string path = Joined(spec_.directory, manifest.shards[i].file);
    status = MoveFile(base + ".index", IndexPath(path));
    if (status.ok()) status = MoveFile(base + ".shard", path);
  }
  if (status.ok()) status = SyncFolder(spec_.directory);
  if (status.ok()) status = SyncFolder(sidecars);
  if (!status.ok()) {
    RemoveLeftovers().IgnoreError();  // the failure before matters more
    return status;
  }
  status = MoveFile(staging_ + "/manifest", manifest_path);
  return status.ok() ? SyncFolder(sidecars) : status;
}

}  // namespace shardfeed
