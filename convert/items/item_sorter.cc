#include "convert/items/item_sorter.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "io/file.h"

namespace shardfeed {
namespace {

constexpr int kBucketBits = 6;
constexpr size_t kBuckets = size_t{1} << kBucketBits;
// Bytes that are gathered for a bucket before they are written.
constexpr size_t kMinBucketBuffer = 4 << 10;
constexpr size_t kMaxBucketBuffer = 256 << 10;
// Bytes that are read from a bucket at a time.
constexpr size_t kReadBytes = 1 << 20;
// Size of the header of an encoded item: key, file, line, size of bytes; then the bytes follow.
constexpr size_t kItemHeader = 28;
constexpr int kMaxDepth = 60;

void Encode(uint64_t key, const Item& item, std::string* out) {
  AppendLittleEndian(key, out);
  AppendLittleEndian(item.file, out);
  AppendLittleEndian(item.line, out);
  AppendLittleEndian<uint64_t>(item.bytes.size(), out);
  out->append(item.bytes);
}

Item Decode(const char* encoded) {
  Item item;
  item.file = LoadLittleEndian<uint32_t>(encoded + 8);
  item.line = LoadLittleEndian<uint64_t>(encoded + 12);
  item.bytes = {encoded + kItemHeader, LoadLittleEndian<uint64_t>(encoded + 20)};
  return item;
}

}  // namespace

ItemSorter::ItemSorter(std::string directory, size_t memory_bytes)
    : ItemSorter(std::move(directory), memory_bytes, 0) {}

ItemSorter::ItemSorter(std::string directory, size_t memory_bytes, int depth)
    : directory_(std::move(directory)),
      memory_bytes_(memory_bytes),
      bucket_buffer_(std::clamp(memory_bytes / (4 * kBuckets), kMinBucketBuffer, kMaxBucketBuffer)),
      depth_(depth) {}

ItemSorter::~ItemSorter() {
  for (const Bucket& bucket : buckets_) ::unlink(bucket.path.c_str());
}

absl::Status ItemSorter::Add(uint64_t key, const Item& item) {
  encoded_.clear();
  Encode(key, item, &encoded_);
  return Put(key, encoded_);
}

absl::Status ItemSorter::Put(uint64_t key, std::string_view encoded) {
  if (!buckets_.empty()) {
    Bucket& bucket = buckets_[(key << depth_) >> (64 - kBucketBits)];
    bucket.pending.append(encoded);
    return bucket.pending.size() >= bucket_buffer_ ? Flush(bucket) : absl::OkStatus();
  }
  entries_.push_back({key, items_.size()});
  items_.append(encoded);
  if (items_.size() + entries_.size() * sizeof(Entry) < memory_bytes_) return absl::OkStatus();
  return Spill();
}

absl::Status ItemSorter::Spill() {
  static std::atomic<uint64_t> unique{0};
  const std::string base = fmt::format("{}/sort{}", directory_, unique++);
  buckets_.resize(kBuckets);
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i].path = fmt::format("{}-{}", base, i);
  const std::vector<Entry> entries = std::exchange(entries_, {});
  const std::string items = std::exchange(items_, {});
  for (size_t i = 0; i < entries.size(); ++i) {
    const size_t end = i + 1 < entries.size() ? entries[i + 1].offset : items.size();
    absl::Status status = Put(
        entries[i].key, std::string_view(items).substr(entries[i].offset, end - entries[i].offset));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ItemSorter::Flush(Bucket& bucket) {
  if (bucket.file == nullptr) {
    absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(bucket.path);
    if (!file.ok()) return file.status();
    bucket.file = *std::move(file);
  }
  absl::Status status = bucket.file->Append(bucket.pending);
  bucket.pending.clear();
  return status;
}

absl::Status ItemSorter::ForEachInMemory(const std::function<absl::Status(const Item&)>& sink) {
  // The sort is stable, so items with equal keys keep the order of the input.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.key < b.key; });
  for (const Entry& entry : entries_) {
    absl::Status status = sink(Decode(items_.data() + entry.offset));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ItemSorter::ForEach(const std::function<absl::Status(const Item&)>& sink) {
  if (buckets_.empty()) return ForEachInMemory(sink);
  for (Bucket& bucket : buckets_) {
    if (bucket.file != nullptr || !bucket.pending.empty()) {
      absl::Status status = Flush(bucket);
      if (status.ok()) status = bucket.file->Close();
      if (!status.ok()) return status;
    }
    bucket.pending = std::string();
  }
  for (Bucket& bucket : buckets_) {
    if (bucket.file == nullptr) continue;
    absl::StatusOr<std::shared_ptr<File>> opened = File::Open(bucket.path);
    if (!opened.ok()) return opened.status();
    const File& file = **opened;
    // Keys that agree in all these bits cannot be separated by more files, and need not be.
    const bool equal = depth_ + kBucketBits >= kMaxDepth;
    ItemSorter part(directory_, memory_bytes_, depth_ + kBucketBits);
    // Items are read in large pieces; a larger item gets a buffer of its size.
    std::string buffer;
    uint64_t offset = 0;  // offset of the buffer in the file
    size_t at = 0;
    while (offset + at < file.size()) {
      const auto need = [&](size_t bytes) -> absl::Status {
        if (buffer.size() - at >= bytes) return absl::OkStatus();
        offset += at;
        at = 0;
        buffer.resize(std::min<uint64_t>(std::max(bytes, kReadBytes), file.size() - offset));
        return file.ReadExactlyAt(offset, absl::MakeSpan(buffer));
      };
      absl::Status status = need(kItemHeader);
      if (!status.ok()) return status;
      const uint64_t size = kItemHeader + LoadLittleEndian<uint64_t>(buffer.data() + at + 20);
      status = need(size);
      if (!status.ok()) return status;
      const std::string_view encoded(buffer.data() + at, size);
      status = equal ? sink(Decode(encoded.data()))
                     : part.Put(LoadLittleEndian<uint64_t>(encoded.data()), encoded);
      if (!status.ok()) return status;
      at += size;
    }
    ::unlink(bucket.path.c_str());
    absl::Status status = part.ForEach(sink);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
