#include "shard/indexing/index_check.h"

#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "shard/formats/shard_reader.h"
#include "shard/indexing/index_build.h"
#include "shard/spec/spec.h"

namespace shardfeed {
namespace {

absl::Status Mismatch(const std::string& name, std::string_view what) {
  return absl::DataLossError(fmt::format(
      "{}: stale, does not match the shard: {}; rebuild it with 'shardfeed index'", name, what));
}

// Describes how the two differ; empty if they are equal.
std::string DifferenceOf(const IndexSummary& stored, const IndexSummary& found) {
  std::string wrong;
  const auto compare = [&](std::string_view what, uint64_t in_index, uint64_t in_shard) {
    if (in_index == in_shard) return;
    if (!wrong.empty()) wrong += ", ";
    wrong += fmt::format("{} {} instead of {}", what, in_index, in_shard);
  };
  compare("size", stored.shard_bytes, found.shard_bytes);
  compare("records", stored.records, found.records);
  compare("stream bytes", stored.stream_bytes, found.stream_bytes);
  compare("digest", stored.records_digest, found.records_digest);
  if (stored.framing != found.framing) {
    wrong += fmt::format("{}the framing of another format", wrong.empty() ? "" : ", ");
  }
  if (stored.compression != found.compression) {
    wrong += fmt::format("{}compression {}", wrong.empty() ? "" : ", ",
                         CompressionName(stored.compression));
  }
  return wrong;
}

uint64_t BitOf(const RestartPoint& point) { return 8 * point.file_offset - point.bits; }

std::string WrongOffset(uint64_t record, uint64_t in_index, uint64_t in_shard) {
  return fmt::format("record {} at byte {} instead of {}", record, in_index, in_shard);
}

}  // namespace

void IndexCheck::Wrong(std::string what) {
  if (wrong_.empty()) wrong_ = std::move(what);
}

DecompressOptions IndexCheck::Watch() {
  DecompressOptions options;
  options.is_restart_point = [this](uint64_t bit) {
    return points_ < index_->num_restart_points() && BitOf(index_->PointAt(points_)) == bit;
  };
  options.on_restart_point = [this](const RestartPoint& point) { CheckPoint(point); };
  options.on_deflate_block = [this](const DeflateBlock& block) { CheckBlock(block); };
  return options;
}

void IndexCheck::CheckPoint(const RestartPoint& point) {
  EndBlocks();
  const RestartPoint stored = index_->PointAt(points_);
  if (stored.stream_offset != point.stream_offset) {
    Wrong(
        fmt::format("restart point {}, byte {} of the shard: byte {} of the content instead of {}",
                    points_, point.file_offset, stored.stream_offset, point.stream_offset));
  } else if (stored.at_header != point.at_header) {
    Wrong(fmt::format("restart point {}, byte {} of the shard: {} instead of {}", points_,
                      point.file_offset, stored.at_header ? "a header" : "no header",
                      point.at_header ? "a header" : "none"));
  } else if (!point.at_header && !point.dictionary.ends_with(index_->DictionaryAt(points_))) {
    // A shorter dictionary is allowed: if the data refers back further, inflating fails but never
    // yields wrong data.
    Wrong(
        fmt::format("restart point {}, byte {} of the shard: its dictionary is not the preceding "
                    "content",
                    points_, point.file_offset));
  }
  blocks_ = index_->BlocksBehind(points_);
  blocks_passed_ = 0;
  ++points_;
}

void IndexCheck::CheckBlock(const DeflateBlock& block) {
  if (blocks_passed_ == blocks_.size()) return;
  const DeflateBlock& stored = blocks_[blocks_passed_];
  if (stored.bit != block.bit) return;
  if (stored.offset != block.offset) {
    Wrong(
        fmt::format("deflate block {} after restart point {}: byte {} of the content instead of "
                    "{}",
                    blocks_passed_, points_ - 1, stored.offset, block.offset));
  }
  ++blocks_passed_;
}

void IndexCheck::EndBlocks() {
  if (blocks_passed_ == blocks_.size()) return;
  Wrong(fmt::format("deflate block {} after restart point {}: none starts at bit {} of the shard",
                    blocks_passed_, points_ - 1, blocks_[blocks_passed_].bit));
}

void IndexCheck::Add(absl::Span<const Record> records) {
  if (wrong_.empty() && records_ < index_->records()) {
    const size_t agreeing = index_->CountAgreeing(records_, records);
    const uint64_t record = records_ + agreeing;
    if (agreeing < records.size() && record < index_->records()) {
      Wrong(WrongOffset(record, index_->Offset(record), records[agreeing].offset));
    }
  }
  records_ += records.size();
}

absl::Status IndexCheck::End(const IndexSummary& found) const {
  const std::string whole = DifferenceOf(index_->summary(), found);
  if (!whole.empty()) return Mismatch(name_, whole);
  if (!wrong_.empty()) return Mismatch(name_, wrong_);
  if (points_ < index_->num_restart_points()) {
    return Mismatch(
        name_, fmt::format("restart point {}: nothing can start at byte {} of the shard", points_,
                           index_->PointAt(points_).file_offset));
  }
  if (blocks_passed_ < blocks_.size()) {
    return Mismatch(name_, fmt::format("deflate block {} after restart point {}: none starts at "
                                       "bit {} of the shard",
                                       blocks_passed_, points_ - 1, blocks_[blocks_passed_].bit));
  }
  return absl::OkStatus();
}

absl::Status CompareChunks(const ShardIndex& index, const ArrayRecordFooter& footer,
                           const std::string& name) {
  for (const ArrayRecordChunk& chunk : footer.chunks) {
    const ArrayRecordChunk in_index = index.ChunkOf(chunk.first_record);
    if (in_index.begin != chunk.begin || in_index.end != chunk.end ||
        in_index.records != chunk.records) {
      return Mismatch(name, fmt::format("the chunk of record {} at byte {} instead of {}",
                                        chunk.first_record, in_index.begin, chunk.begin));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareRawIndexes(const ShardIndex& index, const ShardIndex& found,
                               const std::string& name) {
  const std::string whole = DifferenceOf(index.summary(), found.summary());
  if (!whole.empty()) return Mismatch(name, whole);
  for (uint64_t record = 0; record < found.records(); ++record) {
    if (index.Offset(record) != found.Offset(record)) {
      return Mismatch(name, WrongOffset(record, index.Offset(record), found.Offset(record)));
    }
    if (index.FileOffset(record) != found.FileOffset(record)) {
      return Mismatch(name,
                      WrongOffset(record, index.FileOffset(record), found.FileOffset(record)));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareIndexWithShard(const std::string& path, std::shared_ptr<const ShardIndex> index,
                                   std::stop_token stop) {
  const std::string name = IndexPath(path);
  IndexCheck check(index, name);
  ShardReaderOptions reading;
  reading.check = CrcCheck::kHeader;
  reading.decompress = check.Watch();
  absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::Open(path, reading);
  if (!reader.ok()) return reader.status();
  if ((*reader)->compression() == Compression::kNone) {
    IndexBuildOptions walking;
    walking.stop = stop;
    absl::StatusOr<std::shared_ptr<const ShardIndex>> found = BuildIndex(path, walking);
    if (!found.ok()) return found.status();
    return CompareRawIndexes(*index, **found, name);
  }
  RecordsDigest digest((*reader)->framing());
  RecordBlock block;
  IndexSummary found;
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted; nothing was kept");
    absl::Status status = (*reader)->Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) break;
    check.Add(block.records);
    digest.Add(block.records);
    found.records += block.records.size();
  }
  found.compression = (*reader)->compression();
  found.framing = (*reader)->framing();
  found.shard_bytes = (*reader)->file().size();
  found.stream_bytes = (*reader)->stream().offset();
  found.records_digest = digest.value();
  return check.End(found);
}

}  // namespace shardfeed
