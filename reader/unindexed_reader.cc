#include "reader/unindexed_reader.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/rounding.h"
#include "base/work_stop.h"
#include "io/thread.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr uint64_t kBlockBytes = 1 << 20;
// Budget of the walk, if the options do not set one.
constexpr uint64_t kWalkBytes = 64 << 20;
constexpr uint64_t kMinReadBytes = 16 << 10;
constexpr uint64_t kMaxBlockRecords = 4096;
constexpr uint64_t kFirstBlockRecords = 16;
constexpr uint64_t kRampBlocks = 8;

}  // namespace

bool UnindexedReader::CanRead(const ReaderOptions& options) {
  return options.order.kind != OrderSpec::Kind::kShuffle && !options.order.mixture &&
         !options.records && !options.skip_damaged && !options.leftover && !options.pack;
}

UnindexedReader::UnindexedReader(std::shared_ptr<const LazyShardTable> table, ReaderOptions options)
    : table_(std::move(table)), options_(std::move(options)) {
  const bool interleave = options_.order.kind == OrderSpec::Kind::kInterleave;
  const size_t shards = table_->set().paths.size();
  slots_.resize(interleave ? std::min<uint64_t>(options_.order.cycle, shards)
                           : std::min<size_t>(1, shards));
  budget_bytes_ = options_.budget_bytes > 0 ? options_.budget_bytes : kWalkBytes;
  next_position_ = options_.rank;
  stats_.threads = 1;
  stats_.io = "threads";
  stats_.io_reason = "front to back, while indexes are built";
}

absl::StatusOr<std::unique_ptr<UnindexedReader>> UnindexedReader::Open(
    std::shared_ptr<const LazyShardTable> table, ReaderOptions options, std::stop_token stop) {
  if (!CanRead(options)) {
    return absl::InvalidArgumentError(
        "shuffled and selected records, and those after damage, need an index; build it with "
        "'shardfeed index'");
  }
  // Report now what a Reader would say about these options.
  absl::StatusOr<std::shared_ptr<const ShardTable>> none = ShardTable::Open(ShardSet());
  if (!none.ok()) return none.status();
  absl::Status valid = Reader::Open(*none, options).status();
  if (!valid.ok()) return valid;
  std::unique_ptr<UnindexedReader> reader(
      new UnindexedReader(std::move(table), std::move(options)));
  if (reader->slots_.empty()) reader->walk_ended_ = true;
  UnindexedReader* const self = reader.get();
  reader->stop_from_ = std::make_unique<std::stop_callback<std::function<void()>>>(
      std::move(stop), [self] { self->stop_.request_stop(); });
  absl::StatusOr<std::thread> indexing = StartThread([self] {
    // Callers of Get are told about errors.
    const WorkStop wanted(self->stop_.get_token());
    const absl::Status made =
        CatchAll([self] { return self->table_->Get(self->stop_.get_token()).status(); });
    self->readable_ = made.ok();
    self->indexed_ = true;
  });
  // Without a thread, the indexes are built when they are needed.
  if (indexing.ok()) reader->indexing_ = *std::move(indexing);
  return reader;
}

UnindexedReader::~UnindexedReader() {
  stop_from_ = nullptr;
  stop_.request_stop();
  if (indexing_.joinable()) indexing_.join();
}

absl::StatusOr<Reader*> UnindexedReader::Indexed() {
  if (reader_ != nullptr) return reader_.get();
  if (!error_.ok()) return error_;
  if (!indexed_ && indexing_.joinable()) indexing_.join();
  slots_.clear();
  walked_.clear();
  absl::StatusOr<std::shared_ptr<const ShardTable>> table = table_->Get(stop_.get_token());
  if (!table.ok()) return error_ = table.status();
  absl::StatusOr<std::unique_ptr<Reader>> reader = Reader::Open(*std::move(table), options_);
  if (!reader.ok()) return error_ = reader.status();
  reader_ = *std::move(reader);
  reader_->Seek(0, next_position_);
  return reader_.get();
}

absl::Status UnindexedReader::Next(ReadBlock* block) {
  const uint64_t round = options_.batch * options_.world;
  // Whether the front block is delivered regardless of what follows it.
  const auto certain = [&] {
    if (walked_.empty()) return false;
    const ReadBlock& front = walked_.front().block;
    const uint64_t end = front.position + (front.records.size() - 1) * front.stride + 1;
    return options_.end != EpochEnd::kDrop || RoundUp(end, round) <= position_;
  };
  // If the indexes cannot be built, what precedes the damage is delivered nevertheless.
  while (reader_ == nullptr && !readable_ && options_.epochs != 0 && !certain()) {
    if (walked_bytes_ > budget_bytes_ / 2 || !Walk()) break;
  }
  if (reader_ != nullptr || readable_ || !certain()) {
    absl::StatusOr<Reader*> reader = Indexed();
    return reader.ok() ? (*reader)->Next(block) : reader.status();
  }
  Walked& front = walked_.front();
  walked_bytes_ -= front.frame_bytes;
  stats_.records += front.block.records.size();
  stats_.bytes += front.frame_bytes;
  *block = std::move(front.block);
  walked_.pop_front();
  next_position_ = block->position + block->records.size() * block->stride;
  return absl::OkStatus();
}

void UnindexedReader::NextSlot() {
  visited_ = 0;
  slot_ = (slot_ + 1) % slots_.size();
}

bool UnindexedReader::Walk() {
  if (walk_ended_) return false;
  const bool interleave = options_.order.kind == OrderSpec::Kind::kInterleave;
  const uint64_t visit = interleave ? options_.order.block : UINT64_MAX;
  Walked walked;
  ReadBlock& out = walked.block;
  out.stride = options_.world;
  uint64_t most = options_.block_records > 0 ? options_.block_records : kMaxBlockRecords;
  if (next_block_ < kRampBlocks) most = std::min(most, kFirstBlockRecords << next_block_);
  // Visits the shards as tf.data does: when one ends, its slot is refilled when its turn comes
  // again.
  while (out.records.size() < most && walked.frame_bytes < kBlockBytes) {
    Slot& slot = slots_[slot_];
    if (slot.reader == nullptr) {
      if (next_shard_ == table_->set().paths.size()) {
        if (open_slots_ == 0) {
          walk_ended_ = true;
          break;
        }
        NextSlot();
        continue;
      }
      ShardReaderOptions reading;
      reading.check = options_.check_crc;
      reading.block_bytes = std::clamp<uint64_t>(budget_bytes_ / (4 * slots_.size()), kMinReadBytes,
                                                 kBlockBytes / (interleave ? 4 : 1));
      absl::StatusOr<std::unique_ptr<ShardReader>> opened =
          ShardReader::Open(table_->set().paths[next_shard_], reading);
      if (!opened.ok() || !table_->set().version.CheckUnchanged().ok()) {
        walk_ended_ = true;
        break;
      }
      slot = Slot{*std::move(opened)};
      ++next_shard_;
      ++open_slots_;
    }
    if (slot.at == slot.block.records.size()) {
      slot.at = 0;
      slot.kept_by = UINT64_MAX;
      if (!slot.reader->Next(&slot.block).ok()) {
        walk_ended_ = true;
        break;
      }
      stats_.bytes_read += slot.reader->file_position() - slot.file_position;
      ++stats_.reads;
      slot.file_position = slot.reader->file_position();
      if (slot.block.records.empty()) {
        slot = Slot();
        --open_slots_;
        NextSlot();
        continue;
      }
    }
    const std::vector<Record>& records = slot.block.records;
    const uint64_t n =
        std::min<uint64_t>({visit - visited_, records.size() - slot.at, most - out.records.size()});
    for (uint64_t i = 0; i < n; ++i, ++position_) {
      if (position_ % options_.world != options_.rank) continue;
      if (out.records.empty()) out.position = out.place = position_;
      const std::string_view payload = records[slot.at + i].payload;
      out.records.push_back(payload);
      walked.frame_bytes += payload.size() + kFrameBytes;
      if (std::exchange(slot.kept_by, next_block_) != next_block_) {
        out.buffers.push_back(slot.block.buffer);
      }
    }
    slot.at += n;
    visited_ += n;
    if (visited_ == visit) NextSlot();
  }
  if (out.records.empty()) return false;
  ++next_block_;
  walked_bytes_ += walked.frame_bytes;
  walked_.push_back(std::move(walked));
  return true;
}

ReaderStats UnindexedReader::stats() const {
  if (reader_ == nullptr) return stats_;
  ReaderStats stats = reader_->stats();
  if (stats.io.empty()) {
    stats.io = stats_.io;
    stats.io_reason = stats_.io_reason;
    stats.threads = stats_.threads;
  }
  stats.records += stats_.records;
  stats.bytes += stats_.bytes;
  stats.bytes_read += stats_.bytes_read;
  stats.reads += stats_.reads;
  return stats;
}

}  // namespace shardfeed
