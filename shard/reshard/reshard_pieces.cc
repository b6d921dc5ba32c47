#include "shard/reshard/reshard_pieces.h"

#include <algorithm>
#include <memory>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/output_file.h"
#include "net/open.h"
#include "shard/index/index.h"
#include "shard/indexing/index_build.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

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

}  // namespace

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

WholeDigests::WholeDigests(const ReshardInput& input, const std::vector<uint64_t>& taken)
    : input_(input), parts_(taken.size()) {
  for (size_t shard = 0; shard < taken.size(); ++shard) {
    whole_.push_back(taken[shard] == input.index(shard).records());
  }
}

void WholeDigests::Add(const Piece& piece, uint32_t digest) {
  if (!whole_[piece.shard]) return;
  MutexLock lock(mutex_);
  parts_[piece.shard][piece.begin] = {piece.end, digest};
}

absl::Status WholeDigests::Compare() const {
  MutexLock lock(mutex_);
  for (size_t shard = 0; shard < parts_.size(); ++shard) {
    const IndexSummary& summary = input_.index(shard).summary();
    if (!whole_[shard] || summary.compression != Compression::kNone ||
        summary.framing != Framing::kTfRecord) {
      continue;
    }
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

CopyWay WayOf(const ReshardInput& input, const std::vector<Piece>& pieces,
              Compression compression) {
  const auto compression_of = [&](const Piece& piece) {
    return input.index(piece.shard).summary().compression;
  };
  // Only these frames are copied as they are.
  if (std::any_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return input.index(piece.shard).summary().framing != Framing::kTfRecord;
      })) {
    return CopyWay::kNone;
  }
  if (compression == Compression::kNone &&
      std::all_of(pieces.begin(), pieces.end(), [&](const Piece& piece) {
        return compression_of(piece) == Compression::kNone;
      })) {
    return CopyWay::kRaw;
  }
  return pieces.size() == 1 && pieces[0].begin == 0 &&
                 pieces[0].end == input.index(pieces[0].shard).records() &&
                 compression_of(pieces[0]) == compression
             ? CopyWay::kWhole
             : CopyWay::kNone;
}

absl::StatusOr<FinishedShard> CopyRaw(const ReshardInput& input, const std::vector<Piece>& pieces,
                                      const std::string& base, const CopyOptions& options,
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
  const FinishedShard copied{
      .bytes = (*out)->size(), .records = index.records(), .records_digest = digest.value()};
  IndexSummary summary;
  summary.records_digest = copied.records_digest;
  summary.shard_bytes = copied.bytes;
  absl::Status status = index.Finish(summary).status();
  for (const auto& file : {out->get(), index_file->get()}) {
    if (status.ok() && options.sync) status = file->Sync();
    if (status.ok()) status = file->Close();
  }
  if (!status.ok()) return status;
  return copied;
}

absl::StatusOr<FinishedShard> CopyWhole(const ReshardInput& input, size_t shard,
                                        const std::string& base, const CopyOptions& options) {
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
  return FinishedShard{.bytes = (*in)->size(),
                       .records = index.records(),
                       .records_digest = index.summary().records_digest};
}

}  // namespace shardfeed
