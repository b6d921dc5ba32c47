#include "shard/writing/write_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/random_digits.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/bounded_json.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "net/open.h"
#include "net/store.h"
#include "net/upload.h"
#include "nlohmann/json.hpp"
#include "shard/commit/staging.h"
#include "shard/commit/store_staging.h"
#include "shard/formats/shard_reader.h"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"
#include "shard/writing/finished_shards.h"
#include "shard/writing/job_folders.h"
#include "shard/writing/store_part.h"
#include "tfrecord/crc32c.h"
#include "tfrecord/example_reader.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

constexpr char kJobFormat[] = "shardfeed job 1";

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A second name for a file: the job keeps its own until the dataset is committed. File systems
// without hard links get a copy.
absl::Status LinkOrCopy(const std::string& from, const std::string& to, bool sync) {
  if (::link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  if (errno == ENOSPC || errno == EDQUOT || errno == EIO || errno == EROFS || errno == EACCES) {
    return ErrnoStatus(errno, to, "create");
  }
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(from);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::unique_ptr<OutputFile>> copy = OutputFile::Create(to);
  if (!copy.ok()) return copy.status();
  absl::Status status = (*copy)->AppendFrom(**file, 0, (*file)->size());
  if (status.ok() && sync) status = (*copy)->Sync();
  return status.ok() ? (*copy)->Close() : status;
}

// Returns the number of folders, from the end of an absolute path, that do not exist.
uint64_t CountMissing(fs::path path) {
  uint64_t missing = 0;
  std::error_code error;
  for (; fs::symlink_status(path, error).type() == fs::file_type::not_found; ++missing) {
    path = path.parent_path();
  }
  return missing;
}

// Identifies a manifest by its text.
std::string IdentityOf(std::string_view manifest) {
  return fmt::format("{} {:08x}", manifest.size(), Crc32c(manifest));
}

}  // namespace

absl::StatusOr<WriteJob> WriteJob::Prepare(const OutputSpec& spec, const WriteJobOptions& options,
                                           std::string id) {
  if (!spec.count) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a job needs the number of shards; name the dataset as stem@N",
                    FormatSpec(spec.directory, spec.stem, std::nullopt, spec.suffix)));
  }
  absl::Status status = DatasetWriter::CheckOptions(spec, options.encode);
  if (!status.ok()) return status;
  WriteJob job;
  job.id_ = std::move(id);
  job.spec_ = spec;
  job.options_ = options;
  if (job.is_remote()) {
    status = CheckWritable(spec.directory);
    if (!status.ok()) return status;
    return job;
  }
  std::error_code error;
  // Tasks may run in other folders.
  job.spec_.directory = fs::absolute(spec.directory.empty() ? "." : spec.directory, error)
                            .lexically_normal()
                            .string();
  if (error) return ErrnoStatus(error.value(), spec.directory, "find the folder");
  if (job.spec_.directory.size() > 1 && job.spec_.directory.ends_with('/')) {
    job.spec_.directory.pop_back();
  }
  return job;
}

bool WriteJob::is_remote() const { return IsRemote(spec_.directory); }

int WriteJob::at_once() const { return is_remote() ? kStoreRequests : 1; }

absl::StatusOr<bool> WriteJob::Exists() const {
  if (is_remote()) return ObjectExists(SharedJobPath(Folder()));
  std::error_code error;
  return fs::exists(Folder(), error);
}

absl::Status WriteJob::CheckName() const {
  absl::Status status = FinishCommit(spec_.directory, spec_.stem);
  if (!status.ok() || options_.overwrite) return status;
  status = DatasetWriter::CheckNameIsFree(spec_);
  return absl::IsNotFound(status) ? absl::OkStatus() : status;  // a folder that is still to be made
}

absl::StatusOr<std::string> WriteJob::ManifestIdentity() const {
  const absl::StatusOr<std::string> text =
      ReadWhole(ManifestPath(spec_.directory, spec_.stem), kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) return "";
  if (!text.ok()) return text.status();
  return IdentityOf(*text);
}

absl::Status WriteJob::NoteManifest() {
  absl::StatusOr<std::string> before = ManifestIdentity();
  if (!before.ok()) return before.status();
  before_ = *std::move(before);
  return absl::OkStatus();
}

absl::StatusOr<WriteJob> WriteJob::Create(const OutputSpec& spec, const WriteJobOptions& options) {
  absl::StatusOr<WriteJob> job = Prepare(spec, options, RandomDigits(kJobIdDigits));
  if (!job.ok()) return job;
  absl::Status status;
  if (job->is_remote()) {
    status = FinishCommit(spec.directory, spec.stem);
    if (status.ok()) status = CreateStoreJob(job->Folder());
  } else {
    job->made_folders_ = CountMissing(job->spec_.directory);
    status = job->CreateFolder();
  }
  if (status.ok()) status = job->CheckName();
  if (status.ok()) status = job->NoteManifest();
  if (status.ok()) return job;
  job->Abort().IgnoreError();
  return status;
}

absl::Status WriteJob::CreateFolder() const {
  absl::Status status = CheckIsNoLink(JobsPath(spec_.directory, spec_.stem));
  if (status.ok()) status = FinishCommit(spec_.directory, spec_.stem);
  // The dataset's own folder may be new as well.
  return status.ok() ? CreateFolders(Folder()) : status;
}

absl::Status WriteJob::Ensure() const {
  return is_remote() ? CreateStoreJob(Folder()) : CreateFolder();
}

bool WriteJob::IsId(std::string_view text) {
  return !text.empty() && text[0] != '.' && IsPlainName(text);
}

std::string WriteJob::Text() const {
  return Dump({{"format", kJobFormat},
               {"id", id_},
               {"directory", absl::CHexEscape(spec_.directory)},
               {"stem", absl::CHexEscape(spec_.stem)},
               {"suffix", absl::CHexEscape(spec_.suffix)},
               {"shards", *spec_.count},
               {"compression", CompressionName(options_.encode.compression)},
               {"level", options_.encode.level},
               {"member_bytes", options_.encode.member_bytes},
               {"overwrite", options_.overwrite},
               {"sync", options_.sync},
               {"before", before_},
               {"made_folders", made_folders_}});
}

absl::StatusOr<WriteJob> WriteJob::FromText(std::string_view text) {
  const auto broken = [](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("not the text of a job: {}", what));
  };
  nlohmann::json json;
  if (absl::Status parsed = ParseBoundedJson(text, &json); !parsed.ok()) {
    return broken(std::string(parsed.message()));
  }
  JsonMembers members;
  WriteJob job;
  if (members.Text(json, "format") != kJobFormat) {
    return broken(fmt::format("unknown format; {}", kOtherVersion));
  }
  job.id_ = members.Text(json, "id");
  const bool escaped = absl::CUnescape(members.Text(json, "directory"), &job.spec_.directory) &&
                       absl::CUnescape(members.Text(json, "stem"), &job.spec_.stem) &&
                       absl::CUnescape(members.Text(json, "suffix"), &job.spec_.suffix);
  job.spec_.count = members.Number(json, "shards", kMaxShards);
  const std::optional<Compression> compression =
      ParseCompression(members.Text(json, "compression"));
  job.options_.encode.level = static_cast<int>(members.Number(json, "level", 9));
  job.options_.encode.member_bytes = members.Number(json, "member_bytes");
  job.options_.overwrite = members.Flag(json, "overwrite");
  job.options_.sync = members.Flag(json, "sync");
  job.before_ = members.Text(json, "before");
  // An earlier version wrote none.
  if (json.contains("made_folders")) job.made_folders_ = members.Number(json, "made_folders");
  if (!members.status().ok()) return broken(std::string(members.status().message()));
  if (!escaped || !compression || !IsId(job.id_)) return broken("a member has a wrong value");
  job.options_.encode.compression = *compression;
  const OutputSpec& spec = job.spec_;
  const absl::StatusOr<OutputSpec> parsed =
      ParseOutputSpec(FormatSpec(spec.directory, spec.stem, spec.count, spec.suffix));
  if (!parsed.ok()) return broken(std::string(parsed.status().message()));
  if (parsed->directory != spec.directory || parsed->stem != spec.stem ||
      parsed->suffix != spec.suffix || parsed->count != spec.count ||
      !(spec.directory.starts_with('/') || IsRemote(spec.directory))) {
    return broken("its name is not that of a dataset");
  }
  absl::Status status = DatasetWriter::CheckOptions(spec, job.options_.encode);
  if (!status.ok()) return broken(std::string(status.message()));
  return job;
}

std::string WriteJob::Folder() const {
  return JoinPath(JobsPath(spec_.directory, spec_.stem), id_);
}

absl::StatusOr<std::unique_ptr<PartWriter>> WriteJob::Open(uint64_t part, std::string_view attempt,
                                                           int threads) const {
  if (part >= num_parts()) {
    return absl::OutOfRangeError(
        fmt::format("part {} does not exist: the job has {} parts", part, num_parts()));
  }
  absl::StatusOr<std::unique_ptr<PartStaging>> staging;
  if (is_remote()) {
    staging = StorePart::Create(spec_.directory, Folder(), id_, part, attempt);
  } else {
    staging = PartFolder::Create(Folder(), id_, part, attempt, /*leaves_messages=*/false,
                                 /*check=*/nullptr);
  }
  if (!staging.ok()) return staging.status();
  return Begin(part, threads, *std::move(staging));
}

absl::StatusOr<std::unique_ptr<PartWriter>> WriteJob::Begin(
    uint64_t part, int threads, std::unique_ptr<PartStaging> staging) const {
  const PartStaging* const seen = staging.get();
  DatasetWriterOptions options;
  options.encode = options_.encode;
  options.threads = threads;
  options.sync = options_.sync;
  options.only_shards = {part};
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer =
      DatasetWriter::Create(spec_, options, std::move(staging));
  if (!writer.ok()) return writer.status();
  return std::unique_ptr<PartWriter>(new PartWriter(part, seen, *std::move(writer)));
}

PartWriter::~PartWriter() = default;

absl::Status PartWriter::Write(std::string_view record) { return writer_->Write(record); }

absl::Status PartWriter::Write(absl::FunctionRef<absl::Status(std::string*)> make) {
  return writer_->Write(make);
}

absl::StatusOr<std::string> PartWriter::Close(std::vector<std::string> notes) {
  if (std::exchange(closed_, true)) {
    return absl::FailedPreconditionError("the part is closed already");
  }
  const absl::Status finished = writer_->FinishShards({}).status();
  if (!finished.ok()) return finished;
  std::string message = staging_->MessageOf(part_);
  if (notes.empty()) return message;
  absl::StatusOr<PartMessage> noted = ParseMessage(message);
  if (!noted.ok()) return noted.status();
  noted->notes = std::move(notes);
  return FormatMessage(*noted);
}

namespace {

// Returns the parts of a job's messages, in order.
absl::StatusOr<std::vector<PartMessage>> ParseMessages(const WriteJob& job,
                                                       absl::Span<const std::string> messages) {
  std::vector<std::optional<PartMessage>> found(job.num_parts());
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto broken = [i](std::string_view what) {
      return absl::InvalidArgumentError(
          fmt::format("message {} is not that of a finished part: {}", i, what));
    };
    absl::StatusOr<PartMessage> part = ParseMessage(messages[i]);
    if (!part.ok()) {
      return broken(fmt::format("{}; {}", std::string(part.status().message()), kOtherVersion));
    }
    if (part->job != job.id()) return broken("it is of another job");
    const uint64_t number = part->part;
    if (number >= job.num_parts()) {
      return broken(fmt::format("the job has {} parts, and no part {}", job.num_parts(), number));
    }
    if (!found[number]) found[number] = *std::move(part);
  }
  std::string missing;
  size_t num_missing = 0;
  std::vector<PartMessage> parts;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i]) {
      parts.push_back(*std::move(found[i]));
    } else if (++num_missing <= 10) {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", i);
    }
  }
  if (num_missing == 0) return parts;
  return absl::InvalidArgumentError(
      fmt::format("{} of {} parts have no message: {}{}; a dataset is committed whole", num_missing,
                  found.size(), missing, num_missing > 10 ? ", ..." : ""));
}

// Adds the notes of the parts to those of the dataset: of each subject, what precedes ": ", the
// first.
void AddNotes(const std::vector<PartMessage>& parts, std::vector<std::string>* notes) {
  struct Seen {
    std::string note;
    uint64_t part;
    uint64_t others;
  };
  std::map<std::string, Seen> by_subject;
  for (const PartMessage& part : parts) {
    for (const std::string& note : part.notes) {
      const auto [it, is_new] =
          by_subject.try_emplace(note.substr(0, note.find(": ")), Seen{note, part.part, 0});
      if (!is_new && it->second.part != part.part) ++it->second.others;
    }
  }
  for (const auto& [subject, seen] : by_subject) {
    notes->push_back(fmt::format(
        "{} (shard {}{})", seen.note, seen.part,
        seen.others == 0 ? "" : fmt::format(", and the like in {} others", seen.others)));
  }
}

// The features of which all parts that name them have the name alone.
std::vector<std::string> NamesAlone(const std::vector<PartMessage>& parts) {
  std::map<std::string_view, bool> alone;
  for (const PartMessage& part : parts) {
    for (const auto& [name, feature] : part.shard.schema.features()) {
      const auto it = alone.try_emplace(name, true).first;
      it->second &= feature.is_name_alone();
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, is_alone] : alone) {
    if (is_alone) names.emplace_back(name);
  }
  return names;
}

// Whether the dataset is the one that a job made of these parts.
bool HasParts(const Manifest& manifest, const OutputSpec& spec,
              const std::vector<PartMessage>& parts) {
  if (manifest.suffix != spec.suffix || manifest.shards.size() != parts.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const ManifestShard& listed = manifest.shards[i];
    const FinishedShard& shard = parts[i].shard;
    if (listed.bytes != shard.bytes || listed.records != shard.records ||
        listed.records_digest != shard.records_digest) {
      return false;
    }
  }
  return true;
}

// Describes the first record in the shard at `path` whose feature is of the kind: "record 7".
std::string FirstOfKind(const std::string& path, std::string_view name, FeatureKind kind) {
  const absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::Open(path);
  while (reader.ok()) {
    RecordBlock block;
    if (!(*reader)->Next(&block).ok() || block.records.empty()) break;
    for (size_t i = 0; i < block.records.size(); ++i) {
      bool found = false;
      const auto compare = [&](const FeatureSummary& one) {
        found |= one.name == name && one.kind == kind;
      };
      VisitFeatures(block.records[i].payload, compare).IgnoreError();
      if (found) return fmt::format("record {}", block.first_record + i);
    }
  }
  return "some record";
}

}  // namespace

absl::Status WriteJob::CheckOneType(const std::vector<PartMessage>& parts) const {
  struct Seen {
    const PartMessage* part;
    const FeatureSchema* feature;
  };
  std::map<std::string_view, Seen> seen;
  for (const PartMessage& part : parts) {
    for (const auto& [name, feature] : part.shard.schema.features()) {
      // Without a type, the records came as bytes, which are the writer's own affair.
      if (feature.type.dtype.empty() || feature.kind == FeatureKind::kNone) continue;
      if (feature.records == 0) continue;  // all values of its column were missing
      const auto [it, is_new] = seen.try_emplace(name, Seen{&part, &feature});
      if (is_new) continue;
      const Seen& first = it->second;
      const auto place = [&, &name = name](const Seen& of) {
        return fmt::format(
            "{} of part {}",
            FirstOfKind(PartBase(JoinPath(Folder(), of.part->folder), of.part->part) + ".shard",
                        name, of.feature->kind),
            of.part->part);
      };
      if (first.feature->kind != feature.kind) {
        return absl::InvalidArgumentError(fmt::format(
            "feature '{}' is {} in {}, and {} in {}; a dataset has one kind of it: declare the "
            "feature (as float, if some are integers), and write the parts again",
            name, FeatureKindName(first.feature->kind), place(first), FeatureKindName(feature.kind),
            place({&part, &feature})));
      }
      const std::vector<int64_t>& ours = first.feature->type.shape;
      const std::vector<int64_t>& theirs = feature.type.shape;
      if (ours != theirs && std::max(ours.size(), theirs.size()) > 1) {
        return absl::InvalidArgumentError(fmt::format(
            "feature '{}' has the shape [{}] in {}, and [{}] in {}; its records keep only the "
            "values: declare a shape that holds for all, and write the parts again",
            name, fmt::join(ours, ", "), place(first), fmt::join(theirs, ", "),
            place({&part, &feature})));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> WriteJob::Commit(absl::Span<const std::string> messages, Manifest manifest,
                                          const std::stop_token& stop,
                                          std::vector<std::string>* without_values) const {
  const absl::StatusOr<std::vector<PartMessage>> parts = ParseMessages(*this, messages);
  if (!parts.ok()) return parts.status();
  if (without_values != nullptr) *without_values = NamesAlone(*parts);
  AddNotes(*parts, &manifest.notes);
  std::string identity;
  absl::StatusOr<Manifest> finished = CommitParts(*parts, std::move(manifest), stop, &identity);
  if (finished.ok()) Abort().IgnoreError();  // what may be left of the job does no harm
  return finished;
}

absl::StatusOr<std::optional<Manifest>> WriteJob::Dataset() const {
  absl::Status status = FinishCommit(spec_.directory, spec_.stem);
  if (!status.ok()) return status;
  absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(spec_.directory, spec_.stem));
  if (absl::IsNotFound(manifest.status())) return std::nullopt;
  if (!manifest.ok()) return manifest.status();
  return *std::move(manifest);
}

absl::Status WriteJob::CheckMayCommit() const {
  absl::Status status = CheckName();
  const absl::StatusOr<std::string> now = ManifestIdentity();
  if (status.ok()) status = now.status();
  // Where nothing is any more, nothing can be lost.
  if (!status.ok() || *now == before_ || now->empty()) return status;
  return absl::FailedPreconditionError(
      fmt::format("{}: another dataset of this name has been written since the job was created; "
                  "it stays. Begin another job ('shardfeed clean' removes what this one has "
                  "written), or move that dataset away",
                  ManifestPath(spec_.directory, spec_.stem)));
}

absl::StatusOr<Manifest> WriteJob::CommitParts(const std::vector<PartMessage>& parts,
                                               Manifest manifest, const std::stop_token& stop,
                                               std::string* identity) const {
  // An earlier call may have been interrupted after its commit.
  absl::Status status = is_remote() ? FinishStoreCommit(spec_.directory, spec_.stem).status()
                                    : FinishCommit(spec_.directory, spec_.stem);
  if (!status.ok()) return status;
  const std::string path = ManifestPath(spec_.directory, spec_.stem);
  const absl::StatusOr<std::string> now = ManifestIdentity();
  if (!now.ok()) return now.status();
  const absl::StatusOr<bool> exists = Exists();
  if (!exists.ok()) return exists.status();
  if (*now != before_ || !*exists) {
    absl::StatusOr<Manifest> there = ReadManifest(path);
    if (there.ok() && HasParts(*there, spec_, parts)) {
      RemoveEmptyStaging();
      *identity = *now;
      return there;
    }
  }
  status = CheckMayCommit();
  if (status.ok()) status = CheckOneType(parts);
  if (!status.ok()) return status;
  DatasetWriterOptions options;
  options.encode = options_.encode;
  options.threads = 1;
  options.overwrite = options_.overwrite;
  options.sync = options_.sync;
  options.stop = stop;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer =
      is_remote() ? WriterOfUploads(parts, options) : DatasetWriter::Create(spec_, options);
  if (!writer.ok()) return writer.status();
  const std::string staged = (*writer)->staging_directory();
  // In stores, which answer late, many are taken at a time; their number bounds the memory.
  for (size_t begin = 0; begin < parts.size(); begin += at_once()) {
    const size_t end = std::min(begin + at_once(), parts.size());
    std::vector<PartMessage> taken(parts.begin() + begin, parts.begin() + end);
    status = ParallelFor(taken.size(), at_once(), stop, [&](size_t i) {
      return Take(PartBase(staged, taken[i].part), &taken[i]);
    });
    for (PartMessage& part : taken) {
      part.shard.schema.RemoveNamesAlone();
      if (status.ok()) status = (*writer)->Adopt(part.part, part.shard);
    }
    if (!status.ok()) return status;
  }
  absl::StatusOr<Manifest> finished = (*writer)->Finish(std::move(manifest));
  // Not that of the file: another process may be replacing it already.
  if (finished.ok()) *identity = IdentityOf(FormatManifest(*finished));
  return finished;
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> WriteJob::WriterOfUploads(
    const std::vector<PartMessage>& parts, const DatasetWriterOptions& options) const {
  UploadedShards uploaded;
  std::vector<PendingObject>& shards = uploaded.objects;
  for (const PartMessage& part : parts) {
    shards.push_back(part.object.value_or(PendingObject()));
    shards.back().path =
        JoinPath(spec_.directory, ShardName(spec_.stem, part.part, num_parts(), spec_.suffix));
    if (NamesUpload(part)) continue;
    return absl::InvalidArgumentError(
        fmt::format("the message of part {} does not name the upload of its shard", part.part));
  }
  uploaded.job = id_ + "/job";
  absl::StatusOr<std::unique_ptr<Staging>> staging =
      OpenStoreStaging(spec_.directory, spec_.stem, std::move(uploaded));
  if (!staging.ok()) return staging.status();
  return DatasetWriter::Create(spec_, options, *std::move(staging));
}

absl::Status WriteJob::Take(const std::string& to, PartMessage* part) const {
  absl::Status status;
  if (is_remote()) {
    status = FetchPartIndex(Folder(), *part, to + ".index");
  } else {
    const std::string from = PartBase(JoinPath(Folder(), part->folder), part->part);
    status = CheckPartFiles(Folder(), *part);
    if (status.ok()) status = LinkOrCopy(from + ".shard", to + ".shard", options_.sync);
    if (status.ok()) status = LinkOrCopy(from + ".index", to + ".index", options_.sync);
  }
  return status.ok() ? ReadPartStatistics(Folder(), part) : status;
}

void WriteJob::RemoveEmptyStaging() const {
  std::error_code error;
  if (is_remote() || !fs::exists(StagingPath(spec_.directory, spec_.stem), error)) return;
  const absl::StatusOr<std::unique_ptr<Staging>> staging =
      Staging::Open(spec_.directory, spec_.stem);
  if (staging.ok()) (*staging)->Keep(true);  // what another writer may resume
}

absl::Status WriteJob::Abort() const {
  if (is_remote()) return RemoveStoreJob(spec_.directory, spec_.stem, id_);
  const std::string jobs = JobsPath(spec_.directory, spec_.stem);
  absl::Status status = RemoveJobFolder(jobs, id_);
  ::rmdir(jobs.c_str());                          // unless there are other jobs
  ::rmdir(SidecarPath(spec_.directory).c_str());  // unless there are other sidecars
  fs::path folder = spec_.directory;
  for (uint64_t i = 0; i < made_folders_ && ::rmdir(folder.c_str()) == 0; ++i) {
    folder = folder.parent_path();
  }
  return status;
}

}  // namespace shardfeed
