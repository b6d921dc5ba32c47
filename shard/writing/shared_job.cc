#include "shard/writing/shared_job.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/escaping.h"
#include "base/random_digits.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "io/removal.h"
#include "net/open.h"
#include "net/store.h"
#include "net/upload.h"
#include "nlohmann/json.hpp"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"
#include "shard/writing/job_folders.h"
#include "shard/writing/store_part.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

constexpr char kFormat[] = "shardfeed shared job 1";
constexpr std::string_view kTemporaryEnding = ".tmp";
constexpr int kMaxBeginnings = 100;
constexpr std::string_view kRemoveFolder =
    "remove the folder of the one that is wrong, and write its parts again";
// Together with the number of a process, this is shorter than the name of an attempt may be.
constexpr size_t kHostBytes = 40;

// Tells people which process wrote an attempt.
std::string NameOfProcess() {
  char host[256] = "";
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  std::string name = host;
  std::erase_if(name, [](char c) { return !IsPlainName({&c, 1}); });
  return fmt::format("{}-{}", name.substr(0, kHostBytes), ::getpid());
}

absl::Status CheckId(const std::string& id) {
  if (WriteJob::IsId(id)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("expected the name of a job, which has at most 64 letters, digits, '.', '_' and "
                  "'-' and does not begin with '.'; got '{}'",
                  std::string(absl::CHexEscape(id))));
}

absl::Status NoInput(const std::string& path, const absl::Status& why) {
  return absl::DataLossError(
      fmt::format("{}: not the description of an input: {}; remove its folder, and write its parts "
                  "again",
                  path, std::string(why.message())));
}

absl::Status WriteAtomically(const std::string& path, std::string_view text, bool sync) {
  if (IsRemote(path)) return PutObject(path, text);
  // Two commits may be at work.
  const std::string temporary = fmt::format("{}.{}{}", path, RandomDigits(16), kTemporaryEnding);
  absl::Status status = WriteFile(temporary, text, sync);
  if (status.ok()) status = MoveFile(temporary, path);
  if (status.ok() && sync) status = SyncDirectory(std::string(SplitPath(path).directory));
  return status;
}

absl::StatusOr<bool> Exists(const std::string& path) {
  if (IsRemote(path)) return ObjectExists(path);
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::string FormatParts(const std::vector<uint64_t>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size();) {
    size_t last = i;
    while (last + 1 < parts.size() && parts[last + 1] == parts[last] + 1) ++last;
    if (!text.empty()) text += separator;
    text += last == i ? fmt::format("{}", parts[i]) : fmt::format("{}-{}", parts[i], parts[last]);
    i = last + 1;
  }
  return text;
}

std::string SharedJob::Text() const {
  const nlohmann::json json = {
      {"format", kFormat}, {"made_by", made_by_}, {"job", nlohmann::json::parse(job_.Text())}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string SharedJob::NameFolder() const {
  return JoinPath(JobsPath(job_.spec_.directory, job_.spec_.stem), id_);
}

absl::StatusOr<std::optional<SharedJob>> SharedJob::Read(const SharedJob& like) {
  const std::string path = SharedJobPath(like.NameFolder());
  const absl::StatusOr<std::string> text = ReadWhole(path, kMaxJobFileBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  nlohmann::json json;
  absl::Status parsed = ParseBoundedJson(*text, &json);
  JsonMembers members;
  std::map<std::string, std::string> made_by;
  absl::StatusOr<WriteJob> job = absl::UnknownError("");
  if (parsed.ok()) {
    if (members.Text(json, "format") != kFormat) members.Fail("unknown format");
    const nlohmann::json& options = members.Object(json, "made_by");
    for (const auto& [key, value] : options.items()) made_by[key] = members.Text(options, key);
    job = WriteJob::FromText(members.Object(json, "job").dump());
    parsed = members.status().ok() ? job.status() : members.status();
  }
  const OutputSpec& spec = like.job_.spec_;
  const bool remote = like.job_.is_remote();
  if (parsed.ok() && ((remote ? !IsRandomJobId(job->id_) : job->id_ != like.id_) ||
                      job->spec_.stem != spec.stem)) {
    parsed = absl::DataLossError("it is that of another job");
  }
  if (!parsed.ok()) {
    return absl::DataLossError(
        fmt::format("{}: not the description of a job: {}; choose another name for the job, and "
                    "remove this one's folder",
                    path, std::string(parsed.message())));
  }
  // Machines may reach the folder by different paths.
  job->spec_.directory = spec.directory;
  return SharedJob(like.id_, *std::move(job), std::move(made_by));
}

// Names the first option in which `other` differs, with both values; empty if there is none.
std::string SharedJob::DifferenceOf(const SharedJob& other) const {
  const auto listed = [](const SharedJob& of) {
    const WriteJob& job = of.job_;
    const EncodeOptions& encode = job.options_.encode;
    std::map<std::string, std::string> all = {
        {"shards", fmt::format("{}", job.num_parts())},
        {"suffix", job.spec_.suffix},
        {"compression", std::string(CompressionName(encode.compression))},
        {"level", fmt::format("{}", encode.level)},
        {"member_bytes", fmt::format("{}", encode.member_bytes)},
        {"sync", job.options_.sync ? "yes" : "no"}};
    all.insert(of.made_by_.begin(), of.made_by_.end());
    return all;
  };
  const std::map<std::string, std::string> mine = listed(*this);
  const std::map<std::string, std::string> theirs = listed(other);
  std::map<std::string, std::string> all = mine;
  all.insert(theirs.begin(), theirs.end());
  for (const auto& [key, unused] : all) {
    const auto a = mine.find(key);
    const auto b = theirs.find(key);
    if (a != mine.end() && b != theirs.end() && a->second == b->second) continue;
    const auto value = [](const auto& it, const auto& map) {
      return it == map.end() ? std::string("none") : fmt::format("'{}'", it->second);
    };
    return fmt::format("{}: {}, but this task has {}", key, value(b, theirs), value(a, mine));
  }
  return "";
}

absl::Status SharedJob::CheckNotCommitted() const {
  const absl::StatusOr<bool> committed = Exists(CommittedPath(NameFolder()));
  if (!committed.ok()) return committed.status();
  if (!*committed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: the job has been committed; choose another name for a new one",
                  CommittedPath(NameFolder())));
}

// Creates the job in a store, with the name under which tasks find it. AlreadyExists: another task
// was quicker.
absl::Status SharedJob::PublishInStore() const {
  absl::Status status = CreateStoreJob(job_.Folder());
  if (status.ok()) status = CreateObject(SharedJobPath(NameFolder()), Text());
  if (absl::IsAlreadyExists(status)) {
    RemoveObject(SharedJobPath(job_.Folder())).IgnoreError();  // `clean` does so, too
  }
  return status;
}

// Removes the name of this job, which has been removed, so that a new one can have it.
absl::Status SharedJob::RemoveName() const {
  const absl::StatusOr<std::optional<SharedJob>> there = Read(*this);
  if (!there.ok()) return there.status();
  if (!there->has_value() || (*there)->job_.id_ != job_.id_) return absl::OkStatus();
  return RemoveObject(SharedJobPath(NameFolder()));
}

// Creates the folder of the job with its description in it, by one rename. AlreadyExists: there is
// such a folder. NotFound: `clean` has removed the new folder.
absl::Status SharedJob::Publish() const {
  const WriteJob& job = job_;
  const std::string jobs = JobsPath(job.spec_.directory, job.spec_.stem);
  const std::string path = JoinPath(jobs, HiddenJobName(job.id_));
  absl::Status status = CreateFolders(path);
  if (status.ok()) {
    status = WriteAtomically(SharedJobPath(path), Text(), job.options_.sync);
  }
  if (status.ok() && ::rename(path.c_str(), job.Folder().c_str()) != 0) {
    status = errno == ENOTEMPTY || errno == EEXIST
                 ? absl::AlreadyExistsError(job.Folder())
                 : ErrnoStatus(errno, job.Folder(), "create the folder");
  }
  if (status.ok()) return job.options_.sync ? SyncDirectory(jobs) : absl::OkStatus();
  RemoveTree(path).IgnoreError();
  ::rmdir(jobs.c_str());  // unless there are other jobs
  ::rmdir(SidecarPath(job.spec_.directory).c_str());
  return status;
}

absl::StatusOr<bool> SharedJob::TakeOver() {
  const absl::StatusOr<std::optional<SharedJob>> there = Read(*this);
  if (!there.ok()) return there.status();
  if (!there->has_value()) return false;
  if (const std::string wrong = DifferenceOf(**there); !wrong.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the job has another option, {}; all tasks of a job need the same options, "
                    "and another job another name",
                    NameFolder(), wrong));
  }
  job_.before_ = (*there)->job_.before_;
  job_.id_ = (*there)->job_.id_;
  return true;
}

absl::StatusOr<SharedJob> SharedJob::Prepare(const OutputSpec& spec, const WriteJobOptions& options,
                                             std::string id,
                                             std::map<std::string, std::string> made_by) {
  absl::Status status = CheckId(id);
  if (status.ok()) status = CheckIsNoLink(JobsPath(spec.directory, spec.stem));
  if (!status.ok()) return status;
  absl::StatusOr<WriteJob> job = WriteJob::Prepare(spec, options, id);
  if (!job.ok()) return job.status();
  // As others will read it: names may have bytes that are no UTF-8.
  for (auto& [key, value] : made_by) {
    value = nlohmann::json::parse(
        nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  SharedJob shared(std::move(id), *std::move(job), std::move(made_by));
  status = shared.CheckNotCommitted();
  if (status.ok()) status = shared.job_.CheckName();
  if (status.ok()) status = shared.TakeOver().status();
  if (!status.ok()) return status;
  return shared;
}

absl::Status SharedJob::Join() {
  absl::Status status;
  // There may be a folder already, because another task was quicker; then this one finds its job.
  for (int attempt = 0, taken = 0; attempt < kMaxBeginnings && taken < 2; ++attempt) {
    if (status = CheckNotCommitted(); !status.ok()) return status;
    const absl::StatusOr<bool> there = TakeOver();
    if (!there.ok()) return there.status();
    if (*there) {
      if (!job_.is_remote()) return absl::OkStatus();
      status = CheckStoreJob(job_.Folder());
      if (!absl::IsFailedPrecondition(status)) return status;
      // It has been cleaned, or committed a moment ago.
      if (status = CheckNotCommitted(); status.ok()) status = RemoveName();
      if (!status.ok()) return status;
      continue;
    }
    if (job_.is_remote()) job_.id_ = RandomDigits(kJobIdDigits);
    status = job_.NoteManifest();
    if (status.ok()) status = job_.is_remote() ? PublishInStore() : Publish();
    if (absl::IsAlreadyExists(status)) {
      ++taken;
    } else if (!absl::IsNotFound(status)) {
      return status;  // NotFound: `clean` has removed it meanwhile
    }
  }
  if (absl::IsNotFound(status)) return status;
  return absl::FailedPreconditionError(
      fmt::format("{}: the folder has no description of a job that tasks share; choose another "
                  "name for the job, or remove the folder",
                  NameFolder()));
}

absl::StatusOr<SharedJob> SharedJob::Find(const OutputSpec& spec, bool overwrite, std::string id) {
  absl::Status status = CheckId(id);
  if (status.ok()) status = CheckIsNoLink(JobsPath(spec.directory, spec.stem));
  if (!status.ok()) return status;
  OutputSpec counted = spec;
  counted.count = spec.count.value_or(1);
  absl::StatusOr<WriteJob> prepared = WriteJob::Prepare(counted, {}, id);
  if (!prepared.ok()) return prepared.status();
  const SharedJob like(std::move(id), *std::move(prepared), {});
  absl::StatusOr<std::optional<SharedJob>> there = Read(like);
  if (!there.ok()) return there.status();
  if (!there->has_value()) {
    return absl::NotFoundError(
        fmt::format("{}: there is no such job: no task has begun it, or it has been cleaned",
                    like.NameFolder()));
  }
  SharedJob job = **std::move(there);
  const OutputSpec& found = job.job_.spec_;
  if ((spec.count && spec.count != found.count) ||
      ((spec.count || !spec.suffix.empty()) && spec.suffix != found.suffix)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the job writes {}, not {}", like.NameFolder(),
                    FormatSpec("", found.stem, found.count, found.suffix),
                    FormatSpec("", spec.stem, spec.count, spec.suffix)));
  }
  job.job_.options_.overwrite = overwrite;
  return job;
}

absl::StatusOr<std::unique_ptr<PartStaging>> SharedJob::Stage(
    const std::vector<uint64_t>& parts, std::function<absl::Status()> check) const {
  if (absl::Status status = CheckNotCommitted(); !status.ok()) return status;
  const uint64_t first = parts.empty() ? 0 : parts.front();
  absl::StatusOr<std::unique_ptr<PartStaging>> staging;
  if (job_.is_remote()) {
    staging = StorePart::Create(job_.spec_.directory, job_.Folder(), job_.id_, first,
                                NameOfProcess(), std::move(check));
  } else {
    staging = PartFolder::Create(job_.Folder(), job_.id_, first, NameOfProcess(),
                                 /*leaves_messages=*/true, std::move(check));
  }
  return staging;
}

std::string SharedJob::InputPath(const std::string& folder) const {
  return JoinPath(JoinPath(job_.Folder(), folder), kInputName);
}

// Returns the names of the folders that tasks have written to, sorted.
absl::StatusOr<std::vector<std::string>> SharedJob::TaskFolders() const {
  absl::StatusOr<Folder> listed = ListFolder(job_.Folder());
  if (absl::IsNotFound(listed.status())) return JobIsGone(job_.Folder());
  if (!listed.ok()) return listed.status();
  std::vector<std::string> folders = std::move(listed->folders);
  std::erase_if(folders, [](const std::string& name) { return !IsPartFolderName(name); });
  std::sort(folders.begin(), folders.end());
  return folders;
}

absl::Status SharedJob::CheckAgree(const std::string& path, const std::string& text,
                                   const std::string& other, const std::string& other_text,
                                   std::string_view remedy) {
  if (text == other_text) return absl::OkStatus();
  const absl::StatusOr<JobInput> mine = ParseJobInput(text);
  const absl::StatusOr<JobInput> theirs = ParseJobInput(other_text);
  for (const auto& [described, parsed] : {std::pair(path, &mine), std::pair(other, &theirs)}) {
    if (!parsed->ok()) return NoInput(described, parsed->status());
  }
  return absl::FailedPreconditionError(
      fmt::format("{} and {}: the tasks disagree about {}; {}", other, path,
                  shardfeed::DifferenceOf(*theirs, *mine), remedy));
}

// Instead of listing what a thousand tasks have left, each compares itself with the first one.
absl::Status SharedJob::DescribeInStore(const std::string& attempt, const JobInput& input) const {
  const std::string text = FormatJobInput(input);
  absl::Status status = PutObject(InputPath(attempt), text);
  const std::string first = JoinPath(job_.Folder(), kInputName);
  if (status.ok()) status = CreateObject(first, text);
  if (!absl::IsAlreadyExists(status)) return status;
  const absl::StatusOr<std::string> other = ReadObject(first, kMaxJobFileBytes);
  if (!other.ok()) return other.status();
  return CheckAgree(InputPath(attempt), text, first, *other,
                    "if the first one is wrong, remove both objects and the folders of the tasks "
                    "that agree with it, or begin a job with another name");
}

absl::Status SharedJob::Describe(const PartStaging& staging, const JobInput& input) const {
  const std::string own = staging.attempt();
  if (job_.is_remote()) return DescribeInStore(own, input);
  const std::string text = FormatJobInput(input);
  absl::Status status = WriteFile(InputPath(own), text, job_.options_.sync);
  if (absl::IsNotFound(status)) return JobIsGone(job_.Folder());
  const absl::StatusOr<std::vector<std::string>> folders = TaskFolders();
  if (status.ok()) status = folders.status();
  if (!status.ok()) return status;
  for (const std::string& folder : *folders) {
    const absl::StatusOr<Folder> listed = ListFolder(JoinPath(job_.Folder(), folder));
    if (folder == own || !listed.ok()) continue;  // the folder of another task may be gone again
    const bool finished =
        std::any_of(listed->files.begin(), listed->files.end(),
                    [](const std::string& name) { return PartOfMessage(name).has_value(); });
    if (!finished) continue;
    const absl::StatusOr<std::string> theirs = ReadFile(InputPath(folder), kMaxJobFileBytes);
    // The other task compared itself with the rest, and the commit compares all of them.
    return theirs.ok() ? CheckAgree(InputPath(own), text, InputPath(folder), *theirs, kRemoveFolder)
                       : absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PartWriter>> SharedJob::Open(uint64_t part, const JobInput& input,
                                                            int threads) const {
  absl::StatusOr<std::unique_ptr<PartStaging>> staging = Stage({part});
  if (!staging.ok()) return staging.status();
  if (absl::Status status = Describe(**staging, input); !status.ok()) return status;
  return job_.Begin(part, threads, *std::move(staging));
}

absl::StatusOr<std::optional<Manifest>> SharedJob::Committed() const {
  const std::string path = CommittedPath(NameFolder());
  const absl::StatusOr<std::string> identity = ReadWhole(path, kMaxJobFileBytes);
  if (absl::IsNotFound(identity.status())) return std::nullopt;
  if (!identity.ok()) return identity.status();
  const OutputSpec& spec = job_.spec_;
  if (absl::Status status = FinishCommit(spec.directory, spec.stem); !status.ok()) return status;
  const absl::StatusOr<std::string> now = job_.ManifestIdentity();
  if (!now.ok()) return now.status();
  if (*now != *identity) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the job has been committed, but its dataset has been {} since; choose "
                    "another name for a new job",
                    path, now->empty() ? "removed" : "replaced"));
  }
  absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(spec.directory, spec.stem));
  if (!manifest.ok()) return manifest.status();
  return *std::move(manifest);
}

absl::StatusOr<Manifest> SharedJob::Check(const FinishedParts& finished) const {
  std::vector<std::string> paths;
  SkippedRecords skipped;
  for (const PartMessage& part : finished.parts) {
    skipped.Append(part.shard.skipped);
    std::string path = InputPath(part.folder);
    if (paths.empty() || paths.back() != path) paths.push_back(std::move(path));
  }
  std::string text;
  for (size_t begin = 0; begin < paths.size(); begin += job_.at_once()) {
    std::vector<std::string> texts(std::min<size_t>(job_.at_once(), paths.size() - begin));
    absl::Status status = ParallelFor(texts.size(), job_.at_once(), {}, [&](size_t i) {
      absl::StatusOr<std::string> one = ReadWhole(paths[begin + i], kMaxJobFileBytes);
      if (absl::IsNotFound(one.status())) return NoInput(paths[begin + i], one.status());
      if (!one.ok()) return one.status();
      texts[i] = *std::move(one);
      return absl::OkStatus();
    });
    if (begin == 0) text = texts[0];
    for (size_t i = 0; status.ok() && i < texts.size(); ++i) {
      status = CheckAgree(paths[begin + i], texts[i], paths[0], text, kRemoveFolder);
    }
    if (!status.ok()) return status;
  }
  absl::StatusOr<JobInput> input = ParseJobInput(text);
  if (!input.ok()) return NoInput(paths.empty() ? job_.Folder() : paths[0], input.status());
  if (skipped.count > input->max_skipped) {
    // Without the remedy, which is an option of the tasks and not of the commit.
    return absl::DataLossError(
        TooManySkipped(skipped.count, input->max_skipped, skipped.first.front()).message());
  }
  Manifest manifest;
  manifest.made_by = std::move(input->made_by);
  manifest.notes = std::move(input->notes);
  manifest.skipped = std::move(input->skipped);
  manifest.schema = std::move(input->schema);
  manifest.values = std::move(input->values);
  manifest.classes = std::move(input->classes);
  return manifest;
}

absl::StatusOr<Manifest> SharedJob::Commit(const FinishedParts& finished,
                                           const std::stop_token& stop) const {
  absl::StatusOr<Manifest> manifest = Check(finished);
  if (!manifest.ok()) return manifest;
  std::vector<PartMessage> parts = finished.parts;
  // Records whose bytes were copied are in the schema of the input.
  if (manifest->schema.records() > 0) {
    for (PartMessage& part : parts) {
      part.shard.schema = Schema();
      part.has_statistics = false;
    }
  }
  std::string identity;
  manifest = job_.CommitParts(parts, *std::move(manifest), stop, &identity);
  if (!manifest.ok()) return manifest;
  absl::Status status = WriteAtomically(CommittedPath(NameFolder()), identity, job_.options_.sync);
  if (absl::IsNotFound(status) && Exists(CommittedPath(NameFolder())).value_or(false)) {
    status = absl::OkStatus();  // another commit has done it, and tidied up
  }
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        fmt::format("{}; the dataset is in place, and the next commit of the job tidies up",
                    std::string(status.message())));
  }
  RemoveLeftovers();
  return manifest;
}

void SharedJob::RemoveLeftovers() const {
  if (job_.is_remote()) {
    RemoveStoreJob(job_.spec_.directory, job_.spec_.stem, job_.id_).IgnoreError();
    return;
  }
  job_.RemoveEmptyStaging();
  const absl::StatusOr<std::vector<std::string>> folders = TaskFolders();
  if (!folders.ok()) return;
  // What is left does no harm.
  for (const std::string& folder : *folders) {
    RemoveTree(JoinPath(job_.Folder(), folder)).IgnoreError();
  }
  const absl::StatusOr<Folder> listed = ListFolder(job_.Folder());
  if (!listed.ok()) return;
  for (const std::string& name : listed->files) {
    if (name.ends_with(kTemporaryEnding)) RemoveTree(JoinPath(job_.Folder(), name)).IgnoreError();
  }
}

}  // namespace shardfeed
