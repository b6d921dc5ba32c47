#include "shard/formats/mds_index.h"

#include "shard/formats/mds_file.h"
#include "tfrecord/framing.h"

namespace shardfeed {

absl::StatusOr<IndexSummary> IndexMds(const File& file, const IndexBuildOptions& options,
                                      IndexBuilder* builder) {
  const absl::StatusOr<MdsHeader> header = ReadMdsHeader(file);
  if (!header.ok()) return header.status();
  if (options.bytes_read != nullptr) *options.bytes_read += header->offsets.front();
  IndexSummary summary;
  summary.framing = Framing::kMds;
  summary.shard_bytes = file.size();
  RecordsDigest digest;
  for (uint64_t sample = 0; sample < header->samples(); ++sample) {
    const uint64_t bytes = header->SampleBytes(sample);
    absl::Status status = builder->AddFrame(bytes + kFrameBytes);
    if (!status.ok()) return status;
    digest.Add(bytes, header->columns->crc());
  }
  builder->SetMdsColumns(header->columns->config());
  if (options.bytes_passed != nullptr) *options.bytes_passed += file.size();
  if (options.notes != nullptr) *options.notes = header->columns->Notes();
  summary.records_digest = digest.value();
  return summary;
}

}  // namespace shardfeed
