// Raw data to sharded datasets.

#ifndef SHARDFEED_CONVERT_CONVERTER_H_
#define SHARDFEED_CONVERT_CONVERTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/items/source.h"
#include "shard/manifest.h"
#include "shard/skipped_records.h"
#include "shard/spec.h"
#include "shard/writer.h"

namespace shardfeed {

// A part of the records, which becomes a dataset of its own: "STEM-NAME".
struct Split {
  std::string name;
  double share;  // fraction of all records, above 0
};

// "train=0.9,test=0.1". InvalidArgument: another form, a name twice or not fit for a file's name,
// or shares that do not add up to 1.
absl::StatusOr<std::vector<Split>> ParseSplits(const std::string& text);

struct ConvertOptions {
  OutputSpec output;
  // Without a count in `output`: as many shards as it takes for each to hold about so many bytes
  // before compression.
  uint64_t shard_bytes = 256 << 20;
  // None: one dataset named `output`. Otherwise one for each split, with its share of the shards,
  // rounded up. A record's split depends on its key alone (Source::AppendKey), not on what else
  // there is.
  std::vector<Split> splits;
  // Of records with the same content (Source::VisitContent), keeps the first of the source.
  bool deduplicate = false;
  EncodeOptions encode;
  int threads = 0;
  // Shuffles the whole input, uniformly; without it the order is that of the source.
  std::optional<uint64_t> shuffle_seed;
  // So many records of the order in which they would be written; not to be had with `splits`.
  std::optional<uint64_t> limit;
  // Leaves out broken records, see Source::SkipDefects, and counts them in the manifest.
  bool skip_defects = false;
  // More than that in one dataset are an error. DataLoss.
  SkipCeiling max_skipped;
  bool overwrite = false;
  bool sync = true;
  // Goes on from the shards that an interrupted run with the same input and options finished, and
  // keeps those of this one if it is interrupted. The result is the same. A dataset of that name
  // whose manifest tells of the same source and options is taken for finished.
  bool resume = false;
  // What the source was made with and cannot tell itself: goes with `resume`.
  std::string fingerprint;
  std::stop_token stop;
  std::map<std::string, std::string> made_by;  // goes into the manifest
  // Applied to notes and to what is said of skipped records, which name files: for an input that
  // has no name of its own.
  std::function<std::string(std::string)> reword;
};

// Read by another thread while Convert runs.
struct ConvertProgress {
  std::atomic<uint64_t> bytes_scanned{0};
  std::atomic<uint64_t> bytes_to_scan{0};
  std::atomic<uint64_t> items_selected{0};    // items that splits and duplicates left in
  std::atomic<uint64_t> records{0};           // written
  std::atomic<uint64_t> records_to_write{0};  // 0 until the scan is over
  std::atomic<uint64_t> shards_taken_over{0};
  std::atomic<uint64_t> datasets_complete{
      0};  // datasets that an earlier run had finished, see `resume`
  std::atomic<uint64_t> skipped_in_scan{0};  // broken records; each manifest has all of them
};

// Scans `source`, then writes its records. Shard s of N gets the records [s*T/N, (s+1)*T/N) of the
// T in order, so that reading shard after shard gives the order back. The files depend on source
// and options alone, not on `threads`. `limit` counts records that turn out to be broken only when
// they are built.
//
// Returns a manifest for each dataset. Errors: those of the source (the first in its order) and of
// DatasetWriter. Nothing that looks like a dataset is left after one; of several splits, those that
// were finished before it are.
absl::StatusOr<std::vector<Manifest>> Convert(Source& source, const ConvertOptions& options,
                                              ConvertProgress* progress = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_CONVERTER_H_
