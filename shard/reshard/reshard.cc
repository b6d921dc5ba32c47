#include "shard/reshard/reshard.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/formats/shard_reader.h"
#include "shard/reshard/reshard_pieces.h"
#include "shard/writing/writer.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/crc32c.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Approximate size of the unit that is read, checked and encoded in one step.
constexpr uint64_t kUnitBytes = 4 << 20;
constexpr size_t kUnitRuns = 4096;

// The shards of the output.
class Shards {
 public:
  explicit Shards(const std::vector<uint64_t>& ends) : ends_(ends) {}

  // The positions in the selection at which a shard begins and ends.
  RecordRun Of(uint64_t shard) const { return {shard == 0 ? 0 : ends_[shard - 1], ends_[shard]}; }

  // The numbers of those that are written.
  std::vector<uint64_t> written;

 private:
  const std::vector<uint64_t>& ends_;
};

// Compares indexes with their shards if reading the records would not reveal errors. Sets `taken`
// to the number of records of each shard if all of them are taken once and in order, otherwise to
// 0. If `digests_tell`, what reading reveals includes the digest of raw shards that are taken.
absl::Status CheckIndexes(const ReshardInput& input, const RecordSelection& selection,
                          const Shards& shards, bool digests_tell, const ReshardOptions& options,
                          std::vector<uint64_t>* taken) {
  std::vector<uint64_t> next(input.num_shards());
  std::vector<char> to_check(input.num_shards());
  taken->assign(input.num_shards(), 0);
  const auto pass = [&](Piece piece) {
    // In a job, the task that takes the first record checks the index for all tasks.
    if (options.job == nullptr || piece.begin == 0) to_check[piece.shard] = true;
    // Records must be taken from the first one on without a gap; otherwise the shard counts as
    // taken in parts.
    if (piece.begin == next[piece.shard]) {
      next[piece.shard] = piece.end;
    } else {
      next[piece.shard] = UINT64_MAX;
    }
    return absl::OkStatus();
  };
  for (const uint64_t shard : shards.written) {
    const RecordRun of = shards.Of(shard);
    absl::Status status = selection.ForEachRun(
        of.begin, of.end, [&](RecordRun run) { return ForEachPiece(input, run, pass); });
    if (!status.ok()) return status;
  }
  for (size_t shard = 0; shard < next.size(); ++shard) {
    if (next[shard] == input.index(shard).records()) (*taken)[shard] = next[shard];
  }
  return ParallelFor(input.num_shards(), ThreadCount(options.threads), options.stop, [&](size_t i) {
    const IndexSummary& summary = input.index(i).summary();
    const bool tells = digests_tell && summary.compression == Compression::kNone &&
                       summary.framing == Framing::kTfRecord && (*taken)[i] == summary.records;
    return !to_check[i] || tells ? absl::OkStatus() : input.CheckIndex(i, options.stop);
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

// Reads a unit of a shard that is compressed or has other frames than TFRecord.
absl::Status ReadStreamUnit(const ReshardInput& input, const Unit& unit, RecordBatch& out) {
  const ShardIndex& index = input.index(unit.shard);
  absl::StatusOr<std::shared_ptr<File>> in = OpenFile(input.path(unit.shard));
  if (!in.ok()) return in.status();
  if ((*in)->size() != index.summary().shard_bytes) return IndexError(input, unit.shard, 0);
  std::shared_ptr<const ArrayRecordFooter> footer;
  if (index.summary().framing == Framing::kArrayRecord) {
    footer = std::make_shared<const ArrayRecordFooter>(
        index.FooterOfChunks(unit.runs.front().begin, unit.runs.back().end));
  }
  std::unique_ptr<ShardReader> reader;
  RecordBlock block;
  size_t in_block = 0;
  uint64_t next = 0;  // The record that the reader delivers next.
  for (const RecordRun& run : unit.runs) {
    const uint64_t offset = index.Offset(run.begin);
    // Read through a gap, unless there is a restart point in it: anywhere if it is not compressed.
    const bool compressed = index.summary().compression != Compression::kNone;
    const RestartPoint restart = compressed ? index.RestartBefore(offset) : RestartPoint();
    const uint64_t from = compressed ? restart.stream_offset : offset;
    if (reader == nullptr || from > index.Offset(next)) {
      absl::StatusOr<std::unique_ptr<ShardReader>> opened =
          ShardReader::OpenAt(*in, index.summary().format(), restart, offset, run.begin,
                              {.like = reader.get(), .array_record = footer});
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
      if (FrameBytes(record, index.summary().framing) !=
          index.Offset(next + 1) - index.Offset(next)) {
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
        // A chunk that two units have is decoded twice.
        if (index.summary().framing == Framing::kArrayRecord) {
          end = std::min(index.ChunkOf(end - 1).end_record(), piece.end);
        }
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
    absl::Status status = writer_.Submit(
        shard, [&input = input_, &digests = digests_, unit = std::move(unit_)](RecordBatch& out) {
          const IndexSummary& summary = input.index(unit->shard).summary();
          const bool raw =
              summary.compression == Compression::kNone && summary.framing == Framing::kTfRecord;
          return raw ? ReadRawUnit(input, *unit, digests, out) : ReadStreamUnit(input, *unit, out);
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

absl::Status EncodeShards(const ReshardInput& input, const RecordSelection& selection,
                          const Shards& shards, const ReshardOptions& options,
                          WholeDigests& digests, DatasetWriter& writer) {
  Encoder encoder(input, writer, options, digests);
  for (const uint64_t shard : shards.written) {
    const RecordRun of = shards.Of(shard);
    absl::Status status = selection.ForEachRun(of.begin, of.end, [&](RecordRun run) {
      return ForEachPiece(input, run, [&](Piece piece) { return encoder.Add(shard, piece); });
    });
    if (status.ok()) status = encoder.Flush(shard);
    if (status.ok()) status = writer.CloseShard(shard);
    if (!status.ok()) return status;
  }
  absl::Status status = writer.WaitForAll();
  return status.ok() ? digests.Compare() : status;
}

// ---- Copying

// Returns the pieces of which each shard is copied; none if records must be encoded.
absl::StatusOr<std::vector<std::vector<Piece>>> PiecesToCopy(const ReshardInput& input,
                                                             const RecordSelection& selection,
                                                             const std::vector<uint64_t>& ends,
                                                             const OutputSpec& output,
                                                             const ReshardOptions& options) {
  std::vector<std::vector<Piece>> pieces_of_shard;
  // Bytes can be copied only into files, and if all records are taken once and in order, so that
  // the schemas of the manifests still apply.
  uint64_t next = 0;
  absl::Status status = selection.ForEachRun(0, selection.count(), [&next](RecordRun run) {
    if (run.begin != next) return absl::OutOfRangeError("not the next");
    next = run.end;
    return absl::OkStatus();
  });
  if (IsRemote(output.directory) || !status.ok() || next != input.num_records() ||
      !input.schema().has_value()) {
    return pieces_of_shard;
  }
  const Shards shards(ends);
  for (size_t shard = 0; shard < ends.size(); ++shard) {
    std::vector<Piece>& pieces = pieces_of_shard.emplace_back();
    if (const RecordRun of = shards.Of(shard); of.begin < of.end) {
      status = ForEachPiece(input, of, [&pieces](Piece piece) {
        pieces.push_back(piece);
        return absl::OkStatus();
      });
      if (!status.ok()) return status;
    }
    if (WayOf(input, pieces, options.encode.compression) == CopyWay::kNone) {
      return std::vector<std::vector<Piece>>();
    }
  }
  return pieces_of_shard;
}

absl::Status CopyShards(const ReshardInput& input,
                        const std::vector<std::vector<Piece>>& pieces_of_shard,
                        const Shards& shards, const ReshardOptions& options, WholeDigests& digests,
                        DatasetWriter& writer) {
  const CopyOptions copying{
      .sync = options.sync, .stop = options.stop, .records_written = options.records_written};
  const std::vector<uint64_t>& written = shards.written;
  std::vector<FinishedShard> copied(written.size());
  absl::Status status = ParallelFor(
      written.size(), ThreadCount(options.threads), options.stop, [&](size_t i) -> absl::Status {
        const std::string base = fmt::format("{}/{:05}", writer.staging_directory(), written[i]);
        const std::vector<Piece>& pieces = pieces_of_shard[written[i]];
        absl::StatusOr<FinishedShard> one =
            WayOf(input, pieces, options.encode.compression) == CopyWay::kRaw
                ? CopyRaw(input, pieces, base, copying, digests)
                : CopyWhole(input, pieces[0].shard, base, copying);
        if (!one.ok()) return one.status();
        copied[i] = *std::move(one);
        return absl::OkStatus();
      });
  if (absl::IsCancelled(status)) return absl::CancelledError("interrupted; nothing was kept");
  if (status.ok()) status = digests.Compare();
  for (size_t i = 0; status.ok() && i < written.size(); ++i) {
    status = writer.Adopt(written[i], copied[i]);
  }
  return status;
}

// ---- Writing the output

// Identifies the records of the input and how they are divided. The names of the datasets are in
// made_by.
std::string FingerprintOf(const ReshardInput& input) {
  std::string text;
  uint64_t bytes = 0;
  for (size_t i = 0; i < input.num_shards(); ++i) {
    const IndexSummary& summary = input.index(i).summary();
    text += fmt::format("{} {} {} {:08x} {}\n", summary.shard_bytes, summary.records,
                        summary.stream_bytes, summary.records_digest,
                        CompressionName(summary.compression));
    bytes += summary.shard_bytes;
  }
  return fmt::format("{} {} {} {:08x}", input.num_shards(), input.num_records(), bytes,
                     Crc32c(text));
}

// Begins attempts at the parts of the job that are not finished, which become those of `shards`;
// null if there is none. `manifest` is that of the output as far as it is known.
absl::StatusOr<std::unique_ptr<DatasetWriter>> OpenParts(
    const ReshardInput& input, const OutputSpec& output, const Manifest& manifest,
    const ReshardOptions& options, DatasetWriterOptions writing, Shards* shards) {
  if (absl::Status status = options.job->Join(); !status.ok()) return status;
  // Finished parts are not checked again, so the input must be unchanged when one is finished.
  absl::StatusOr<std::unique_ptr<PartStaging>> staging =
      options.job->Stage(options.only_shards, [&input] { return input.CheckUnchanged(); });
  if (!staging.ok()) return staging.status();
  absl::Status status = options.job->Describe(**staging, {.made_by = manifest.made_by,
                                                          .notes = manifest.notes,
                                                          .schema = manifest.schema,
                                                          .values = manifest.values,
                                                          .classes = manifest.classes,
                                                          .fingerprint = FingerprintOf(input)});
  if (!status.ok()) return status;
  absl::StatusOr<FinishedParts> finished = options.job->Finished(options.only_shards);
  if (!finished.ok()) return finished.status();
  if (options.records_taken_over != nullptr) {
    for (const PartMessage& part : finished->parts) {
      *options.records_taken_over += part.shard.records;
    }
  }
  shards->written = std::move(finished->missing);
  if (shards->written.empty()) return nullptr;
  writing.only_shards = shards->written;
  return DatasetWriter::Create(output, writing, *std::move(staging));
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> OpenWriter(const ReshardInput& input,
                                                          const OutputSpec& output,
                                                          const Manifest& manifest,
                                                          const ReshardOptions& options,
                                                          Shards* shards) {
  DatasetWriterOptions writing;
  writing.encode = options.encode;
  writing.threads = options.threads;
  writing.overwrite = options.overwrite;
  writing.sync = options.sync;
  writing.stop = options.stop;
  if (options.job != nullptr) return OpenParts(input, output, manifest, options, writing, shards);
  shards->written.resize(*output.count);
  std::iota(shards->written.begin(), shards->written.end(), uint64_t{0});
  return DatasetWriter::Create(output, writing);
}

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
  const absl::StatusOr<std::vector<std::vector<Piece>>> pieces =
      PiecesToCopy(input, selection, ends, output, options);
  if (!pieces.ok()) return pieces.status();
  const bool copies = !pieces->empty();
  Manifest manifest;
  manifest.made_by = options.made_by;
  manifest.notes = input.Notes();
  manifest.classes = input.classes();
  if (copies) {
    manifest.schema = *input.schema();
    manifest.values = input.values();
  }
  Shards shards(ends);
  const absl::StatusOr<std::unique_ptr<DatasetWriter>> opened =
      OpenWriter(input, output, manifest, options, &shards);
  if (!opened.ok()) return opened.status();
  if (*opened == nullptr) {  // all parts were finished
    manifest.stem = output.stem;
    manifest.suffix = output.suffix;
    return manifest;
  }
  DatasetWriter& writer = **opened;
  if (!copies) writer.SetTypes(input.types());
  std::vector<uint64_t> taken;
  // A part that is encoded counts as finished before all digests are known.
  const bool digests_tell = copies || options.job == nullptr;
  absl::Status status = CheckIndexes(input, selection, shards, digests_tell, options, &taken);
  if (absl::IsCancelled(status)) return absl::CancelledError("interrupted; nothing was kept");
  if (!status.ok()) return status;
  WholeDigests digests(input, taken);
  status = copies ? CopyShards(input, *pieces, shards, options, digests, writer)
                  : EncodeShards(input, selection, shards, options, digests, writer);
  if (status.ok()) status = input.CheckUnchanged();
  if (!status.ok()) return status;
  return options.job != nullptr ? writer.FinishShards(std::move(manifest))
                                : writer.Finish(std::move(manifest));
}

}  // namespace shardfeed
