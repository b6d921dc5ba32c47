#include "pipeline/flight_recorder.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/output_file.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

using Json = nlohmann::ordered_json;

std::string TimeText(uint64_t unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts = {};
  char text[sizeof "YYYYYYYYMMDDTHHMMSSZ"] = "";
  ::gmtime_r(&time, &parts);
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FlightRecorder>> FlightRecorder::Create(const std::string& folder,
                                                                       double starved_seconds) {
  if (!std::isfinite(starved_seconds) || starved_seconds <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("starved_seconds is {}, but must be above 0", starved_seconds));
  }
  if (folder.find("://") != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a flight recorder writes to a folder, not to a store", folder));
  }
  if (absl::Status status = CreateFolders(folder); !status.ok()) return status;
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return ErrnoStatus(errno, folder, "write to");
  return std::unique_ptr<FlightRecorder>(new FlightRecorder(folder, starved_seconds));
}

void FlightRecorder::Add(const LiveRun& run) {
  seconds_.push_back(run);
  if (seconds_.size() > kSeconds) seconds_.pop_front();
  // A wait that lasts grows by the second between two calls. With a limit below a second, two calls
  // in a row can come in different waits.
  constexpr double kLeastGrowth = 0.9;
  if (run.waiting_seconds < waited_seconds_ + kLeastGrowth) recorded_ = false;
  waited_seconds_ = run.waiting_seconds;
  if (run.waiting_seconds < starved_seconds_) return;
  if (!recorded_ && records_ < kMostRecords && Write(run).ok()) {
    recorded_ = true;
    ++records_;
  }
}

absl::Status FlightRecorder::Write(const LiveRun& run) const {
  Json json = {{"format", "shardfeed flight 1"}};
  json.update(LiveRunToJson(run));
  Json& seconds = json["seconds"] = Json::array();
  for (const LiveRun& one : seconds_) {
    Json live = LiveRunToJson(one);
    seconds.push_back({{"updated", live["updated"]},
                       {"waiting_seconds", live["waiting_seconds"]},
                       {"recent", std::move(live["recent"])}});
  }
  const std::string path =
      fmt::format("{}/flight-{}-{}-{}.json", folder_, TimeText(run.updated), run.pid, run.number);
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  return ReplaceFile(path, text, /*sync=*/false);
}

}  // namespace shardfeed
