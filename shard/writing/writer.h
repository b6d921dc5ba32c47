// Writes a sharded dataset: shards, their indexes and the manifest.

#ifndef SHARDFEED_SHARD_WRITING_WRITER_H_
#define SHARDFEED_SHARD_WRITING_WRITER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "shard/commit/staging.h"
#include "shard/manifest/manifest.h"
#include "shard/spec/spec.h"
#include "shard/statistics/value_collector.h"
#include "shard/statistics/value_statistics.h"
#include "shard/writing/block.h"
#include "shard/writing/finished_shards.h"

namespace shardfeed {

struct DatasetWriterOptions {
  EncodeOptions encode;
  int threads = 0;         // 0: one per processor.
  bool overwrite = false;  // Replace a dataset of the same name.
  // If false, the dataset may be lost if the machine crashes soon after Finish.
  bool sync = true;
  // Keep finished shards if the writer does not finish, and reuse those left by an earlier writer
  // of the same `fingerprint`, which must identify everything that the shards depend on.
  bool resume = false;
  std::string fingerprint;
  // The writer fails once more broken records than this have been left out (RecordBatch::Skip).
  uint64_t max_skipped = UINT64_MAX;
  // If not empty, only these shards of the dataset are written, in ascending order, and
  // FinishShards takes the place of Finish (write_job.h). All others count as taken over.
  std::vector<uint64_t> only_shards;
  // If set, judges the schema of each shard before it counts as finished, and with `whole` that of
  // all records before the dataset appears. Its error becomes that of the writer.
  std::function<absl::Status(const Schema& schema, bool whole)> check_schema;
  std::stop_token stop;
};

// Writes all shards concurrently, on threads of its own. The files depend only on the records and
// their order, not on the number of threads.
//
// Functions that wait end with Cancelled once the work of the calling thread is not needed any more
// (see WorkStop); Write and Submit only if the store makes no room for what they have taken, which
// would be lost.
//
// All files are staged and committed by Finish (staging.h), so that at any time the name refers
// either to the complete old dataset or to the complete new one. A writer that is destroyed before
// Finish removes its files, except finished shards that are to be kept. In a folder, the next
// writer of the same dataset removes or reuses files left behind by a killed process, and the next
// writer or reader finishes a commit that it left behind; in a store, CleanDataset does both.
//
// Not thread-safe, except bytes_written and records_written.
class DatasetWriter {
 public:
  // `spec.count` must be set. `staging` is that of the dataset if the caller has opened it already,
  // otherwise null.
  //
  // AlreadyExists: there is a dataset of that name, and `overwrite` is not set.
  // FailedPrecondition: another process is writing it. InvalidArgument: an option is invalid, or
  // `resume` is set for a dataset in a store. Others: those of Staging::Open.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(
      const OutputSpec& spec, const DatasetWriterOptions& options,
      std::unique_ptr<Staging> staging = nullptr);
  // InvalidArgument: a spec without a number of shards, or an option is invalid.
  static absl::Status CheckOptions(const OutputSpec& spec, const EncodeOptions& encode);
  // Returns whether an earlier writer may have left shards in the staging folder at `path` that a
  // writer with `resume` could reuse.
  static bool MayBeResumed(const std::string& path);
  // InvalidArgument: `resume` is set, and the dataset is in a store.
  static absl::Status CheckMayResume(const OutputSpec& spec, bool resume);
  // AlreadyExists: there is a dataset of that name. `spec.count` may be unset.
  static absl::Status CheckNameIsFree(const OutputSpec& spec);
  ~DatasetWriter();

  // Appends the record to the next shard in turn: record i goes to shard i mod num_shards. Copies
  // the bytes. An error may be that of an earlier record; after an error, all calls fail.
  absl::Status Write(std::string_view record);
  // Appends the record that `make` appends to a string, which has other bytes already. An error of
  // `make` is returned; then nothing is written, and the next call may succeed.
  absl::Status Write(absl::FunctionRef<absl::Status(std::string*)> make);

  // Calls `fill` on one of the writer's threads to add records to a batch, and appends the batch to
  // `shard`. The batches of a shard are appended in the order of the calls. Waits while too many
  // batches are in flight. Must not be mixed with Write for the same shard.
  absl::Status Submit(size_t shard, std::function<absl::Status(RecordBatch&)> fill);

  // Notes in the schema of each shard that is closed from now on which types the features had.
  void SetTypes(FeatureTypes types) { types_ = std::move(types); }

  // Declares `shard` complete, so that its file can be closed before Finish.
  absl::Status CloseShard(size_t shard);

  // Adopts the files NNNNN.shard and NNNNN.index, which the caller has written to
  // staging_directory(), as the finished shard and its index; NNNNN is the shard's number. Only
  // where the dataset is written to a folder. Errors: those of Staging::ShardFinished.
  absl::Status Adopt(size_t shard, const FinishedShard& finished);

  // Waits until all submitted batches have been appended.
  absl::Status WaitForAll();

  // Completes the dataset and makes it visible. `manifest` provides made_by, notes, records skipped
  // earlier and the schema of adopted shards; also the statistics, if an adopted shard has none.
  absl::StatusOr<Manifest> Finish(Manifest manifest);

  // With `only_shards`: completes these shards and their indexes, which stay staged, and returns
  // what Finish would, with these shards alone.
  absl::StatusOr<Manifest> FinishShards(Manifest manifest);

  // A folder for temporary files of the caller; removed with the writer.
  const std::string& staging_directory() const { return staging_->path(); }

  // True if the shard was reused from an earlier writer, adopted, or is not one of `only_shards`;
  // it must not be written to.
  bool is_taken_over(size_t shard) const;
  size_t num_taken_over() const;
  // The error of calls after `stop` was requested; it says what is kept.
  absl::Status Interrupted() const;

  // Number of shards that this writer writes.
  size_t num_shards() const { return shards_.size(); }
  bool sync() const { return options_.sync; }
  // Numbers of bytes and records appended so far. Thread-safe.
  uint64_t bytes_written() const { return bytes_written_; }
  uint64_t records_written() const { return records_written_; }

 private:
  struct Shard;
  struct Task;

  DatasetWriter(const OutputSpec& spec, const DatasetWriterOptions& options);
  absl::Status Prepare();
  void Work();
  absl::Status Run(Task& task);
  absl::Status Append(Shard& shard, const EncodedBlock& block);
  absl::Status Close(Shard& shard);
  absl::Status MarkFinished(Shard& shard);
  absl::Status PassPending();
  absl::Status FlushPending(size_t place);
  absl::Status CloseAll();
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AwaitIdle(MutexLock& lock) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddShards(Manifest* manifest);
  void AddValues(const ValueStatistics* values, uint64_t records);
  std::unique_ptr<ValueCollector> TakeCollector(Shard& shard);
  void GiveBack(Shard& shard, std::unique_ptr<ValueCollector> collector);
  std::string TakeSpare();
  void Recycle(std::string memory);
  absl::Status RemoveLeftovers(const std::vector<std::string>& kept);
  // Leaves what a writer that resumes can use, if the dataset is not complete.
  void LeaveFinished();
  absl::Status TakeOver();
  size_t NumDone() const;
  absl::Status Commit(const Manifest& manifest);
  void Fail(uint64_t number, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OutputSpec spec_;
  const DatasetWriterOptions options_;
  std::stop_source stop_;  // of the writer's threads; options_.stop asks for it, too
  const std::stop_callback<std::function<void()>> stopped_;
  // The place of a shard in the members below; their length if it is not one of `only_shards`.
  size_t PlaceOf(size_t shard) const;
  std::unique_ptr<Staging> staging_;
  std::vector<bool> taken_over_;
  FeatureTypes types_;  // not changed while shards are being closed
  // Size at which a batch of Write is submitted.
  size_t pending_bytes_;
  std::vector<std::unique_ptr<Shard>> shards_;
  size_t next_shard_ = 0;
  bool taking_over_ = false;
  bool finished_ = false;
  std::atomic<uint64_t> bytes_written_{0};
  std::atomic<uint64_t> records_written_{0};
  std::atomic<uint64_t> records_skipped_{0};
  // Whether the statistics of each shard are needed, and not only those of all.
  const bool values_per_shard_;
  Mutex values_mutex_;
  // The statistics of the shards that are closed, taken over or adopted, or else of all that
  // collectors_ do not have.
  ValueStatistics values_ ABSL_GUARDED_BY(values_mutex_);
  // The collectors that no thread is using.
  std::vector<std::unique_ptr<ValueCollector>> collectors_ ABSL_GUARDED_BY(values_mutex_);
  // Whether values_ lacks a shard that was adopted.
  bool values_missing_ ABSL_GUARDED_BY(values_mutex_) = false;

  Mutex mutex_;
  CondVar work_or_stop_;
  CondVar progress_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  // Reusable memory of appended blocks.
  std::vector<std::string> spares_ ABSL_GUARDED_BY(mutex_);
  // Number of tasks that threads are running.
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of tasks that have been submitted and not yet appended.
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t max_in_flight_;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t failure_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_WRITER_H_
