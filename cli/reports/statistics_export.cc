#include "cli/reports/statistics_export.h"

#include <cstdio>
#include <memory>
#include <string_view>

#include "base/suggestion.h"
#include "fmt/format.h"
#include "net/open.h"
#include "shard/commit/file_replacement.h"
#include "shard/statistics/tfdv_statistics.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr std::string_view kTfdv = "tfdv";

}  // namespace

absl::StatusOr<StatisticsExport> ParseStatisticsExport(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string format = text.substr(0, equals);
  if (format != kTfdv) {
    return absl::InvalidArgumentError(
        fmt::format("--export: there is no format '{}', expected tfdv=FILE{}", format,
                    DidYouMean(format, {std::string(kTfdv)})));
  }
  StatisticsExport to;
  if (equals != text.npos) to.path = text.substr(equals + 1);
  if (to.path.empty()) {
    return absl::InvalidArgumentError(
        "--export: the file is missing; expected tfdv=FILE, or tfdv=- for standard output");
  }
  if (IsRemote(to.path)) {
    return absl::InvalidArgumentError(fmt::format(
        "--export: '{}' is a URL; write a local file and copy it, or tfdv=- into a pipe", to.path));
  }
  to.binary = to.path.ends_with(".pb");
  return to;
}

absl::Status ExportStatistics(const StatisticsExport& to, const DatasetStatistics& statistics) {
  const std::string message = TfdvStatistics(statistics);
  std::string record;
  if (!to.binary) AppendFrame(message, &record);
  const std::string& bytes = to.binary ? message : record;
  if (to.path == "-") {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return absl::OkStatus();
    return absl::UnavailableError("cannot write to standard output");
  }
  absl::StatusOr<std::unique_ptr<FileReplacement>> file = FileReplacement::BeginBeside(to.path);
  if (!file.ok()) return file.status();
  const absl::Status status = (*file)->file().Append(bytes);
  return status.ok() ? (*file)->Commit() : status;
}

}  // namespace shardfeed
