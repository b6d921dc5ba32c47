#include "convert/sources/tfrecord.h"

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/little_endian.h"
#include "convert/features/example_images.h"
#include "convert/input/checked_files.h"
#include "convert/input/open_file_cache.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/declarations/joined_declarations.h"
#include "shard/formats/shard_reader.h"
#include "shard/index/index.h"
#include "shard/indexing/index_build.h"
#include "shard/manifest/manifest.h"
#include "shard/spec/spec.h"
#include "shard/verify/salvage.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Passes the records of `reader`, which has the Next of a ShardReader, to `sink`.
template <typename Reader>
absl::Status Deliver(Reader& reader, uint32_t shard,
                     const std::function<absl::Status(const Item&)>& sink) {
  RecordBlock block;
  uint64_t num_records = 0;
  while (true) {
    absl::Status status = reader.Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) return absl::OkStatus();
    for (const Record& record : block.records) {
      Item item;
      item.bytes = record.payload;
      item.file = shard;
      item.line = ++num_records;
      if (status = sink(item); !status.ok()) return status;
    }
  }
}

// From this mean size on, items refer to records in their files: one read per record then costs
// less than copying records and, when shuffling, writing them to temporary files.
constexpr uint64_t kReferenceBytes = 16 << 10;
constexpr size_t kReferenceItem = 24;  // record, offset, size of the frame

class TfrecordSource : public Source {
 public:
  TfrecordSource(ShardSet set, JoinedDeclarations declarations, const StoredImageOptions& images)
      : files_(set.paths),
        set_(std::move(set)),
        declarations_(std::move(declarations)),
        images_(images) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  FeatureClasses classes() const override { return declarations_.classes(); }
  FeatureTypes types() const override { return declarations_.types(); }
  std::vector<std::string> notes() const override { return declarations_.Notes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }
  std::vector<std::string> built_notes() const override { return images_.notes(); }
  void ForgetBuilt() override { images_.Reset(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item&, ExampleBuilder&) const override {
    return absl::UnimplementedError("records are copied unchanged");
  }
  absl::Status BuildRecord(const Item& item, ExampleBuilder& builder,
                           std::string* out) const override;
  // Records have no names, so their content is also their key.
  absl::Status AppendKey(const Item& item, std::string* key) const override {
    return AppendRecord(item, key);
  }
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override {
    thread_local std::string record;
    record.clear();
    absl::Status status = AppendKey(item, &record);
    if (status.ok()) visit(record);
    return status;
  }

 private:
  // Appends the unchanged record.
  absl::Status AppendRecord(const Item& item, std::string* out) const;
  absl::Status ForEachReference(uint32_t shard,
                                const std::function<absl::Status(const Item&)>& sink) const;
  // Calls `defect` for each damaged place that is skipped; without it, damage is an error.
  absl::Status ForEachRecord(uint32_t shard, const std::function<absl::Status(const Item&)>& sink,
                             const std::function<void(const DamagedPlace&)>& defect) const;
  absl::Status ForEachSoundRecord(uint32_t shard,
                                  const std::function<absl::Status(const Item&)>& sink,
                                  const std::function<void(const DamagedPlace&)>& defect) const;
  absl::Status CountPastDefects(std::stop_token stop,
                                const std::function<void(uint64_t bytes)>& progress);

  InputFiles files_;
  const ShardSet set_;
  const JoinedDeclarations declarations_;
  ImageRewriter images_;
  std::shared_ptr<const Manifest> manifest_;                // set if defects are skipped
  std::vector<std::shared_ptr<const ShardIndex>> indexes_;  // empty where defects are skipped
  std::vector<bool> by_reference_;
  std::vector<uint64_t> records_of_shard_;
  uint64_t num_records_ = 0;
  mutable FileCache open_;
};

absl::Status TfrecordSource::Scan(std::stop_token stop,
                                  const std::function<void(uint64_t bytes)>& progress) {
  num_records_ = 0;
  by_reference_.clear();
  records_of_shard_.clear();
  indexes_.assign(files_.size(), nullptr);
  absl::Status status = set_.version.CheckUnchanged(files_.Stat());
  if (!status.ok()) return status;
  if (skips_defects()) return CountPastDefects(stop, progress);
  std::atomic<uint64_t> passed{0};
  status = ParallelFor(files_.size(), ThreadCount(0), stop, [&](size_t shard) -> absl::Status {
    IndexBuildOptions options;
    options.stop = stop;
    absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
        OpenOrBuildIndex(files_.path(shard), options);
    if (!index.ok()) return set_.version.CheckUnchanged(index.status());
    indexes_[shard] = *std::move(index);
    const uint64_t bytes = passed += files_.file_bytes(shard);
    if (progress) progress(bytes);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  for (const std::shared_ptr<const ShardIndex>& index : indexes_) {
    num_records_ += index->records();
    records_of_shard_.push_back(index->records());
    // From a store, records are not read one by one.
    by_reference_.push_back(!IsRemote(files_.path(by_reference_.size())) &&
                            index->summary().compression == Compression::kNone &&
                            index->summary().framing == Framing::kTfRecord &&
                            index->summary().stream_bytes >= kReferenceBytes * index->records());
  }
  return absl::OkStatus();
}

// Indexes end at the first damaged length, so this reads all data.
absl::Status TfrecordSource::CountPastDefects(std::stop_token stop,
                                              const std::function<void(uint64_t bytes)>& progress) {
  manifest_ = FindManifest(set_);
  for (uint32_t shard = 0; shard < files_.size(); ++shard) {
    uint64_t num_records = 0;
    absl::Status status = ForEachRecord(
        shard,
        [&](const Item&) {
          ++num_records;
          return stop.stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
        },
        [this](const DamagedPlace& place) {
          // Count each lost record, or one if their number is unknown.
          const absl::Status defect = absl::DataLossError(place.detail);
          LeaveOut(defect, place.records.value_or(1));
        });
    if (!status.ok()) return status;
    if (progress) progress(files_.bytes_before(shard) + files_.file_bytes(shard));
    by_reference_.push_back(false);
    records_of_shard_.push_back(num_records);
    num_records_ += num_records;
  }
  return absl::OkStatus();
}

absl::Status TfrecordSource::ForEachReference(
    uint32_t shard, const std::function<absl::Status(const Item&)>& sink) const {
  const ShardIndex& index = *indexes_[shard];
  char bytes[kReferenceItem];
  for (uint64_t record = 0; record < index.records(); ++record) {
    const uint64_t offset = index.Offset(record);
    StoreLittleEndian(record, bytes);
    StoreLittleEndian(offset, bytes + 8);
    StoreLittleEndian(index.Offset(record + 1) - offset, bytes + 16);
    Item item;
    item.bytes = {bytes, kReferenceItem};
    item.file = shard;
    item.line = record + 1;
    if (absl::Status status = sink(item); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TfrecordSource::ForEachRecord(
    uint32_t shard, const std::function<absl::Status(const Item&)>& sink,
    const std::function<void(const DamagedPlace&)>& defect) const {
  if (defect) return ForEachSoundRecord(shard, sink, defect);
  absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::Open(files_.path(shard));
  if (!reader.ok()) return reader.status();
  return Deliver(**reader, shard, sink);
}

absl::Status TfrecordSource::ForEachSoundRecord(
    uint32_t shard, const std::function<absl::Status(const Item&)>& sink,
    const std::function<void(const DamagedPlace&)>& defect) const {
  SalvageOptions options;
  if (manifest_) {
    options.compression = manifest_->compression;
    options.records = manifest_->shards[shard].records;
  }
  absl::StatusOr<std::unique_ptr<ShardSalvager>> salvager =
      ShardSalvager::Open(files_.path(shard), std::move(options));
  if (!salvager.ok()) return salvager.status();
  absl::Status status = Deliver(**salvager, shard, sink);
  for (const DamagedPlace& place : (*salvager)->damage()) defect(place);
  return status;
}

absl::Status TfrecordSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  for (uint32_t shard = 0; shard < files_.size(); ++shard) {
    uint64_t num_records = 0;
    const auto counted = [&](const Item& item) {
      ++num_records;
      return sink(item);
    };
    std::function<void(const DamagedPlace&)> pass_over;
    if (skips_defects()) pass_over = [](const DamagedPlace&) {};
    absl::Status status = by_reference_[shard] ? ForEachReference(shard, counted)
                                               : ForEachRecord(shard, counted, pass_over);
    if (status.ok()) status = files_.CheckUnchanged(shard);
    if (!status.ok()) return status;
    if (num_records != records_of_shard_[shard]) return files_.Changed(shard);
  }
  return absl::OkStatus();
}

absl::Status TfrecordSource::BuildRecord(const Item& item, ExampleBuilder&,
                                         std::string* out) const {
  if (images_.keeps_all()) return AppendRecord(item, out);
  thread_local std::string record;
  record.clear();
  absl::Status status = AppendRecord(item, &record);
  if (!status.ok()) return status;
  return RewriteExampleImages(
      record, fmt::format("{}: record {}", files_.path(item.file), item.line - 1), images_, out);
}

absl::Status TfrecordSource::AppendRecord(const Item& item, std::string* out) const {
  if (!by_reference_[item.file]) {
    out->append(item.bytes);
    return absl::OkStatus();
  }
  const std::string& path = files_.path(item.file);
  const auto record = LoadLittleEndian<uint64_t>(item.bytes.data());
  const auto offset = LoadLittleEndian<uint64_t>(item.bytes.data() + 8);
  const auto frame = LoadLittleEndian<uint64_t>(item.bytes.data() + 16);
  const auto defect = [&](std::string_view what) {
    return absl::DataLossError(
        fmt::format("{}: record {} at byte {}: {}; 'shardfeed verify' lists "
                    "all defects",
                    path, record, offset, what));
  };
  // Check the index against the size of the file.
  if (frame < kFrameBytes || offset > files_.file_bytes(item.file) ||
      frame > files_.file_bytes(item.file) - offset) {
    return defect("the index does not match the shard");
  }
  absl::StatusOr<std::shared_ptr<const File>> file = open_.Get(path);
  if (!file.ok()) return file.status();
  // Read payload and footer. The length comes from the index, and the CRC shows whether it is
  // right.
  const size_t begin = out->size();
  const uint64_t length = frame - kFrameBytes;
  out->resize(begin + length + kFooterBytes);
  absl::StatusOr<size_t> n =
      (*file)->ReadAt(offset + kHeaderBytes, absl::MakeSpan(*out).subspan(begin));
  if (!n.ok()) return n.status();
  if (*n < length + kFooterBytes) return files_.Changed(item.file);
  const uint32_t found = MaskCrc(Crc32c(std::string_view(*out).substr(begin, length)));
  const auto expected = LoadLittleEndian<uint32_t>(out->data() + begin + length);
  if (found != expected) {
    return defect(fmt::format("payload CRC expected {:#010x}, found {:#010x}", expected, found));
  }
  out->resize(begin + length);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeTfrecordSource(const std::vector<std::string>& specs,
                                                           const StoredImageOptions& images) {
  absl::StatusOr<ShardSet> set = ResolveSpecs(specs);
  if (!set.ok()) return set.status();
  JoinedDeclarations declarations;
  if (absl::Status status = declarations.AddOf(*set); !status.ok()) return status;
  return std::make_unique<TfrecordSource>(*std::move(set), std::move(declarations), images);
}

}  // namespace shardfeed
