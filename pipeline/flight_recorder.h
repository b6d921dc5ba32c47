// Writes what a run did before its consumer starved to a file, for later analysis.
//
// The file is JSON: the members of LiveRunToJson (live_run.h) for the whole run, with "format":
// "shardfeed flight 1", and "seconds", an array with the members `updated`, `waiting_seconds` and
// `recent` for each of the last seconds, the oldest first.

#ifndef SHARDFEED_PIPELINE_FLIGHT_RECORDER_H_
#define SHARDFEED_PIPELINE_FLIGHT_RECORDER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/live_run.h"

namespace shardfeed {

// Writes a file for each wait of a run's consumer that is too long, up to kMostRecords files. Used
// by one thread at a time.
class FlightRecorder {
 public:
  static constexpr size_t kSeconds = 60;
  static constexpr uint64_t kMostRecords = 20;

  // Creates the folder. InvalidArgument: `starved_seconds` is not a number above 0, or the folder
  // is in a store. Others: as ErrnoStatus, if the folder cannot be created or written to.
  static absl::StatusOr<std::unique_ptr<FlightRecorder>> Create(const std::string& folder,
                                                                double starved_seconds);

  // Notes what the run did in the last second, and writes
  // FOLDER/flight-YYYYMMDDTHHMMSSZ-PID-RUN.json if its consumer has waited for longer than
  // `starved_seconds`. Called every second, so a wait is certain to be noticed only if it lasts for
  // a second more; a file is written for each wait that is. A file that cannot be written is tried
  // again at the next call.
  void Add(const LiveRun& run);

 private:
  FlightRecorder(std::string folder, double starved_seconds)
      : folder_(std::move(folder)), starved_seconds_(starved_seconds) {}
  absl::Status Write(const LiveRun& run) const;

  const std::string folder_;
  const double starved_seconds_;
  std::deque<LiveRun> seconds_;
  bool recorded_ = false;      // whether the present wait has been written
  double waited_seconds_ = 0;  // how long the consumer had waited at the last call
  uint64_t records_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_FLIGHT_RECORDER_H_
