// Datasets whose shards are written by several processes, on one machine or on many: the tasks of a
// cluster's job. The driver creates the job and gives it to the tasks as text. Each attempt at a
// part writes one shard where no reader sees it, and returns a message to the driver. The driver
// commits the messages: the dataset appears as a whole, by the transaction of staging.h, or not at
// all. Whatever attempts are late, repeated or killed can only leave files that CleanDatasets
// removes.
//
// In a folder, which all processes must reach by the same path, an attempt's files are in
// .shardfeed/STEM.jobs/ID/ (part_folder.h). In a store, its shard is an upload that the commit
// publishes (store_part.h). docs/jobs.md has the steps and the formats of jobs and
// messages. Tasks that have no driver find their job by a name (shared_job.h).

#ifndef SHARDFEED_SHARD_WRITING_WRITE_JOB_H_
#define SHARDFEED_SHARD_WRITING_WRITE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shard/manifest/manifest.h"
#include "shard/writing/part_folder.h"
#include "shard/writing/writer.h"
#include "shardfeed/spec.h"
#include "shardfeed/writer.h"

namespace shardfeed {

struct WriteJobOptions {
  EncodeOptions encode;
  bool overwrite = false;  // replace a dataset of the same name
  bool sync = true;        // as DatasetWriterOptions::sync
};

class PartWriter;

// A job. A value: copies are the same job. Thread-safe.
class WriteJob {
 public:
  // A new job, with a random name. `spec.count` must be set: part i becomes shard i.
  //
  // AlreadyExists: there is a dataset of that name, and `overwrite` is not set. InvalidArgument: an
  // option is invalid. Others: as ErrnoStatus; of a store, those of Store::ErrorOf.
  static absl::StatusOr<WriteJob> Create(const OutputSpec& spec, const WriteJobOptions& options);
  // The job of which `text` is the Text. InvalidArgument: not a job's text.
  static absl::StatusOr<WriteJob> FromText(std::string_view text);
  std::string Text() const;
  // Whether `text` can be the id of a job: an IsPlainName that is not empty or a hidden file's.
  static bool IsId(std::string_view text);

  const std::string& id() const { return id_; }
  const OutputSpec& spec() const { return spec_; }
  uint64_t num_parts() const { return *spec_.count; }

  // Makes the job exist unless it does, for tasks that derive its text instead of being given it.
  // Errors: as Create.
  absl::Status Ensure() const;

  // Begins an attempt at a part. `attempt` tells attempts apart for people; it need not be unique.
  //
  // OutOfRange: there is no such part. InvalidArgument: `attempt` has other characters than
  // letters, digits, '.', '_' and '-', or is longer than 64. FailedPrecondition: the job has been
  // committed, aborted or cleaned, or this process does not reach its folder.
  absl::StatusOr<std::unique_ptr<PartWriter>> Open(uint64_t part, std::string_view attempt,
                                                   int threads = 1) const;

  // Makes the parts of these messages the dataset of its name. `manifest` provides made_by and
  // notes. Of several messages for one part, the first counts. May be repeated with the same
  // messages, by any process: a commit that was interrupted is finished, and one that succeeded
  // gives its result again. `without_values`, unless null, gets the names of the features of which
  // only the name is in the messages; the dataset does not have them.
  //
  // InvalidArgument: a message is not of this job, a part has none, or parts have different types
  // of a feature, of which the message names a record in each. DataLoss: files of a part are gone
  // or have another size. FailedPrecondition: another dataset of this name has been written since
  // the job was created. Others: as DatasetWriter::Create and Staging::Commit; until the new
  // dataset is committed, an error leaves the job and the old dataset as they were.
  absl::StatusOr<Manifest> Commit(absl::Span<const std::string> messages, Manifest manifest,
                                  const std::stop_token& stop = {},
                                  std::vector<std::string>* without_values = nullptr) const;

  // The manifest of the dataset that has the job's name; nullopt if there is none. Errors: those of
  // FinishCommit and ReadManifest.
  absl::StatusOr<std::optional<Manifest>> Dataset() const;

  // Where the attempts write (in a store, all but shards): DIRECTORY/.shardfeed/STEM.jobs/ID.
  std::string Folder() const;

  // Whether Commit may replace what is there now. AlreadyExists: there is a dataset of the name,
  // and `overwrite` is not set. FailedPrecondition: as Commit.
  absl::Status CheckMayCommit() const;

  // Removes all that the job's attempts have written, and the folders above it that Create has
  // made, unless there is something else in them. Attempts that are still running fail. OK if there
  // is nothing.
  absl::Status Abort() const;

 private:
  friend class SharedJob;

  WriteJob() = default;
  // A job with this id. Checks spec and options, as Create does, but accesses no dataset.
  static absl::StatusOr<WriteJob> Prepare(const OutputSpec& spec, const WriteJobOptions& options,
                                          std::string id);
  absl::StatusOr<std::unique_ptr<PartWriter>> Begin(uint64_t part, int threads,
                                                    std::unique_ptr<PartStaging> staging) const;
  bool is_remote() const;
  // Number of parts that are looked at at a time: stores answer late.
  int at_once() const;
  // Whether the job has been created, and neither committed nor removed.
  absl::StatusOr<bool> Exists() const;
  absl::Status CreateFolder() const;
  // A writer that commits the uploads of these parts.
  absl::StatusOr<std::unique_ptr<DatasetWriter>> WriterOfUploads(
      const std::vector<PartMessage>& parts, const DatasetWriterOptions& options) const;
  // Puts the files of a part where those of a shard are staged, the path `to` without the ending,
  // and reads its statistics.
  absl::Status Take(const std::string& to, PartMessage* part) const;
  // Checks that the name of the dataset may be written.
  absl::Status CheckName() const;
  // Identifies the manifest that is there by its content; empty if there is none.
  absl::StatusOr<std::string> ManifestIdentity() const;
  // Notes which manifest is there.
  absl::Status NoteManifest();
  // As Commit, with one message for each part, in their order; the folder of the job stays.
  // `identity` gets the ManifestIdentity of the dataset.
  absl::StatusOr<Manifest> CommitParts(const std::vector<PartMessage>& parts, Manifest manifest,
                                       const std::stop_token& stop, std::string* identity) const;
  // Checks that parts whose writers noted types have features of one kind and shape.
  absl::Status CheckOneType(const std::vector<PartMessage>& parts) const;
  // Removes the staging folder, if it is empty, of a process that was killed when its commit was
  // done.
  void RemoveEmptyStaging() const;

  std::string id_;
  OutputSpec spec_;  // its directory is absolute
  WriteJobOptions options_;
  std::string before_;  // identifies the manifest that was there when the job was created
  // How many folders Create has made, of those in `spec_.directory`, from its end.
  uint64_t made_folders_ = 0;
};

// One attempt at a part. Not thread-safe.
class PartWriter {
 public:
  // Unless Close has succeeded, the files are removed.
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  // Copies the bytes. After an error, all calls fail.
  absl::Status Write(std::string_view record);
  // See DatasetWriter::Write.
  absl::Status Write(absl::FunctionRef<absl::Status(std::string*)> make);
  uint64_t records_written() const { return writer_->records_written(); }
  // See DatasetWriter::SetTypes. Features that were given without a value or a type have an empty
  // type: other parts may have values of them.
  void SetTypes(FeatureTypes types) { writer_->SetTypes(std::move(types)); }

  // Completes the part's files and returns the message for WriteJob::Commit: JSON without line
  // feeds, at most some KiB; in a store, and 40 bytes for each 8 MiB of the shard.
  // `notes`: what users should know about the records, "feature 'x': 2 values lose digits ..."; of
  // several parts that have one about the same feature, the manifest gets the first.
  absl::StatusOr<std::string> Close(std::vector<std::string> notes = {});

 private:
  friend class WriteJob;
  friend class SharedJob;
  PartWriter(uint64_t part, const PartStaging* staging, std::unique_ptr<DatasetWriter> writer)
      : part_(part), staging_(staging), writer_(std::move(writer)) {}

  const uint64_t part_;
  const PartStaging* const staging_;  // belongs to the writer
  const std::unique_ptr<DatasetWriter> writer_;
  bool closed_ = false;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_WRITING_WRITE_JOB_H_
