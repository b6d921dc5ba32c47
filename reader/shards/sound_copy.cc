#include "reader/shards/sound_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "io/output_file.h"
#include "shard/indexing/index_build.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

void AppendLost(uint64_t count, std::string* frames) {
  for (; count > 0; --count) {
    AppendFrame("", frames);
    frames->back() = static_cast<char>(~frames->back());
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SoundCopy>> CopySoundRecords(const std::string& path,
                                                                  std::stop_token stop) {
  absl::StatusOr<std::unique_ptr<ShardSalvager>> salvager = ShardSalvager::Open(path);
  if (!salvager.ok()) return salvager.status();
  const absl::StatusOr<int> fd = OpenUnnamedFile();
  if (!fd.ok()) return fd.status();
  const absl::Cleanup close = [&] { ::close(*fd); };
  const std::string name = fmt::format("/proc/self/fd/{}", *fd);
  absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(name);
  if (!output.ok()) return output.status();
  auto copy = std::make_shared<SoundCopy>();
  std::string frames;
  const auto flush = [&] {
    absl::Status status = (*output)->Append(frames);
    frames.clear();
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        fmt::format("{}: its intact records cannot be copied to the folder for "
                                    "temporary files (TMPDIR): {}; 'shardfeed repair' writes them "
                                    "elsewhere",
                                    path, std::string(status.message())));
  };
  RecordBlock block;
  uint64_t next = 0;
  uint64_t lost = 0;
  while (true) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    absl::Status status = (*salvager)->Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) break;
    if (block.first_record > next) {
      AppendLost(block.first_record - next, &frames);
      lost += block.first_record - next;
    }
    next = block.first_record + block.records.size();
    for (const Record& record : block.records) {
      AppendFrame(record.payload, &frames);
      if (frames.size() < kWriteBytes) continue;
      if (status = flush(); !status.ok()) return status;
    }
  }
  copy->places = (*salvager)->damage();
  uint64_t all_lost = 0;
  for (const DamagedPlace& place : copy->places) all_lost += place.records.value_or(1);
  // If nothing is kept, at least one record is lost, though its number is unknown.
  if (next == 0 && all_lost == 0 && !copy->places.empty()) all_lost = 1;
  AppendLost(all_lost - std::min(all_lost, lost), &frames);
  absl::Status status = flush();
  if (status.ok()) status = (*output)->Close();
  if (!status.ok()) return status;
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index = BuildIndex(name, {.stop = stop});
  if (!index.ok()) return index.status();
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(name);
  if (!file.ok()) return file.status();
  copy->index = *std::move(index);
  copy->file = *std::move(file);
  return copy;
}

}  // namespace shardfeed
