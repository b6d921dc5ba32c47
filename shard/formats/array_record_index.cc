#include "shard/formats/array_record_index.h"

#include "shard/formats/array_record_file.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/framing.h"

namespace shardfeed {

absl::StatusOr<IndexSummary> IndexArrayRecord(const File& file, const IndexBuildOptions& options,
                                              IndexBuilder* builder) {
  uint64_t bytes_read = 0;
  const absl::StatusOr<ArrayRecordFooter> footer = ReadArrayRecordFooter(file, &bytes_read);
  if (!footer.ok()) return footer.status();
  if (options.bytes_read != nullptr) *options.bytes_read += bytes_read;
  for (const ArrayRecordChunk& chunk : footer->chunks) {
    for (uint64_t i = 0; i < chunk.records; ++i) {
      if ((builder->records() & 0xfff) == 0 && options.stop.stop_requested()) {
        return absl::CancelledError("interrupted");
      }
      absl::Status status = builder->AddFrame(chunk.FrameBytes(i));
      if (!status.ok()) return status;
    }
  }
  if (absl::Status status = builder->SetChunks(*footer); !status.ok()) return status;
  IndexSummary summary;
  summary.framing = Framing::kArrayRecord;
  summary.shard_bytes = file.size();
  if (!footer->chunks.empty()) summary.records_digest = footer->digest;
  if (options.bytes_passed != nullptr) *options.bytes_passed += file.size();
  return summary;
}

}  // namespace shardfeed
