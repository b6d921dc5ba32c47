#include "convert/converter.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "convert/item_shuffler.h"
#include "fmt/format.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Frames in one unit of work, about: what a thread builds and encodes at a time.
constexpr uint64_t kBatchBytes = 1 << 20;
constexpr uint64_t kMaxBatchItems = 4096;
constexpr int kSampledItems = 1000;
constexpr uint64_t kSampledBytes = 4 << 20;

// Items that are built together.
struct ItemBatch {
  struct Place {
    size_t begin;
    size_t size;
    uint32_t file;
    uint64_t line;
  };
  std::string bytes;
  std::vector<Place> places;

  void Add(const Item& item) {
    places.push_back({bytes.size(), item.bytes.size(), item.file, item.line});
    bytes.append(item.bytes);
  }
};

absl::Status BuildBatch(const Source& source, const ItemBatch& items, const ConvertOptions& options,
                        RecordBatch& out) {
  thread_local ExampleBuilder builder;
  for (const ItemBatch::Place& place : items.places) {
    const Item item = {std::string_view(items.bytes).substr(place.begin, place.size), place.file,
                       place.line};
    absl::Status status = source.BuildRecord(item, builder, out.Begin());
    if (status.ok()) {
      out.End();
    } else if (options.skip_defects && absl::IsDataLoss(status)) {
      std::string what(status.message());
      out.Skip(options.reword ? options.reword(std::move(what)) : std::move(what));
    } else {
      return status;
    }
  }
  return absl::OkStatus();
}

// Mean size of the records' frames: as the source tells it, or of the first ones.
absl::StatusOr<uint64_t> MeanFrameBytes(Source& source, const ConvertOptions& options) {
  if (const uint64_t mean = source.mean_record_bytes(); mean > 0) return mean + kFrameBytes;
  ItemBatch items;
  absl::Status status = source.ForEach([&](const Item& item) {
    items.Add(item);
    // Stopping a source takes an error, which is ours to ignore.
    return items.places.size() < kSampledItems ? absl::OkStatus() : absl::OutOfRangeError("enough");
  });
  if (!status.ok() && !absl::IsOutOfRange(status)) return status;
  uint64_t frames = 0;
  uint64_t sampled = 0;
  for (const ItemBatch::Place& place : items.places) {
    if (frames >= kSampledBytes) break;  // of large records, a few tell enough
    ++sampled;
    ItemBatch one;
    one.Add(
        {std::string_view(items.bytes).substr(place.begin, place.size), place.file, place.line});
    RecordBatch record;
    status = BuildBatch(source, one, options, record);
    if (!status.ok()) return status;
    frames += record.size();
  }
  source.ForgetBuilt();
  return frames / std::max<uint64_t>(1, sampled);
}

}  // namespace

absl::StatusOr<Manifest> Convert(Source& source, const ConvertOptions& options,
                                 ConvertProgress* progress) {
  ConvertProgress unseen;
  if (progress == nullptr) progress = &unseen;
  if (options.output.count) {
    // A name that is taken is told before a long scan. The writer looks again, with its lock.
    absl::StatusOr<std::unique_ptr<DatasetWriter>> probe = DatasetWriter::Create(
        options.output, {.encode = options.encode, .threads = 1, .overwrite = options.overwrite});
    if (!probe.ok()) return probe.status();
  }
  SkippedRecords skipped;
  if (options.skip_defects) {
    source.SkipDefects([&](const absl::Status& defect) {
      std::string what(defect.message());
      skipped.Add(options.reword ? options.reword(std::move(what)) : std::move(what));
    });
  }
  absl::Status status =
      source.Scan(options.stop, [progress](uint64_t bytes) { progress->bytes_scanned = bytes; });
  if (!status.ok()) return status;
  const uint64_t total =
      std::min(source.num_records(), options.limit.value_or(source.num_records()));
  absl::StatusOr<uint64_t> frame_bytes = MeanFrameBytes(source, options);
  if (!frame_bytes.ok()) return frame_bytes.status();

  OutputSpec output = options.output;
  if (!output.count) {
    output.count =
        std::clamp<uint64_t>(total * *frame_bytes / std::max<uint64_t>(1, options.shard_bytes) + 1,
                             1, std::min(kMaxShards, std::max<uint64_t>(1, total)));
  }
  const uint64_t batch_items =
      std::clamp<uint64_t>(kBatchBytes / std::max<uint64_t>(1, *frame_bytes), 1, kMaxBatchItems);
  DatasetWriterOptions writing;
  writing.encode = options.encode;
  writing.threads = options.threads;
  writing.overwrite = options.overwrite;
  writing.sync = options.sync;
  writing.stop = options.stop;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> created = DatasetWriter::Create(output, writing);
  if (!created.ok()) return created.status();
  DatasetWriter& writer = **created;
  progress->records_to_write = total;

  uint64_t number = 0;  // of the next item in the order of writing
  size_t shard = 0;
  uint64_t shard_end = total / *output.count;  // floor(1 * total / count)
  const auto end_of = [&](size_t s) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(s + 1) * total / *output.count);
  };
  auto batch = std::make_shared<ItemBatch>();
  const auto hand_over = [&]() -> absl::Status {
    if (batch->places.empty()) return absl::OkStatus();
    absl::Status submitted = writer.Submit(shard, [batch, &source, &options](RecordBatch& out) {
      return BuildBatch(source, *batch, options, out);
    });
    batch = std::make_shared<ItemBatch>();
    progress->records = writer.records_written();
    return submitted;
  };
  const auto write = [&](const Item& item) -> absl::Status {
    if (number == total) return absl::OutOfRangeError("enough");
    while (number == shard_end) {
      absl::Status s = hand_over();
      if (s.ok()) s = writer.CloseShard(shard);
      if (!s.ok()) return s;
      shard_end = end_of(++shard);
    }
    batch->Add(item);
    ++number;
    return batch->places.size() == batch_items ? hand_over() : absl::OkStatus();
  };
  if (options.shuffle_seed) {
    ItemShuffler shuffler(*options.shuffle_seed, writer.staging_directory());
    status = source.ForEach([&](const Item& item) {
      return options.stop.stop_requested() ? absl::CancelledError("interrupted; nothing was kept")
                                           : shuffler.Add(item);
    });
    if (status.ok()) status = shuffler.ForEach(write);
  } else {
    status = source.ForEach(write);
  }
  if (absl::IsOutOfRange(status) && number == total) status = absl::OkStatus();
  if (status.ok()) status = hand_over();
  if (!status.ok()) return status;
  if (number != total) {
    return absl::DataLossError(fmt::format(
        "the input changed while it was being read: {} records at first, {} later; run again",
        total, number));
  }
  // The notes tell what was met while the records were built.
  status = writer.WaitForAll();
  if (!status.ok()) return status;
  Manifest manifest;
  manifest.made_by = options.made_by;
  manifest.notes = source.notes();
  manifest.skipped = std::move(skipped);
  if (options.reword) {
    for (std::string& note : manifest.notes) note = options.reword(std::move(note));
  }
  absl::StatusOr<Manifest> finished = writer.Finish(std::move(manifest));
  progress->records = writer.records_written();
  return finished;
}

}  // namespace shardfeed
