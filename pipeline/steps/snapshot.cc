#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <memory>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "pipeline/data/element_store.h"
#include "pipeline/dataset.h"
#include "pipeline/plan/fingerprint.h"
#include "pipeline/steps/keeping.h"

namespace shardfeed {
namespace {

// The elements that an earlier run has stored, or null.
absl::StatusOr<std::shared_ptr<const StoredElements>> Stored(const ElementFileOptions& options,
                                                             const Step& input) {
  absl::StatusOr<std::shared_ptr<const StoredElements>> stored = OpenElementFile(options);
  if (absl::IsNotFound(stored.status())) return nullptr;
  if (!stored.ok()) return stored;
  timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  ::clock_gettime(CLOCK_REALTIME, &times[1]);
  absl::Status status = CheckShardsSince(input, options.path);
  if (!status.ok()) return status;
  // Shards that were compared now need not be compared again.
  ::utimensat(AT_FDCWD, options.path.c_str(), times, 0);
  return stored;
}

}  // namespace

Dataset Dataset::Snapshot(std::string path, uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  if (path.empty()) {
    return Dataset(absl::InvalidArgumentError("snapshot: expected the name of a file, got ''"));
  }
  const absl::Status local = CheckLocal("snapshot: path must be a file in a local folder", path);
  if (!local.ok()) return Dataset(local);
  const absl::StatusOr<uint64_t> chain = FingerprintOf(*step_, Coverage::kRank);
  if (!chain.ok()) return Dataset(chain.status());
  Step step = Like("snapshot");
  step.sharing = Sharing::kUneven;  // a state is a number of the rank's elements
  const ElementFileOptions options = {.path = std::move(path),
                                      .chain = fmt::format("{:016x}", *chain),
                                      .spec = step.spec,
                                      .max_bytes = max_bytes};
  step.work = KeepElements({[options] { return MakeFileWriter(options); },
                            [options, input = step_] { return Stored(options, *input); }});
  return Then(std::move(step));
}

}  // namespace shardfeed
