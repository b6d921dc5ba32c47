// Raw data to a sharded dataset.

#ifndef SHARDFEED_CONVERT_CONVERTER_H_
#define SHARDFEED_CONVERT_CONVERTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "convert/source.h"
#include "shard/manifest.h"
#include "shard/spec.h"
#include "shard/writer.h"

namespace shardfeed {

struct ConvertOptions {
  OutputSpec output;
  // Without a count in `output`: as many shards as it takes for each to hold about so many bytes
  // before compression.
  uint64_t shard_bytes = 256 << 20;
  EncodeOptions encode;
  int threads = 0;
  // Shuffles the whole input, uniformly; without it the order is that of the source.
  std::optional<uint64_t> shuffle_seed;
  // So many records of the order in which they would be written.
  std::optional<uint64_t> limit;
  // Leaves out broken records, see Source::SkipDefects, and counts them in the manifest.
  bool skip_defects = false;
  bool overwrite = false;
  bool sync = true;
  std::stop_token stop;
  std::map<std::string, std::string> made_by;  // for the manifest
  // Applied to notes and to what is said of skipped records, which name files: for an input that
  // has no name of its own.
  std::function<std::string(std::string)> reword;
};

// Read by another thread while Convert runs.
struct ConvertProgress {
  std::atomic<uint64_t> bytes_scanned{0};
  std::atomic<uint64_t> bytes_to_scan{0};
  std::atomic<uint64_t> records{0};           // written
  std::atomic<uint64_t> records_to_write{0};  // 0 until the scan is over
};

// Scans `source`, then writes its records. Shard s of N gets the records [s*T/N, (s+1)*T/N) of the
// T in order, so that reading shard after shard gives the order back. The files depend on source
// and options alone, not on `threads`.
//
// `limit` counts records that turn out to be broken only when they are built.
//
// Errors: those of the source (the first in its order) and of DatasetWriter. Nothing that looks
// like a dataset is left after one.
absl::StatusOr<Manifest> Convert(Source& source, const ConvertOptions& options,
                                 ConvertProgress* progress = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_CONVERTER_H_
