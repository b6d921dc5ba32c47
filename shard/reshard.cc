#include "shard/reshard.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/index_build.h"
#include "shard/index_check.h"
#include "shard/shard_reader.h"
#include "shard/writer.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Approximate size of the unit that is read, checked and encoded in one step.
constexpr uint64_t kUnitBytes = 4 << 20;
constexpr size_t kUnitRuns = 4096;
// Raw frames up to this mean size are read completely. Larger ones are copied by the kernel, and
// only their ends are read.
constexpr uint64_t kReadThroughBytes = 16 << 10;
constexpr size_t kCopyBytes = 1 << 20;

// Returns the CRC-32C of A followed by B, where `a` and `b` are their CRCs and B has `bytes` bytes.
uint32_t AppendedCrc32c(uint32_t a, uint32_t b, uint64_t bytes) {
  // A CRC is a polynomial modulo the generator, with its highest power in the lowest bit. Multiply
  // A by x to the power of 8 * bytes, by repeated squaring.
  const auto times_x = [](uint32_t p) { return (p >> 1) ^ ((p & 1) != 0 ? 0x82f63b78u : 0); };
  const auto product = [&](uint32_t p, uint32_t q) {
    uint32_t sum = 0;
    for (int bit = 31; bit >= 0; --bit, q = times_x(q)) {
      if ((p >> bit & 1) != 0) sum ^= q;
    }
    return sum;
  };
  uint32_t factor = 1u << 23;  // x to the power of 8.
  for (; bytes > 0; bytes >>= 1, factor = product(factor, factor)) {
    if ((bytes & 1) != 0) a = product(a, factor);
  }
  return a ^ b;
}

absl::Status RecordError(const ReshardInput& input, size_t shard, uint64_t record,
                         std::string_view what) {
  return absl::DataLossError(fmt::format("{}: record {} at byte {}: {}", input.path(shard), record,
                                         input.index(shard).Offset(record), what));
}

absl::Status IndexError(const ReshardInput& input, size_t shard, uint64_t record) {
  return RecordError(input, shard, record,
                     "its index does not match it; 'shardfeed verify' shows which of the two is "
                     "damaged, 'shardfeed index' rebuilds the index");
}

// Records [begin, end) of one shard of the input.
struct Piece {
  size_t shard;
  uint64_t begin;
  uint64_t end;
};

// Computes the digests of raw shards whose records are all taken once, from the digests of their
// pieces, which several threads report in any order.
class WholeDigests {
 public:
  WholeDigests(const ReshardInput& input, const std::vector<uint64_t>& taken)
      : input_(input), parts_(taken.size()) {
    for (size_t shard = 0; shard < taken.size(); ++shard) {
      whole_.push_back(taken[shard] == input.index(shard).records());
    }
  }

  // Thread-safe.
  void Add(const Piece& piece, uint32_t digest) {
    if (!whole_[piece.shard]) return;
    MutexLock lock(mutex_);
    parts_[piece.shard][piece.begin] = {piece.end, digest};
  }
  // Compares the digests with those in the indexes, once all records have been reported.
  absl::Status Compare() const {
    MutexLock lock(mutex_);
    for (size_t shard = 0; shard < parts_.size(); ++shard) {
      const IndexSummary& summary = input_.index(shard).summary();
      if (!whole_[shard] || summary.compression != Compression::kNone) continue;
      uint32_t digest = 0;
      for (const auto& [begin, part] : parts_[shard]) {
        digest = AppendedCrc32c(digest, part.second, (part.first - begin) * kFrameBytes);
      }
      if (digest == summary.records_digest) continue;
      return absl::DataLossError(fmt::format(
          "{}: the digest of its records is {:08x}, but its index says {:08x}; 'shardfeed "
          "verify' shows what is damaged",
          input_.path(shard), digest, summary.records_digest));
    }
    return absl::OkStatus();
  }

 private:
  const ReshardInput& input_;
  std::vector<bool> whole_;
  mutable Mutex mutex_;
  // For each shard, maps the first record of a piece to the end of the piece and its digest.
  std::vector<std::map<uint64_t, std::pair<uint64_t, uint32_t>>> parts_ ABSL_GUARDED_BY(mutex_);
};

// Splits a run at shard boundaries.
absl::Status ForEachPiece(const ReshardInput& input, RecordRun run,
                          const std::function<absl::Status(Piece)>& visit) {
  size_t shard = 0;
  size_t above = input.num_shards();
  // Find the last shard that starts at or before the run.
  while (shard + 1 < above) {
    const size_t middle = shard + (above - shard) / 2;
    (input.StartOf(middle) <= run.begin ? shard : above) = middle;
  }
  for (; run.begin < run.end; ++shard) {
    const uint64_t end = std::min(run.end, input.StartOf(shard + 1));
    if (end <= run.begin) continue;  // The shard has no records.
    const uint64_t start = input.StartOf(shard);
    absl::Status status = visit({shard, run.begin - start, end - start});
    if (!status.ok()) return status;
    run.begin = end;
  }
  return absl::OkStatus();
}

// ---- Copying bytes

// Checks the frames of raw shards against the index while they are copied.
class FrameCheck {
 public:
  FrameCheck(const ReshardInput& input, IndexBuilder& index, RecordsDigest& digest,
             WholeDigests& digests)
      : input_(input), index_(index), digest_(digest), digests_(digests) {}

  void Start(const Piece& piece) {
    piece_ = piece;
    record_ = piece.begin;
    of_piece_ = RecordsDigest();
  }
  // Checks the header and the footer of the next record, whose frame has `frame` bytes according to
  // the index.
  absl::Status Add(const char* header, const char* footer, uint64_t frame) {
    uint64_t length;
    if (!ReadHeader(header, &length) || length + kFrameBytes != frame) {
      return IndexError(input_, piece_.shard, record_);
    }
    const auto crc = LoadLittleEndian<uint32_t>(footer);
    digest_.Add(length, crc);
    of_piece_.Add(length, crc);
    ++record_;
    return index_.AddFrame(frame);
  }
  void End() const { digests_.Add(piece_, of_piece_.value()); }

 private:
  const ReshardInput& input_;
  IndexBuilder& index_;
  RecordsDigest& digest_;
  WholeDigests& digests_;
  Piece piece_{};
  uint64_t record_ = 0;
  RecordsDigest of_piece_;
};

// Copies small frames by reading and writing them, so that their ends are available.
absl::Status CopyThrough(const ReshardInput& input, const Piece& piece, const File& in,
                         OutputFile& out, FrameCheck& check, std::stop_token stop) {
  const ShardIndex& index = input.index(piece.shard);
  const auto buffer = std::make_unique<char[]>(kCopyBytes);
  for (uint64_t record = piece.begin; record < piece.end;) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted; nothing was kept");
    // Take as many whole frames as fit into the buffer.
    const uint64_t begin = index.Offset(record);
    uint64_t after = piece.end;
    if (index.Offset(piece.end) - begin > kCopyBytes) {
      after = std::min(piece.end, index.RecordAt(begin + kCopyBytes));
    }
    if (after == record) {  // A single frame is larger than the buffer.
      const uint64_t end = index.Offset(record + 1);
      char header[kHeaderBytes];
      char footer[kFooterBytes];
      absl::Status status = in.ReadExactlyAt(begin, absl::MakeSpan(header));
      if (status.ok()) status = in.ReadExactlyAt(end - kFooterBytes, absl::MakeSpan(footer));
      if (status.ok()) status = out.AppendFrom(in, begin, end - begin);
      if (status.ok()) status = check.Add(header, footer, end - begin);
      if (!status.ok()) return status;
      ++record;
      continue;
    }
    const uint64_t size = index.Offset(after) - begin;
    absl::Status status = in.ReadExactlyAt(begin, absl::MakeSpan(buffer.get(), size));
    if (status.ok()) status = out.Append({buffer.get(), size});
    if (!status.ok()) return status;
    uint64_t at = 0;
    for (; record < after; ++record) {
      const uint64_t end = index.Offset(record + 1) - begin;
      status = check.Add(buffer.get() + at, buffer.get() + end - kFooterBytes, end - at);
      if (!status.ok()) return status;
      at = end;
    }
  }
  return absl::OkStatus();
}

// Lets the kernel copy large frames, and reads only their ends.
absl::Status CopyByKernel(const ReshardInput& input, const Piece& piece, const File& in,
                          OutputFile& out, FrameCheck& check, std::stop_token stop) {
  constexpr uint64_t kStep = 64 << 20;  // Number of bytes copied between two checks of `stop`.
  const ShardIndex& index = input.index(piece.shard);
  const uint64_t end = index.Offset(piece.end);
  for (uint64_t at = index.Offset(piece.begin); at < end;) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted; nothing was kept");
    const uint64_t size = std::min(end - at, kStep);
    if (absl::Status status = out.AppendFrom(in, at, size); !status.ok()) return status;
    at += size;
  }
  // Read a footer and the adjacent next header together.
  char ends[kFooterBytes + kHeaderBytes];
  char header[kHeaderBytes];
  uint64_t begin = index.Offset(piece.begin);
  absl::Status status = in.ReadExactlyAt(begin, absl::MakeSpan(header));
  for (uint64_t record = piece.begin; status.ok() && record < piece.end; ++record) {
    const size_t size = record + 1 == piece.end ? kFooterBytes : sizeof(ends);
    const uint64_t after = index.Offset(record + 1);
    status = in.ReadExactlyAt(after - kFooterBytes, absl::MakeSpan(ends).subspan(0, size));
    if (status.ok()) status = check.Add(header, ends, after - begin);
    std::copy_n(ends + kFooterBytes, kHeaderBytes, header);
    begin = after;
  }
  return status;
}

struct CopiedShard {
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint32_t digest = 0;
};

absl::StatusOr<CopiedShard> CopyRaw(const ReshardInput& input, const std::vector<Piece>& pieces,
                                    const std::string& base, const ReshardOptions& options,
                                    WholeDigests& digests) {
  absl::StatusOr<std::unique_ptr<OutputFile>> out = OutputFile::Create(base + ".shard");
  if (!out.ok()) return out.status();
  absl::StatusOr<std::unique_ptr<OutputFile>> index_file = OutputFile::Create(base + ".index");
  if (!index_file.ok()) return index_file.status();
  IndexBuilder index(index_file->get());
  RecordsDigest digest;
  FrameCheck check(input, index, digest, digests);
  for (const Piece& piece : pieces) {
    const IndexSummary& summary = input.index(piece.shard).summary();
    absl::StatusOr<std::shared_ptr<File>> in = OpenFile(input.path(piece.shard));
    if (!in.ok()) return in.status();
    check.Start(piece);
    const bool small = summary.stream_bytes < kReadThroughBytes * summary.records;
    absl::Status status =
        (*in)->size() != summary.shard_bytes
            ? IndexError(input, piece.shard, 0)
            : (small ? CopyThrough : CopyByKernel)(input, piece, **in, **out, check, options.stop);
    if (!status.ok()) return status;
    check.End();
    if (options.records_written != nullptr) *options.records_written += piece.end - piece.begin;
  }
  CopiedShard copied{(*out)->size(), index.records(), digest.value()};
  IndexSummary summary;
  summary.records_digest = copied.digest;
  summary.shard_bytes = copied.bytes;
  absl::Status status = index.Finish(summary).status();
  for (const auto& file : {out->get(), index_file->get()}) {
    if (status.ok() && options.sync) status = file->Sync();
    if (status.ok()) status = file->Close();
  }
  if (!status.ok()) return status;
  return copied;
}

// Copies a whole compressed shard. Its index has been compared with it, and may have been built in
// memory.
absl::StatusOr<CopiedShard> CopyWhole(const ReshardInput& input, size_t shard,
                                      const std::string& base, const ReshardOptions& options) {
  const ShardIndex& index = input.index(shard);
  absl::StatusOr<std::shared_ptr<File>> in = OpenFile(input.path(shard));
  if (!in.ok()) return in.status();
  if ((*in)->size() != index.summary().shard_bytes) return IndexError(input, shard, 0);
  absl::StatusOr<std::unique_ptr<OutputFile>> out = OutputFile::Create(base + ".shard");
  if (!out.ok()) return out.status();
  absl::StatusOr<std::unique_ptr<OutputFile>> index_file = OutputFile::Create(base + ".index");
  if (!index_file.ok()) return index_file.status();
  absl::Status status = (*out)->AppendFrom(**in, 0, (*in)->size());
  if (status.ok()) status = (*index_file)->Append(index.bytes());
  for (const auto& file : {out->get(), index_file->get()}) {
    if (status.ok() && options.sync) status = file->Sync();
    if (status.ok()) status = file->Close();
  }
  if (!status.ok()) return status;
  if (options.records_written != nullptr) *options.records_written += index.records();
  return CopiedShard{(*in)->size(), index.records(), index.summary().records_digest};
}

// How a shard of the output can be made by copying.
enum class CopyWay { kNone, kRaw, kWhole };

CopyWay WayOf(const ReshardInput& input, const std::vector<Piece>& pieces,
              const ReshardOptions& options) {
  const auto compression_of = [&](const Piece& piece) {
    return input.index(piece.shard).summary().compression;
  };
  if (options.encode.compression == Compression::kNone &&
      std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return compression_of(piece) == Compression::kNone;
      })) {
    return CopyWay::kRaw;
  }
  return pieces.size() == 1 && pieces[0].begin == 0 &&
                 pieces[0].end == input.index(pieces[0].shard).records() &&
                 compression_of(pieces[0]) == options.encode.compression
             ? CopyWay::kWhole
             : CopyWay::kNone;
}

// Compares indexes with their shards if reading the records would not reveal errors. Sets `taken`
// to the number of records of each shard if all of them are taken once and in order, otherwise to
// 0.
absl::Status CheckIndexes(const ReshardInput& input, const RecordSelection& selection,
                          const ReshardOptions& options, std::vector<uint64_t>* taken) {
  std::vector<uint64_t> next(input.num_shards());
  std::vector<char> used(input.num_shards());
  taken->assign(input.num_shards(), 0);
  absl::Status status = selection.ForEachRun(0, selection.count(), [&](RecordRun run) {
    return ForEachPiece(input, run, [&](Piece piece) {
      used[piece.shard] = true;
      // Records must be taken from the first one on without a gap; otherwise the shard counts as
      // taken in parts.
      if (piece.begin == next[piece.shard]) {
        next[piece.shard] = piece.end;
      } else {
        next[piece.shard] = UINT64_MAX;
      }
      return absl::OkStatus();
    });
  });
  if (!status.ok()) return status;
  for (size_t shard = 0; shard < next.size(); ++shard) {
    if (next[shard] == input.index(shard).records()) (*taken)[shard] = next[shard];
  }
  return ParallelFor(input.num_shards(), ThreadCount(options.threads), options.stop, [&](size_t i) {
    const IndexSummary& summary = input.index(i).summary();
    const bool tells = summary.compression == Compression::kNone && (*taken)[i] == summary.records;
    return !used[i] || tells ? absl::OkStatus() : input.CheckIndex(i, options.stop);
  });
}

// ---- Reading and encoding records

// Runs of one shard of the input that a thread reads together, in ascending order.
struct Unit {
  size_t shard = 0;
  uint64_t bytes = 0;
  std::vector<RecordRun> runs;  // Record numbers within the shard.
};

absl::Status ReadRawUnit(const ReshardInput& input, const Unit& unit, WholeDigests& digests,
                         RecordBatch& out) {
  thread_local std::vector<Record> records;
  thread_local std::string buffer;
  const ShardIndex& index = input.index(unit.shard);
  absl::StatusOr<std::shared_ptr<File>> in = OpenFile(input.path(unit.shard));
  if (!in.ok()) return in.status();
  if ((*in)->size() != index.summary().shard_bytes) return IndexError(input, unit.shard, 0);
  for (const RecordRun& run : unit.runs) {
    const uint64_t begin = index.Offset(run.begin);
    const uint64_t size = index.Offset(run.end) - begin;
    if (buffer.size() < size) buffer.resize(size);
    absl::Status status = (*in)->ReadExactlyAt(begin, absl::MakeSpan(buffer.data(), size));
    if (!status.ok()) return status;
    records.clear();
    const FrameScan scan = ScanFrames(std::string_view(buffer).substr(0, size), begin, true,
                                      CrcCheck::kAll, SIZE_MAX, &records);
    const uint64_t at_fault = run.begin + records.size();
    if (scan.defect == FrameDefect::kPayloadCrc) {
      return RecordError(input, unit.shard, at_fault,
                         "its payload's CRC is wrong; 'shardfeed verify' lists all defects, "
                         "'shardfeed repair' saves what is sound");
    }
    if (scan.defect != FrameDefect::kNone || at_fault != run.end) {
      return IndexError(input, unit.shard, std::min(at_fault, run.end - 1));
    }
    RecordsDigest digest;
    digest.Add(records);
    digests.Add({unit.shard, run.begin, run.end}, digest.value());
    for (const Record& record : records) out.Add(record.payload);
  }
  // Release the memory of a rare huge record.
  if (buffer.size() > 4 * kUnitBytes) buffer = std::string();
  return absl::OkStatus();
}

absl::Status ReadCompressedUnit(const ReshardInput& input, const Unit& unit, RecordBatch& out) {
  const ShardIndex& index = input.index(unit.shard);
  absl::StatusOr<std::shared_ptr<File>> in = OpenFile(input.path(unit.shard));
  if (!in.ok()) return in.status();
  if ((*in)->size() != index.summary().shard_bytes) return IndexError(input, unit.shard, 0);
  std::unique_ptr<ShardReader> reader;
  RecordBlock block;
  size_t in_block = 0;
  uint64_t next = 0;  // The record that the reader delivers next.
  for (const RecordRun& run : unit.runs) {
    const uint64_t offset = index.Offset(run.begin);
    // Read through a gap, unless there is a restart point in it.
    const RestartPoint restart = index.RestartBefore(offset);
    if (reader == nullptr || restart.stream_offset > index.Offset(next)) {
      absl::StatusOr<std::unique_ptr<ShardReader>> opened =
          ShardReader::OpenAt(*in, index.summary().compression, restart, offset, run.begin, {});
      if (!opened.ok()) return opened.status();
      reader = *std::move(opened);
      block.records.clear();
      in_block = 0;
      next = run.begin;
    }
    for (; next < run.end; ++next) {
      if (in_block == block.records.size()) {
        if (absl::Status status = reader->Next(&block); !status.ok()) return status;
        in_block = 0;
        if (block.records.empty()) return IndexError(input, unit.shard, next);
      }
      const Record& record = block.records[in_block++];
      if (record.payload.size() + kFrameBytes != index.Offset(next + 1) - index.Offset(next)) {
        return IndexError(input, unit.shard, next);
      }
      if (next >= run.begin) out.Add(record.payload);
    }
  }
  return absl::OkStatus();
}

// Hands the pieces to the writer in units.
class Encoder {
 public:
  Encoder(const ReshardInput& input, DatasetWriter& writer, const ReshardOptions& options,
          WholeDigests& digests)
      : input_(input), writer_(writer), options_(options), digests_(digests) {}

  absl::Status Add(size_t shard, Piece piece) {
    const ShardIndex& index = input_.index(piece.shard);
    while (piece.begin < piece.end) {
      // The runs of a unit belong to one shard and ascend.
      if (unit_ != nullptr &&
          (unit_->shard != piece.shard || unit_->runs.back().end > piece.begin)) {
        if (absl::Status status = Flush(shard); !status.ok()) return status;
      }
      if (unit_ == nullptr) {
        unit_ = std::make_shared<Unit>();
        unit_->shard = piece.shard;
      }
      const uint64_t offset = index.Offset(piece.begin);
      uint64_t end = piece.end;
      if (index.Offset(end) - offset > kUnitBytes) {
        end = std::clamp(index.RecordAt(offset + kUnitBytes), piece.begin + 1, piece.end);
      }
      unit_->runs.push_back({piece.begin, end});
      unit_->bytes += index.Offset(end) - offset;
      piece.begin = end;
      if (unit_->bytes >= kUnitBytes || unit_->runs.size() == kUnitRuns) {
        if (absl::Status status = Flush(shard); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status Flush(size_t shard) {
    if (unit_ == nullptr) return absl::OkStatus();
    absl::Status status = writer_.Submit(shard, [&input = input_, &digests = digests_,
                                                 unit = std::move(unit_)](RecordBatch& out) {
      const bool raw = input.index(unit->shard).summary().compression == Compression::kNone;
      return raw ? ReadRawUnit(input, *unit, digests, out) : ReadCompressedUnit(input, *unit, out);
    });
    unit_ = nullptr;
    if (options_.records_written != nullptr) {
      *options_.records_written += writer_.records_written() - counted_;
      counted_ = writer_.records_written();
    }
    return status;
  }

 private:
  const ReshardInput& input_;
  DatasetWriter& writer_;
  const ReshardOptions& options_;
  WholeDigests& digests_;
  std::shared_ptr<Unit> unit_;
  uint64_t counted_ = 0;
};

}  // namespace

std::vector<uint64_t> EvenEnds(uint64_t count, uint64_t shards) {
  std::vector<uint64_t> ends;
  for (uint64_t s = 1; s <= shards; ++s) {
    ends.push_back(static_cast<uint64_t>(static_cast<unsigned __int128>(s) * count / shards));
  }
  return ends;
}

absl::StatusOr<Manifest> Reshard(const ReshardInput& input, const RecordSelection& selection,
                                 const std::vector<uint64_t>& ends, const OutputSpec& output,
                                 const ReshardOptions& options) {
  DatasetWriterOptions writing;
  writing.encode = options.encode;
  writing.threads = options.threads;
  writing.overwrite = options.overwrite;
  writing.sync = options.sync;
  writing.stop = options.stop;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> created = DatasetWriter::Create(output, writing);
  if (!created.ok()) return created.status();
  DatasetWriter& writer = **created;
  Manifest manifest;
  manifest.made_by = options.made_by;

  // Bytes can be copied only into files, and if all records are taken once and in order, so that
  // the schemas of the manifests still apply.
  uint64_t next = 0;
  absl::Status status = selection.ForEachRun(0, selection.count(), [&next](RecordRun run) {
    if (run.begin != next) return absl::OutOfRangeError("not the next");
    next = run.end;
    return absl::OkStatus();
  });
  bool copies = !IsRemote(output.directory) && status.ok() && next == input.num_records() &&
                input.schema().has_value();
  std::vector<std::vector<Piece>> pieces_of_shard;
  for (size_t shard = 0; copies && shard < ends.size(); ++shard) {
    std::vector<Piece>& pieces = pieces_of_shard.emplace_back();
    const uint64_t begin = shard == 0 ? 0 : ends[shard - 1];
    if (begin < ends[shard]) {
      status = ForEachPiece(input, {begin, ends[shard]}, [&pieces](Piece piece) {
        pieces.push_back(piece);
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
    }
    copies = WayOf(input, pieces, options) != CopyWay::kNone;
  }
  std::vector<uint64_t> taken;
  status = CheckIndexes(input, selection, options, &taken);
  if (absl::IsCancelled(status)) return absl::CancelledError("interrupted; nothing was kept");
  if (!status.ok()) return status;
  WholeDigests digests(input, taken);
  if (copies) {
    manifest.schema = *input.schema();
    std::vector<CopiedShard> copied(ends.size());
    status = ParallelFor(
        ends.size(), ThreadCount(options.threads), options.stop, [&](size_t shard) -> absl::Status {
          const std::string base = fmt::format("{}/{:05}", writer.staging_directory(), shard);
          const std::vector<Piece>& pieces = pieces_of_shard[shard];
          absl::StatusOr<CopiedShard> one = WayOf(input, pieces, options) == CopyWay::kRaw
                                                ? CopyRaw(input, pieces, base, options, digests)
                                                : CopyWhole(input, pieces[0].shard, base, options);
          if (!one.ok()) return one.status();
          copied[shard] = *one;
          return absl::OkStatus();
        });
    if (status.ok()) status = digests.Compare();
    if (absl::IsCancelled(status)) return absl::CancelledError("interrupted; nothing was kept");
    if (!status.ok()) return status;
    for (size_t shard = 0; status.ok() && shard < copied.size(); ++shard) {
      status = writer.Adopt(shard, {.bytes = copied[shard].bytes,
                                    .records = copied[shard].records,
                                    .records_digest = copied[shard].digest});
    }
    if (!status.ok()) return status;
    if (status = input.CheckUnchanged(); !status.ok()) return status;
    return writer.Finish(std::move(manifest));
  }

  Encoder encoder(input, writer, options, digests);
  for (size_t shard = 0; shard < ends.size(); ++shard) {
    const uint64_t begin = shard == 0 ? 0 : ends[shard - 1];
    status = selection.ForEachRun(begin, ends[shard], [&](RecordRun run) {
      return ForEachPiece(input, run, [&](Piece piece) { return encoder.Add(shard, piece); });
    });
    if (status.ok()) status = encoder.Flush(shard);
    if (status.ok()) status = writer.CloseShard(shard);
    if (!status.ok()) return status;
  }
  if (status = writer.WaitForAll(); !status.ok()) return status;
  if (status = digests.Compare(); !status.ok()) return status;
  if (status = input.CheckUnchanged(); !status.ok()) return status;
  return writer.Finish(std::move(manifest));
}

}  // namespace shardfeed
