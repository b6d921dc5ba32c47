#include "reader/scan.h"

#include <memory>

#include "io/parallel.h"
#include "shard/formats/shard_reader.h"

namespace shardfeed {

absl::Status ScanDataset(
    const ShardSet& set, const ScanOptions& options,
    const std::function<absl::Status(size_t shard, const RecordBlock& block)>& consume) {
  return ParallelFor(
      set.paths.size(), ThreadCount(options.threads), options.stop, [&](size_t i) -> absl::Status {
        ShardReaderOptions reading;
        reading.check = options.check;
        reading.block_bytes = 512 << 10;  // stays in the L2 cache between read and CRC
        absl::StatusOr<std::unique_ptr<ShardReader>> reader =
            ShardReader::Open(set.paths[i], reading);
        absl::Status opened = set.version.CheckUnchanged(reader.status());
        if (!opened.ok()) return opened;
        RecordBlock block;
        uint64_t passed = 0;
        while (true) {
          if (options.stop.stop_requested()) return absl::CancelledError("interrupted");
          absl::Status status = (*reader)->Next(&block);
          if (!status.ok()) return status;
          if (options.bytes_passed != nullptr) {
            const uint64_t position = (*reader)->file_position();
            *options.bytes_passed += position - passed;
            passed = position;
          }
          if (block.records.empty()) {
            if (options.on_end) options.on_end(i);
            return absl::OkStatus();
          }
          status = consume(i, block);
          if (!status.ok()) return status;
        }
      });
}

}  // namespace shardfeed
