// Writes a sharded dataset: shards, their indexes and the manifest.
//
//   absl::StatusOr<std::unique_ptr<Writer>> writer = Writer::Create("out/train@64");
//   if (!writer.ok()) return writer.status();
//   for (const std::string& record : records) {
//     if (absl::Status status = (*writer)->Write(record); !status.ok()) return status;
//   }
//   return (*writer)->Finish().status();

#ifndef SHARDFEED_WRITER_H_
#define SHARDFEED_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/options.h"

namespace shardfeed {

class DatasetWriter;

// How records are encoded.
struct EncodeOptions {
  Compression compression = Compression::kNone;  // not kSnappy
  // 1 (fast) to 9 (small); 6 gives the size that TensorFlow's writer gives.
  int level = 6;
  // Size of the frames in a GZIP member or ZLIB segment, at whose beginning a reader can start.
  // Each has at least one record.
  size_t member_bytes = 256 << 10;
};

struct WriterOptions {
  EncodeOptions encode;
  int threads = 0;         // 0: one per processor
  bool overwrite = false;  // replace a dataset of the same name
  // false: the data may be lost when the machine stops soon after Finish. A dataset is never
  // visible in part.
  bool sync = true;
  // What the manifest says about how the dataset was made, as text.
  std::map<std::string, std::string> made_by;
};

// What was written.
struct WriteSummary {
  uint64_t records = 0;
  uint64_t bytes = 0;  // size of all shards
};

// Writes all shards at once, on threads of its own. The files depend on the records and their order
// alone, never on the number of threads.
//
// The dataset is staged, and committed by Finish: at every moment its name means either the old
// dataset or the new one, whole. A writer that is destroyed before Finish removes what it wrote;
// what a killed process left in a folder is removed by the next writer of the same name, and what
// it left in a store by 'shardfeed clean'.
//
// Not thread-safe.
class Writer {
 public:
  // `spec` is stem@N or stem@N.suffix, optionally preceded by a folder, which may be in a store
  // (s3://bucket/folder). See docs/specs.md.
  //
  // AlreadyExists: there is a dataset of that name, and `overwrite` is not set.
  // FailedPrecondition: another process is writing it. InvalidArgument: a wrong spec or option.
  static absl::StatusOr<std::unique_ptr<Writer>> Create(const std::string& spec,
                                                        const WriterOptions& options = {});
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Appends the record to the next shard in turn: record i goes to shard i mod N. The bytes are
  // copied. An error may be that of an earlier record; after one, all calls fail.
  //
  // InvalidArgument: the record is longer than 2 GiB. Others: a file cannot be created or written,
  // with the system's reason (ResourceExhausted: the disk is full).
  absl::Status Write(std::string_view record);

  // Completes the dataset and makes it visible. Called once, last. Errors: those of Write.
  // FailedPrecondition: another writer has taken the name meanwhile.
  absl::StatusOr<WriteSummary> Finish();

 private:
  Writer(std::unique_ptr<DatasetWriter> writer, std::map<std::string, std::string> made_by);

  const std::unique_ptr<DatasetWriter> writer_;
  const std::map<std::string, std::string> made_by_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_WRITER_H_
