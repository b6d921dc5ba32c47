#include "shard/formats/tar_index.h"

#include <algorithm>
#include <functional>

#include "base/excerpt.h"
#include "fmt/format.h"
#include "shard/formats/header_file.h"
#include "tfrecord/crc32c.h"
#include "tfrecord/framing.h"
#include "tfrecord/tar_samples.h"

namespace shardfeed {
namespace {

absl::Status DefectOf(const File& file, uint64_t sample, const TarDefect& defect) {
  return absl::DataLossError(
      fmt::format("{}: record {}: {} at byte {}", file.path(), sample, defect.what, defect.offset));
}

// Checks that nothing but zeros follows the archive's end. Otherwise the last sample may lack files
// (RecordStream::EndTar).
absl::Status CheckZeros(const File& file, uint64_t end, uint64_t samples, HeaderFile* bytes) {
  for (uint64_t at = end; at < file.size();) {
    const size_t size = std::min<uint64_t>(64 * kTarBlock, file.size() - at);
    absl::StatusOr<const char*> zeros = bytes->Get(at, size, /*near=*/true);
    if (!zeros.ok()) return zeros.status();
    const size_t wrong = std::string_view(*zeros, size).find_first_not_of('\0');
    if (wrong != std::string_view::npos) {
      return DefectOf(file, samples - (samples > 0 ? 1 : 0), DataAfterEnd(end, at + wrong));
    }
    at += size;
  }
  return absl::OkStatus();
}

}  // namespace

void TarNotes::AddKey(std::string_view key, uint64_t offset) {
  if (keys_.insert(std::hash<std::string_view>()(key)).second) return;
  if (repeated_++ > 0) return;
  first_repeated_ = key;
  first_repeated_at_ = offset;
}

std::vector<std::string> TarNotes::Texts(std::string_view path) const {
  std::vector<std::string> texts;
  if (skipped_ > 0) {
    texts.push_back(fmt::format("{}: skipped {} member{} with hidden names or without an ending",
                                path, skipped_, skipped_ == 1 ? "" : "s"));
  }
  if (repeated_ > 0) {
    texts.push_back(
        fmt::format("{}: {} sample{} the key of an earlier one, the first is {} at byte {}: files "
                    "of one key that are not adjacent are samples of their own; sort the archive "
                    "(tar --sort=name) if they belong together",
                    path, repeated_, repeated_ == 1 ? " has" : "s have", Excerpt(first_repeated_),
                    first_repeated_at_));
  }
  return texts;
}

absl::StatusOr<IndexSummary> IndexTar(const File& file, const IndexBuildOptions& options,
                                      IndexBuilder* builder) {
  HeaderFile bytes(file, options);
  uint64_t last = 0;
  bool near = true;
  const auto peek = [&](uint64_t offset, size_t size) -> absl::StatusOr<std::string_view> {
    // In a store, skipping costs more than reading.
    if (offset > last) near = offset - last <= HeaderFile::kReadThroughBytes || file.fd() < 0;
    last = offset;
    absl::StatusOr<const char*> at = bytes.Get(offset, size, near);
    if (!at.ok()) return at.status();
    return std::string_view(*at, size);
  };
  TarSampleWalk walk(0, file.size(), TarSampleWalk::Extent::kArchive);
  IndexSummary summary;
  summary.framing = Framing::kTar;
  summary.shard_bytes = file.size();
  RecordsDigest digest;
  TarNotes notes;
  TarSample sample;
  while (true) {
    if ((builder->records() & 0xfff) == 0 && options.stop.stop_requested()) {
      return absl::CancelledError("interrupted");
    }
    const absl::StatusOr<TarSampleWalk::Outcome> outcome = walk.Next(peek, &sample);
    if (!outcome.ok()) return outcome.status();
    if (*outcome == TarSampleWalk::Outcome::kEnd) break;
    if (*outcome != TarSampleWalk::Outcome::kSample) {
      return DefectOf(file, builder->records(), walk.defect());
    }
    const uint64_t frame_bytes = sample.end - sample.begin;
    if (absl::Status status = builder->AddFrame(frame_bytes); !status.ok()) return status;
    digest.Add(frame_bytes - kFrameBytes, MaskCrc(sample.headers_crc));
    notes.AddKey(sample.key, sample.begin);
    notes.AddSkipped(sample.skipped);
    if (options.bytes_passed != nullptr) *options.bytes_passed += frame_bytes;
  }
  notes.AddSkipped(walk.skipped_at_end());
  absl::Status status = CheckZeros(file, walk.end_of_archive(), builder->records(), &bytes);
  if (!status.ok()) return status;
  if (options.bytes_passed != nullptr) {
    *options.bytes_passed += file.size() - builder->stream_bytes();
  }
  if (options.notes != nullptr) *options.notes = notes.Texts(file.path());
  summary.records_digest = digest.value();
  return summary;
}

}  // namespace shardfeed
