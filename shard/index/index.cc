#include "shard/index/index.h"

#include <sys/mman.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/types/span.h"
#include "base/little_endian.h"
#include "fmt/format.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "net/open.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

// docs/index.md describes the layout that these constants come from.
constexpr char kMagic[8] = {'S', 'F', 'I', 'N', 'D', 'E', 'X', '1'};
constexpr size_t kIndexHeaderBytes = 88;
constexpr size_t kIndexBytesAt = 72;
constexpr size_t kBodyCrcAt = 80;
constexpr size_t kHeaderCrcAt = 84;
constexpr size_t kGroupRecords = 128;
constexpr size_t kGroupHeaderBytes = 17;  // Base, step and width.
constexpr size_t kRestartBytes = 32;
constexpr size_t kBlocksAt = 30;  // Offset of the number of blocks in a restart point.
constexpr size_t kBlockBytes = 8;
// Number of zeros after the groups, so that any packed number can be loaded as two words.
constexpr size_t kPadding = 16;
constexpr size_t kFlushBytes = 1 << 20;
// Indexes up to this size, of which there may be a hundred thousand, are cheaper to read than to
// map.
constexpr uint64_t kReadNotMapped = 64 << 10;
// Maximum size of an index in a store, which is fetched whole.
constexpr uint64_t kMaxRemoteBytes = uint64_t{16} << 30;

uint64_t Load64(const char* at) { return LoadLittleEndian<uint64_t>(at); }
uint32_t Load32(const char* at) { return LoadLittleEndian<uint32_t>(at); }

// Returns a restart point within deflated data as the block that starts there.
DeflateBlock PlaceOf(const RestartPoint& point) {
  return {8 * point.file_offset - point.bits, point.stream_offset};
}

// Returns number `i` of those packed into `width` bits each at `packed`.
uint64_t Unpack(const char* packed, size_t i, int width) {
  if (width == 0) return 0;
  const size_t bit = i * width;
  const char* at = packed + bit / 8;
  const int shift = bit % 8;
  uint64_t value = Load64(at) >> shift;
  if (shift + width > 64) value |= Load64(at + 8) << (64 - shift);
  return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
}

void Pack(uint64_t value, size_t i, int width, std::string* packed) {
  for (int b = 0; b < width; ++b) {
    const size_t bit = i * width + b;
    if (value >> b & 1) (*packed)[bit / 8] |= static_cast<char>(1 << (bit % 8));
  }
}

}  // namespace

absl::Status IndexBuilder::AddFrame(uint64_t frame_bytes) {
  group_.push_back(frame_bytes);
  ++records_;
  stream_bytes_ += frame_bytes;
  if (group_.size() == kGroupRecords) return EndGroup();
  return absl::OkStatus();
}

absl::Status IndexBuilder::EndGroup() {
  if (group_.empty()) return absl::OkStatus();
  directory_.push_back(kIndexHeaderBytes + body_written_ + body_.size());
  const uint64_t step = *std::min_element(group_.begin(), group_.end());
  // The largest deviation: the total by which all frames but the last exceed `step`.
  uint64_t most = 0;
  for (size_t i = 0; i + 1 < group_.size(); ++i) most += group_[i] - step;
  const int width = std::bit_width(most);
  AppendLittleEndian(group_base_, &body_);
  AppendLittleEndian(step, &body_);
  body_.push_back(static_cast<char>(width));
  std::string packed((group_.size() * width + 7) / 8, '\0');
  uint64_t deviation = 0;
  for (size_t i = 0; i < group_.size(); ++i) {
    Pack(deviation, i, width, &packed);
    deviation += group_[i] - step;
  }
  body_ += packed;
  group_.clear();
  group_base_ = stream_bytes_;
  return body_.size() >= kFlushBytes ? Flush() : absl::OkStatus();
}

absl::Status IndexBuilder::Flush() {
  if (file_ == nullptr) return absl::OkStatus();
  if (body_written_ == 0) {
    absl::Status status = file_->Append(std::string(kIndexHeaderBytes, '\0'));
    if (!status.ok()) return status;
  }
  body_crc_ = ExtendCrc32c(body_crc_, body_);
  body_written_ += body_.size();
  absl::Status status = file_->Append(body_);
  body_.clear();
  return status;
}

void IndexBuilder::AddRestartPoint(const RestartPoint& point) {
  std::string dictionary;
  if (!point.dictionary.empty()) {
    uLongf size = compressBound(point.dictionary.size());
    dictionary.resize(size);
    compress2(reinterpret_cast<Bytef*>(dictionary.data()), &size,
              reinterpret_cast<const Bytef*>(point.dictionary.data()), point.dictionary.size(), 6);
    dictionary.resize(size);
  }
  AppendLittleEndian(point.file_offset, &restarts_);
  AppendLittleEndian(point.stream_offset, &restarts_);
  AppendLittleEndian<uint64_t>(dictionaries_.size(), &restarts_);
  AppendLittleEndian(static_cast<uint32_t>(dictionary.size()), &restarts_);
  restarts_.push_back(static_cast<char>(point.bits));
  restarts_.push_back(static_cast<char>(point.at_header ? 1 : 0));
  AppendLittleEndian(uint16_t{0}, &restarts_);
  dictionaries_ += dictionary;
  last_restart_ = PlaceOf(point);
}

void IndexBuilder::AddDeflateBlock(const DeflateBlock& block) {
  if (restarts_.empty()) return;
  char* const count_at = restarts_.data() + restarts_.size() - kRestartBytes + kBlocksAt;
  const auto count = LoadLittleEndian<uint16_t>(count_at);
  const uint64_t bits = block.bit - last_restart_.bit;
  const uint64_t bytes = block.offset - last_restart_.offset;
  // Blocks that do not fit are left out, since they only make reading faster.
  if (count == UINT16_MAX || bits > UINT32_MAX || bytes > UINT32_MAX) return;
  AppendLittleEndian(static_cast<uint32_t>(bits), &dictionaries_);
  AppendLittleEndian(static_cast<uint32_t>(bytes), &dictionaries_);
  StoreLittleEndian(static_cast<uint16_t>(count + 1), count_at);
}

absl::StatusOr<std::string> IndexBuilder::Finish(IndexSummary summary) {
  absl::Status status = EndGroup();
  if (!status.ok()) return status;
  body_.append(kPadding, '\0');
  const uint64_t directory_offset = kIndexHeaderBytes + body_written_ + body_.size();
  for (uint64_t position : directory_) AppendLittleEndian(position, &body_);
  const uint64_t restart_offset = kIndexHeaderBytes + body_written_ + body_.size();
  body_ += restarts_;
  body_ += dictionaries_;
  if (summary.framing == Framing::kMds) {
    AppendLittleEndian(static_cast<uint32_t>(mds_columns_.size()), &body_);
    body_ += mds_columns_;
  }
  body_ += chunks_;
  const uint64_t index_bytes = kIndexHeaderBytes + body_written_ + body_.size();

  std::string header(kMagic, sizeof(kMagic));
  AppendLittleEndian(FormatCode(summary.format()), &header);
  AppendLittleEndian(summary.records_digest, &header);
  AppendLittleEndian(summary.shard_bytes, &header);
  AppendLittleEndian(stream_bytes_, &header);
  AppendLittleEndian(records_, &header);
  AppendLittleEndian(uint64_t{kGroupRecords}, &header);
  AppendLittleEndian(directory_offset, &header);
  AppendLittleEndian(restart_offset, &header);
  AppendLittleEndian<uint64_t>(restarts_.size() / kRestartBytes, &header);
  AppendLittleEndian(index_bytes, &header);
  AppendLittleEndian(ExtendCrc32c(body_crc_, body_), &header);
  AppendLittleEndian(Crc32c(header), &header);

  if (file_ == nullptr) return header + body_;
  status = Flush();
  if (status.ok()) status = file_->WriteAt(0, header);
  if (!status.ok()) return status;
  return std::string();
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> ShardIndex::Open(const std::string& path) {
  if (IsRemote(path)) {
    absl::StatusOr<std::string> bytes = ReadWhole(path, kMaxRemoteBytes);
    if (!bytes.ok()) return bytes.status();
    return FromBytes(*std::move(bytes), path);
  }
  absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  const uint64_t size = (*file)->size();
  std::shared_ptr<ShardIndex> index(new ShardIndex());
  if (size > 0 && size <= kReadNotMapped) {
    index->owned_.resize(size);
    absl::StatusOr<size_t> n = (*file)->ReadAt(0, absl::MakeSpan(index->owned_));
    if (!n.ok()) return n.status();
    index->owned_.resize(*n);
    index->bytes_ = index->owned_;
  } else if (size > 0) {
    void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, (*file)->fd(), 0);
    if (mapping == MAP_FAILED) return ErrnoStatus(errno, path, "map");
    index->mapping_ = mapping;
    index->bytes_ = {static_cast<const char*>(mapping), size};
  }
  absl::Status status = index->Parse(path);
  if (!status.ok()) return status;
  return index;
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> ShardIndex::FromBytes(std::string bytes,
                                                                        const std::string& name) {
  std::shared_ptr<ShardIndex> index(new ShardIndex());
  index->owned_ = std::move(bytes);
  index->bytes_ = index->owned_;
  absl::Status status = index->Parse(name);
  if (!status.ok()) return status;
  return index;
}

absl::StatusOr<std::shared_ptr<const ShardIndex>> ShardIndex::Within(
    std::shared_ptr<const std::string> holder, std::string_view bytes, const std::string& name) {
  std::shared_ptr<ShardIndex> index(new ShardIndex());
  index->holder_ = std::move(holder);
  index->bytes_ = bytes;
  absl::Status status = index->Parse(name);
  if (!status.ok()) return status;
  return index;
}

ShardIndex::~ShardIndex() {
  if (mapping_ != nullptr) ::munmap(mapping_, bytes_.size());
}

namespace {

absl::Status Damaged(const std::string& name, std::string_view what) {
  return absl::DataLossError(fmt::format("{}: {}; rebuild it with 'shardfeed index'", name, what));
}

}  // namespace

absl::StatusOr<IndexSummary> ShardIndex::ParseHeader(std::string_view head, uint64_t file_bytes,
                                                     const std::string& name) {
  if (head.size() < kIndexHeaderBytes || std::memcmp(head.data(), kMagic, 8) != 0) {
    return Damaged(name, "not a shard index");
  }
  const char* header = head.data();
  if (Load32(header + kHeaderCrcAt) != Crc32c(head.substr(0, kHeaderCrcAt))) {
    return Damaged(name, "the index's header is damaged");
  }
  const std::optional<ShardFormat> format = FormatOf(Load32(header + 8));
  if (!format) return Damaged(name, "the index names an unknown compression");
  if (Load64(header + kIndexBytesAt) != file_bytes) return Damaged(name, "the index is truncated");
  IndexSummary summary;
  summary.compression = format->compression;
  summary.framing = format->framing;
  summary.records_digest = Load32(header + 12);
  summary.shard_bytes = Load64(header + 16);
  summary.stream_bytes = Load64(header + 24);
  summary.records = Load64(header + 32);
  // The number of records is believed without a look at the rest; it is at least that of a
  // directory of this size.
  const uint64_t directory = Load64(header + 48);
  const uint64_t end = Load64(header + 56);
  const uint64_t groups = summary.records / kGroupRecords + (summary.records % kGroupRecords > 0);
  if (end > file_bytes || directory > end || (end - directory) / 8 != groups) {
    return Damaged(name, "the index contradicts itself");
  }
  return summary;
}

absl::StatusOr<IndexSummary> ReadIndexSummary(const std::string& path) {
  absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  char head[kIndexHeaderBytes];
  absl::StatusOr<size_t> n = (*file)->ReadAt(0, absl::MakeSpan(head));
  if (!n.ok()) return n.status();
  return ShardIndex::ParseHeader({head, *n}, (*file)->size(), path);
}

absl::Status ShardIndex::Parse(const std::string& name) {
  absl::StatusOr<IndexSummary> summary = ParseHeader(bytes_, bytes_.size(), name);
  if (!summary.ok()) return summary.status();
  summary_ = *summary;
  const auto damaged = [&](std::string_view what) { return Damaged(name, what); };
  const char* header = bytes_.data();
  directory_offset_ = Load64(header + 48);
  restart_offset_ = Load64(header + 56);
  num_restart_points_ = Load64(header + 64);
  if (Load32(header + kBodyCrcAt) != Crc32c(bytes_.substr(kIndexHeaderBytes))) {
    return damaged("the index's CRC does not match its content");
  }
  // If the CRCs are correct, only a faulty writer can have got these wrong, but they are cheap to
  // check.
  const uint64_t groups = summary_.records / kGroupRecords + (summary_.records % kGroupRecords > 0);
  const uint64_t size = bytes_.size();
  bool sound = Load64(header + 40) == kGroupRecords && restart_offset_ <= size &&
               directory_offset_ <= restart_offset_ &&
               directory_offset_ >= kIndexHeaderBytes + kPadding && groups <= size / 8 &&
               directory_offset_ + 8 * groups == restart_offset_ &&
               num_restart_points_ <= (size - restart_offset_) / kRestartBytes;
  if (!sound || !GroupsAreSound() || !PointsAreSound()) {
    return damaged("the index contradicts itself");
  }
  if (summary_.framing == Framing::kMds) {
    const absl::Status status = ParseMdsColumns();
    if (!status.ok()) return damaged(std::string(status.message()));
  }
  if (summary_.framing == Framing::kArrayRecord) {
    const absl::Status status = ParseChunks(name);
    if (!status.ok()) return damaged(std::string(status.message()));
  }
  std::optional<std::vector<LengthColumn>> lengths =
      ReadLengthColumns(bytes_, restarts_end_, summary_.records);
  if (!lengths) return damaged("the length columns in the index contradict themselves");
  lengths_ = *std::move(lengths);
  return absl::OkStatus();
}

// Returns whether the frames are consecutive and fill the stream, so that users of Offset need not
// check that offsets ascend and stay within the stream.
bool ShardIndex::GroupsAreSound() const {
  const bool raw = summary_.compression == Compression::kNone;
  if (raw && !FillsShard(summary_)) return false;
  if (summary_.records == 0) return summary_.stream_bytes == 0;
  const uint64_t room = directory_offset_ - kPadding;
  uint64_t least = 0;  // Lower bound of the start of the next group.
  for (uint64_t first = 0; first < summary_.records; first += kGroupRecords) {
    const uint64_t n = std::min<uint64_t>(kGroupRecords, summary_.records - first);
    const uint64_t at = Load64(bytes_.data() + directory_offset_ + first / kGroupRecords * 8);
    if (at < kIndexHeaderBytes || at > room || room - at < kGroupHeaderBytes) return false;
    const char* const group = bytes_.data() + at;
    const int width = static_cast<unsigned char>(group[16]);
    if (width > 64 || (n * width + 7) / 8 > room - at - kGroupHeaderBytes) return false;
    const uint64_t base = Load64(group);
    const uint64_t step = Load64(group + 8);
    // Each frame has at least `step` bytes if the packed numbers never decrease.
    if (first == 0 ? base != 0 : base < least) return false;
    if (base > summary_.stream_bytes || step < kFrameBytes) return false;
    const uint64_t rest = summary_.stream_bytes - base;
    if (step > rest / n) return false;
    uint64_t last = 0;
    if (width > 0) {
      const char* const packed = group + kGroupHeaderBytes;
      if (Unpack(packed, 0, width) != 0) return false;
      bool rising = true;
      if (width <= 56) {
        const uint64_t mask = (uint64_t{1} << width) - 1;
        size_t bit = width;
        for (uint64_t i = 1; i < n; ++i, bit += width) {
          const uint64_t number = Load64(packed + bit / 8) >> (bit % 8) & mask;
          rising &= number >= last;
          last = number;
        }
      } else {
        for (uint64_t i = 1; i < n; ++i) {
          const uint64_t number = Unpack(packed, i, width);
          rising &= number >= last;
          last = number;
        }
      }
      if (!rising || last > rest - n * step) return false;
    }
    least = base + n * step + last;
  }
  return true;
}

// Returns whether the restart points ascend and lie within the file and the stream, and their
// dictionaries and blocks within the index. Sets where the latter end.
bool ShardIndex::PointsAreSound() {
  if (num_restart_points_ > 0 && summary_.compression == Compression::kNone) return false;
  const uint64_t dictionaries_at = restart_offset_ + num_restart_points_ * kRestartBytes;
  const uint64_t dictionaries = bytes_.size() - dictionaries_at;
  restarts_end_ = dictionaries_at;
  DeflateBlock before;
  for (uint64_t number = 0; number < num_restart_points_; ++number) {
    const char* const entry = bytes_.data() + restart_offset_ + number * kRestartBytes;
    const RestartPoint point = PointAt(number);
    const uint64_t dictionary = Load64(entry + 16);
    const uint64_t dictionary_bytes = Load32(entry + 24);
    const uint64_t blocks = LoadLittleEndian<uint16_t>(entry + kBlocksAt);
    if (point.file_offset > summary_.shard_bytes || point.file_offset > UINT64_MAX / 8 ||
        point.stream_offset > summary_.stream_bytes || dictionary > dictionaries ||
        dictionary_bytes + blocks * kBlockBytes > dictionaries - dictionary) {
      return false;
    }
    restarts_end_ = std::max(
        restarts_end_, dictionaries_at + dictionary + dictionary_bytes + blocks * kBlockBytes);
    const auto bits = static_cast<unsigned char>(entry[28]);
    const auto at_header = static_cast<unsigned char>(entry[29]);
    if (bits > 7 || at_header > 1 || (bits > 0 && (at_header == 1 || point.file_offset == 0))) {
      return false;
    }
    const DeflateBlock place = PlaceOf(point);
    // There may be no content between two points (empty members), but there is compressed data.
    if (number == 0 ? place.offset != 0 : place.bit <= before.bit || place.offset < before.offset) {
      return false;
    }
    before = place;
  }
  return true;
}

const LengthColumn* ShardIndex::FindLengths(std::string_view name) const {
  for (const LengthColumn& column : lengths_) {
    if (column.name() == name) return &column;
  }
  return nullptr;
}

absl::StatusOr<std::string> WithLengthColumns(const ShardIndex& index,
                                              absl::Span<const NewLengthColumn> columns) {
  std::string bytes(index.BytesBeforeLengths());
  const absl::StatusOr<std::string> tail =
      FormatLengthColumns(index.lengths(), columns, bytes.size(), index.records());
  if (!tail.ok()) return tail.status();
  bytes += *tail;
  StoreLittleEndian<uint64_t>(bytes.size(), bytes.data() + kIndexBytesAt);
  const std::string_view view = bytes;
  StoreLittleEndian(Crc32c(view.substr(kIndexHeaderBytes)), bytes.data() + kBodyCrcAt);
  StoreLittleEndian(Crc32c(view.substr(0, kHeaderCrcAt)), bytes.data() + kHeaderCrcAt);
  return bytes;
}

uint64_t ShardIndex::Offset(uint64_t record) const {
  if (record == summary_.records) return summary_.stream_bytes;
  const char* group =
      bytes_.data() + Load64(bytes_.data() + directory_offset_ + 8 * (record / kGroupRecords));
  const size_t i = record % kGroupRecords;
  return Load64(group) + i * Load64(group + 8) +
         Unpack(group + kGroupHeaderBytes, i, static_cast<unsigned char>(group[16]));
}

size_t ShardIndex::CountAgreeing(uint64_t first, absl::Span<const Record> records) const {
  if (first >= summary_.records) return 0;
  const size_t count = std::min<uint64_t>(records.size(), summary_.records - first);
  for (size_t done = 0; done < count;) {
    const uint64_t record = first + done;
    const char* const group =
        bytes_.data() + Load64(bytes_.data() + directory_offset_ + 8 * (record / kGroupRecords));
    const size_t begin = record % kGroupRecords;
    const size_t end = std::min<size_t>(kGroupRecords, begin + count - done);
    const uint64_t step = Load64(group + 8);
    const int width = static_cast<unsigned char>(group[16]);
    uint64_t expected = Load64(group) + begin * step;
    const char* const packed = group + kGroupHeaderBytes;
    if (width <= 56) {  // Nearly always: a number lies within eight bytes.
      const uint64_t mask = (uint64_t{1} << width) - 1;
      size_t bit = begin * width;
      for (size_t i = begin; i < end; ++i, ++done, expected += step, bit += width) {
        const uint64_t number = Load64(packed + bit / 8) >> (bit % 8) & mask;
        if (records[done].offset != expected + number) return done;
      }
      continue;
    }
    for (size_t i = begin; i < end; ++i, ++done, expected += step) {
      if (records[done].offset != expected + Unpack(packed, i, width)) return done;
    }
  }
  return count;
}

uint64_t ShardIndex::RecordAt(uint64_t offset) const {
  uint64_t low = 0;
  uint64_t high = summary_.records;
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    (Offset(middle) <= offset ? low : high) = middle;
  }
  return low;
}

uint64_t ShardIndex::FirstRestartFrom(uint64_t stream_offset) const {
  const char* points = bytes_.data() + restart_offset_;
  uint64_t low = 0;
  uint64_t high = num_restart_points_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (Load64(points + middle * kRestartBytes + 8) < stream_offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

uint64_t ShardIndex::LastRestartUpTo(uint64_t stream_offset) const {
  return std::max<uint64_t>(FirstRestartFrom(stream_offset + 1), 1) - 1;
}

uint64_t ShardIndex::RestartAtOrAfter(uint64_t stream_offset) const {
  const uint64_t point = FirstRestartFrom(stream_offset);
  return point < num_restart_points_ ? PointAt(point).stream_offset : summary_.stream_bytes;
}

RestartPoint ShardIndex::PointAt(uint64_t number) const {
  const char* entry = bytes_.data() + restart_offset_ + number * kRestartBytes;
  return {.file_offset = Load64(entry),
          .stream_offset = Load64(entry + 8),
          .bits = entry[28] & 7,
          .at_header = entry[29] != 0};
}

std::string_view ShardIndex::DictionaryOf(uint64_t number, uint64_t* blocks) const {
  const char* entry = bytes_.data() + restart_offset_ + number * kRestartBytes;
  const std::string_view dictionaries =
      bytes_.substr(restart_offset_ + num_restart_points_ * kRestartBytes);
  const uint64_t offset = Load64(entry + 16);
  const uint64_t size = Load32(entry + 24);
  if (offset > dictionaries.size() || size > dictionaries.size() - offset) return {};
  if (blocks != nullptr) {
    const uint64_t count = LoadLittleEndian<uint16_t>(entry + kBlocksAt);
    if (count * kBlockBytes <= dictionaries.size() - offset - size) *blocks = count;
  }
  return dictionaries.substr(offset, size);
}

std::vector<DeflateBlock> ShardIndex::BlocksBehind(uint64_t number) const {
  uint64_t count = 0;
  const char* block = DictionaryOf(number, &count).end();
  const DeflateBlock start = PlaceOf(PointAt(number));
  std::vector<DeflateBlock> blocks;
  blocks.reserve(count);
  for (uint64_t i = 0; i < count; ++i, block += kBlockBytes) {
    blocks.push_back({start.bit + Load32(block), start.offset + Load32(block + 4)});
  }
  return blocks;
}

std::vector<DeflateBlock> ShardIndex::BlocksBetween(uint64_t from, uint64_t to) const {
  std::vector<DeflateBlock> blocks;
  // A valid index has no more blocks; do not allocate memory for what an invalid one claims.
  const uint64_t most = (to - std::min(from, to)) / kDeflateBlockInterval;
  const uint64_t first = LastRestartUpTo(from);
  for (uint64_t point = first; point < num_restart_points_; ++point) {
    const RestartPoint start = PointAt(point);
    if (start.stream_offset >= to) break;
    if (point > first) {
      if (start.at_header) return {};
      blocks.push_back(PlaceOf(start));
    }
    for (const DeflateBlock& block : BlocksBehind(point)) {
      if (block.offset < to) blocks.push_back(block);
    }
    if (blocks.size() > most) return {};
  }
  return blocks;
}

RestartPoint ShardIndex::EndAtOrAfter(uint64_t stream_offset) const {
  const uint64_t next = FirstRestartFrom(stream_offset);
  if (next > 0) {
    for (const DeflateBlock& block : BlocksBehind(next - 1)) {
      if (block.offset < stream_offset) continue;
      const uint64_t file_offset = (block.bit + 7) / 8;
      return {.file_offset = file_offset,
              .stream_offset = block.offset,
              .bits = static_cast<int>(8 * file_offset - block.bit),
              .at_header = false};
    }
  }
  if (next < num_restart_points_) return PointAt(next);
  return {.file_offset = summary_.shard_bytes, .stream_offset = summary_.stream_bytes};
}

RestartPoint ShardIndex::RestartBefore(uint64_t stream_offset, bool with_dictionary) const {
  if (num_restart_points_ == 0) return {};  // The beginning of the shard.
  const uint64_t number = LastRestartUpTo(stream_offset);
  RestartPoint point = PointAt(number);
  if (!with_dictionary) return point;
  point.dictionary = DictionaryAt(number);
  return point;
}

std::string ShardIndex::DictionaryAt(uint64_t number) const {
  const std::string_view deflated = DictionaryOf(number);
  if (deflated.empty()) return {};
  std::string dictionary(kDictionaryBytes, '\0');
  uLongf size = dictionary.size();
  const int result = uncompress(reinterpret_cast<Bytef*>(dictionary.data()), &size,
                                reinterpret_cast<const Bytef*>(deflated.data()), deflated.size());
  dictionary.resize(result == Z_OK ? size : 0);
  return dictionary;
}

}  // namespace shardfeed
