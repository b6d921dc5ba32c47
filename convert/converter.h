// Converts raw data to sharded datasets.

#ifndef SHARDFEED_CONVERT_CONVERTER_H_
#define SHARDFEED_CONVERT_CONVERTER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/items/source.h"
#include "shard/declarations/named_manifest.h"
#include "shard/manifest/manifest.h"
#include "shard/schema/skipped_records.h"
#include "shard/spec/spec.h"
#include "shard/writing/shared_job.h"
#include "shard/writing/writer.h"

namespace shardfeed {

// A part of the records that becomes its own dataset, "STEM-NAME".
struct Split {
  std::string name;
  double share;  // fraction of all records, above 0
};

// Parses "train=0.9,test=0.1". InvalidArgument: another form, a name that appears twice or cannot
// be part of a file name, or shares that do not add up to 1.
absl::StatusOr<std::vector<Split>> ParseSplits(const std::string& text);

struct ConvertOptions {
  OutputSpec output;
  // If `output` has no count, there are as many shards as are needed for each to hold about this
  // many bytes before compression.
  uint64_t shard_bytes = 256 << 20;
  // If empty, there is one dataset named `output`, unless the source itself names splits
  // (Source::names_splits). Otherwise there is one for each split, with its share of the shards,
  // rounded up. A record's split depends only on its key (Source::AppendKey), not on the other
  // records.
  std::vector<Split> splits;
  // Keeps only the first of records with the same content (Source::VisitContent), in the order of
  // the source.
  bool deduplicate = false;
  EncodeOptions encode;
  int threads = 0;
  // Shuffles the whole input uniformly. Without a seed, the order of the source is kept.
  std::optional<uint64_t> shuffle_seed;
  // Writes only the first records in the order of writing. Cannot be combined with `splits`.
  std::optional<uint64_t> limit;
  // Leaves out broken records (see Source::SkipDefects) and counts them in the manifest.
  bool skip_defects = false;
  // More skipped records than this in one dataset are a DataLoss error.
  SkipCeiling max_skipped;
  bool overwrite = false;
  bool sync = true;
  // Continues from the shards that an interrupted run with the same input and options finished, and
  // keeps the finished shards of this run if it is interrupted. The result is the same. A dataset
  // of the same name whose manifest names the same source and options counts as finished.
  bool resume = false;
  // If set, only these shards of `output` are written, which ascend, as parts of a job that was
  // prepared with `output`, `encode`, `overwrite`, `sync` and `made_by`; parts that are finished
  // are not written again. Everything that concerns the whole input is still done, but only
  // the records of these shards are built, besides the first ones of the input, which tell the size
  // of records. Cannot be combined with `splits` and `resume`.
  SharedJob* job = nullptr;
  std::vector<uint64_t> only_shards;
  // Options of the source that it does not include in its own fingerprint; used by `resume`.
  std::string fingerprint;
  // A dataset whose features these are to match: a feature of another kind is an error, which is
  // reported as early as possible.
  std::optional<NamedManifest> like;
  std::stop_token stop;
  std::map<std::string, std::string> made_by;  // recorded in the manifest
  // Applied to notes and to the descriptions of skipped records, which name files. For inputs
  // without a name of their own.
  std::function<std::string(std::string)> reword;

  std::string Reworded(std::string text) const {
    return reword ? reword(std::move(text)) : std::move(text);
  }
  // A handler for Source::SkipDefects that adds to `skipped`. Both must outlive it.
  auto AddTo(SkippedRecords& skipped) const {
    return [this, &skipped](const absl::Status& defect, uint64_t records) {
      skipped.Add(Reworded(std::string(defect.message())), records);
    };
  }
};

// InvalidArgument: options that exclude each other.
absl::Status CheckConvertOptions(const Source& source, const ConvertOptions& options);

// Returns `options.splits` or, after Scan, those that a column of the input names, with their
// shares of its records.
std::vector<Split> SplitsOf(const Source& source, const ConvertOptions& options);

// Returns the number of shards for `records` whose frames have `frame_bytes` on average, if
// `options.output` does not give it.
uint64_t ChosenShards(uint64_t records, uint64_t frame_bytes, const ConvertOptions& options);

// Returns the spec of a split's dataset. Without a number of shards, it has none either.
OutputSpec SplitOutput(const OutputSpec& output, const Split& split);

// Counters that another thread may read while Convert runs.
struct ConvertProgress {
  std::atomic<uint64_t> bytes_scanned{0};
  std::atomic<uint64_t> items_selected{0};  // items passed in the choice of splits and duplicates
  std::atomic<uint64_t> items_to_select{0};
  std::atomic<uint64_t> records{0};             // records written or taken over
  std::atomic<uint64_t> records_taken_over{0};  // those that an earlier run had written
  std::atomic<uint64_t> records_to_write{0};    // 0 until the scan is over
  std::atomic<uint64_t> shards_taken_over{0};
  // Datasets that an earlier run had finished, see `resume`.
  std::atomic<uint64_t> datasets_complete{0};
  std::atomic<uint64_t> skipped_in_scan{0};  // broken records, which every manifest counts
};

// Scans `source`, then writes its records. Shard s of N gets the records [s*T/N, (s+1)*T/N) of all
// T in order, so reading shard after shard restores the order. The files depend only on source and
// options, not on `threads`. `limit` includes records that turn out to be broken only when they are
// built.
//
// Returns a manifest for each dataset; with `job`, one that has only the shards that were written.
// Errors: those of the source (the first in its order), of DatasetWriter and of CheckIsLike. After
// an error, no partial dataset is left; of several splits, those that were finished before it
// remain.
absl::StatusOr<std::vector<Manifest>> Convert(Source& source, const ConvertOptions& options,
                                              ConvertProgress* progress = nullptr);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_CONVERTER_H_
