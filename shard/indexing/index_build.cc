#include "shard/indexing/index_build.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "io/file.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/formats/array_record_index.h"
#include "shard/formats/header_file.h"
#include "shard/formats/index_match.h"
#include "shard/formats/mds_index.h"
#include "shard/formats/shard_reader.h"
#include "shard/formats/tar_index.h"
#include "shard/spec/spec.h"
#include "tfrecord/framing.h"
#include "tfrecord/tar_frames.h"

namespace shardfeed {
namespace {

// Raw shards are walked in pieces of this size, so that several threads can work on one shard. A
// piece takes 12 bytes of memory for each of its records: 24 MiB if all records are empty.
constexpr uint64_t kPieceBytes = 32 << 20;
// Number of bytes that are searched for the first record of a piece.
constexpr size_t kGuessBytes = 1 << 20;

// The frames of a raw shard that start in one piece.
struct Piece {
  uint64_t begin = 0;  // Offset of the first frame.
  uint64_t end = 0;    // Offset after the last frame.
  std::vector<uint64_t> lengths;
  std::vector<uint32_t> footers;
};

// Walks the frames from `begin` on that start before `limit`.
absl::StatusOr<Piece> WalkFrames(const File& file, uint64_t begin, uint64_t limit,
                                 uint64_t first_record, const IndexBuildOptions& options) {
  Piece piece;
  piece.begin = begin;
  HeaderFile bytes(file, options);
  const auto defect = [&](uint64_t offset, std::string what) {
    return absl::DataLossError(
        fmt::format("{}: record {} at byte {}: {}; 'shardfeed verify' lists all defects, "
                    "'shardfeed repair' saves what is sound",
                    file.path(), first_record + piece.lengths.size(), offset, what));
  };
  uint64_t offset = begin;
  bool near = true;
  absl::StatusOr<const char*> at =
      offset < file.size()
          ? bytes.Get(offset, std::min<uint64_t>(kHeaderBytes, file.size() - offset), near)
          : absl::StatusOr<const char*>(nullptr);
  if (!at.ok()) return at.status();
  while (offset < limit && offset < file.size()) {
    if (file.size() - offset < kHeaderBytes) {
      return defect(offset, fmt::format("cut header: expected {} bytes, got {}", kHeaderBytes,
                                        file.size() - offset));
    }
    uint64_t length;
    const char* header = *at;
    if (!ReadHeader(header, &length)) {
      return defect(offset, fmt::format("length CRC expected {:#010x}, found {:#010x} (length {})",
                                        MaskCrc(Crc32cU64(length)),
                                        LoadLittleEndian<uint32_t>(header + 8), length));
    }
    if (length > file.size() || file.size() - offset < length + kFrameBytes) {
      return defect(offset, fmt::format("cut payload or footer: expected {} bytes, got {}",
                                        length + kFrameBytes, file.size() - offset));
    }
    // Read the footer and the adjacent next header together.
    const uint64_t footer = offset + kHeaderBytes + length;
    // What is skipped in a store costs more than what is read.
    near = length <= HeaderFile::kReadThroughBytes || file.fd() < 0;
    at = bytes.Get(footer, std::min<uint64_t>(kFooterBytes + kHeaderBytes, file.size() - footer),
                   near);
    if (!at.ok()) return at.status();
    piece.lengths.push_back(length);
    piece.footers.push_back(LoadLittleEndian<uint32_t>(*at));
    *at += kFooterBytes;
    offset = footer + kFooterBytes;
    if ((piece.lengths.size() & 0xfff) == 0 && options.stop.stop_requested()) {
      return absl::CancelledError("interrupted");
    }
  }
  piece.end = offset;
  return piece;
}

// Returns an offset at or after `begin` where a frame seems to start. This is only a guess, since a
// payload may contain TFRecord frames: the caller must compare it with the real end of the
// preceding piece.
absl::StatusOr<std::optional<uint64_t>> GuessFrame(const File& file, uint64_t begin,
                                                   const IndexBuildOptions& options) {
  std::string bytes(std::min<uint64_t>(kGuessBytes, file.size() - begin), '\0');
  absl::Status status = file.ReadExactlyAt(begin, absl::MakeSpan(bytes));
  if (!status.ok()) return status;
  if (options.bytes_read != nullptr) *options.bytes_read += bytes.size();
  const size_t at = FindHeader(bytes);
  if (at == std::string::npos) return std::optional<uint64_t>();
  return std::optional<uint64_t>(begin + at);
}

absl::StatusOr<IndexSummary> IndexRaw(const File& file, const IndexBuildOptions& options,
                                      IndexBuilder* builder) {
  IndexSummary summary;
  summary.shard_bytes = file.size();
  RecordsDigest digest;
  const auto take = [&](const Piece& piece) {
    for (size_t i = 0; i < piece.lengths.size(); ++i) {
      absl::Status status = builder->AddFrame(piece.lengths[i] + kFrameBytes);
      if (!status.ok()) return status;
      digest.Add(piece.lengths[i], piece.footers[i]);
    }
    if (options.bytes_passed != nullptr) *options.bytes_passed += piece.end - piece.begin;
    return absl::OkStatus();
  };
  // Walk one wave of pieces after another: each thread guesses the beginning of its piece and walks
  // it. After a wrong guess, the piece is walked again from the real end of the preceding one.
  uint64_t position = 0;
  while (position < file.size()) {
    const uint64_t wave = position;
    // A file in a store is read in order by one.
    const int threads = file.fd() < 0 ? 1 : options.threads;
    const size_t pieces = std::min<uint64_t>(std::max(threads, 1),
                                             (file.size() - wave + kPieceBytes - 1) / kPieceBytes);
    std::vector<std::optional<Piece>> walked(pieces);
    absl::Status status =
        ParallelFor(pieces, static_cast<int>(pieces), options.stop, [&](size_t i) -> absl::Status {
          const uint64_t begin = wave + i * kPieceBytes;
          uint64_t start = begin;
          if (i > 0) {
            absl::StatusOr<std::optional<uint64_t>> guess = GuessFrame(file, begin, options);
            if (!guess.ok()) return guess.status();
            if (!*guess) return absl::OkStatus();
            start = **guess;
          }
          absl::StatusOr<Piece> piece =
              WalkFrames(file, start, begin + kPieceBytes, builder->records(), options);
          if (piece.ok()) {
            walked[i] = *std::move(piece);
          } else if (i == 0 || !absl::IsDataLoss(piece.status())) {
            return piece.status();  // After a guess, DataLoss may just mean that it was wrong.
          }
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    for (size_t i = 0; i < pieces; ++i) {
      const uint64_t limit = wave + (i + 1) * kPieceBytes;
      if (position >= limit) continue;  // One record spans the whole piece.
      if (!walked[i] || walked[i]->begin != position) {
        absl::StatusOr<Piece> piece =
            WalkFrames(file, position, limit, builder->records(), options);
        if (!piece.ok()) return piece.status();
        walked[i] = *std::move(piece);
      }
      status = take(*walked[i]);
      if (!status.ok()) return status;
      position = walked[i]->end;
      walked[i].reset();
    }
  }
  summary.records_digest = digest.value();
  return summary;
}

// Indexes any shard from its beginning to its end.
absl::StatusOr<IndexSummary> IndexByReading(const std::string& path,
                                            const IndexBuildOptions& options,
                                            const RecordsFn& on_records, IndexBuilder* builder) {
  ShardReaderOptions reading;
  reading.check = on_records ? CrcCheck::kAll : CrcCheck::kHeader;
  reading.decompress.restart_interval = options.restart_interval;
  reading.decompress.on_restart_point = [&](const RestartPoint& point) {
    builder->AddRestartPoint(point);
  };
  reading.decompress.on_deflate_block = [&](const DeflateBlock& block) {
    builder->AddDeflateBlock(block);
  };
  absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::Open(path, reading);
  if (!reader.ok()) return reader.status();
  IndexSummary summary;
  summary.compression = (*reader)->compression();
  summary.framing = (*reader)->framing();
  summary.shard_bytes = (*reader)->file().size();
  const bool tar = summary.framing == Framing::kTar;
  TarNotes notes;
  RecordsDigest digest(summary.framing);
  RecordBlock block;
  uint64_t passed = 0;
  while (true) {
    if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
    absl::Status status = (*reader)->Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) break;
    for (const Record& record : block.records) {
      status = builder->AddFrame(FrameBytes(record, summary.framing));
      if (!status.ok()) return status;
      if (tar) notes.AddKey(TarKeyOf(record.payload), record.offset);
    }
    digest.Add(block.records);
    if (on_records) status = on_records(block);
    if (!status.ok()) return status;
    const uint64_t position = (*reader)->file_position();
    if (options.bytes_passed != nullptr) *options.bytes_passed += position - passed;
    if (options.bytes_read != nullptr) *options.bytes_read += position - passed;
    passed = position;
  }
  notes.AddSkipped((*reader)->stream().tar_members_skipped());
  if (options.notes != nullptr) *options.notes = notes.Texts(path);
  if (const MdsHeader* mds = (*reader)->mds(); mds != nullptr) {
    builder->SetMdsColumns(mds->columns->config());
    if (options.notes != nullptr) *options.notes = mds->columns->Notes();
  }
  if (const ArrayRecordFooter* footer = (*reader)->array_record(); footer != nullptr) {
    if (absl::Status status = builder->SetChunks(*footer); !status.ok()) return status;
  }
  summary.records_digest = digest.value();
  return summary;
}

// DataLoss: the shard, whose index is `now`, is only the beginning of the shard that `old` lists.
absl::Status CheckNotBeginning(const std::string& path, const ShardIndex& now,
                               const ShardIndex& old) {
  const uint64_t records = now.records();
  if (now.summary().shard_bytes >= old.summary().shard_bytes || records >= old.records()) {
    return absl::OkStatus();
  }
  // The compression of an empty file is unknown.
  if (now.summary().shard_bytes > 0 && now.summary().compression != old.summary().compression) {
    return absl::OkStatus();
  }
  for (uint64_t i = 0; i <= records; ++i) {
    if (now.Offset(i) != old.Offset(i)) return absl::OkStatus();
  }
  return absl::DataLossError(fmt::format(
      "{}: ends before record {} of the {} that its index lists; 'shardfeed repair' saves "
      "the others, or 'shardfeed index' rebuilds the index if no record is missing",
      path, records, old.records()));
}

}  // namespace

absl::StatusOr<IndexSummary> WalkShard(const std::string& path, const IndexBuildOptions& options,
                                       IndexBuilder* builder, const RecordsFn& on_records) {
  absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<ShardFormat> format = DetectShardFormat(**file);
  if (!format.ok()) return format.status();
  absl::StatusOr<IndexSummary> summary;
  try {
    if (on_records || format->compression != Compression::kNone) {
      summary = IndexByReading(path, options, on_records, builder);
    } else if (format->framing == Framing::kTar) {
      summary = IndexTar(**file, options, builder);
    } else if (format->framing == Framing::kMds) {
      summary = IndexMds(**file, options, builder);
    } else if (format->framing == Framing::kArrayRecord) {
      summary = IndexArrayRecord(**file, options, builder);
    } else {
      summary = IndexRaw(**file, options, builder);
    }
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format(
        "{}: record {} at byte {}: out of memory; the whole record must fit into memory", path,
        builder->records(), builder->stream_bytes()));
  }
  if (!summary.ok()) return summary;
  summary->records = builder->records();
  summary->stream_bytes = builder->stream_bytes();
  return summary;
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> BuildIndex(const std::string& path,
                                                             const IndexBuildOptions& options) {
  IndexBuilder builder;
  absl::StatusOr<IndexSummary> summary = WalkShard(path, options, &builder);
  if (!summary.ok()) return summary.status();
  absl::StatusOr<std::string> bytes = builder.Finish(*summary);
  if (!bytes.ok()) return bytes.status();
  return ShardIndex::FromBytes(*std::move(bytes), "index of " + path);
}

absl::Status CheckNotCut(const std::string& path, const IndexBuildOptions& options) {
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> old = ShardIndex::Open(IndexPath(path));
  if (!old.ok()) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
  if (!file.ok() || (*file)->size() >= (*old)->summary().shard_bytes) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> now = BuildIndex(path, options);
  // Other errors are reported when the index is built.
  if (!now.ok()) return absl::IsCancelled(now.status()) ? now.status() : absl::OkStatus();
  return CheckNotBeginning(path, **now, **old);
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> OpenOrBuildIndex(const std::string& path,
                                                                   const IndexBuildOptions& options,
                                                                   bool* built) {
  if (built != nullptr) *built = false;
  absl::StatusOr<std::shared_ptr<const ShardIndex>> old = ShardIndex::Open(IndexPath(path));
  if (old.ok()) {
    absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
    if (!file.ok()) return file.status();
    const absl::StatusOr<bool> matches =
        IndexMatches((*old)->summary(), (*file)->size(), [&] { return *file; });
    if (!matches.ok()) return matches.status();
    if (*matches) return old;
  } else if (!absl::IsNotFound(old.status()) && !absl::IsDataLoss(old.status())) {
    return old.status();
  }
  absl::StatusOr<std::shared_ptr<const ShardIndex>> now = BuildIndex(path, options);
  if (!now.ok()) return now;
  if (old.ok()) {
    if (absl::Status status = CheckNotBeginning(path, **now, **old); !status.ok()) return status;
  }
  if (built != nullptr) *built = true;
  return now;
}

}  // namespace shardfeed
