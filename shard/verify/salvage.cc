#include "shard/verify/salvage.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "net/open.h"
#include "shard/formats/index_match.h"
#include "shard/index/content_stretches.h"
#include "shard/index/index.h"
#include "shard/spec/spec.h"
#include "tfrecord/framing.h"
#include "tfrecord/tar_frames.h"
#include "tfrecord/tar_samples.h"

namespace shardfeed {
namespace {

constexpr int kIndexSamples = 64;

// Whether a header or a footer of the shard tells where its records are.
bool HasPlaces(Framing framing) {
  return framing == Framing::kMds || framing == Framing::kArrayRecord;
}

FrameDefect DefectOf(Framing framing) {
  return framing == Framing::kMds ? FrameDefect::kMds : FrameDefect::kArrayRecord;
}

// Returns whether the error of reading an index means that there is none: it is missing, damaged or
// not a file.
bool CountsAsNone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsFailedPrecondition(status);
}

// Returns the index, or null if there is none. A failed read is reported, because without the index
// fewer records might be saved.
absl::StatusOr<std::shared_ptr<const ShardIndex>> OpenIndex(const File& file) {
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
      ShardIndex::Open(IndexPath(file.path()));
  if (CountsAsNone(index.status())) return nullptr;
  return index;
}

// Returns whether the index belongs to this shard, apart from the damage, and covers the rest of
// it. `record` records have been read, up to `offset`. An index that agrees with them but has
// another size may still belong to another shard with the same beginning, so a quarter of its
// remaining entries must match.
absl::StatusOr<bool> IndexFits(const File& file, const ShardIndex& index, Compression compression,
                               uint64_t record, uint64_t offset) {
  if (index.summary().compression != compression || record >= index.records() ||
      index.Offset(record) != offset) {
    return false;
  }
  if (record > 0 && file.size() == index.summary().shard_bytes) return true;
  // The index of a much smaller shard belongs to another shard.
  if (file.size() / 5 * 4 > index.summary().shard_bytes) return false;
  const int64_t shift = ShiftOf(file, index);
  uint64_t looked = 0;
  uint64_t found = 0;
  // Samples the entries [first, end), each also at the offset shifted by the file's growth.
  const auto look = [&](uint64_t first, uint64_t end, size_t size, const auto& place_of,
                        const auto& sound, const auto& must_be) -> absl::Status {
    std::string bytes(size, '\0');
    const uint64_t step = std::max<uint64_t>(1, (end - first) / kIndexSamples);
    for (uint64_t i = first; i < end; i += step) {
      const std::optional<uint64_t> at = place_of(i);
      if (!at) continue;
      if (*at + size > file.size()) break;  // The file was truncated.
      bool there = false;
      for (const int64_t moved : {int64_t{0}, shift}) {
        const uint64_t place = *at + static_cast<uint64_t>(moved);
        if (place >= file.size() || size > file.size() - place) continue;
        absl::Status status = file.ReadExactlyAt(place, absl::MakeSpan(bytes));
        if (!status.ok()) return status;
        there = sound(i, bytes);
        if (there) break;
      }
      found += there;
      looked += there || must_be(i);
    }
    return absl::OkStatus();
  };
  absl::Status status;
  if (compression == Compression::kNone) {
    status = look(
        record, index.records(), kHeaderBytes,
        [&](uint64_t i) { return std::optional(index.Offset(i)); },
        [&](uint64_t i, const std::string& header) {
          uint64_t length;
          return ReadHeader(header.data(), &length) &&
                 length + kFrameBytes == index.Offset(i + 1) - index.Offset(i);
        },
        [](uint64_t) { return true; });
  } else {
    // Look for the magic bytes of a GZIP member, or for the empty block of a full flush before a
    // ZLIB segment. Other restart points cannot be recognized by their bytes.
    const bool gzip = compression == Compression::kGzip;
    const std::string_view mark =
        gzip ? std::string_view("\x1f\x8b\x08", 3) : std::string_view("\x00\x00\xff\xff", 4);
    status = look(
        gzip ? 0 : 1, std::max<uint64_t>(gzip ? 0 : 1, index.num_restart_points()), mark.size(),
        [&](uint64_t i) -> std::optional<uint64_t> {
          const RestartPoint point = index.PointAt(i);
          if (gzip && point.at_header) return point.file_offset;
          if (gzip || point.bits != 0) return std::nullopt;
          return point.file_offset - std::min<uint64_t>(mark.size(), point.file_offset);
        },
        [&](uint64_t, const std::string& bytes) { return bytes == mark; },
        // In ZLIB data of other writers, blocks may begin anywhere.
        [&](uint64_t i) { return gzip || index.DictionaryAt(i).empty(); });
  }
  if (!status.ok()) return status;
  return 4 * found >= looked;  // Also true if no entry could be checked.
}

// See RecordStreamOptions::indexed_end. Null if no index is available.
std::function<uint64_t(uint64_t, uint64_t)> EndOfIndex(std::shared_ptr<const ShardIndex> index,
                                                       ShardFormat format, uint64_t shard_bytes) {
  if (index == nullptr) return nullptr;
  const IndexSummary& summary = index->summary();
  if (summary.framing != format.framing || summary.compression != format.compression ||
      summary.shard_bytes != shard_bytes) {
    return nullptr;
  }
  return [index = std::move(index)](uint64_t record, uint64_t offset) {
    const bool has = record < index->records() && index->Offset(record) == offset;
    return has ? index->summary().stream_bytes : 0;
  };
}

}  // namespace

// Stores the index in `first` if it matches the shard and the damage.
absl::Status ShardSalvager::AdoptIndex(FirstDamage* first) const {
  if (!options_.use_index) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = OpenIndex(*file_);
  if (!opened.ok()) return opened.status();
  if (*opened == nullptr) return absl::OkStatus();
  const ShardIndex& index = **opened;
  const IndexSummary& summary = index.summary();
  if (first->is_start) first->compression = summary.compression;
  absl::StatusOr<bool> fits =
      IndexFits(*file_, index, first->compression, first->record, first->offset);
  if (!fits.ok()) return fits.status();
  const bool all_read = first->record > 0 && first->record == index.records() &&
                        summary.compression == first->compression &&
                        summary.stream_bytes == first->offset;
  if ((*fits || all_read) && !first->records) first->records = index.records();
  if (*fits) first->index = *std::move(opened);
  return absl::OkStatus();
}

absl::StatusOr<Compression> ShardSalvager::GuessCompression(std::shared_ptr<const File> file,
                                                            const SalvageOptions& options) {
  absl::StatusOr<std::optional<Compression>> guess = ContentStretches::Guess(file, false);
  if (!guess.ok()) return guess.status();
  if (*guess) return **guess;
  // Check whether the file has records when read as a raw shard.
  SalvageOptions raw = options;
  raw.use_index = false;
  raw.compression = Compression::kNone;
  absl::StatusOr<std::unique_ptr<ShardSalvager>> trial = Open(file->path(), raw);
  if (!trial.ok()) return trial.status();
  RecordBlock block;
  if (absl::Status status = (*trial)->Next(&block); !status.ok()) return status;
  if (!block.records.empty()) return Compression::kNone;
  guess = ContentStretches::Guess(file, true);
  if (!guess.ok()) return guess.status();
  return guess->value_or(Compression::kNone);
}

absl::StatusOr<std::unique_ptr<ShardSalvager>> ShardSalvager::Open(const std::string& path,
                                                                   SalvageOptions options) {
  std::unique_ptr<ShardSalvager> salvager(new ShardSalvager());
  absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  salvager->options_ = std::move(options);
  const SalvageOptions& known = salvager->options_;
  salvager->file_ = *file;
  absl::StatusOr<ShardFormat> format = DetectShardFormat(**file);
  if (!format.ok() && !absl::IsDataLoss(format.status())) return format.status();
  if (!format.ok() && known.use_index) {
    // The first header of a tar shard cannot be mended, but its index may tell where others are.
    const absl::StatusOr<IndexSummary> summary = ReadIndexSummary(IndexPath(path));
    if (summary.ok() && summary->framing == Framing::kTar) format = summary->format();
  }
  if (format.ok()) {
    salvager->format_ = *format;
    (*file)->Advise(File::Access::kSequential);
    ShardReaderOptions reading;
    reading.check = known.check;
    reading.block_bytes = 512 << 10;  // Stays in the second-level cache between read and CRC.
    reading.decompress = known.decompress;
    if (format->framing == Framing::kTar && known.use_index) {
      absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = OpenIndex(**file);
      if (!opened.ok()) return opened.status();
      reading.indexed_end = EndOfIndex(*std::move(opened), *format, (*file)->size());
    }
    absl::StatusOr<std::unique_ptr<ShardReader>> reader =
        ShardReader::OpenAt(*file, *format, RestartPoint(), 0, 0, reading);
    if (absl::IsDataLoss(reader.status()) && HasPlaces(format->framing)) {
      absl::StatusOr<std::shared_ptr<const ArrayRecordFooter>> footer = salvager->FooterOfIndex();
      if (!footer.ok()) return footer.status();
      if (*footer == nullptr) {
        salvager->LosePlaces(reader.status());
        return salvager;
      }
      salvager->LoseFooter(reader.status());
      reading.array_record = *std::move(footer);
      reader = ShardReader::OpenAt(*file, *format, RestartPoint(), 0, 0, std::move(reading));
    }
    if (!reader.ok()) return reader.status();
    salvager->reader_ = *std::move(reader);
    return salvager;
  }
  // The first bytes are damaged: take the compression from the index or the caller, or guess it
  // from the rest.
  FirstDamage first = salvager->DamageHere(format.status());
  if (absl::Status status = salvager->AdoptIndex(&first); !status.ok()) return status;
  if (first.index == nullptr && known.compression) {
    first.compression = *known.compression;
  } else if (first.index == nullptr) {
    absl::StatusOr<Compression> guess = GuessCompression(*file, known);
    if (!guess.ok()) return guess.status();
    first.compression = *guess;
  }
  salvager->format_.compression = first.compression;
  salvager->past_damage_ = std::make_unique<PastDamage>(std::move(first));
  return salvager;
}

std::optional<uint64_t> ShardSalvager::records_lost() const {
  uint64_t sum = 0;
  for (const DamagedPlace& place : damage()) {
    if (!place.records) return std::nullopt;
    sum += *place.records;
  }
  return sum;
}

uint64_t ShardSalvager::bytes_skipped() const {
  uint64_t sum = 0;
  for (const DamagedPlace& place : damage()) sum += place.bytes;
  return sum;
}

uint64_t ShardSalvager::stream_bytes() const {
  if (tar_index_ != nullptr) return tar_index_->Offset(tar_next_);
  if (past_damage_ != nullptr) return past_damage_->stream_bytes();
  return reader_ != nullptr ? reader_->stream().offset() : 0;
}

uint64_t ShardSalvager::file_position() const {
  if (past_damage_ != nullptr) return past_damage_->file_position();
  if (tar_index_ != nullptr) return tar_index_->Offset(tar_next_);
  return ended_ ? file_->size() : reader_->file_position();
}

absl::Status ShardSalvager::Next(RecordBlock* block) {
  if (past_damage_ != nullptr) return past_damage_->Next(block);
  if (ended_) {
    block->buffer.reset();
    block->records.clear();
    return absl::OkStatus();
  }
  if (tar_index_ != nullptr) return NextByTarIndex(block);
  absl::Status status = reader_->Next(block);
  while (absl::IsDataLoss(status) && HasPlaces(format_.framing)) {
    status = PassPlacedDamage(status);
    if (status.ok()) status = reader_->Next(block);
  }
  if (status.ok()) {
    records_ += block->records.size();
    return block->records.empty() ? Finish() : absl::OkStatus();
  }
  if (!absl::IsDataLoss(status)) return status;
  if (format_.framing == Framing::kTar) {
    status = PassTarDamage(status);
    return status.ok() && tar_index_ != nullptr ? NextByTarIndex(block) : status;
  }
  FirstDamage first = DamageHere(status);
  if (absl::Status adopted = AdoptIndex(&first); !adopted.ok()) return adopted;
  reader_ = nullptr;  // Drops the buffered part of the damaged record.
  past_damage_ = std::make_unique<PastDamage>(std::move(first));
  return past_damage_->Next(block);
}

// Nothing but the header of an MDS shard, or the footer of an ArrayRecord shard, tells where its
// records are.
void ShardSalvager::LosePlaces(const absl::Status& error) {
  DamagedPlace place;
  place.kind = FrameDefectName(DefectOf(format_.framing));
  place.detail = fmt::format("{}; all of it is lost", std::string(error.message()));
  place.records = options_.records;
  place.file_end = file_->size();
  place.bytes = file_->size();
  damage_.push_back(std::move(place));
  ended_ = true;
}

// Returns where the chunks of an ArrayRecord shard are by its index, whose file may be cut off
// since. Null if no index is available. A chunk that is read tells whether it is the one of the
// index.
absl::StatusOr<std::shared_ptr<const ArrayRecordFooter>> ShardSalvager::FooterOfIndex() const {
  if (!options_.use_index || format_.framing != Framing::kArrayRecord) return nullptr;
  absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = OpenIndex(*file_);
  if (!opened.ok()) return opened.status();
  if (*opened == nullptr) return nullptr;
  const IndexSummary& summary = (*opened)->summary();
  if (summary.framing != Framing::kArrayRecord || file_->size() > summary.shard_bytes) {
    return nullptr;
  }
  return std::make_shared<const ArrayRecordFooter>(
      (*opened)->FooterOfChunks(0, (*opened)->records()));
}

// Only the footer of an ArrayRecord shard is damaged.
void ShardSalvager::LoseFooter(const absl::Status& error) {
  DamagedPlace place;
  place.kind = FrameDefectName(FrameDefect::kArrayRecord);
  place.detail =
      fmt::format("{}; the index tells where the chunks are", std::string(error.message()));
  place.records = 0;
  place.offset = place.file_begin = place.file_end = file_->size();
  damage_.push_back(std::move(place));
}

// Passes a sample of an MDS shard, or a chunk of an ArrayRecord shard, that is not sound. The
// header or the footer tells where the next one begins.
absl::Status ShardSalvager::PassPlacedDamage(const absl::Status& error) {
  RecordStream& stream = reader_->stream();
  if (stream.defect() != DefectOf(format_.framing)) return error;
  DamagedPlace place;
  place.kind = FrameDefectName(stream.defect());
  place.detail = std::string(error.message());
  place.record = stream.record();
  place.offset = place.file_begin = reader_->FileOffset(place.record, stream.offset());
  absl::StatusOr<uint64_t> bytes = stream.Recover();
  if (!bytes.ok()) return bytes.status();
  place.records = stream.record() - place.record;
  place.bytes = *bytes;
  place.file_end = place.file_begin + *bytes;
  damage_.push_back(std::move(place));
  return absl::OkStatus();
}

// Passes the first damage of a tar shard if the index says where the next sample begins: samples
// are then read one by one. Otherwise the rest is lost, since nothing else tells for sure where a
// sample begins.
absl::Status ShardSalvager::PassTarDamage(const absl::Status& error) {
  const bool raw = format_.compression == Compression::kNone;
  std::shared_ptr<const ShardIndex> index;
  if (options_.use_index) {
    absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = OpenIndex(*file_);
    if (!opened.ok()) return opened.status();
    index = *std::move(opened);
  }
  const uint64_t offset = reader_->stream().offset();
  // Whether the index is of this archive, as far as it has been read.
  const bool agrees = index != nullptr && index->summary().framing == Framing::kTar &&
                      index->summary().compression == format_.compression &&
                      records_ <= index->records() && index->Offset(records_) == offset;
  DamagedPlace place;
  place.kind = FrameDefectName(FrameDefect::kTar);
  place.detail = std::string(error.message());
  place.record = records_;
  place.records = std::nullopt;
  const std::optional<uint64_t> all = agrees ? index->records() : options_.records;
  if (all && *all >= records_) place.records = *all - records_;
  place.offset = offset;
  place.file_begin = raw ? offset : 0;
  place.file_end = file_->size();
  place.bytes = raw ? file_->size() - std::min(file_->size(), offset) : 0;
  absl::StatusOr<bool> matches = false;
  if (agrees && raw && records_ < index->records()) {
    matches = IndexMatches(index->summary(), file_->size(), [this] { return file_; });
  }
  if (!matches.ok()) return matches.status();
  if (*matches) {
    tar_index_ = std::move(index);
    tar_next_ = records_;
    tar_damage_ = std::move(place);
    return absl::OkStatus();
  }
  if (!agrees) {
    place.detail +=
        fmt::format("; it and all records after it are lost{}",
                    !raw               ? ""
                    : index == nullptr ? ", because no index tells where they begin"
                                       : ", because the index is that of another archive");
  }
  damage_.push_back(std::move(place));
  ended_ = true;
  return absl::OkStatus();
}

// Delivers the next sound sample where the index says.
absl::Status ShardSalvager::NextByTarIndex(RecordBlock* block) {
  block->buffer.reset();
  block->records.clear();
  for (; tar_next_ < tar_index_->records(); ++tar_next_) {
    const uint64_t begin = tar_index_->Offset(tar_next_);
    const uint64_t size = tar_index_->Offset(tar_next_ + 1) - begin;
    std::string wrong = "its index says that it has more than 2 GiB";
    if (size <= kMaxTarSampleBytes) {
      std::shared_ptr<Buffer> buffer = Buffer::Allocate(size);
      const absl::Span<char> frame(buffer->data(), size);
      if (absl::Status status = file_->ReadExactlyAt(begin, frame); !status.ok()) return status;
      std::string_view payload;
      wrong = ReadTarFrame(frame, begin, &payload);
      if (wrong.empty()) {
        block->first_record = tar_next_++;
        block->records.push_back({payload, begin});
        block->buffer = std::move(buffer);
        ++records_;
        return absl::OkStatus();
      }
    }
    DamagedPlace place;
    place.kind = FrameDefectName(FrameDefect::kTar);
    place.detail =
        fmt::format("{}: record {} at byte {}: {}", file_->path(), tar_next_, begin, wrong);
    place.record = tar_next_;
    place.records = 1;
    place.offset = place.file_begin = begin;
    place.file_end = begin + size;
    place.bytes = size;
    damage_.push_back(std::move(place));
  }
  if (!damage_.empty()) return absl::OkStatus();
  // All samples are sound: the damage is at the end of the archive.
  tar_damage_.record = tar_next_;
  tar_damage_.records = 0;
  tar_damage_.offset = tar_damage_.file_begin = tar_index_->summary().stream_bytes;
  tar_damage_.bytes = 0;
  damage_.push_back(tar_damage_);
  return absl::OkStatus();
}

FirstDamage ShardSalvager::DamageHere(const absl::Status& error) const {
  FirstDamage first;
  first.file = file_;
  first.compression = format_.compression;
  first.check = options_.check;
  first.records = options_.records;
  first.record = records_;
  first.offset = reader_ != nullptr ? reader_->stream().offset() : 0;
  first.error = std::string(error.message());
  first.is_start = reader_ == nullptr;
  return first;
}

// Called at the end of an undamaged shard: checks whether records are missing there.
absl::Status ShardSalvager::Finish() {
  ended_ = true;
  if (!options_.use_index) return absl::OkStatus();
  absl::StatusOr<IndexSummary> summary = ReadIndexSummary(IndexPath(file_->path()));
  if (CountsAsNone(summary.status())) return absl::OkStatus();
  if (!summary.ok()) return summary.status();
  if (summary->records <= records_) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const ShardIndex>> opened = OpenIndex(*file_);
  if (!opened.ok()) return opened.status();
  const ShardIndex* const index = opened->get();
  if (index == nullptr || records_ >= index->records() ||
      (index->summary().compression != format_.compression && file_->size() > 0) ||
      index->summary().shard_bytes <= file_->size() ||
      index->Offset(records_) != reader_->stream().offset()) {
    return absl::OkStatus();
  }
  DamagedPlace place;
  place.kind = "cut shard";
  place.record = records_;
  place.records = index->records() - records_;
  place.offset = reader_->stream().offset();
  place.file_begin = place.file_end = file_->size();
  place.detail = fmt::format(
      "{}: ends before record {} at byte {}; its index lists {} records in {} bytes", file_->path(),
      records_, place.offset, index->records(), index->summary().shard_bytes);
  damage_.push_back(std::move(place));
  return absl::OkStatus();
}

}  // namespace shardfeed
