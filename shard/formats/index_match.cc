#include "shard/formats/index_match.h"

#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "base/little_endian.h"
#include "shard/formats/array_record_file.h"
#include "shard/formats/header_file.h"
#include "shard/index/index.h"
#include "tfrecord/framing.h"
#include "tfrecord/mds_header.h"
#include "tfrecord/tar_samples.h"

namespace shardfeed {
namespace {

// Whether no sample follows `stream_bytes`, where the index of an archive ends. True if that cannot
// be told.
bool EndsAsIndexed(const File& file, uint64_t stream_bytes) {
  const IndexBuildOptions options;
  HeaderFile bytes(file, options);
  const auto peek = [&](uint64_t offset, size_t size) -> absl::StatusOr<std::string_view> {
    const absl::StatusOr<const char*> at = bytes.Get(offset, size, /*near=*/false);
    if (!at.ok()) return at.status();
    return std::string_view(*at, size);
  };
  TarSampleWalk walk(stream_bytes, file.size(), TarSampleWalk::Extent::kArchive);
  TarSample sample;
  const absl::StatusOr<TarSampleWalk::Outcome> outcome = walk.Next(peek, &sample);
  return !outcome.ok() || *outcome != TarSampleWalk::Outcome::kSample;
}

// Whether an MDS shard has the samples and the description of the columns that its index has, as
// far as their number and size tell. True if that cannot be told.
bool BeginsAsIndexed(const File& file, const IndexSummary& summary) {
  char start[kMdsStartBytes];
  if (!file.ReadExactlyAt(0, absl::MakeSpan(start)).ok()) return true;
  const absl::StatusOr<uint64_t> header = MdsHeaderBytes({start, sizeof(start)}, file.size());
  const uint64_t samples = summary.stream_bytes - summary.records * kFrameBytes;
  return header.ok() && *header == summary.shard_bytes - samples &&
         LoadLittleEndian<uint32_t>(start) == summary.records;
}

// Whether an ArrayRecord shard has the footer and the first chunk from which its index was made.
// All have a multiple of 64 KiB, so different ones often have the same size. True if that cannot be
// told.
bool HasIndexedFooter(const File& file, const IndexSummary& summary) {
  const absl::StatusOr<std::optional<uint32_t>> digest = ReadArrayRecordDigest(file);
  if (!digest.ok()) return true;
  if (summary.records == 0) return !*digest;
  return *digest == summary.records_digest;
}

}  // namespace

absl::StatusOr<bool> IndexMatches(
    const IndexSummary& summary, uint64_t shard_bytes,
    absl::FunctionRef<absl::StatusOr<std::shared_ptr<const File>>()> open) {
  if (summary.shard_bytes != shard_bytes) return false;
  const bool mds = summary.framing == Framing::kMds;
  const bool array_record = summary.framing == Framing::kArrayRecord;
  if (!IsRawTar(summary) && !(mds && FillsShard(summary)) && !array_record) return true;
  const absl::StatusOr<std::shared_ptr<const File>> file = open();
  if (!file.ok()) return file.status();
  if (array_record) return HasIndexedFooter(**file, summary);
  return mds ? BeginsAsIndexed(**file, summary) : EndsAsIndexed(**file, summary.stream_bytes);
}

}  // namespace shardfeed
