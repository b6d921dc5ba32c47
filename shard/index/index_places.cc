// The parts of indexes of MDS and ArrayRecord shards that say where records are in the file.

#include <memory>
#include <utility>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "shard/index/index.h"
#include "tfrecord/riegeli_chunk.h"

namespace shardfeed {
namespace {

// The bytes that a record counts as in the index of the numbers of records.
constexpr uint64_t kCountBytes = kFrameBytes;

// An index in memory whose frames have these sizes.
class NumbersBuilder {
 public:
  void Add(uint64_t bytes) { status_.Update(builder_.AddFrame(bytes)); }
  absl::StatusOr<std::string> Finish() {
    if (!status_.ok()) return status_;
    IndexSummary summary;
    summary.shard_bytes = builder_.stream_bytes();
    return builder_.Finish(summary);
  }

 private:
  IndexBuilder builder_;
  absl::Status status_;
};

}  // namespace

// The description of the columns follows the place of the restart points.
absl::Status ShardIndex::ParseMdsColumns() {
  const std::string_view rest = bytes_.substr(restarts_end_);
  if (rest.size() < sizeof(uint32_t) ||
      LoadLittleEndian<uint32_t>(rest.data()) > rest.size() - sizeof(uint32_t)) {
    return absl::DataLossError("the index lacks the columns of its MDS shard");
  }
  const auto size = LoadLittleEndian<uint32_t>(rest.data());
  absl::StatusOr<std::shared_ptr<const MdsColumns>> columns =
      MdsColumns::Parse(rest.substr(sizeof(uint32_t), size));
  if (!columns.ok()) return columns.status();
  mds_columns_ = *std::move(columns);
  restarts_end_ += sizeof(uint32_t) + size;
  return absl::OkStatus();
}

// Two indexes follow the place of the restart points, each preceded by its size: that of the places
// of the chunks, and that of their numbers of records.
absl::Status ShardIndex::ParseChunks(const std::string& name) {
  for (std::shared_ptr<const ShardIndex>* numbers : {&chunk_places_, &chunk_records_}) {
    const std::string_view rest = bytes_.substr(restarts_end_);
    uint64_t size = 0;
    if (rest.size() >= sizeof(size)) size = LoadLittleEndian<uint64_t>(rest.data());
    if (size == 0 || size > rest.size() - sizeof(size)) {
      return absl::DataLossError("the index lacks the chunks of its ArrayRecord shard");
    }
    std::shared_ptr<ShardIndex> parsed(new ShardIndex());
    parsed->bytes_ = rest.substr(sizeof(size), size);
    const absl::StatusOr<IndexSummary> summary = ParseHeader(parsed->bytes_, size, name);
    if (!summary.ok()) return summary.status();
    // Not one that has chunks itself.
    if (FormatCode(summary->format()) != FormatCode(ShardFormat())) {
      return absl::DataLossError("the chunks of the index are in an index of another format");
    }
    if (absl::Status status = parsed->Parse(name); !status.ok()) return status;
    *numbers = std::move(parsed);
    restarts_end_ += sizeof(size) + size;
  }
  // The first frame is what precedes the first chunk.
  const uint64_t chunks = chunk_records_->records();
  bool sound = chunk_places_->records() == chunks + 1 &&
               chunk_places_->Offset(1) >= kRiegeliStartBytes &&
               chunk_places_->summary().stream_bytes <= summary_.shard_bytes &&
               chunk_records_->summary().stream_bytes / kCountBytes == summary_.records;
  // If there are as many chunks as records, each frame has just that size.
  for (uint64_t chunk = 0; sound && chunks != records() && chunk <= chunks; ++chunk) {
    sound = chunk_records_->Offset(chunk) % kCountBytes == 0;
  }
  if (!sound) return absl::DataLossError("the chunks of the index contradict its records");
  return absl::OkStatus();
}

ArrayRecordChunk ShardIndex::ChunkOf(uint64_t record) const {
  const uint64_t chunks = chunk_records_->records();
  const uint64_t number =
      chunks == records() ? record : chunk_records_->RecordAt(record * kCountBytes);
  ArrayRecordChunk chunk;
  chunk.begin = chunk_places_->Offset(number + 1);
  chunk.end = chunk_places_->Offset(number + 2);
  chunk.first_record = chunk_records_->Offset(number) / kCountBytes;
  chunk.records = chunk_records_->Offset(number + 1) / kCountBytes - chunk.first_record;
  chunk.decoded_bytes =
      Offset(chunk.end_record()) - Offset(chunk.first_record) - chunk.records * kFrameBytes;
  return chunk;
}

ArrayRecordFooter ShardIndex::FooterOfChunks(uint64_t begin, uint64_t end) const {
  ArrayRecordFooter footer;
  footer.digest = summary_.records_digest;
  for (uint64_t record = begin; record < end; record = footer.records()) {
    footer.chunks.push_back(ChunkOf(record));
  }
  return footer;
}

uint64_t ShardIndex::FileOffset(uint64_t record) const {
  if (summary_.framing == Framing::kArrayRecord) {
    return record < records() ? ChunkOf(record).begin : chunk_places_->summary().stream_bytes;
  }
  const uint64_t offset = Offset(record);
  if (summary_.framing != Framing::kMds) return offset;
  // The samples end with the file.
  const uint64_t behind = summary_.stream_bytes - offset;
  return summary_.shard_bytes - (behind - (summary_.records - record) * kFrameBytes);
}

uint64_t ShardIndex::FileEnd(uint64_t record) const {
  return summary_.framing == Framing::kArrayRecord ? ChunkOf(record).end : FileOffset(record + 1);
}

std::vector<std::string> FormatNotes(const ShardIndex& index) {
  if (index.mds_columns() != nullptr) return index.mds_columns()->Notes();
  const uint64_t chunks = index.num_chunks();
  if (chunks == 0 || chunks == index.records()) return {};
  return {
      fmt::format("a chunk of the ArrayRecord shards has up to {} records: for one of them it is "
                  "read and decoded whole, which an exact shuffle and random access do for each "
                  "record; write shards for these with group_size:1",
                  (index.records() + chunks - 1) / chunks)};
}

absl::Status IndexBuilder::SetChunks(const ArrayRecordFooter& footer) {
  NumbersBuilder places;
  NumbersBuilder records;
  const uint64_t first = footer.chunks.empty() ? kRiegeliStartBytes : footer.chunks.front().begin;
  places.Add(first);
  for (const ArrayRecordChunk& chunk : footer.chunks) {
    places.Add(chunk.end - chunk.begin);
    records.Add(chunk.records * kCountBytes);
  }
  for (NumbersBuilder* numbers : {&places, &records}) {
    const absl::StatusOr<std::string> bytes = numbers->Finish();
    if (!bytes.ok()) return bytes.status();
    AppendLittleEndian<uint64_t>(bytes->size(), &chunks_);
    chunks_ += *bytes;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
