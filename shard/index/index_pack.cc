#include "shard/index/index_pack.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

#include "base/fork_count.h"
#include "base/little_endian.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "net/open.h"
#include "net/remote_file.h"
#include "net/store.h"
#include "shard/names/names.h"
#include "tfrecord/crc32c.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// docs/index_pack.md describes the layout that these constants come from.
constexpr char kMagic[8] = {'S', 'F', 'I', 'P', 'A', 'C', 'K', '1'};
constexpr size_t kPackHeaderBytes = 40;
constexpr size_t kHeaderCrcAt = 36;
constexpr size_t kEntryBytes = 40;
constexpr size_t kFlushBytes = 1 << 20;
// No set has more; so that no size overflows.
constexpr size_t kMostShards = size_t{1} << 32;
constexpr size_t kOpenAtOnce = 256;
// How much is fetched at once; see docs/stores.md.
constexpr uint64_t kBlockBytes = 8 << 20;

uint64_t Load64(const char* at) { return LoadLittleEndian<uint64_t>(at); }
uint32_t Load32(const char* at) { return LoadLittleEndian<uint32_t>(at); }

uint64_t StartBytes(size_t count) { return kPackHeaderBytes + uint64_t{kEntryBytes} * count; }

// Identifies the names of the shards except for their stem, so that a dataset may be renamed.
uint32_t NamesCrc(size_t count, std::string_view suffix) {
  return Crc32c(ShardName("", 0, count, suffix));
}

absl::Status Damaged(const std::string& name, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: {}; rebuild it with 'shardfeed index'", name, what));
}

bool Agree(const IndexSummary& a, const IndexSummary& b) {
  return a.compression == b.compression && a.framing == b.framing &&
         a.records_digest == b.records_digest && a.shard_bytes == b.shard_bytes &&
         a.stream_bytes == b.stream_bytes && a.records == b.records;
}

// What stands between the first and the last number in the name of a range's pack.
constexpr std::string_view kRange = "-to-";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The end of the digits in `name` from `begin` on.
size_t EndOfDigits(std::string_view name, size_t begin) {
  return std::find_if_not(name.begin() + static_cast<ptrdiff_t>(begin), name.end(), IsDigit) -
         name.begin();
}

// The name of file `number` of a range whose ends are written as `from` and `to`.
std::string NumberedName(std::string_view stem, std::string_view from, std::string_view to,
                         uint64_t number, std::string_view suffix) {
  const size_t width = from[0] == '0' || from.size() == to.size() ? from.size() : 1;
  return fmt::format("{}{:0{}}{}", stem, number, width, suffix);
}

}  // namespace

std::optional<IndexPackName> IndexPackNameOf(const ShardSet& set) {
  if (set.sharded_name) return IndexPackName{set.stem, set.suffix};
  if (set.paths.size() < 2) return std::nullopt;
  const std::string_view first = SplitPath(set.paths.front()).name;
  const std::string_view last = SplitPath(set.paths.back()).name;
  // Shards that stem@N names belong to the pack of their set.
  if (ViewShardName(first)) return std::nullopt;
  size_t begin =
      std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first - first.begin();
  while (begin > 0 && IsDigit(first[begin - 1])) --begin;
  const size_t end = EndOfDigits(first, begin);
  const std::string_view from = first.substr(begin, end - begin);
  const std::string_view to = last.substr(begin, EndOfDigits(last, begin) - begin);
  const std::optional<uint64_t> number = ParseNumber(from);
  if (!number) return std::nullopt;
  const std::string_view stem = first.substr(0, begin);
  const std::string suffix(first.substr(end));
  for (size_t i = 0; i < set.paths.size(); ++i) {
    const std::string name = NumberedName(stem, from, to, *number + i, suffix);
    if (set.paths[i] != JoinPath(set.directory, name)) return std::nullopt;
  }
  IndexPackName named = {fmt::format("{}{}{}{}{}", stem, from, kRange, to, suffix), suffix};
  if (named.stem.size() + kIndexPackEnding.size() > NAME_MAX) return std::nullopt;
  return named;
}

std::optional<ShardSet> RangeOfIndexPack(const std::string& directory, std::string_view file_name) {
  if (!file_name.ends_with(kIndexPackEnding)) return std::nullopt;
  const std::string_view stem = file_name.substr(0, file_name.size() - kIndexPackEnding.size());
  for (size_t at = stem.find(kRange); at != stem.npos; at = stem.find(kRange, at + 1)) {
    size_t begin = at;
    while (begin > 0 && IsDigit(stem[begin - 1])) --begin;
    const size_t next = at + kRange.size();
    const size_t end = EndOfDigits(stem, next);
    const std::string_view from = stem.substr(begin, at - begin);
    const std::string_view to = stem.substr(next, end - next);
    const std::optional<uint64_t> first = ParseNumber(from);
    const std::optional<uint64_t> last = ParseNumber(to);
    if (!first || !last || *last <= *first || *last - *first >= kMaxShards) continue;
    ShardSet set;
    set.directory = directory;
    for (uint64_t number = *first; number <= *last; ++number) {
      set.paths.push_back(JoinPath(
          directory, NumberedName(stem.substr(0, begin), from, to, number, stem.substr(end))));
    }
    const std::optional<IndexPackName> named = IndexPackNameOf(set);
    if (named && named->stem == stem) return set;
  }
  return std::nullopt;
}

// ---- Writing

IndexPackWriter::IndexPackWriter(OutputFile* file, size_t count, std::string_view suffix)
    : file_(file), count_(count), names_(NamesCrc(count, suffix)), bytes_(StartBytes(count)) {}

absl::Status IndexPackWriter::Flush() {
  if (file_->size() == 0) {
    // The start is known only at the end.
    absl::Status status = file_->Append(std::string(StartBytes(count_), '\0'));
    if (!status.ok()) return status;
  }
  absl::Status status = file_->Append(buffer_);
  buffer_.clear();
  return status;
}

absl::Status IndexPackWriter::Add(const ShardIndex& index) {
  const IndexSummary& summary = index.summary();
  AppendLittleEndian(summary.shard_bytes, &directory_);
  AppendLittleEndian(summary.stream_bytes, &directory_);
  AppendLittleEndian(summary.records, &directory_);
  AppendLittleEndian<uint64_t>(index.bytes().size(), &directory_);
  AppendLittleEndian(summary.records_digest, &directory_);
  AppendLittleEndian(FormatCode(summary.format()), &directory_);
  bytes_ += index.bytes().size();
  buffer_ += index.bytes();
  return buffer_.size() >= kFlushBytes ? Flush() : absl::OkStatus();
}

absl::Status IndexPackWriter::Finish() {
  if (directory_.size() != count_ * kEntryBytes) {
    return absl::InternalError(fmt::format("{}: not all indexes were added", file_->path()));
  }
  absl::Status status = Flush();
  if (!status.ok()) return status;
  std::string start(kMagic, sizeof(kMagic));
  AppendLittleEndian<uint64_t>(count_, &start);
  AppendLittleEndian(bytes_, &start);
  AppendLittleEndian(names_, &start);
  AppendLittleEndian(Crc32c(directory_), &start);
  AppendLittleEndian(uint32_t{0}, &start);
  AppendLittleEndian(Crc32c(start), &start);
  return file_->WriteAt(0, start + directory_);
}

absl::Status PackIndexes(OutputFile* file, size_t count, std::string_view suffix,
                         const std::function<std::string(size_t)>& index_path, int threads,
                         const std::stop_token& stop) {
  IndexPackWriter writer(file, count, suffix);
  std::vector<std::shared_ptr<const ShardIndex>> open;
  for (size_t first = 0; first < count; first += open.size()) {
    open.assign(std::min(kOpenAtOnce, count - first), nullptr);
    absl::Status status = ParallelFor(open.size(), threads, stop, [&](size_t i) {
      absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
          ShardIndex::Open(index_path(first + i));
      if (!index.ok()) return index.status();
      open[i] = *std::move(index);
      return absl::OkStatus();
    });
    for (size_t i = 0; status.ok() && i < open.size(); ++i) status = writer.Add(*open[i]);
    if (!status.ok()) return status;
  }
  return writer.Finish();
}

// ---- Reading

absl::StatusOr<std::shared_ptr<const IndexPack>> IndexPack::Open(const std::string& directory,
                                                                 const std::string& stem,
                                                                 size_t count,
                                                                 std::string_view suffix) {
  std::shared_ptr<IndexPack> pack(new IndexPack(IndexPackPath(directory, stem)));
  const std::string& path = pack->path_;
  const uint64_t wanted = std::max(kBlockBytes, StartBytes(std::min(count, kMostShards)));
  std::string start;
  uint64_t size = 0;
  if (IsRemote(path)) {
    ObjectInfo info;
    absl::StatusOr<std::string> read = ReadObjectStart(path, wanted, &info);
    // An empty object has no range.
    if (absl::IsAborted(read.status())) return Damaged(path, "not an index pack");
    if (!read.ok()) return read.status();
    start = *std::move(read);
    size = info.size;
    absl::StatusOr<std::shared_ptr<File>> file = RemoteFile::Open(info);
    if (!file.ok()) return file.status();
    pack->file_ = *std::move(file);
  } else {
    absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
    if (!file.ok()) return file.status();
    size = (*file)->size();
    start.resize(std::min(size, wanted));
    absl::StatusOr<size_t> read = (*file)->ReadAt(0, absl::MakeSpan(start));
    if (!read.ok()) return read.status();
    start.resize(*read);
    pack->file_ = *std::move(file);
  }
  absl::Status status = pack->Parse(start, size, count, suffix);
  if (!status.ok()) return status;
  if (start.size() == size) {
    pack->whole_ = std::make_shared<const std::string>(std::move(start));
    pack->file_ = nullptr;
  }
  return pack;
}

absl::StatusOr<std::shared_ptr<const IndexPack>> IndexPack::FromBytes(std::string bytes,
                                                                      const std::string& name,
                                                                      size_t count,
                                                                      std::string_view suffix) {
  std::shared_ptr<IndexPack> pack(new IndexPack(name));
  pack->whole_ = std::make_shared<const std::string>(std::move(bytes));
  absl::Status status = pack->Parse(*pack->whole_, pack->whole_->size(), count, suffix);
  if (!status.ok()) return status;
  return pack;
}

// `start` is the beginning of a pack of `size` bytes, or all of it.
absl::Status IndexPack::Parse(std::string_view start, uint64_t size, size_t count,
                              std::string_view suffix) {
  const auto damaged = [this](std::string_view what) { return Damaged(path_, what); };
  if (start.size() < kPackHeaderBytes || std::memcmp(start.data(), kMagic, sizeof(kMagic)) != 0) {
    return damaged("not an index pack");
  }
  const char* const header = start.data();
  if (Load32(header + kHeaderCrcAt) != Crc32c(start.substr(0, kHeaderCrcAt))) {
    return damaged("the index pack's header is damaged");
  }
  const uint64_t shards = Load64(header + 8);
  if (count > size / kEntryBytes || shards != count ||
      Load32(header + 24) != NamesCrc(count, suffix)) {
    return damaged(
        fmt::format("it has the indexes of {} shards, and not of {} whose names end in '{}'",
                    shards, count, ShardName("", 0, count, suffix)));
  }
  if (Load64(header + 16) != size || start.size() < StartBytes(count)) {
    return damaged(
        fmt::format("the index pack has {} bytes instead of {}", size, Load64(header + 16)));
  }
  const std::string_view directory = start.substr(kPackHeaderBytes, kEntryBytes * count);
  if (Load32(header + 28) != Crc32c(directory)) {
    return damaged("the CRC of the index pack's directory does not match its content");
  }
  // If the CRCs are correct, only a faulty or hostile writer can have got these wrong.
  const auto contradicts = [&](size_t shard) {
    return damaged(fmt::format("the index pack contradicts itself at shard {}", shard));
  };
  summaries_.reserve(count);
  begins_.reserve(count + 1);
  uint64_t begin = StartBytes(count);
  // No sum over the shards may overflow.
  uint64_t shard_bytes_left = UINT64_MAX;
  uint64_t stream_bytes_left = UINT64_MAX;
  for (size_t i = 0; i < count; ++i) {
    const char* const entry = directory.data() + i * kEntryBytes;
    IndexSummary& summary = summaries_.emplace_back();
    summary.shard_bytes = Load64(entry);
    summary.stream_bytes = Load64(entry + 8);
    summary.records = Load64(entry + 16);
    summary.records_digest = Load32(entry + 32);
    const uint64_t index_bytes = Load64(entry + 24);
    const std::optional<ShardFormat> format = FormatOf(Load32(entry + 36));
    if (!format) return contradicts(i);
    summary.compression = format->compression;
    summary.framing = format->framing;
    if (index_bytes > size - begin || summary.shard_bytes > shard_bytes_left ||
        summary.stream_bytes > stream_bytes_left ||
        summary.records > summary.stream_bytes / kFrameBytes ||
        (summary.compression == Compression::kNone && !FillsShard(summary))) {
      return contradicts(i);
    }
    shard_bytes_left -= summary.shard_bytes;
    stream_bytes_left -= summary.stream_bytes;
    begins_.push_back(begin);
    begin += index_bytes;
  }
  begins_.push_back(begin);
  if (begin != size) return damaged("the index pack contradicts itself at its end");
  return absl::OkStatus();
}

// Returns the bytes [begin, end) of the pack, which other threads may have fetched or be fetching.
absl::StatusOr<std::shared_ptr<const std::string>> IndexPack::Fetch(uint64_t begin,
                                                                    uint64_t end) const {
  MutexLock lock(mutex_);
  std::shared_ptr<Block>& known = blocks_[begin];
  // What threads of a parent process began, they do not deliver here. What failed may succeed now.
  // A thread that runs signal handlers fetches only after them.
  const auto usable = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (known == nullptr) return false;
    if (known->done) return known->status.ok();
    return known->forks == ForkCount() && !SignalHandling::Pauses(known->fetcher);
  };
  while (usable()) {
    const std::shared_ptr<Block> block = known;
    const auto ended = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return block->done || SignalHandling::Pauses(block->fetcher);
    };
    if (!AwaitWanted(fetched_, lock, ended)) return absl::CancelledError("interrupted");
    // If the work of the thread that fetches is not needed any more, that of this one still is.
    if (!block->done || absl::IsCancelled(block->status)) continue;
    if (block->status.ok()) return block->bytes;
    return absl::Status(block->status.code(), std::string(block->status.message()));
  }
  const auto block = std::make_shared<Block>();
  block->forks = ForkCount();
  block->fetcher = std::this_thread::get_id();
  known = block;
  lock.Unlock();
  auto bytes = std::make_shared<std::string>();
  absl::Status status;
  // In pieces, because a server may claim any size of the pack.
  while (status.ok() && bytes->size() < end - begin) {
    const uint64_t done = bytes->size();
    const uint64_t next = std::min(end - begin - done, kBlockBytes);
    try {
      bytes->resize(done + next);
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError(
          fmt::format("{}: out of memory for {} bytes of indexes", path_, end - begin));
      break;
    }
    status = file_->ReadExactlyAt(begin + done, {bytes->data() + done, next});
  }
  lock.Lock();
  block->done = true;
  block->status = status;
  if (status.ok()) block->bytes = bytes;
  fetched_.NotifyAll();
  if (!status.ok()) return absl::Status(status.code(), std::string(status.message()));
  return block->bytes;
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> IndexPack::Index(size_t shard) const {
  const std::string name = fmt::format("{} (shard {})", path_, shard);
  std::shared_ptr<const std::string> bytes = whole_;
  uint64_t offset = 0;
  if (bytes == nullptr) {
    // All indexes that begin in the same 8 MiB come together.
    const uint64_t block = (begins_[shard] - begins_[0]) / kBlockBytes * kBlockBytes + begins_[0];
    const auto first = std::lower_bound(begins_.begin(), begins_.end() - 1, block);
    const auto last = std::lower_bound(first, begins_.end() - 1, block + kBlockBytes);
    absl::StatusOr<std::shared_ptr<const std::string>> fetched = Fetch(*first, *last);
    if (!fetched.ok()) return fetched.status();
    bytes = *std::move(fetched);
    offset = *first;
  }
  const std::string_view index_bytes =
      std::string_view(*bytes).substr(begins_[shard] - offset, begins_[shard + 1] - begins_[shard]);
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
      ShardIndex::Within(std::move(bytes), index_bytes, name);
  if (!index.ok()) return index.status();
  if (!Agree((*index)->summary(), summaries_[shard])) {
    return Damaged(name, "the index is not the one that the directory lists");
  }
  return index;
}

}  // namespace shardfeed
