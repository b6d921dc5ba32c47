#include "convert/converter.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

#include "base/excerpt.h"
#include "convert/input/fingerprint.h"
#include "convert/items/item_batch.h"
#include "convert/items/item_selection.h"
#include "convert/items/item_shuffler.h"
#include "convert/items/split_names.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "shard/manifest/shard_sizes.h"
#include "shard/writing/block.h"
#include "shard/writing/job_input.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Approximate size of the frames that a thread builds and encodes at a time.
constexpr uint64_t kBatchBytes = 1 << 20;
constexpr uint64_t kMaxBatchItems = 4096;
constexpr int kSampledItems = 1000;
constexpr uint64_t kSampledBytes = 4 << 20;
// Memory for sorting items that are shuffled or checked for duplicates, over all outputs.
constexpr size_t kSortingBytes = 64 << 20;

absl::Status BuildBatch(const Source& source, const ItemBatch& items, const ConvertOptions& options,
                        RecordBatch& out) {
  thread_local ExampleBuilder builder;
  for (size_t i = 0; i < items.size(); ++i) {
    absl::Status status = source.BuildRecord(items[i], builder, out.Begin());
    if (status.ok()) {
      out.End();
    } else if (options.skip_defects && absl::IsDataLoss(status)) {
      out.Skip(options.Reworded(std::string(status.message())));
    } else {
      return status;
    }
  }
  return absl::OkStatus();
}

std::string NameOf(const OutputSpec& output) {
  return FormatSpec(output.directory, output.stem, output.count, output.suffix);
}

// Returns the mean size of the records' frames: the source's own figure, or that of the first
// records. Also compares these with the dataset that the output is to be like, because all records
// are known only when everything is written.
absl::StatusOr<uint64_t> MeanFrameBytes(Source& source, const ConvertOptions& options) {
  const uint64_t mean = source.mean_record_bytes();
  if (mean > 0 && !options.like) return mean + kFrameBytes;
  ItemBatch items;
  absl::Status status = source.ForEach([&](const Item& item) {
    items.Add(item);
    // Only an error stops a source; this one is ignored below.
    return items.size() < kSampledItems ? absl::OkStatus() : absl::OutOfRangeError("enough");
  });
  if (!status.ok() && !absl::IsOutOfRange(status)) return status;
  uint64_t frames = 0;
  uint64_t sampled = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (frames >= kSampledBytes) break;  // a few large records are enough of a sample
    ++sampled;
    ItemBatch one;
    one.Add(items[i]);
    RecordBatch record;
    status = BuildBatch(source, one, options, record);
    if (!status.ok()) return status;
    frames += record.size();
    if (!options.like) continue;
    Schema schema = EncodeBlock(std::move(record), {}).schema;
    schema.SetTypes(source.types());
    status = CheckIsLike(schema, /*whole=*/false, NameOf(options.output), *options.like);
    if (!status.ok()) return status;
  }
  source.ForgetBuilt();
  if (mean > 0) return mean + kFrameBytes;
  return frames / std::max<uint64_t>(1, sampled);
}

// One dataset being written.
class Output {
 public:
  Output(const Source& source, const ConvertOptions& options, ConvertProgress& progress)
      : source_(source), options_(options), progress_(progress) {}

  // Locks the name, unless parts of a job are written. `split` is null if there is only one
  // dataset.
  absl::Status Open(const Split* split);
  // With a job: begins it, and attempts at its parts.
  absl::Status OpenParts();
  const std::string& staging_directory() const { return staging_->path(); }
  // Whether an earlier run with the same options finished this dataset, so that nothing is written.
  bool is_complete() const { return complete_.has_value(); }

  // Starts writing `total` records, whose frames have `frame_bytes` on average and of which at most
  // `max_skipped` may be broken. `shared` is the manifest as far as it is known, `types` are those
  // of the source.
  absl::Status Start(uint64_t total, uint64_t frame_bytes, const std::string& fingerprint,
                     size_t sorting_bytes, uint64_t max_skipped, const Manifest& shared,
                     const FeatureTypes& types);
  // Number of records to be written, including those that an earlier run wrote.
  uint64_t num_to_write() const;
  // Number of shards taken over; 0 for a dataset that is already complete.
  size_t num_taken_over() const { return num_taken_over_; }

  // Adds the next item in the order of the source. Returns OutOfRange once there are enough items.
  absl::Status Add(const Item& item);
  // Call after all items have been added.
  absl::Status End();
  absl::StatusOr<Manifest> Finish(Manifest manifest);
  absl::Status Interrupted() const { return writer_->Interrupted(); }

 private:
  uint64_t EndOf(size_t shard) const {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(shard + 1) * total_ / *spec_.count);
  }
  uint64_t num_of_parts(const std::vector<uint64_t>& parts) const;
  absl::Status LookForComplete();
  absl::Status StartParts(const std::string& fingerprint, uint64_t max_skipped,
                          const Manifest& shared);
  absl::Status Write(const Item& item);
  absl::Status HandOver();
  void CountTakenOver(uint64_t records) {
    progress_.records += records;
    progress_.records_taken_over += records;
  }
  void CountWritten() {
    const uint64_t written = writer_->records_written();
    progress_.records += written - counted_;
    counted_ = written;
  }

  const Source& source_;
  const ConvertOptions& options_;
  ConvertProgress& progress_;
  OutputSpec spec_;
  std::unique_ptr<Staging> staging_;
  const PartStaging* attempts_ = nullptr;  // staging_ if a job is written, otherwise null
  std::optional<Manifest> complete_;
  std::unique_ptr<DatasetWriter> writer_;
  std::unique_ptr<ItemShuffler> shuffler_;
  std::vector<uint64_t> parts_;  // parts of the job that are not finished yet
  size_t num_taken_over_ = 0;
  uint64_t counted_ = 0;  // records written that progress_ includes
  uint64_t total_ = 0;
  uint64_t end_ = 0;  // number of the first item that need not be looked at
  uint64_t batch_items_ = 0;
  uint64_t number_ = 0;  // number of the next item, in the order of writing
  size_t shard_ = 0;
  uint64_t shard_end_ = 0;
  std::shared_ptr<ItemBatch> batch_ = std::make_shared<ItemBatch>();
};

absl::Status Output::Open(const Split* split) {
  spec_ = split != nullptr ? SplitOutput(options_.output, *split) : options_.output;
  if (absl::Status status = DatasetWriter::CheckMayResume(spec_, options_.resume); !status.ok()) {
    return status;
  }
  if (options_.job != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Staging>> staging =
      Staging::Open(spec_.directory, spec_.stem, options_.overwrite);
  if (!staging.ok()) return staging.status();
  staging_ = *std::move(staging);
  // An earlier run may have left shards to continue from.
  staging_->Keep(options_.resume && DatasetWriter::MayBeResumed(staging_->path()));
  if (options_.overwrite) return absl::OkStatus();
  // Report a name that is taken before a long scan. The writer checks again.
  absl::Status status = DatasetWriter::CheckNameIsFree(spec_);
  return absl::IsAlreadyExists(status) && options_.resume ? LookForComplete() : status;
}

// A run that was killed after it committed its dataset looks like one that finished, so resuming it
// does nothing. Another dataset of the same name is an error as usual.
absl::Status Output::LookForComplete() {
  const std::string path = ManifestPath(spec_.directory, spec_.stem);
  absl::StatusOr<Manifest> manifest = ReadManifest(path);
  if (!manifest.ok()) return manifest.status();
  if (manifest->made_by != options_.made_by || manifest->suffix != spec_.suffix ||
      manifest->compression != options_.encode.compression ||
      manifest->shards.size() != spec_.count.value_or(manifest->shards.size())) {
    return WithRemedy(absl::AlreadyExistsError(fmt::format(
                          "{}: a dataset of this name exists that was made from another source or "
                          "with other options, so there is nothing to resume",
                          path)),
                      {"overwrite", "", "replace it"});
  }
  if (absl::Status status = CheckShardSizes(spec_.directory, *manifest); !status.ok())
    return status;
  complete_ = *std::move(manifest);
  staging_->Keep(false);
  staging_.reset();
  return absl::OkStatus();
}

absl::Status Output::OpenParts() {
  if (absl::Status status = options_.job->Join(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PartStaging>> staging = options_.job->Stage(options_.only_shards);
  if (!staging.ok()) return staging.status();
  attempts_ = staging->get();
  staging_ = *std::move(staging);
  return absl::OkStatus();
}

absl::Status Output::StartParts(const std::string& fingerprint, uint64_t max_skipped,
                                const Manifest& shared) {
  const JobInput input{.made_by = shared.made_by,
                       .notes = shared.notes,
                       .skipped = shared.skipped,
                       .classes = shared.classes,
                       .fingerprint = fingerprint,
                       .max_skipped = max_skipped};
  if (absl::Status status = options_.job->Describe(*attempts_, input); !status.ok()) return status;
  absl::StatusOr<FinishedParts> finished = options_.job->Finished(options_.only_shards);
  if (!finished.ok()) return finished.status();
  num_taken_over_ = finished->parts.size();
  parts_ = std::move(finished->missing);
  CountTakenOver(num_of_parts(options_.only_shards) - num_of_parts(parts_));
  end_ = parts_.empty() ? 0 : EndOf(parts_.back());
  return absl::OkStatus();
}

uint64_t Output::num_to_write() const {
  if (is_complete()) return 0;
  if (options_.job == nullptr) return total_;
  return num_of_parts(options_.only_shards);
}

uint64_t Output::num_of_parts(const std::vector<uint64_t>& parts) const {
  uint64_t records = 0;
  for (const uint64_t part : parts) records += EndOf(part) - (part == 0 ? 0 : EndOf(part - 1));
  return records;
}

absl::Status Output::Start(uint64_t total, uint64_t frame_bytes, const std::string& fingerprint,
                           size_t sorting_bytes, uint64_t max_skipped, const Manifest& shared,
                           const FeatureTypes& types) {
  total_ = end_ = total;
  if (is_complete()) return absl::OkStatus();
  if (options_.job != nullptr) {
    absl::Status status = StartParts(fingerprint, max_skipped, shared);
    if (!status.ok() || parts_.empty()) return status;
  }
  if (!spec_.count) spec_.count = ChosenShards(total, frame_bytes, options_);
  batch_items_ =
      std::clamp<uint64_t>(kBatchBytes / std::max<uint64_t>(1, frame_bytes), 1, kMaxBatchItems);
  DatasetWriterOptions writing;
  writing.encode = options_.encode;
  writing.threads = options_.threads;
  writing.overwrite = options_.overwrite;
  writing.sync = options_.sync;
  writing.resume = options_.resume;
  writing.fingerprint = fingerprint;
  writing.max_skipped = max_skipped;
  writing.only_shards = parts_;
  if (options_.like) {
    writing.check_schema = [this](const Schema& schema, bool whole) {
      return CheckIsLike(schema, whole, NameOf(spec_), *options_.like);
    };
  }
  writing.stop = options_.stop;
  absl::StatusOr<std::unique_ptr<DatasetWriter>> created =
      DatasetWriter::Create(spec_, writing, std::move(staging_));
  if (!created.ok()) return created.status();
  writer_ = *std::move(created);
  writer_->SetTypes(types);
  if (options_.job == nullptr) {
    num_taken_over_ = writer_->num_taken_over();
    counted_ = writer_->records_written();
    CountTakenOver(counted_);
  }
  if (options_.shuffle_seed) {
    shuffler_ = std::make_unique<ItemShuffler>(*options_.shuffle_seed, writer_->staging_directory(),
                                               sorting_bytes);
  }
  shard_end_ = EndOf(0);
  return absl::OkStatus();
}

absl::Status Output::Add(const Item& item) {
  if (is_complete()) return absl::OkStatus();
  if (writer_ == nullptr) return absl::OutOfRangeError("all parts are finished");
  if (shuffler_ == nullptr) return Write(item);
  return options_.stop.stop_requested() ? Interrupted() : shuffler_->Add(item);
}

absl::Status Output::End() {
  if (is_complete() || writer_ == nullptr) return absl::OkStatus();
  absl::Status status;
  if (shuffler_ != nullptr) {
    status = shuffler_->ForEach([this](const Item& item) { return Write(item); });
    if (absl::IsOutOfRange(status) && number_ == end_) status = absl::OkStatus();
    shuffler_ = nullptr;
  }
  if (status.ok()) status = HandOver();
  if (!status.ok() || number_ == end_) return status;
  return absl::DataLossError(fmt::format(
      "the input changed while it was being read: {} records at first, {} later; run again", total_,
      number_));
}

absl::Status Output::HandOver() {
  if (batch_->size() == 0) return absl::OkStatus();
  absl::Status submitted = writer_->Submit(
      shard_, [batch = batch_, &source = source_, &options = options_](RecordBatch& out) {
        return BuildBatch(source, *batch, options, out);
      });
  batch_ = std::make_shared<ItemBatch>();
  CountWritten();
  return submitted;
}

absl::StatusOr<Manifest> Output::Finish(Manifest manifest) {
  if (is_complete()) return *complete_;
  if (writer_ == nullptr) {  // all parts were finished
    manifest.stem = spec_.stem;
    manifest.suffix = spec_.suffix;
    return manifest;
  }
  absl::StatusOr<Manifest> finished = options_.job != nullptr
                                          ? writer_->FinishShards(std::move(manifest))
                                          : writer_->Finish(std::move(manifest));
  CountWritten();
  return finished;
}

absl::Status Output::Write(const Item& item) {
  if (number_ == end_) return absl::OutOfRangeError("enough");
  while (number_ == shard_end_) {
    absl::Status status = HandOver();
    if (status.ok() && !writer_->is_taken_over(shard_)) status = writer_->CloseShard(shard_);
    if (!status.ok()) return status;
    shard_end_ = EndOf(++shard_);
  }
  ++number_;
  if (writer_->is_taken_over(shard_)) return absl::OkStatus();
  batch_->Add(item);
  return batch_->size() == batch_items_ ? HandOver() : absl::OkStatus();
}

// Returns a fingerprint of everything that the shards depend on except their number.
std::string FingerprintOf(const Source& source, const ConvertOptions& options, uint64_t total) {
  Fingerprint all;
  all.Add(source.InputFingerprint());
  all.Add(options.fingerprint);
  for (const auto& [feature, classes] : source.classes()) {
    all.Add(feature);
    for (const auto& [number, name] : classes) all.Add(fmt::format("{} {}", number, name));
  }
  for (const auto& [key, value] : options.made_by) {
    all.Add(key);
    all.Add(value);
  }
  for (const Split& split : options.splits) all.Add(fmt::format("{}={}", split.name, split.share));
  all.Add(fmt::format("{} {} {} {} {} {} {} {} {}", total, options.deduplicate,
                      static_cast<int>(options.encode.compression), options.encode.level,
                      options.encode.member_bytes, options.shuffle_seed.has_value(),
                      options.shuffle_seed.value_or(0), options.limit.has_value(),
                      options.skip_defects));
  return all.Hex();
}

}  // namespace

absl::StatusOr<std::vector<Split>> ParseSplits(const std::string& text) {
  std::vector<Split> splits;
  double sum = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, end - at);
    at = end + 1;
    Split split;
    const size_t equals = part.find('=');
    split.name = part.substr(0, equals);
    const char* const begin = part.data() + std::min(equals, part.size() - 1) + 1;
    const char* const stop = part.data() + part.size();
    const auto parsed = std::from_chars(begin, stop, split.share);
    if (equals == part.npos || parsed.ec != std::errc() || parsed.ptr != stop ||
        !(split.share > 0) || split.share > 1) {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected a list of splits such as train=0.9,test=0.1",
                      Excerpt(part.empty() ? text : part)));
    }
    if (!IsSplitName(split.name)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the name of a split may contain only letters, digits, _ and -",
                      Excerpt(split.name)));
    }
    for (const Split& other : splits) {
      if (other.name != split.name) continue;
      return absl::InvalidArgumentError(fmt::format("the split {} appears twice", split.name));
    }
    sum += split.share;
    splits.push_back(std::move(split));
  }
  if (std::abs(sum - 1) > 1e-9) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the shares add up to {}; they must add up to 1", text, sum));
  }
  if (splits.size() > ItemSelection::kMaxOutputs) {
    return absl::InvalidArgumentError("expected at most 255 splits, got more");
  }
  return splits;
}

absl::Status CheckConvertOptions(const Source& source, const ConvertOptions& options) {
  const bool divided = source.names_splits() || !options.splits.empty();
  if (source.names_splits() && !options.splits.empty()) {
    return absl::InvalidArgumentError(
        "the splits are given by a column and by shares; choose one of them");
  }
  if (options.limit && divided) {
    return absl::InvalidArgumentError("a limit cannot be combined with splits");
  }
  if (options.job != nullptr && (options.resume || divided)) {
    return absl::InvalidArgumentError("parts of a job cannot be resumed, nor be of several splits");
  }
  return absl::OkStatus();
}

std::vector<Split> SplitsOf(const Source& source, const ConvertOptions& options) {
  if (!source.names_splits()) return options.splits;
  uint64_t total = 0;
  for (const SplitCount& split : source.splits()) total += split.records;
  std::vector<Split> splits;
  for (const SplitCount& split : source.splits()) {
    splits.push_back({split.name, static_cast<double>(split.records) / static_cast<double>(total)});
  }
  return splits;
}

uint64_t ChosenShards(uint64_t records, uint64_t frame_bytes, const ConvertOptions& options) {
  return std::clamp<uint64_t>(
      records * frame_bytes / std::max<uint64_t>(1, options.shard_bytes) + 1, 1,
      std::min(kMaxShards, std::max<uint64_t>(1, records)));
}

OutputSpec SplitOutput(const OutputSpec& output, const Split& split) {
  OutputSpec spec = output;
  spec.stem += "-" + split.name;
  if (spec.count) {
    spec.count = std::max<uint64_t>(
        1, std::llround(std::ceil(static_cast<double>(*spec.count) * split.share - 1e-9)));
  }
  return spec;
}

namespace {

// Returns the first output that is not complete yet; null if all are.
Output* FirstOpen(std::vector<Output>& outputs) {
  const auto open = std::find_if_not(outputs.begin(), outputs.end(),
                                     [](const Output& output) { return output.is_complete(); });
  return open == outputs.end() ? nullptr : &*open;
}

// Decides which item goes to which of the outputs; nullopt if all items go to the only one.
absl::StatusOr<std::optional<ItemSelection>> Select(Source& source, const ConvertOptions& options,
                                                    size_t num_outputs,
                                                    const std::string& directory,
                                                    ConvertProgress& progress) {
  if (!options.deduplicate && num_outputs == 1) return std::nullopt;
  SelectionOptions selecting;
  if (!options.splits.empty()) {
    selecting.shares.clear();
    for (const Split& split : options.splits) selecting.shares.push_back(split.share);
  }
  if (source.names_splits()) selecting.num_splits = num_outputs;
  selecting.deduplicate = options.deduplicate;
  selecting.skip_defects = options.skip_defects;
  selecting.threads = options.threads;
  selecting.directory = directory;
  selecting.memory_bytes = kSortingBytes;
  selecting.stop = options.stop;
  selecting.items_passed = &progress.items_selected;
  progress.items_to_select = source.num_records();
  return ItemSelection::Make(source, selecting);
}

// Passes all items of the source to the outputs that `selection` chooses; `open` is one of them.
absl::Status PassItems(Source& source, const ConvertOptions& options,
                       const std::optional<ItemSelection>& selection, const Output& open,
                       std::vector<Output>& outputs) {
  const auto changed = [] {
    return absl::FailedPreconditionError("the input changed while it was being read; run again");
  };
  uint64_t number = 0;
  absl::Status status = source.ForEach([&](const Item& item) -> absl::Status {
    size_t output = 0;
    if (selection) {
      if (number == selection->num_items()) return changed();
      output = selection->OutputOf(number);
    }
    // Items of shards that were taken over never reach the writer, which checks for a stop, so
    // check here.
    if (++number % 1024 == 0 && options.stop.stop_requested()) return open.Interrupted();
    if (output == ItemSelection::kNowhere) return absl::OkStatus();
    return outputs[output].Add(item);
  });
  const bool may_stop = options.limit.has_value() || options.job != nullptr;
  if (absl::IsOutOfRange(status)) return may_stop ? absl::OkStatus() : changed();
  return status;
}

}  // namespace

absl::StatusOr<std::vector<Manifest>> Convert(Source& source, const ConvertOptions& options,
                                              ConvertProgress* progress) {
  ConvertProgress unseen;
  if (progress == nullptr) progress = &unseen;
  if (absl::Status status = CheckConvertOptions(source, options); !status.ok()) return status;
  std::vector<Output> outputs;
  const auto open_outputs = [&](const std::vector<Split>& splits) -> absl::Status {
    outputs.reserve(std::max<size_t>(1, splits.size()));
    for (size_t i = 0; i < std::max<size_t>(1, splits.size()); ++i) {
      outputs.emplace_back(source, options, *progress);
      absl::Status status = outputs[i].Open(splits.empty() ? nullptr : &splits[i]);
      if (!status.ok()) return status;
      progress->datasets_complete += outputs[i].is_complete();
    }
    return absl::OkStatus();
  };
  const auto finish = [&outputs](const Manifest& shared) -> absl::StatusOr<std::vector<Manifest>> {
    std::vector<Manifest> manifests;
    for (Output& output : outputs) {
      absl::StatusOr<Manifest> finished = output.Finish(shared);
      if (!finished.ok()) return finished.status();
      manifests.push_back(*std::move(finished));
    }
    return manifests;
  };
  absl::Status status;
  if (!source.names_splits()) {
    status = open_outputs(options.splits);
    if (!status.ok()) return status;
    if (FirstOpen(outputs) == nullptr) return finish({});
  }
  SkippedRecords skipped;
  if (options.skip_defects) source.SkipDefects(options.AddTo(skipped));
  status =
      source.Scan(options.stop, [progress](uint64_t bytes) { progress->bytes_scanned = bytes; });
  if (!status.ok()) return status;
  const uint64_t ceiling = options.max_skipped.Of(source.num_records() + skipped.count);
  if (skipped.count > ceiling) return TooManySkipped(skipped.count, ceiling, skipped.first[0]);
  if (source.names_splits()) {
    status = open_outputs(SplitsOf(source, options));
    if (!status.ok()) return status;
    if (FirstOpen(outputs) == nullptr) return finish({});
  }
  absl::StatusOr<uint64_t> frame_bytes = MeanFrameBytes(source, options);
  if (!frame_bytes.ok()) return frame_bytes.status();
  Output& open = *FirstOpen(outputs);
  if (options.job != nullptr) {
    if (status = open.OpenParts(); !status.ok()) return status;
  }

  const absl::StatusOr<std::optional<ItemSelection>> selection =
      Select(source, options, outputs.size(), open.staging_directory(), *progress);
  if (!selection.ok()) return selection.status();
  Manifest shared;
  shared.made_by = options.made_by;
  shared.notes = source.notes();
  shared.classes = source.classes();
  if (*selection && (*selection)->num_duplicates() > 0) {
    shared.notes.push_back(fmt::format("left out {} of {} records as duplicates of earlier ones",
                                       (*selection)->num_duplicates(), (*selection)->num_items()));
  }
  for (std::string& note : shared.notes) note = options.Reworded(std::move(note));
  progress->skipped_in_scan = skipped.count;
  shared.skipped = std::move(skipped);
  uint64_t total = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const uint64_t there = *selection ? (*selection)->CountOf(i) : source.num_records();
    const uint64_t wanted = std::min(there, options.limit.value_or(there));
    const uint64_t most = options.max_skipped.Of(wanted);
    status = outputs[i].Start(wanted, *frame_bytes, FingerprintOf(source, options, wanted),
                              kSortingBytes / outputs.size(),
                              most - std::min(most, shared.skipped.count), shared, source.types());
    if (!status.ok()) return status;
    total += outputs[i].num_to_write();
    progress->shards_taken_over += outputs[i].num_taken_over();
  }
  progress->records_to_write = total;

  status = PassItems(source, options, *selection, open, outputs);
  for (Output& output : outputs) {
    if (status.ok()) status = output.End();
  }
  if (!status.ok()) return status;
  return finish(shared);
}

}  // namespace shardfeed
