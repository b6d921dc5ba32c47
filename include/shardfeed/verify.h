// Checks every byte of a dataset and reports its defects, and repairs datasets: writes the intact
// records of a damaged dataset as a new one. docs/repair.md has the rules.
//
// All functions are thread-safe and use threads of their own.

#ifndef SHARDFEED_VERIFY_H_
#define SHARDFEED_VERIFY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/options.h"
#include "shardfeed/spec.h"

namespace shardfeed {

class Schema;
class ValueStatistics;

// How deep to look; each level includes the ones before it.
enum class VerifyLevel {
  kHeaders,   // lengths and their CRCs, and that nothing is cut off; raw payloads are not read
  kPayload,   // the payloads' CRCs, compressed data and its trailers
  kExamples,  // every record is a tf.train.Example or SequenceExample
  kImages,    // also checks images by VerifyOptions::check_images
};

struct Defect {
  std::string shard;  // path of the shard; for a defect of a manifest or index, its path
  // "length CRC", "payload CRC", "cut header", "cut payload", "cut footer", "tar sample",
  // "mds sample", "array_record chunk";
  // "compressed data", "not an Example", "image", "not a TFRecord", "unreadable";
  // "index", "manifest".
  std::string kind;
  uint64_t record = 0;  // number in the shard
  uint64_t offset = 0;  // offset in the shard, or in its decompressed content
  std::string detail;   // one line for a person; names the file
};

struct ShardReport {
  std::string shard;
  bool was_read = true;  // false: what kept it from being read is the only defect
  Compression compression = Compression::kNone;
  uint64_t bytes = 0;                        // size of the file
  uint64_t records = 0;                      // number of sound records
  uint64_t skipped_bytes = 0;                // bytes of the stream that belong to no sound record
  std::optional<uint64_t> records_lost = 0;  // nullopt: unknown
  std::optional<uint32_t> records_digest;    // digest of the records, if the data has no defects
  uint64_t num_defects = 0;
  std::vector<Defect> defects;  // the first VerifyOptions::max_defects
  // What users should know about a tar archive or an MDS shard although it is no defect: skipped
  // members, repeated keys, values that are not kept as they are.
  std::vector<std::string> notes;
  // Internal: the schema of the records, from level kExamples on; null in a VerifyReport.
  std::shared_ptr<const Schema> schema;
  std::shared_ptr<const ValueStatistics> values;  // likewise
};

struct VerifyOptions {
  VerifyLevel level = VerifyLevel::kPayload;
  int threads = 0;
  // For level kImages: appends a text for each broken image of a record. Called by several threads.
  // An error means that the images cannot be checked, and ends the reading of their shard.
  std::function<absl::Status(std::string_view record, std::vector<std::string>* defects)>
      check_images;
  size_t max_defects = 100;  // kept per shard; all are counted
  std::stop_token stop;
  std::atomic<uint64_t>* bytes_passed = nullptr;  // counts bytes for progress
};

// Reads one shard to its end, past all damage, as Repair does. An index beside the shard is
// compared with what was found.
//
// Damage is in the report. Errors: whatever kept the shard from being read, and Cancelled.
absl::StatusOr<ShardReport> VerifyShard(const std::string& path, const VerifyOptions& options);

struct VerifyReport {
  std::vector<ShardReport> shards;  // reports in the order of the shards
  // Defects of the manifest: counts, sizes and digests that are not those of the shards and, from
  // level kExamples on, features that are not those of the records. Kind "unreadable" where it
  // could not be read. Also of the index pack as a whole, with its path and the kind "index".
  std::vector<Defect> manifest_defects;
  bool has_manifest = false;

  uint64_t num_defects() const;
  uint64_t num_records() const;
  uint64_t num_bytes() const;
};

// Verifies all shards in parallel, then the manifest if the set has one. A shard or an index that
// cannot be read is a defect of the kind "unreadable", and the others are still read. The schemas
// of the shards are merged and not kept. Aborted: the dataset was replaced meanwhile.
absl::StatusOr<VerifyReport> Verify(const ShardSet& set, const VerifyOptions& options);

// One damaged place, and what is lost there. Places that follow each other without a sound record
// between them are one where the framing does not tell them apart.
struct DamagedPlace {
  // As Defect::kind, or "cut shard", "missing shard" or "other records".
  std::string kind;
  std::string detail;  // one line for a person; names the file
  // Number in the shard of the first record that is lost, or of the record whose damaged length was
  // corrected so that nothing is lost.
  uint64_t record = 0;
  bool record_exact = true;         // false: an unknown number of earlier records may be lost
  std::optional<uint64_t> records;  // how many are lost; nullopt: unknown
  uint64_t offset = 0;              // offset in the (decompressed) stream, as far as it is known
  uint64_t bytes = 0;       // bytes of the stream that were read and belong to no sound record
  uint64_t file_begin = 0;  // range in the file, half open
  uint64_t file_end = 0;
};

// What was found in one shard.
struct ShardAccount {
  std::string shard;  // path
  bool missing = false;
  uint64_t bytes = 0;    // size of the file
  uint64_t records = 0;  // records that were kept
  // Records that were lost; nullopt if that cannot be known.
  std::optional<uint64_t> records_lost = 0;
  uint64_t bytes_skipped = 0;
  bool numbers_exact = true;  // whether the numbers of the lost records are exact
  std::vector<DamagedPlace> damage;
};

struct RepairAccount {
  std::vector<ShardAccount> shards;
  uint64_t records() const;
  std::optional<uint64_t> records_lost() const;
  // Includes damage by which nothing was lost.
  uint64_t num_damaged_places() const;
};

struct RepairOptions {
  bool dry_run = false;  // only reports what a repair would do
  int threads = 0;
  bool overwrite = false;
  bool sync = true;
  int level = 6;
  std::stop_token stop;
  std::map<std::string, std::string> made_by;     // goes into the manifest
  std::atomic<uint64_t>* bytes_passed = nullptr;  // counts bytes of the input for progress
};

// Returns the shards that `spec` names, including missing ones if the spec (stem@N) or the manifest
// says how many there are.
absl::StatusOr<ShardSet> ResolveForRepair(const std::string& spec);

// Reads all shards past damage and writes the intact records to `output` with indexes and a
// manifest: those of shard i to shard i, in their order. Never changes the input. The compression
// stays the same, and an output without a count gets as many shards as the input.
//
// InvalidArgument: the output is the input, has another number of shards, or the input is
// compressed by SNAPPY. Other errors: those of Writer and of reading.
absl::StatusOr<RepairAccount> Repair(const ShardSet& input, OutputSpec output,
                                     const RepairOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_VERIFY_H_
