// Writes a sharded dataset: shards, their indexes and the manifest.

#ifndef SHARDFEED_SHARD_WRITER_H_
#define SHARDFEED_SHARD_WRITER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "shard/block.h"
#include "shard/manifest.h"
#include "shard/spec.h"
#include "shard/staging.h"

namespace shardfeed {

struct DatasetWriterOptions {
  EncodeOptions encode;
  int threads = 0;         // 0: one per processor
  bool overwrite = false;  // replace a dataset of the same name
  // Without it, the data may be lost when the machine stops soon after; never visible half.
  bool sync = true;
  // Keeps finished shards if the writer does not come to its end, and takes those that an earlier
  // one of the same `fingerprint` left: it must tell all that the shards depend on.
  bool resume = false;
  std::string fingerprint;
  // Fails once batches have left out more broken records than this (RecordBatch).
  uint64_t max_skipped = UINT64_MAX;
  std::stop_token stop;
};

// Writes all shards at once, on threads of its own. The files depend on the records and their order
// alone, never on the number of threads.
//
// Everything is written to a staging folder and committed by Finish (staging.h): at every moment,
// the name means the old dataset or the new one, whole. A writer that is destroyed unfinished
// removes what it wrote, but for finished shards that are to be kept; what a killed process left
// behind is removed by the next writer of the same dataset, or taken over, and what it had
// committed is finished by the next writer or reader.
//
// The calls of one writer must come from one thread at a time.
class DatasetWriter {
 public:
  // `spec.count` must be set. `staging` is that of the dataset, if it was opened before.
  //
  // AlreadyExists: there is a dataset of that name, and `overwrite` is not set.
  // FailedPrecondition: another process is writing it. InvalidArgument: a wrong option.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(
      const OutputSpec& spec, const DatasetWriterOptions& options,
      std::unique_ptr<Staging> staging = nullptr);
  // Whether an earlier writer left shards in the staging folder at `path` that one with `resume`
  // could take over.
  static bool MayBeResumed(const std::string& path);
  // AlreadyExists, as Create says it; `spec.count` does not matter.
  static absl::Status CheckNameIsFree(const OutputSpec& spec);
  ~DatasetWriter();

  // Appends the record to the next shard in turn: record i goes to shard i mod num_shards. The
  // bytes are copied. An error may be one of an earlier record; after one, all calls fail.
  absl::Status Write(std::string_view record);

  // Has `fill` put records into a batch on one of the writer's threads, and appends them to
  // `shard`. The batches of a shard are appended in the order of the calls. Waits while too many
  // are under way. Not to be mixed with Write on one shard.
  absl::Status Submit(size_t shard, std::function<absl::Status(RecordBatch&)> fill);

  // Says that `shard` is complete, so that its file can be closed before Finish.
  absl::Status CloseShard(size_t shard);

  // Takes the files NNNNN.shard and NNNNN.index, NNNNN being the shard's number, which the caller
  // has put into staging_directory(), for the finished shard and its index.
  void Adopt(size_t shard, uint64_t bytes, uint64_t records, uint32_t records_digest);

  // Waits until all that was submitted is appended.
  absl::Status WaitForAll();

  // Completes the dataset and makes it visible. `manifest` brings made_by, notes, what was skipped
  // before and the schema of adopted shards.
  absl::StatusOr<Manifest> Finish(Manifest manifest);

  // A folder for what the caller must put aside meanwhile; removed with the writer.
  const std::string& staging_directory() const { return staging_->path(); }

  // Whether the shard was taken over from an earlier writer: nothing is to be written to it.
  bool is_taken_over(size_t shard) const { return taken_over_[shard]; }
  size_t num_taken_over() const;
  // What calls fail with once stopping is asked for: says what is kept.
  absl::Status Interrupted() const;

  size_t num_shards() const { return shards_.size(); }
  // Bytes and records appended so far. Thread safe.
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
  absl::Status FlushPending(size_t shard);
  std::string TakeSpare();
  void Recycle(std::string memory);
  absl::Status RemoveLeftovers(const std::vector<std::string>& kept);
  absl::Status TakeOver();
  size_t NumDone() const;
  absl::StatusOr<std::vector<std::string>> OldShards() const;
  absl::Status WriteStaged(const std::string& name, std::string_view bytes);
  absl::Status Commit(const Manifest& manifest);
  void Fail(uint64_t number, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OutputSpec spec_;
  const DatasetWriterOptions options_;
  std::unique_ptr<Staging> staging_;
  std::vector<bool> taken_over_;
  size_t pending_bytes_;  // when a batch of Write is handed on
  std::vector<std::unique_ptr<Shard>> shards_;
  size_t next_shard_ = 0;
  bool taking_over_ = false;
  bool finished_ = false;
  std::atomic<uint64_t> bytes_written_{0};
  std::atomic<uint64_t> records_written_{0};
  std::atomic<uint64_t> records_skipped_{0};

  Mutex mutex_;  // guards all below
  CondVar work_or_stop_;
  CondVar progress_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> spares_ ABSL_GUARDED_BY(mutex_);  // memory of blocks that were appended
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;               // tasks that threads work on
  size_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;             // submitted and not yet appended
  size_t max_in_flight_;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t failure_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITER_H_
