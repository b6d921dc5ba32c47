#include "shard/writing/shared_job.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <numeric>
#include <system_error>

#include "absl/strings/escaping.h"
#include "base/random_digits.h"
#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/names/names.h"
#include "shard/spec/folder_listing.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

constexpr char kFormat[] = "shardfeed shared job 1";
constexpr std::string_view kTemporaryEnding = ".tmp";
constexpr std::string_view kInputFile = "input";
constexpr uint64_t kMaxFileBytes = 64 << 20;
constexpr int kMaxBeginnings = 100;
constexpr size_t kHostBytes = 40;  // with a process's number, less than an attempt's name may have

// Tells people which process wrote an attempt.
std::string NameOfProcess() {
  char host[256] = "";
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  std::string name = host;
  std::erase_if(name, [](char c) { return !IsPlainName({&c, 1}); });
  return fmt::format("{}-{}", name.substr(0, kHostBytes), ::getpid());
}

absl::Status CheckNames(const OutputSpec& spec, const std::string& id) {
  if (IsRemote(spec.directory)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: tasks find a job by its name only in a folder that all of them reach, not in a store; "
        "jobs that a driver hands to its tasks can write there",
        FormatSpec(spec.directory, spec.stem, spec.count, spec.suffix)));
  }
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
  // Two commits may be at work.
  const std::string temporary = fmt::format("{}.{}{}", path, RandomDigits(16), kTemporaryEnding);
  absl::Status status = WriteFile(temporary, text, sync);
  if (status.ok()) status = MoveFile(temporary, path);
  if (status.ok() && sync) status = SyncDirectory(std::string(SplitPath(path).directory));
  return status;
}

// Reads a file that a task has written. Nullopt: it is missing, too large, or no regular file.
absl::StatusOr<std::optional<std::string>> ReadTaskFile(const std::string& path) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return ErrnoStatus(errno, path, "look up");
  }
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kMaxFileBytes) {
    return std::nullopt;
  }
  absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  return *std::move(text);
}

// Returns the number of the part of which the file `name` is the message.
std::optional<uint64_t> PartOfMessage(std::string_view name) {
  if (!name.ends_with(kMessageEnding)) return std::nullopt;
  return ParseNumber(name.substr(0, name.size() - kMessageEnding.size()));
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

absl::StatusOr<std::optional<SharedJob>> SharedJob::Read(const WriteJob& like) {
  const std::string path = SharedJobPath(like.Folder());
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
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
  if (parsed.ok() && (job->id_ != like.id_ || job->spec_.stem != like.spec_.stem)) {
    parsed = absl::DataLossError("it is that of another job");
  }
  if (!parsed.ok()) {
    return absl::DataLossError(
        fmt::format("{}: not the description of a job: {}; choose another name for the job, and "
                    "remove this one's folder",
                    path, std::string(parsed.message())));
  }
  // Machines may reach the folder by different paths.
  job->spec_.directory = like.spec_.directory;
  return SharedJob(*std::move(job), std::move(made_by));
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
  std::error_code error;
  if (!fs::exists(CommittedPath(job_.Folder()), error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: the job has been committed; choose another name for a new one",
                  CommittedPath(job_.Folder())));
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
  std::error_code ignored;
  fs::remove_all(path, ignored);
  ::rmdir(jobs.c_str());  // unless there are other jobs
  ::rmdir(SidecarPath(job.spec_.directory).c_str());
  return status;
}

absl::StatusOr<bool> SharedJob::TakeOver() {
  const absl::StatusOr<std::optional<SharedJob>> there = Read(job_);
  if (!there.ok()) return there.status();
  if (!there->has_value()) return false;
  if (const std::string wrong = DifferenceOf(**there); !wrong.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the job has another option, {}; all tasks of a job need the same options, "
                    "and another job another name",
                    job_.Folder(), wrong));
  }
  job_.before_ = (*there)->job_.before_;
  return true;
}

absl::StatusOr<SharedJob> SharedJob::Prepare(const OutputSpec& spec, const WriteJobOptions& options,
                                             std::string id,
                                             std::map<std::string, std::string> made_by) {
  if (absl::Status status = CheckNames(spec, id); !status.ok()) return status;
  absl::StatusOr<WriteJob> job = WriteJob::Prepare(spec, options, std::move(id));
  if (!job.ok()) return job.status();
  // As others will read it: names may have bytes that are no UTF-8.
  for (auto& [key, value] : made_by) {
    value = nlohmann::json::parse(
        nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  SharedJob shared(*std::move(job), std::move(made_by));
  absl::Status status = shared.CheckNotCommitted();
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
    if (!there.ok() || *there) return there.status();
    status = job_.NoteManifest();
    if (status.ok()) status = Publish();
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
                  job_.Folder()));
}

absl::StatusOr<SharedJob> SharedJob::Find(const OutputSpec& spec, bool overwrite, std::string id) {
  if (absl::Status status = CheckNames(spec, id); !status.ok()) return status;
  OutputSpec counted = spec;
  counted.count = spec.count.value_or(1);
  const absl::StatusOr<WriteJob> like = WriteJob::Prepare(counted, {}, std::move(id));
  if (!like.ok()) return like.status();
  absl::StatusOr<std::optional<SharedJob>> there = Read(*like);
  if (!there.ok()) return there.status();
  if (!there->has_value()) {
    return absl::NotFoundError(fmt::format(
        "{}: there is no such job: no task has begun it, or it has been cleaned", like->Folder()));
  }
  SharedJob job = **std::move(there);
  const OutputSpec& found = job.job_.spec_;
  if ((spec.count && spec.count != found.count) ||
      ((spec.count || !spec.suffix.empty()) && spec.suffix != found.suffix)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the job writes {}, not {}", like->Folder(),
                    FormatSpec("", found.stem, found.count, found.suffix),
                    FormatSpec("", spec.stem, spec.count, spec.suffix)));
  }
  job.job_.options_.overwrite = overwrite;
  return job;
}

absl::StatusOr<std::unique_ptr<PartStaging>> SharedJob::Stage(
    const std::vector<uint64_t>& parts, std::function<absl::Status()> check) const {
  if (absl::Status status = CheckNotCommitted(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PartFolder>> folder =
      PartFolder::Create(job_.Folder(), job_.id_, parts.empty() ? 0 : parts.front(),
                         NameOfProcess(), /*leaves_messages=*/true, std::move(check));
  if (!folder.ok()) return folder.status();
  return *std::move(folder);
}

std::string SharedJob::InputPath(const std::string& folder) const {
  return JoinPath(JoinPath(job_.Folder(), folder), kInputFile);
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

absl::Status SharedJob::CheckAgree(const std::string& folder, const std::string& text,
                                   const std::string& other, const std::string& other_text) const {
  if (text == other_text) return absl::OkStatus();
  const absl::StatusOr<JobInput> mine = ParseJobInput(text);
  const absl::StatusOr<JobInput> theirs = ParseJobInput(other_text);
  for (const auto& [name, parsed] : {std::pair(folder, &mine), std::pair(other, &theirs)}) {
    if (parsed->ok()) continue;
    return NoInput(InputPath(name), parsed->status());
  }
  return absl::FailedPreconditionError(fmt::format(
      "{} and {}: the tasks disagree about {}; remove the folder of the one that is wrong, and "
      "write its parts again",
      InputPath(other), InputPath(folder), shardfeed::DifferenceOf(*theirs, *mine)));
}

absl::Status SharedJob::Describe(const Staging& staging, const JobInput& input) const {
  const std::string text = FormatJobInput(input);
  const std::string own(SplitPath(staging.path()).name);
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
    const absl::StatusOr<std::string> theirs = ReadFile(InputPath(folder), kMaxFileBytes);
    // The other task compared itself with the rest, and the commit compares all of them.
    return theirs.ok() ? CheckAgree(own, text, folder, *theirs) : absl::OkStatus();
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

absl::StatusOr<PartMessage> SharedJob::ReadMessage(const std::string& folder,
                                                   const std::string& name, uint64_t part) const {
  const std::string path = JoinPath(JoinPath(job_.Folder(), folder), name);
  const absl::StatusOr<std::optional<std::string>> text = ReadTaskFile(path);
  if (!text.ok()) return text.status();
  absl::StatusOr<PartMessage> message = ParseMessage(text->value_or(""));
  if (!message.ok() || message->job != job_.id_ || message->part != part ||
      message->folder != folder) {
    return absl::DataLossError(fmt::format("{}: not the message of this part", path));
  }
  absl::Status status = CheckPartFiles(job_.Folder(), *message);
  if (!status.ok()) return status;
  return message;
}

absl::StatusOr<FinishedParts> SharedJob::Finished(const std::vector<uint64_t>& parts) const {
  std::vector<std::optional<PartMessage>> found(parts.size());
  FinishedParts result;
  const absl::StatusOr<std::vector<std::string>> folders = TaskFolders();
  if (!folders.ok()) return folders.status();
  for (const std::string& folder : *folders) {
    const uint64_t first = ParseNumber(folder.substr(0, LeadingDigits(folder))).value_or(0);
    if (parts.empty() || first > parts.back()) continue;
    const std::string path = JoinPath(job_.Folder(), folder);
    absl::StatusOr<Folder> listed = ListFolder(path);
    if (absl::IsNotFound(listed.status())) continue;  // a task that failed has removed it
    if (!listed.ok()) return listed.status();
    std::sort(listed->files.begin(), listed->files.end());
    const absl::StatusOr<std::optional<std::string>> input = ReadTaskFile(InputPath(folder));
    if (!input.ok()) return input.status();
    const bool described = ParseJobInput(input->value_or("")).ok();
    for (const std::string& name : listed->files) {
      const std::optional<uint64_t> part = PartOfMessage(name);
      if (!part) continue;
      const auto at = std::lower_bound(parts.begin(), parts.end(), *part);
      if (at == parts.end() || *at != *part || found[at - parts.begin()]) continue;
      if (!described) {
        result.unsound.push_back(
            fmt::format("{}: the description of its input is missing or damaged", path));
        break;
      }
      absl::StatusOr<PartMessage> message = ReadMessage(folder, name, *part);
      if (message.ok()) {
        found[at - parts.begin()] = *std::move(message);
      } else if (absl::IsDataLoss(message.status())) {
        result.unsound.emplace_back(message.status().message());
      } else {
        return message.status();
      }
    }
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (found[i]) {
      result.parts.push_back(*std::move(found[i]));
    } else {
      result.missing.push_back(parts[i]);
    }
  }
  return result;
}

absl::StatusOr<FinishedParts> SharedJob::AllFinished() const {
  std::vector<uint64_t> parts(job_.num_parts());
  std::iota(parts.begin(), parts.end(), uint64_t{0});
  return Finished(parts);
}

absl::StatusOr<std::optional<Manifest>> SharedJob::Committed() const {
  const std::string path = CommittedPath(job_.Folder());
  const absl::StatusOr<std::string> identity = ReadFile(path, kMaxFileBytes);
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
  std::optional<std::string> text;
  std::string of;
  std::string last;
  SkippedRecords skipped;
  for (const PartMessage& part : finished.parts) {
    skipped.Append(part.shard.skipped);
    if (std::exchange(last, part.folder) == part.folder) continue;
    const absl::StatusOr<std::string> one = ReadFile(InputPath(part.folder), kMaxFileBytes);
    if (absl::IsNotFound(one.status())) return NoInput(InputPath(part.folder), one.status());
    if (!one.ok()) return one.status();
    if (text) {
      absl::Status status = CheckAgree(part.folder, *one, of, *text);
      if (!status.ok()) return status;
    } else {
      text = *one;
      of = part.folder;
    }
  }
  absl::StatusOr<JobInput> input = ParseJobInput(text.value_or(""));
  if (!input.ok()) return NoInput(InputPath(of), input.status());
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
  manifest = job_.CommitParts(parts, *std::move(manifest), stop);
  if (!manifest.ok()) return manifest;
  const absl::StatusOr<std::string> identity = job_.ManifestIdentity();
  absl::Status status = identity.status();
  if (status.ok()) {
    status = WriteAtomically(CommittedPath(job_.Folder()), *identity, job_.options_.sync);
  }
  std::error_code error;
  if (absl::IsNotFound(status) && fs::exists(CommittedPath(job_.Folder()), error)) {
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
  job_.RemoveEmptyStaging();
  const absl::StatusOr<std::vector<std::string>> folders = TaskFolders();
  if (!folders.ok()) return;
  std::error_code ignored;  // what is left does no harm
  for (const std::string& folder : *folders) {
    fs::remove_all(JoinPath(job_.Folder(), folder), ignored);
  }
  const absl::StatusOr<Folder> listed = ListFolder(job_.Folder());
  if (!listed.ok()) return;
  for (const std::string& name : listed->files) {
    if (name.ends_with(kTemporaryEnding)) fs::remove(JoinPath(job_.Folder(), name), ignored);
  }
}

}  // namespace shardfeed
