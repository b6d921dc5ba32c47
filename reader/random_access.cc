#include "reader/random_access.h"

#include <algorithm>

#include "fmt/format.h"
#include "io/file.h"
#include "io/parallel.h"
#include "shard/index_build.h"
#include "shard/shard_reader.h"
#include "tfrecord/framing.h"

namespace shardfeed {

absl::StatusOr<std::unique_ptr<RandomAccess>> RandomAccess::Open(const ShardSet& set, int threads) {
  std::unique_ptr<RandomAccess> access(new RandomAccess());
  access->paths_ = set.paths;
  access->indexes_.resize(set.paths.size());
  absl::Status status = ParallelFor(set.paths.size(), ThreadCount(threads), std::stop_token(),
                                    [&](size_t i) -> absl::Status {
                                      absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
                                          OpenOrBuildIndex(set.paths[i], IndexBuildOptions());
                                      if (!index.ok()) return index.status();
                                      access->indexes_[i] = *std::move(index);
                                      return absl::OkStatus();
                                    });
  if (!status.ok()) return status;
  access->starts_.push_back(0);
  for (const auto& index : access->indexes_) {
    access->starts_.push_back(access->starts_.back() + index->records());
  }
  return access;
}

absl::Status RandomAccess::Read(
    uint64_t begin, uint64_t end,
    const std::function<absl::Status(uint64_t number, std::string_view payload)>& consume) const {
  if (begin > end || end > num_records()) {
    return absl::OutOfRangeError(
        fmt::format("records {} to {} are asked for, but there are {} records, numbered from 0",
                    begin, end == 0 ? 0 : end - 1, num_records()));
  }
  while (begin < end) {
    const size_t shard =
        std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin() - 1;
    const ShardIndex& index = *indexes_[shard];
    const uint64_t first = begin - starts_[shard];
    const uint64_t last = std::min(end, starts_[shard + 1]) - starts_[shard];  // not included
    const uint64_t offset = index.Offset(first);
    absl::StatusOr<std::shared_ptr<File>> file = File::Open(paths_[shard]);
    if (!file.ok()) return file.status();
    ShardReaderOptions reading;
    // No more is read than the range needs, within reason.
    reading.block_bytes = std::clamp<uint64_t>(index.Offset(last) - offset, 4 << 10, 1 << 20);
    absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::OpenAt(
        *std::move(file), index.summary().compression,
        index.summary().compression == Compression::kNone ? RestartPoint()
                                                          : index.RestartBefore(offset),
        offset, first, reading);
    if (!reader.ok()) return reader.status();
    uint64_t number = first;
    RecordBlock block;
    while (number < last) {
      absl::Status status = (*reader)->Next(&block);
      if (!status.ok()) return status;
      if (block.records.empty()) {
        return absl::DataLossError(fmt::format(
            "{}: ends after {} records, its index says {}; make it anew with 'shardfeed index'",
            paths_[shard], number, index.records()));
      }
      for (const Record& record : block.records) {
        if (number == last) break;
        if (record.offset != index.Offset(number)) {
          return absl::DataLossError(fmt::format(
              "{}: record {} stands at byte {}, its index says {}; make it anew with 'shardfeed "
              "index'",
              paths_[shard], number, record.offset, index.Offset(number)));
        }
        status = consume(starts_[shard] + number, record.payload);
        if (!status.ok()) return status;
        ++number;
      }
    }
    begin = starts_[shard] + last;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
