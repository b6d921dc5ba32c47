#include "shard/index/content_stretches.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "fmt/format.h"
#include "tfrecord/framing.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

constexpr size_t kInputBytes = 64 << 10;
constexpr int kRaw = -MAX_WBITS;
constexpr int kGzip = MAX_WBITS + 16;
// Number of bytes that must inflate without an error before a place counts as a member of another
// writer.
constexpr size_t kPeekBytes = 512;
constexpr size_t kPlainGzipHeaderBytes = 10;
// Maximum size of a damaged header.
constexpr uint64_t kMostHeaderBytes = 64;
// Maximum distance from the damaged end of a segment to the start of the next one.
constexpr uint64_t kMarkSlack = 16;

uint64_t Shifted(uint64_t offset, int64_t shift) { return offset + static_cast<uint64_t>(shift); }

bool IsRecord(std::string_view content) {
  uint64_t length;
  return content.size() >= kHeaderBytes && ReadHeader(content.data(), &length);
}

bool IsGzipMagic(std::string_view bytes) {
  return bytes.size() >= 4 && bytes.starts_with("\x1f\x8b\x08") && (bytes[3] & '\xe0') == 0;
}

}  // namespace

ContentStretches::ContentStretches(std::shared_ptr<const File> file, Compression compression,
                                   std::shared_ptr<const ShardIndex> index, int64_t shift)
    : file_(std::move(file)),
      compression_(compression),
      index_(std::move(index)),
      shift_(shift),
      stream_offset_(0),
      input_(kInputBytes) {
  if (index_ != nullptr) {
    const uint64_t end = index_->summary().stream_bytes;
    for (uint64_t at = 0; at < end; ++at) {
      at = index_->RestartAtOrAfter(at);
      if (at >= end) break;
      points_.push_back({index_->RestartBefore(at, /*with_dictionary=*/false).file_offset, at});
    }
  }
  if (compression_ == Compression::kSnappy) {
    plain_source_ = std::make_unique<FileSource>(file_);
    plain_ = MakeDecompressor(compression_, plain_source_.get());
  }
}

ContentStretches::~ContentStretches() { EndInflate(); }

void ContentStretches::EndInflate() {
  if (inflating_) inflateEnd(&zlib_);
  inflating_ = false;
}

void ContentStretches::BeginInflate(uint64_t at, int window_bits) {
  EndInflate();
  zlib_ = {};
  if (inflateInit2(&zlib_, window_bits) != Z_OK) throw std::bad_alloc();
  inflating_ = true;
  raw_ = window_bits < 0;
  input_end_ = at;
  failed_at_ = 0;
}

void ContentStretches::Damage(std::string what) {
  EndInflate();
  damage_ = std::move(what);
  ended_ = true;
}

absl::StatusOr<size_t> ContentStretches::ReadAt(uint64_t at, absl::Span<char> dst) const {
  if (at >= file_->size()) return 0;
  return file_->ReadAt(at, dst.subspan(0, std::min<uint64_t>(dst.size(), file_->size() - at)));
}

absl::StatusOr<std::string> ContentStretches::Peek(uint64_t at, int window_bits,
                                                   size_t size) const {
  std::string in(4 * size + 1024, '\0');
  absl::StatusOr<size_t> n = ReadAt(at, absl::MakeSpan(in));
  if (!n.ok()) return n.status();
  std::string out(size, '\0');
  z_stream zlib = {};
  if (inflateInit2(&zlib, window_bits) != Z_OK) throw std::bad_alloc();
  zlib.next_in = reinterpret_cast<Bytef*>(in.data());
  zlib.avail_in = static_cast<uInt>(*n);
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(size);
  const int result = inflate(&zlib, Z_SYNC_FLUSH);
  out.resize(size - zlib.avail_out);
  inflateEnd(&zlib);
  if (result != Z_OK && result != Z_STREAM_END && out.size() < kHeaderBytes) out.clear();
  return out;
}

absl::StatusOr<bool> ContentStretches::RecordStartsAt(uint64_t at) const {
  absl::StatusOr<std::string> content = Peek(at, kRaw, kHeaderBytes);
  if (!content.ok()) return content.status();
  return IsRecord(*content);
}

absl::StatusOr<uint64_t> ContentStretches::FindData(uint64_t from) const {
  for (uint64_t at = from; at < from + kMostHeaderBytes; ++at) {
    absl::StatusOr<bool> record = RecordStartsAt(at);
    if (!record.ok()) return record.status();
    if (*record) return at;
  }
  return file_->size();
}

absl::StatusOr<std::optional<Compression>> ContentStretches::Guess(std::shared_ptr<const File> file,
                                                                   bool thorough) {
  const ContentStretches gzip(file, Compression::kGzip, nullptr, 0);
  std::string first(kMostHeaderBytes, '\0');
  absl::StatusOr<size_t> n = gzip.ReadAt(0, absl::MakeSpan(first));
  if (!n.ok()) return n.status();
  first.resize(*n);
  const auto is = [&](size_t i, char c) { return i < first.size() && first[i] == c; };
  if (is(0, '\x1f') + is(1, '\x8b') + is(2, '\x08') >= 2) return Compression::kGzip;
  absl::StatusOr<uint64_t> data = gzip.FindData(0);
  if (!data.ok()) return data.status();
  if (*data < file->size()) {
    return *data < kPlainGzipHeaderBytes - 1 ? Compression::kZlib : Compression::kGzip;
  }
  if (!thorough) return std::nullopt;
  absl::StatusOr<uint64_t> member = gzip.NextMember(0);
  if (!member.ok()) return member.status();
  if (*member < file->size()) return Compression::kGzip;
  absl::StatusOr<uint64_t> segment = gzip.NextSegment(0);
  if (!segment.ok()) return segment.status();
  if (*segment < file->size()) return Compression::kZlib;
  return std::nullopt;
}

absl::StatusOr<uint64_t> ContentStretches::Find(
    uint64_t from, size_t overlap,
    const std::function<absl::StatusOr<size_t>(std::string_view bytes, uint64_t at)>& find) const {
  std::string bytes(256 << 10, '\0');
  while (from < file_->size()) {
    absl::StatusOr<size_t> n = ReadAt(from, absl::MakeSpan(bytes));
    if (!n.ok()) return n.status();
    absl::StatusOr<size_t> at = find(std::string_view(bytes).substr(0, *n), from);
    if (!at.ok()) return at.status();
    if (*at != std::string_view::npos) return from + *at;
    if (*n <= overlap || from + *n >= file_->size()) break;
    from += *n - overlap;
  }
  return file_->size();
}

absl::StatusOr<uint64_t> ContentStretches::NextMember(uint64_t from) const {
  return Find(
      from, kSizedMemberHeaderBytes,
      [this](std::string_view bytes, uint64_t begin) -> absl::StatusOr<size_t> {
        const std::string_view magic("\x1f\x8b\x08", 3);
        for (size_t at = bytes.find(magic); at != bytes.npos; at = bytes.find(magic, at + 1)) {
          if (SizedMemberBytes(bytes.substr(at))) return at;
          if (!IsGzipMagic(bytes.substr(at))) continue;
          absl::StatusOr<std::string> content = Peek(begin + at, kGzip, kPeekBytes);
          if (!content.ok()) return content.status();
          if (!content->empty() && (content->size() == kPeekBytes || content->size() >= 12)) {
            return at;
          }
        }
        return std::string_view::npos;
      });
}

absl::StatusOr<uint64_t> ContentStretches::NextSegment(uint64_t from) const {
  const std::string_view marker("\0\0\xff\xff", 4);
  const uint64_t begin = from < marker.size() ? 0 : from - marker.size();
  absl::StatusOr<uint64_t> found = Find(
      begin, marker.size() - 1,
      [&](std::string_view bytes, uint64_t base) -> absl::StatusOr<size_t> {
        for (size_t at = bytes.find(marker); at != bytes.npos; at = bytes.find(marker, at + 1)) {
          const uint64_t segment = base + at + marker.size();
          if (segment < from) continue;
          absl::StatusOr<bool> record = RecordStartsAt(segment);
          if (!record.ok()) return record.status();
          if (*record) return at;
        }
        return std::string_view::npos;
      });
  if (!found.ok() || *found == file_->size()) return found;
  return *found + marker.size();
}

std::optional<uint64_t> ContentStretches::StreamOffsetAt(uint64_t file_offset) const {
  const uint64_t before = compression_ == Compression::kZlib && file_offset > 0 ? 5 : 0;
  for (const int64_t shift : {int64_t{0}, shift_}) {
    const uint64_t at = file_offset - static_cast<uint64_t>(shift);
    // An index that was built later lists the offset before the empty block that ends a segment.
    const uint64_t least = at - std::min(at, before);
    const auto point =
        std::lower_bound(points_.begin(), points_.end(), least,
                         [](const Point& p, uint64_t offset) { return p.file_offset < offset; });
    if (point != points_.end() && point->file_offset <= at) return point->stream_offset;
  }
  return std::nullopt;
}

absl::StatusOr<bool> ContentStretches::BeginUnit() {
  const uint64_t size = file_->size();
  if (unit_begin_ >= size) return false;
  unit_end_ = size;
  unit_end_sure_ = false;
  if (compression_ == Compression::kZlib) {
    absl::StatusOr<uint64_t> next = NextSegment(unit_begin_ + 1);
    if (!next.ok()) return next.status();
    unit_end_ = *next;
    if (unit_begin_ > 0) {
      BeginInflate(unit_begin_, kRaw);
      return true;
    }
    absl::StatusOr<std::string> content = Peek(0, MAX_WBITS, kHeaderBytes);
    if (!content.ok()) return content.status();
    absl::StatusOr<uint64_t> data = size;
    if (!IsRecord(*content)) data = FindData(0);
    if (!data.ok()) return data.status();
    if (*data < unit_end_) {
      BeginInflate(*data, kRaw);
    } else if (!content->empty()) {
      BeginInflate(0, MAX_WBITS);
    } else {
      Damage("not ZLIB data, at byte 0");
    }
    return true;
  }
  std::string header(kSizedMemberHeaderBytes, '\0');
  absl::StatusOr<size_t> n = ReadAt(unit_begin_, absl::MakeSpan(header));
  if (!n.ok()) return n.status();
  header.resize(*n);
  const std::optional<uint64_t> member = SizedMemberBytes(header);
  if (member && *member <= size - unit_begin_) {
    // The recorded size is correct if another member, or nothing, follows.
    const uint64_t end = unit_begin_ + *member;
    std::string next(4, '\0');
    n = ReadAt(end, absl::MakeSpan(next));
    if (!n.ok()) return n.status();
    unit_end_sure_ = end == size || (*n == 4 && IsGzipMagic(next));
    if (unit_end_sure_) unit_end_ = end;
  }
  const bool magic = IsGzipMagic(header);
  if (!unit_end_sure_ && (member || !magic)) {
    absl::StatusOr<uint64_t> next = NextMember(unit_begin_ + 1);
    if (!next.ok()) return next.status();
    unit_end_ = *next;
  }
  std::string begin;
  if (magic) {
    absl::StatusOr<std::string> content = Peek(unit_begin_, kGzip, kHeaderBytes);
    if (!content.ok()) return content.status();
    begin = *std::move(content);
  }
  // The header may be damaged while the data is intact.
  absl::StatusOr<uint64_t> data = size;
  if (!IsRecord(begin)) data = FindData(unit_begin_);
  if (!data.ok()) return data.status();
  if (*data < unit_end_) {
    BeginInflate(*data, kRaw);
    return true;
  }
  if (!begin.empty()) {
    BeginInflate(unit_begin_, kGzip);
    return true;
  }
  const std::string_view what = magic             ? "GZIP data is damaged near"
                                : unit_begin_ > 0 ? "bytes follow the last GZIP member, at"
                                                  : "not a GZIP member, at";
  Damage(fmt::format("{} byte {}", what, unit_begin_));
  return true;
}

absl::StatusOr<size_t> ContentStretches::Read(absl::Span<char> dst) {
  while (!ended_ && !dst.empty()) {
    if (plain_ != nullptr) {
      absl::StatusOr<size_t> n = plain_->Read(dst);
      if (n.ok()) return n;
      if (!absl::IsDataLoss(n.status())) return n.status();
      input_end_ = plain_->file_offset();
      Damage(std::string(n.status().message()));
      return 0;
    }
    if (!inflating_) {
      absl::StatusOr<bool> more = BeginUnit();
      if (!more.ok()) return more.status();
      if (!*more) ended_ = true;
      if (ended_) return 0;
    }
    absl::StatusOr<size_t> n = Inflate(dst);
    if (n.ok() && stream_end_) *stream_end_ += *n;
    if (!n.ok() || *n > 0) return n;
  }
  return 0;
}

bool ContentStretches::IsOutOfStep(uint64_t file_offset, size_t inflated) const {
  const std::optional<uint64_t> known = StreamOffsetAt(file_offset);
  return known && stream_end_ && *known != *stream_end_ + inflated;
}

absl::StatusOr<size_t> ContentStretches::Inflate(absl::Span<char> dst) {
  const char* const name = compression_ == Compression::kGzip ? "GZIP" : "ZLIB";
  zlib_.next_out = reinterpret_cast<Bytef*>(dst.data());
  zlib_.avail_out = static_cast<uInt>(std::min<size_t>(dst.size(), size_t{1} << 30));
  const uInt room = zlib_.avail_out;
  const auto inflated = [&] { return room - zlib_.avail_out; };
  while (inflated() == 0) {
    if (zlib_.avail_in == 0) {
      if (input_end_ == unit_end_ && unit_end_ < file_->size() &&
          compression_ == Compression::kZlib && (zlib_.data_type & 0xff) == 128) {
        // This is a full-flush point: the data after it is independent.
        if (IsOutOfStep(unit_end_, inflated())) {
          Damage(fmt::format("ZLIB data is damaged before byte {}", unit_end_));
          return inflated();
        }
        unit_begin_ = unit_end_;
        absl::StatusOr<uint64_t> next = NextSegment(unit_begin_ + 1);
        if (!next.ok()) return next.status();
        unit_end_ = *next;
        continue;
      }
      if (input_end_ >= unit_end_) {
        Damage(fmt::format("{} data ends prematurely at byte {}", name, input_end_));
        return inflated();
      }
      absl::StatusOr<size_t> n = ReadAt(
          input_end_,
          absl::MakeSpan(input_.data(), std::min<uint64_t>(kInputBytes, unit_end_ - input_end_)));
      if (!n.ok()) return n.status();
      if (*n == 0) {
        Damage(fmt::format("{} data ends prematurely at byte {}", name, input_end_));
        return inflated();
      }
      input_end_ += *n;
      zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
      zlib_.avail_in = static_cast<uInt>(*n);
    }
    const int result = inflate(&zlib_, Z_NO_FLUSH);
    const size_t n = inflated();
    if (result == Z_STREAM_END) {
      uint64_t end = input_end_ - zlib_.avail_in;
      if (raw_) end += compression_ == Compression::kGzip ? kGzipTrailerBytes : 4;
      EndInflate();
      if (end > file_->size() || (unit_end_sure_ && end != unit_end_)) {
        Damage(fmt::format("{} data is damaged before byte {}", name, end));
      } else if (compression_ == Compression::kZlib) {
        if (end == file_->size()) {
          ended_ = true;
        } else {
          Damage(fmt::format("bytes follow the end of the ZLIB stream, at byte {}", end));
        }
      } else if (IsOutOfStep(end, n)) {
        Damage(fmt::format("GZIP data is damaged before byte {}", end));
        unit_end_ = end;
        unit_end_sure_ = true;
      } else {
        unit_begin_ = end;
      }
      return n;
    }
    if (result != Z_OK && result != Z_BUF_ERROR) {
      failed_at_ = input_end_ - zlib_.avail_in;
      Damage(fmt::format("{} data is damaged near byte {}: {}", name, input_end_ - zlib_.avail_in,
                         zlib_.msg != nullptr ? zlib_.msg : "not deflated data"));
      return n;
    }
  }
  return inflated();
}

absl::StatusOr<bool> ContentStretches::BeginAt(const RestartPoint& point) {
  const uint64_t begin = point.file_offset - (point.bits > 0 ? 1 : 0);
  if (begin >= file_->size()) return false;
  // Check by the next record whether this is the place that the index refers to.
  uint64_t record = index_->RecordAt(point.stream_offset);
  if (index_->Offset(record) < point.stream_offset) ++record;
  if (record >= index_->records()) return false;
  const uint64_t before = index_->Offset(record) - point.stream_offset;
  FileSource source(file_, begin, file_->size());
  const auto content = MakeDecompressor(compression_, &source, point);
  std::string scratch(64 << 10, '\0');
  for (uint64_t left = before; left > 0;) {
    absl::StatusOr<size_t> n =
        content->Read(absl::MakeSpan(scratch).subspan(0, std::min<uint64_t>(left, scratch.size())));
    if (!n.ok() && !absl::IsDataLoss(n.status())) return n.status();
    if (!n.ok() || *n == 0) return false;
    left -= *n;
  }
  char header[kHeaderBytes];
  for (size_t have = 0; have < kHeaderBytes;) {
    absl::StatusOr<size_t> n = content->Read(absl::MakeSpan(header).subspan(have));
    if (!n.ok() && !absl::IsDataLoss(n.status())) return n.status();
    if (!n.ok() || *n == 0) return false;
    have += *n;
  }
  uint64_t length;
  return ReadHeader(header, &length) &&
         length + kFrameBytes == index_->Offset(record + 1) - index_->Offset(record);
}

absl::StatusOr<bool> ContentStretches::Next(uint64_t delivered) {
  if (damage_.empty()) return false;
  const uint64_t size = file_->size();
  uint64_t next = size;
  if (compression_ == Compression::kGzip) {
    next = unit_end_;
    if (!unit_end_sure_) {
      absl::StatusOr<uint64_t> found = NextMember(unit_begin_ + 1);
      if (!found.ok()) return found.status();
      next = *found;
    }
  } else if (compression_ == Compression::kZlib) {
    next = unit_end_;
    // If only the marker at the end of a segment is damaged, the next segment starts nearby.
    const uint64_t least = unit_begin_ + 2 * kMarkSlack;
    for (uint64_t at = failed_at_ - std::min(failed_at_, kMarkSlack);
         failed_at_ >= least && at < std::min(failed_at_ + kMarkSlack, next); ++at) {
      absl::StatusOr<bool> record = RecordStartsAt(at);
      if (!record.ok()) return record.status();
      if (*record) next = at;
    }
  }
  // Try restart points within data of other writers, and SNAPPY blocks.
  for (const Point& point : points_) {
    if (point.stream_offset <= delivered) continue;
    if (std::min(point.file_offset, Shifted(point.file_offset, shift_)) >= next) break;
    for (const int64_t shift : {int64_t{0}, shift_}) {
      const uint64_t at = Shifted(point.file_offset, shift);
      if (at <= unit_begin_ || at >= next) continue;
      RestartPoint restart = index_->RestartBefore(point.stream_offset);
      restart.file_offset = at;
      absl::StatusOr<bool> fits = BeginAt(restart);
      if (!fits.ok()) return fits.status();
      if (!*fits) continue;
      damage_.clear();
      ended_ = false;
      unit_begin_ = at;
      stream_offset_ = stream_end_ = point.stream_offset;
      if (plain_ != nullptr) {
        plain_source_ = std::make_unique<FileSource>(file_, at, size);
        plain_ = MakeDecompressor(compression_, plain_source_.get(), restart);
        return true;
      }
      if (restart.at_header) return true;
      unit_end_ = next;
      unit_end_sure_ = false;
      BeginInflate(at - (restart.bits > 0 ? 1 : 0), kRaw);
      if (restart.bits > 0) {
        char byte;
        if (absl::Status status = file_->ReadExactlyAt(input_end_++, {&byte, 1}); !status.ok()) {
          return status;
        }
        inflatePrime(&zlib_, restart.bits, static_cast<unsigned char>(byte) >> (8 - restart.bits));
      }
      if (!restart.dictionary.empty()) {
        inflateSetDictionary(&zlib_, reinterpret_cast<const Bytef*>(restart.dictionary.data()),
                             static_cast<uInt>(restart.dictionary.size()));
      }
      return true;
    }
  }
  if (next >= size) {
    unit_begin_ = size;
    return false;
  }
  damage_.clear();
  ended_ = false;
  unit_begin_ = next;
  stream_offset_ = stream_end_ = StreamOffsetAt(next);
  return true;
}

}  // namespace shardfeed
