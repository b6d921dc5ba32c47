#include "shard/writing/writer.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/folder.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "io/remedy.h"
#include "io/removal.h"
#include "io/thread.h"
#include "shard/declarations/feature_names.h"
#include "shard/index/index.h"
#include "shard/writing/output_folder.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

Remedy ToResume() { return {"resume", "", "continue from there"}; }

// Size of a batch of Write; smaller if there are many shards, so that the batches of all of them
// stay within kPendingBudget.
constexpr size_t kBatchBytes = 1 << 20;
constexpr size_t kMinBatchBytes = 4 << 10;
constexpr size_t kPendingBudget = 64 << 20;
// How long an interrupted call of Write or Submit still waits for room, which a store that answers
// makes, so that nothing is lost.
constexpr auto kRoomPatience = 10 * WorkStop::kInterval;

// Raises the limit of open files to the maximum, because many shards are open at the same time.
void RaiseFileLimit() {
  rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

struct DatasetWriter::Task {
  // Sequence number of the task across all shards.
  uint64_t number;
  size_t shard;
  // Sequence number of the task within the shard.
  uint64_t sequence;
  // Empty if the task is to close the shard.
  std::function<absl::Status(RecordBatch&)> fill;
};

struct DatasetWriter::Shard : FinishedShard {
  size_t number;
  // Accessed by the caller's thread only.
  RecordBatch pending;
  uint64_t submitted = 0;

  Mutex mutex;
  uint64_t next ABSL_GUARDED_BY(mutex) = 0;
  bool appending ABSL_GUARDED_BY(mutex) = false;
  // Blocks that wait for preceding ones, by sequence number; nullopt closes the shard.
  std::map<uint64_t, std::optional<EncodedBlock>> ready ABSL_GUARDED_BY(mutex);

  // Statistics of this shard alone, which no thread uses now.
  std::vector<std::unique_ptr<ValueCollector>> collectors ABSL_GUARDED_BY(mutex);

  // Accessed only by the thread that has set `appending`, like the members of FinishedShard.
  std::unique_ptr<StagedShard> file;
  std::unique_ptr<OutputFile> index_file;
  std::unique_ptr<IndexBuilder> index;
  RecordsDigest digest;
  uint32_t adler32 = 1;
  bool closed = false;

  std::atomic<bool> done{false};  // Finished, and recorded as such in a file.
};

DatasetWriter::DatasetWriter(const OutputSpec& spec, const DatasetWriterOptions& options)
    : spec_(spec),
      options_(options),
      stopped_(options.stop, [this] { stop_.request_stop(); }),
      values_per_shard_(options.resume || !options.only_shards.empty()) {
  const size_t threads = ThreadCount(options.threads);
  max_in_flight_ = 2 * threads + 2;
  // The sample of values depends on batches, so these must not depend on which shards are written.
  pending_bytes_ = std::clamp<size_t>(kPendingBudget / *spec.count, kMinBatchBytes, kBatchBytes);
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(
    const OutputSpec& spec, const DatasetWriterOptions& options, std::unique_ptr<Staging> staging) {
  if (absl::Status status = CheckOptions(spec, options.encode); !status.ok()) return status;
  if (absl::Status status = CheckMayResume(spec, options.resume); !status.ok()) return status;
  std::unique_ptr<DatasetWriter> writer(new DatasetWriter(spec, options));
  writer->staging_ = std::move(staging);
  absl::Status status = writer->Prepare();
  if (!status.ok()) return status;
  return writer;
}

absl::Status DatasetWriter::Prepare() {
  RaiseFileLimit();
  if (staging_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Staging>> staging =
        Staging::Open(spec_.directory, spec_.stem, options_.overwrite);
    if (!staging.ok()) return staging.status();
    staging_ = *std::move(staging);
  }
  const bool all = options_.only_shards.empty();
  const size_t count = all ? *spec_.count : options_.only_shards.size();
  shards_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->number = all ? i : options_.only_shards[i];
  }
  taken_over_.assign(shards_.size(), false);
  // The folder of some shards is a new one, and whoever commits them checks the name.
  if (all) {
    absl::Status status = options_.resume ? TakeOver() : RemoveLeftovers({});
    if (status.ok() && !options_.overwrite) status = CheckNameIsFree(spec_);
    if (!status.ok()) return status;
  }
  const int threads = ThreadCount(options_.threads);
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    absl::StatusOr<std::thread> thread = StartThread([this] { Work(); });
    if (!thread.ok()) return i == 0 ? thread.status() : absl::OkStatus();
    threads_.push_back(*std::move(thread));
  }
  return absl::OkStatus();
}

// Removes files left behind by a killed process: everything in the staging folder except `kept`.
absl::Status DatasetWriter::RemoveLeftovers(const std::vector<std::string>& kept) {
  const absl::StatusOr<std::vector<std::string>> names = NamesIn(staging_->path());
  if (!names.ok()) return names.status();
  std::vector<std::string> leftovers;
  for (const std::string& name : *names) {
    if (name == Staging::kLock || std::binary_search(kept.begin(), kept.end(), name)) continue;
    leftovers.push_back(JoinPath(staging_->path(), name));
  }
  return RemoveAll(leftovers);
}

// Reuses the shards that an earlier writer with the same plan finished.
absl::Status DatasetWriter::TakeOver() {
  const std::string plan = fmt::format(
      "{} {}\n", FormatSpec("", spec_.stem, *spec_.count, spec_.suffix), options_.fingerprint);
  taking_over_ = true;
  if (PlanIs(staging_->path(), plan)) {
    const auto take = [&](size_t i) -> absl::Status {
      absl::StatusOr<std::optional<FinishedShard>> finished =
          ReadFinished(staging_->path(), i, options_.stop);
      if (!finished.ok()) return finished.status();
      if (!*finished) return absl::OkStatus();
      static_cast<FinishedShard&>(*shards_[i]) = **std::move(finished);
      shards_[i]->closed = shards_[i]->done = true;
      return absl::OkStatus();
    };
    absl::Status status =
        ParallelFor(shards_.size(), ThreadCount(options_.threads), options_.stop, take);
    if (!status.ok()) {
      return WithRemedy(absl::CancelledError("interrupted; the finished shards are kept"),
                        ToResume());
    }
  }
  std::vector<size_t> taken;
  for (size_t i = 0; i < shards_.size(); ++i) {
    if (!shards_[i]->done) continue;
    taken.push_back(i);
    taken_over_[i] = true;
    records_written_ += shards_[i]->records;
    bytes_written_ += shards_[i]->bytes;
    records_skipped_ += shards_[i]->skipped.count;
    AddValues(shards_[i]->values.get(), shards_[i]->records);
    shards_[i]->values = nullptr;
  }
  taking_over_ = false;
  absl::Status status = RemoveLeftovers(FilesOfFinished(taken));
  return status.ok() ? WritePlan(staging_->path(), plan, options_.sync) : status;
}

size_t DatasetWriter::NumDone() const {
  return std::count_if(shards_.begin(), shards_.end(),
                       [](const std::unique_ptr<Shard>& shard) { return shard->done.load(); });
}

DatasetWriter::~DatasetWriter() {
  stop_.request_stop();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  work_or_stop_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  // What cannot be removed because memory ran out is left, as by a process that was killed.
  CatchAll([this] { LeaveFinished(); }).IgnoreError();
}

void DatasetWriter::LeaveFinished() {
  if (staging_ == nullptr || staging_->committed()) return;
  staging_->Keep(taking_over_ || (!finished_ && NumDone() > 0));
  if (taking_over_) return;
  // Only finished shards are of use to a writer that resumes.
  std::vector<std::string> unfinished;
  for (const std::unique_ptr<Shard>& shard : shards_) {
    if (shard->done) continue;
    for (const char* ending : {"shard", "index"}) {
      unfinished.push_back(fmt::format("{}/{:05}.{}", staging_->path(), shard->number, ending));
    }
  }
  RemoveAll(unfinished).IgnoreError();
}

void DatasetWriter::Fail(uint64_t number, absl::Status status) {
  // Report the failure that is earliest in the input, whichever thread failed first.
  if (failure_.ok() || number < failure_number_) {
    failure_ = std::move(status);
    failure_number_ = number;
  }
}

void DatasetWriter::Work() {
  const WorkStop wanted(stop_.get_token());
  MutexLock lock(mutex_);
  while (true) {
    work_or_stop_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || !tasks_.empty();
    });
    if (stopping_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    if (failure_.ok()) {
      ++running_;
      const uint64_t number = task.number;
      lock.Unlock();
      absl::Status status = CatchAll([&] { return Run(task); });
      lock.Lock();
      --running_;
      if (absl::IsCancelled(status) && stop_.stop_requested()) status = Interrupted();
      if (!status.ok()) Fail(number, std::move(status));
    }
    progress_.NotifyAll();
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
    std::unique_ptr<ValueCollector> values = TakeCollector(shard);
    block = EncodeBlock(std::move(batch), options_.encode, compressed ? TakeSpare() : std::string(),
                        values.get());
    GiveBack(shard, std::move(values));
  }
  // The thread that completes the next block in sequence appends it and the waiting ones after it.
  MutexLock lock(shard.mutex);
  shard.ready.emplace(task.sequence, std::move(block));
  if (shard.appending) return absl::OkStatus();
  shard.appending = true;
  absl::Status status;
  while (status.ok() && !shard.ready.empty() && shard.ready.begin()->first == shard.next) {
    auto node = shard.ready.extract(shard.ready.begin());
    ++shard.next;
    lock.Unlock();
    status = node.mapped() ? Append(shard, *node.mapped()) : Close(shard);
    if (node.mapped()) {
      Recycle(std::move(node.mapped()->bytes));
      Recycle(std::move(node.mapped()->spare));
    }
    node = {};
    {
      // Report each block immediately, so that Submit need not wait until this thread has appended
      // all waiting blocks.
      MutexLock all(mutex_);
      --in_flight_;
    }
    progress_.NotifyAll();
    lock.Lock();
  }
  shard.appending = false;
  return status;
}

absl::Status DatasetWriter::Append(Shard& shard, const EncodedBlock& block) {
  if (shard.file == nullptr) {
    absl::StatusOr<std::unique_ptr<StagedShard>> file = staging_->Create(
        shard.number, ShardName(spec_.stem, shard.number, *spec_.count, spec_.suffix));
    if (!file.ok()) return file.status();
    shard.file = *std::move(file);
    absl::StatusOr<std::unique_ptr<OutputFile>> index_file =
        OutputFile::Create(fmt::format("{}/{:05}.index", staging_->path(), shard.number));
    if (!index_file.ok()) return index_file.status();
    shard.index_file = *std::move(index_file);
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
  const uint64_t skipped = records_skipped_ += block.skipped.count;
  if (block.skipped.count > 0 && skipped > options_.max_skipped) {
    return TooManySkipped(skipped, options_.max_skipped, shard.skipped.first.front());
  }
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
    AppendGzipMember("", options_.encode.level, &end);
  }
  status = shard.file->Append(end);
  if (!status.ok()) return status;
  shard.bytes = shard.file->size();
  IndexSummary summary;
  summary.compression = options_.encode.compression;
  summary.records_digest = shard.records_digest = shard.digest.value();
  summary.shard_bytes = shard.bytes;
  status = shard.index->Finish(summary).status();
  if (status.ok() && options_.sync) status = shard.index_file->Sync();
  if (status.ok()) status = shard.index_file->Close();
  if (status.ok()) status = shard.file->Close(options_.sync);
  shard.index.reset();
  shard.schema.SetTypes(types_);
  if (status.ok()) status = CheckFeatureNames(spec_, shard.schema);
  if (status.ok() && options_.check_schema) status = options_.check_schema(shard.schema, false);
  if (!status.ok() || !values_per_shard_) return status;
  ValueStatistics values;
  {
    MutexLock lock(shard.mutex);
    for (const auto& collector : shard.collectors) values.Merge(collector->Take());
    shard.collectors.clear();
  }
  AddValues(&values, shard.records);
  shard.values = std::make_shared<const ValueStatistics>(std::move(values));
  status = MarkFinished(shard);
  shard.values = nullptr;
  return status;
}

// Statistics do not depend on the order of merging, so each thread may continue those of any other.
std::unique_ptr<ValueCollector> DatasetWriter::TakeCollector(Shard& shard) {
  const auto take = [](std::vector<std::unique_ptr<ValueCollector>>& from) {
    if (from.empty()) return std::make_unique<ValueCollector>();
    std::unique_ptr<ValueCollector> last = std::move(from.back());
    from.pop_back();
    return last;
  };
  if (values_per_shard_) {
    MutexLock lock(shard.mutex);
    return take(shard.collectors);
  }
  MutexLock lock(values_mutex_);
  return take(collectors_);
}

void DatasetWriter::GiveBack(Shard& shard, std::unique_ptr<ValueCollector> collector) {
  if (values_per_shard_) {
    MutexLock lock(shard.mutex);
    shard.collectors.push_back(std::move(collector));
    return;
  }
  MutexLock lock(values_mutex_);
  collectors_.push_back(std::move(collector));
}

void DatasetWriter::AddValues(const ValueStatistics* values, uint64_t records) {
  MutexLock lock(values_mutex_);
  if (values != nullptr) {
    values_.Merge(*values);
  } else if (records > 0) {
    values_missing_ = true;
  }
}

// Records a shard whose files are complete, if it is of use without the others.
absl::Status DatasetWriter::MarkFinished(Shard& shard) {
  if (!options_.resume && options_.only_shards.empty()) return absl::OkStatus();
  absl::Status status = options_.resume
                            ? WriteFinished(staging_->path(), shard.number, shard, options_.sync)
                            : staging_->ShardFinished(shard.number, shard, options_.sync);
  shard.done = status.ok();
  return status;
}

absl::Status DatasetWriter::Interrupted() const {
  const size_t done = NumDone();
  if (done == 0) return absl::CancelledError("interrupted; nothing was kept");
  if (!options_.only_shards.empty()) {
    return absl::CancelledError(fmt::format(
        "interrupted; {} of {} shards are finished and stay in the job", done, shards_.size()));
  }
  return WithRemedy(absl::CancelledError(fmt::format("interrupted; {} of {} shards are finished",
                                                     done, shards_.size())),
                    ToResume());
}

absl::Status DatasetWriter::Submit(size_t shard, std::function<absl::Status(RecordBatch&)> fill) {
  MutexLock lock(mutex_);
  const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasRoom(); };
  const bool has_room =
      AwaitWanted(progress_, lock, room) || progress_.WaitFor(lock, kRoomPatience, room);
  if (failure_.ok() && (!has_room || options_.stop.stop_requested())) {
    Fail(next_number_, Interrupted());
  }
  if (!failure_.ok()) {
    AwaitIdle(lock);  // running tasks may still fail, and their failure would be an earlier one
    return failure_;
  }
  const size_t place = PlaceOf(shard);
  tasks_.push_back({next_number_++, place, shards_[place]->submitted++, std::move(fill)});
  ++in_flight_;
  lock.Unlock();
  work_or_stop_.NotifyOne();
  return absl::OkStatus();
}

std::string DatasetWriter::TakeSpare() {
  MutexLock lock(mutex_);
  if (spares_.empty()) return std::string();
  std::string spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

void DatasetWriter::Recycle(std::string memory) {
  // Do not keep memory that is too small to matter, or as large as a single huge record needs.
  if (memory.capacity() < kMinBatchBytes || memory.capacity() > 4 * kBatchBytes) return;
  MutexLock lock(mutex_);
  if (spares_.size() < max_in_flight_) spares_.push_back(std::move(memory));
}

absl::Status DatasetWriter::FlushPending(size_t place) {
  Shard& shard = *shards_[place];
  if (shard.pending.empty()) return absl::OkStatus();
  // std::function requires a copyable target.
  auto batch =
      std::make_shared<RecordBatch>(std::exchange(shard.pending, RecordBatch(TakeSpare())));
  return Submit(shard.number, [batch](RecordBatch& out) {
    std::swap(out, *batch);
    return absl::OkStatus();
  });
}

absl::Status DatasetWriter::Write(std::string_view record) {
  shards_[next_shard_]->pending.Add(record);
  return PassPending();
}

absl::Status DatasetWriter::Write(absl::FunctionRef<absl::Status(std::string*)> make) {
  RecordBatch& pending = shards_[next_shard_]->pending;
  if (absl::Status status = make(pending.Begin()); !status.ok()) {
    pending.Drop();
    return status;
  }
  pending.End();
  return PassPending();
}

// Goes on with the next shard, after a record of this one.
absl::Status DatasetWriter::PassPending() {
  const size_t place = next_shard_;
  next_shard_ = place + 1 == shards_.size() ? 0 : place + 1;
  return shards_[place]->pending.size() >= pending_bytes_ ? FlushPending(place) : absl::OkStatus();
}

absl::Status DatasetWriter::CloseShard(size_t shard) {
  absl::Status status = FlushPending(PlaceOf(shard));
  return status.ok() ? Submit(shard, nullptr) : status;
}

absl::Status DatasetWriter::Adopt(size_t number, const FinishedShard& finished) {
  const size_t place = PlaceOf(number);
  Shard& shard = *shards_[place];
  static_cast<FinishedShard&>(shard) = finished;
  shard.closed = true;
  taken_over_[place] = true;
  records_written_ += finished.records;
  bytes_written_ += finished.bytes;
  AddValues(finished.values.get(), finished.records);
  shard.values = nullptr;
  return options_.only_shards.empty() ? absl::OkStatus() : MarkFinished(shard);
}

absl::Status DatasetWriter::WaitForAll() {
  MutexLock lock(mutex_);
  if (!AwaitIdle(lock) && failure_.ok()) return Interrupted();
  return failure_;
}

bool DatasetWriter::HasRoom() const { return in_flight_ < max_in_flight_ || !failure_.ok(); }

// Waits until all submitted tasks have ended. False: the work of this thread is not needed any more
// (see WorkStop), so that of the writer's threads was broken off, too.
bool DatasetWriter::AwaitIdle(MutexLock& lock) {
  // Do not wait for in_flight_: after a failure, blocks may wait for one that will never come.
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return tasks_.empty() && running_ == 0;
  };
  if (AwaitWanted(progress_, lock, idle)) return true;
  stop_.request_stop();
  progress_.Wait(lock, idle);
  return false;
}

absl::Status DatasetWriter::CloseAll() {
  for (const std::unique_ptr<Shard>& shard : shards_) {
    {
      MutexLock lock(mutex_);
      const auto room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasRoom(); };
      if (!AwaitWanted(progress_, lock, room)) return Interrupted();
    }
    absl::Status status = CloseShard(shard->number);
    if (!status.ok()) return status;
  }
  return WaitForAll();
}

void DatasetWriter::AddShards(Manifest* manifest) {
  manifest->stem = spec_.stem;
  manifest->suffix = spec_.suffix;
  manifest->compression = options_.encode.compression;
  manifest->shards.clear();
  for (const std::unique_ptr<Shard>& shard : shards_) {
    manifest->shards.push_back({ShardName(spec_.stem, shard->number, *spec_.count, spec_.suffix),
                                shard->bytes, shard->records, shard->records_digest});
    manifest->schema.Merge(shard->schema);
    manifest->skipped.Append(shard->skipped);
  }
  MutexLock lock(values_mutex_);
  for (const auto& collector : collectors_) values_.Merge(collector->Take());
  collectors_.clear();
  if (!values_missing_) {
    manifest->values = std::make_shared<const ValueStatistics>(std::move(values_));
  }
}

absl::StatusOr<Manifest> DatasetWriter::FinishShards(Manifest manifest) {
  absl::Status status = CloseAll();
  if (!status.ok()) return status;
  AddShards(&manifest);
  return manifest;
}

absl::StatusOr<Manifest> DatasetWriter::Finish(Manifest manifest) {
  absl::Status status = CloseAll();
  if (!status.ok()) return status;
  AddShards(&manifest);
  if (options_.check_schema) status = options_.check_schema(manifest.schema, true);
  if (status.ok()) status = Commit(manifest);
  if (!status.ok()) return status;
  finished_ = true;
  return manifest;
}

}  // namespace shardfeed
