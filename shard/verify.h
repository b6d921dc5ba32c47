// Checks every byte of a dataset and says where what is wrong.

#ifndef SHARDFEED_SHARD_VERIFY_H_
#define SHARDFEED_SHARD_VERIFY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/manifest.h"
#include "shard/schema.h"
#include "shard/spec.h"
#include "tfrecord/compression.h"

namespace shardfeed {

// How deep to look; each level includes the ones before it.
enum class VerifyLevel {
  kHeaders,   // lengths and their CRCs, and that nothing is cut; raw payloads are not read
  kPayload,   // the payloads' CRCs, compressed data and its trailers
  kExamples,  // every record is a tf.train.Example or SequenceExample
  kImages,    // what VerifyOptions::check_images says of each record
};

struct Defect {
  std::string shard;  // path; of the manifest or index for defects of those
  // "length CRC", "payload CRC", "cut header", "cut payload", "cut footer" (FrameDefectName);
  // "compressed data", "not an Example", "image", "not a TFRecord", "unreadable";
  // "index", "manifest".
  std::string kind;
  uint64_t record = 0;  // number in the shard
  uint64_t offset = 0;  // byte in the shard, or in its decompressed content
  std::string detail;   // one line for a person; names the file
};

struct ShardReport {
  std::string shard;
  bool was_read = true;  // false: what kept it from being read is the only defect
  Compression compression = Compression::kNone;
  uint64_t bytes = 0;                        // of the file
  uint64_t records = 0;                      // sound ones
  uint64_t skipped_bytes = 0;                // of the stream, in no sound record
  std::optional<uint64_t> records_lost = 0;  // nullopt: unknown
  std::optional<uint32_t> records_digest;    // of a shard whose data has no defects
  uint64_t num_defects = 0;
  std::vector<Defect> defects;  // the first VerifyOptions::max_defects
  Schema schema;                // of the records, from level kExamples on
};

struct VerifyOptions {
  VerifyLevel level = VerifyLevel::kPayload;
  int threads = 0;
  // Of level kImages: appends a text for each broken image of a record. Called from several
  // threads.
  std::function<void(std::string_view record, std::vector<std::string>* defects)> check_images;
  size_t max_defects = 100;  // kept per shard; all are counted
  std::stop_token stop;
  std::atomic<uint64_t>* bytes_passed = nullptr;  // for progress
};

// Reads one shard to its end, past all damage, as ShardSalvager does. An index beside the shard is
// compared with what was found.
//
// Damage is in the report; an error is only what kept the shard from being read (and Cancelled).
absl::StatusOr<ShardReport> VerifyShard(const std::string& path, const VerifyOptions& options);

struct VerifyReport {
  std::vector<ShardReport> shards;  // in the order of the set
  // Defects of the manifest: counts, sizes and digests that are not those of the shards and, from
  // level kExamples on, features that are not those of the records. Kind "unreadable" where it
  // could not be read.
  std::vector<Defect> manifest_defects;
  bool has_manifest = false;

  uint64_t num_defects() const;
  uint64_t num_records() const;
  uint64_t num_bytes() const;
};

// All shards in parallel, then the manifest if the set has one. A shard that cannot be read is a
// defect of kind "unreadable", and so is an index; the others are read all the same. The schemas of
// the shards are merged and not kept. Aborted: the dataset was replaced meanwhile.
absl::StatusOr<VerifyReport> VerifyDataset(const ShardSet& set, const VerifyOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_VERIFY_H_
