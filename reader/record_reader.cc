#include <utility>

#include "reader/disk_cache.h"
#include "reader/reader.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& spec,
                                                                 ReaderOptions options) {
  const absl::StatusOr<ShardSet> set = ResolveSpec(spec);
  if (!set.ok()) return set.status();
  return Open(*set, std::move(options));
}

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const ShardSet& set,
                                                                 ReaderOptions options) {
  absl::StatusOr<std::shared_ptr<const void>> cache = ServeFromDisk(set, options);
  if (!cache.ok()) return cache.status();
  absl::StatusOr<std::shared_ptr<const ShardTable>> table =
      ShardTable::Open(set, {.threads = options.threads,
                             .salvage = options.skip_damaged,
                             .disk_cache = *std::move(cache)});
  if (!table.ok()) return table.status();
  absl::StatusOr<std::unique_ptr<Reader>> reader =
      Reader::Open(*std::move(table), std::move(options));
  if (!reader.ok()) return reader.status();
  return std::unique_ptr<RecordReader>(new RecordReader(*std::move(reader)));
}

RecordReader::RecordReader(std::unique_ptr<Reader> reader) : reader_(std::move(reader)) {}
RecordReader::~RecordReader() = default;

absl::Status RecordReader::Next(ReadBlock* block) { return reader_->Next(block); }
absl::StatusOr<std::string> RecordReader::StateDict() const { return reader_->StateDict(); }
absl::Status RecordReader::LoadStateDict(std::string_view state) {
  return reader_->LoadStateDict(state);
}
uint64_t RecordReader::num_records() const { return reader_->table().num_records(); }
uint64_t RecordReader::batches_per_epoch() const { return reader_->batches_per_epoch(); }
uint64_t RecordReader::records_per_epoch() const { return reader_->records_per_epoch(); }
MemoryPlan RecordReader::memory_plan() const { return reader_->memory_plan(); }
ReaderStats RecordReader::stats() const { return reader_->stats(); }

}  // namespace shardfeed
