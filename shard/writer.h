// Writes a sharded dataset: shards, their indexes and the manifest.

#ifndef SHARDFEED_SHARD_WRITER_H_
#define SHARDFEED_SHARD_WRITER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/block.h"
#include "shard/manifest.h"
#include "shard/spec.h"

namespace shardfeed {

struct DatasetWriterOptions {
  EncodeOptions encode;
  int threads = 0;         // 0: one per processor
  bool overwrite = false;  // replace a dataset of the same name
  // Without it, the data may be lost when the machine stops soon after; never visible half.
  bool sync = true;
  std::stop_token stop;
};

// Writes all shards at once, on threads of its own. The files depend on the records and their order
// alone, never on the number of threads.
//
// Everything is written to a staging folder (StagingPath) and moved into place by Finish, the
// manifest last: until then nothing looks like a dataset. A writer that is destroyed unfinished
// removes what it wrote; what a killed process left behind is removed by the next writer of the
// same dataset.
//
// The calls of one writer must come from one thread at a time.
class DatasetWriter {
 public:
  // `spec.count` must be set. AlreadyExists: there is a dataset of that name, and `overwrite` is
  // not set. FailedPrecondition: another process is writing it. InvalidArgument: a wrong option.
  static absl::StatusOr<std::unique_ptr<DatasetWriter>> Create(const OutputSpec& spec,
                                                               const DatasetWriterOptions& options);
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

  // Waits until all that was submitted is appended, or an error ends it, which is returned.
  absl::Status WaitForAll();

  // Completes the dataset and makes it visible. `manifest` brings made_by, notes and what was
  // skipped before.
  absl::StatusOr<Manifest> Finish(Manifest manifest);

  // A folder for what the caller must put aside meanwhile; removed with the writer.
  const std::string& staging_directory() const { return staging_; }

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
  absl::Status RemoveLeftovers();
  absl::Status CheckNameIsFree() const;
  absl::Status SyncFolder(const std::string& path) const;
  absl::Status RemoveOldDataset();
  absl::Status WriteStaged(const std::string& name, std::string_view bytes);
  absl::Status MoveIntoPlace(const Manifest& manifest);
  void Fail(uint64_t number, absl::Status status);

  const OutputSpec spec_;
  const DatasetWriterOptions options_;
  std::string staging_;
  int lock_fd_ = -1;
  size_t pending_bytes_;  // when a batch of Write is handed on
  std::vector<std::unique_ptr<Shard>> shards_;
  size_t next_shard_ = 0;
  std::atomic<uint64_t> bytes_written_{0};
  std::atomic<uint64_t> records_written_{0};

  std::mutex mutex_;  // guards all below
  std::condition_variable work_or_stop_;
  std::condition_variable progress_;
  std::deque<Task> tasks_;
  std::vector<std::string> spares_;  // memory of blocks that were appended
  size_t running_ = 0;               // tasks that threads work on
  size_t in_flight_ = 0;             // submitted and not yet appended
  size_t max_in_flight_;
  uint64_t next_number_ = 0;
  bool stopping_ = false;
  absl::Status failure_;
  uint64_t failure_number_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITER_H_
