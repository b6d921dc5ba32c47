#include "shard/verify/past_damage.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

// Approximate size of a delivered block.
constexpr size_t kBlockBytes = 512 << 10;
// Maximum number of bytes after a damaged length that are kept in memory to find its record's end.
constexpr size_t kMostMended = 64 << 20;

}  // namespace

int64_t ShiftOf(const File& file, const ShardIndex& index) {
  return static_cast<int64_t>(file.size() - index.summary().shard_bytes);
}

PastDamage::PastDamage(FirstDamage first)
    : first_(std::move(first)),
      records_(first_.record),
      indexed_(first_.index != nullptr),
      number_(first_.record),
      delivered_(first_.offset) {
  if (indexed_) shift_ = ShiftOf(*first_.file, *first_.index);
  if (first_.compression == Compression::kNone) {
    source_ = std::make_unique<FileSource>(first_.file, first_.offset, first_.file->size());
    frame_buffer_ =
        std::make_unique<FrameBuffer>(source_.get(), first_.offset, first_.file->size());
    return;
  }
  // Read compressed data again from the beginning, one member or segment at a time.
  skip_ = number_;
  number_ = 0;
  delivered_ = 0;
  stretches_ =
      std::make_unique<ContentStretches>(first_.file, first_.compression, first_.index, shift_);
  frame_buffer_ = std::make_unique<FrameBuffer>(stretches_.get(), 0, UINT64_MAX);
}

uint64_t PastDamage::file_position() const {
  if (ended_) return first_.file->size();
  return FilePlace(frame_buffer_->offset());
}

absl::Status PastDamage::Next(RecordBlock* block) {
  block->buffer.reset();
  block->records.clear();
  if (ended_) return absl::OkStatus();
  std::string frames;
  // Offsets of the frames in `frames` and in the stream.
  std::vector<std::pair<size_t, uint64_t>> places;
  uint64_t first = 0;
  while (frames.size() < kBlockBytes) {
    size_t frame_bytes = 0;
    absl::StatusOr<Step> step = TakeStep(&frame_bytes);
    if (!step.ok()) return step.status();
    if (*step == Step::kEnd) {
      Finish();
      break;
    }
    if (*step == Step::kOn) continue;
    if (number_ >= skip_) {
      if (places.empty()) first = number_;
      if (number_ != first + places.size()) break;
      places.emplace_back(frames.size(), frame_buffer_->offset());
      frames.append(frame_buffer_->view().substr(0, frame_bytes));
      ++records_;
    }
    open_ = false;
    at_start_ = false;
    ++number_;
    frame_buffer_->Consume(frame_bytes);
    delivered_ = frame_buffer_->offset();
  }
  block->first_record = first;
  if (places.empty()) return absl::OkStatus();
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(frames.size());
  std::memcpy(buffer->data(), frames.data(), frames.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t begin = places[i].first;
    const size_t end = i + 1 < places.size() ? places[i + 1].first : frames.size();
    block->records.push_back(
        {{buffer->data() + begin + kHeaderBytes, end - begin - kFrameBytes}, places[i].second});
  }
  block->buffer = std::move(buffer);
  return absl::OkStatus();
}

DamagedPlace PastDamage::Place(std::string kind, std::string detail) const {
  DamagedPlace place;
  place.kind = std::move(kind);
  place.record = number_;
  place.record_exact = exact_;
  place.offset = frame_buffer_->offset();
  place.detail = fmt::format("{}: record {} at byte {}: {}", first_.file->path(), number_,
                             place.offset, detail);
  place.file_begin = stretches_ != nullptr ? stretches_->file_begin() : place.offset;
  place.file_end = place.file_begin;
  return place;
}

uint64_t PastDamage::FilePlace(uint64_t offset) const {
  return stretches_ != nullptr ? stretches_->file_position() : offset;
}

std::optional<uint64_t> PastDamage::RecordAtOffset(uint64_t offset) const {
  if (!indexed_) return std::nullopt;
  const ShardIndex& index = *first_.index;
  const int64_t stream_shift = stretches_ == nullptr ? shift_ : 0;
  for (const int64_t shift : {int64_t{0}, stream_shift}) {
    const uint64_t at = offset - static_cast<uint64_t>(shift);
    if (at >= index.summary().stream_bytes) continue;
    const uint64_t record = index.RecordAt(at);
    if (record >= number_ && index.Offset(record) == at) return record;
  }
  return std::nullopt;
}

absl::StatusOr<bool> PastDamage::MendHeaderAt(size_t at) {
  const std::optional<uint64_t> record = RecordAtOffset(frame_buffer_->offset() + at);
  return frame_buffer_->MendHeaderAt(at, record ? std::optional(FrameSize(*record)) : std::nullopt);
}

absl::StatusOr<PastDamage::Step> PastDamage::TakeStep(size_t* frame_bytes) {
  absl::StatusOr<bool> any = frame_buffer_->Ensure(1);
  if (!any.ok()) return any.status();
  if (!*any) return EndStretch();
  if (at_start_ && indexed_) {
    // The stream offset of this stretch is known, and thus also its next record.
    const ShardIndex& index = *first_.index;
    const uint64_t offset = frame_buffer_->offset();
    uint64_t record = index.records();
    if (offset < index.summary().stream_bytes) {
      record = index.RecordAt(offset);
      if (index.Offset(record) < offset) ++record;
    }
    at_start_ = false;
    if (open_ && damage_.back().records) *damage_.back().records += LostUpTo(record);
    // Data that appears twice would deliver records again.
    skip_ = std::max(skip_, number_);
    number_ = record;
  }
  absl::StatusOr<bool> header = frame_buffer_->Ensure(kHeaderBytes);
  if (!header.ok()) return header.status();
  uint64_t length = 0;
  if (!*header) {
    absl::Status status = SkipGap(
        frame_buffer_->size(), "cut header",
        fmt::format("cut header: expected {} bytes, got {}", kHeaderBytes, frame_buffer_->size()),
        false, 0);
    if (!status.ok()) return status;
    return Step::kOn;
  }
  if (!frame_buffer_->ReadHeaderAt(0, &length)) {
    const auto found = LoadLittleEndian<uint64_t>(frame_buffer_->data());
    std::string detail = fmt::format("length CRC expected {:#010x}, found {:#010x} (length {})",
                                     MaskCrc(Crc32cU64(found)),
                                     LoadLittleEndian<uint32_t>(frame_buffer_->data() + 8), found);
    absl::StatusOr<bool> mended = MendHeaderAt(0);
    if (!mended.ok()) return mended.status();
    if (*mended) {
      DamagedPlace place = Place("length CRC", detail + "; repaired, its payload is intact");
      place.records = 0;
      place.file_end = FilePlace(frame_buffer_->offset() + kHeaderBytes);
      damage_.push_back(std::move(place));
      open_ = at_start_ = false;
      return Step::kOn;
    }
    absl::Status status = SkipGap(1, "length CRC", std::move(detail), !at_start_, 0);
    if (!status.ok()) return status;
    return Step::kOn;
  }
  const uint64_t frame = length + kFrameBytes;
  absl::StatusOr<bool> whole = frame_buffer_->EnsureFrame(0, length);
  if (!whole.ok()) return whole.status();
  if (!*whole) {
    const uint64_t there = frame_buffer_->size();
    const bool footer = there >= kHeaderBytes + length;
    absl::Status status = SkipGap(
        kHeaderBytes, footer ? "cut footer" : "cut payload",
        footer
            ? fmt::format("cut footer: {} bytes of the payload's CRC are missing", frame - there)
            : fmt::format("cut payload: expected {} bytes, got {}", length, there - kHeaderBytes),
        false, frame);
    if (!status.ok()) return status;
    return Step::kOn;
  }
  if (first_.check != CrcCheck::kAll || frame_buffer_->PayloadFits(0, length)) {
    *frame_bytes = frame;
    return Step::kRecord;
  }
  const std::string_view payload = frame_buffer_->view().substr(kHeaderBytes, length);
  std::string detail = fmt::format("payload CRC expected {:#010x}, found {:#010x} (length {})",
                                   MaskCrc(Crc32c(payload)),
                                   LoadLittleEndian<uint32_t>(payload.data() + length), length);
  // Only this record is lost if another record, or the end, follows it.
  absl::StatusOr<bool> follows = frame_buffer_->HeaderAt(frame);
  if (follows.ok() && !*follows) follows = frame_buffer_->EndsAt(frame);
  bool mended = false;
  if (follows.ok() && !*follows) {
    follows = MendHeaderAt(frame);
    mended = follows.ok() && *follows;
  }
  if (!follows.ok()) return follows.status();
  if (!*follows) {
    absl::Status status = SkipGap(kHeaderBytes, "payload CRC", std::move(detail), false, frame);
    if (!status.ok()) return status;
    return Step::kOn;
  }
  DamagedPlace place = Place("payload CRC", std::move(detail));
  place.records = 1;
  AcceptGap(frame, std::move(place), number_ + 1);
  if (mended) {
    DamagedPlace header_place = Place("length CRC", "the length was damaged; repaired");
    header_place.records = 0;
    header_place.file_end = FilePlace(frame_buffer_->offset() + kHeaderBytes);
    damage_.push_back(std::move(header_place));
  }
  return Step::kOn;
}

// Notes that the next `bytes` bytes belong to no intact record. `number` is the number of the
// record after them, if known.
void PastDamage::AcceptGap(size_t bytes, DamagedPlace place, std::optional<uint64_t> number) {
  frame_buffer_->Consume(bytes);
  const uint64_t lost = number ? LostUpTo(*number) : 0;
  if (open_ || at_start_) {
    // The previous damage continues.
    DamagedPlace& before = damage_.back();
    before.bytes += bytes;
    before.file_end = std::max(before.file_end, FilePlace(frame_buffer_->offset()));
    if (number && before.records) *before.records += lost;
    if (!number && !open_) before.records = std::nullopt;
    if (number) number_ = *number;
    at_start_ = false;
    return;
  }
  place.bytes = bytes;
  place.file_end = FilePlace(frame_buffer_->offset());
  if (number) {
    place.records = lost;
    number_ = *number;
  } else {
    place.records = std::nullopt;
    exact_ = false;
    ++number_;
  }
  damage_.push_back(std::move(place));
}

// Implements SkipGap for a shard with an index: records are only at the offsets that it lists.
absl::Status PastDamage::SkipIndexed(size_t from, const DamagedPlace& place) {
  const ShardIndex& index = *first_.index;
  const uint64_t start = frame_buffer_->offset();
  const int64_t shift = stretches_ == nullptr ? shift_ : 0;
  uint64_t straight = number_;  // The next record at an offset of the index.
  uint64_t moved = number_;     // The next record at such an offset plus `shift`.
  size_t skipped = 0;
  DamagedPlace lost = place;
  lost.records = 0;
  while (true) {
    const uint64_t least = start + from;
    while (straight < index.records() &&
           index.Offset(straight) < std::max(least, start + skipped)) {
      ++straight;
    }
    while (moved < index.records() && static_cast<int64_t>(index.Offset(moved)) + shift <
                                          static_cast<int64_t>(std::max(least, start + skipped))) {
      ++moved;
    }
    uint64_t record = straight;
    uint64_t at = straight < index.records() ? index.Offset(straight) : UINT64_MAX;
    if (shift != 0 && moved < index.records()) {
      const uint64_t other = index.Offset(moved) + static_cast<uint64_t>(shift);
      if (other < at) {
        at = other;
        record = moved;
      }
    }
    if (at == UINT64_MAX) break;
    // Drop the bytes before it.
    const uint64_t before = at - frame_buffer_->offset();
    uint64_t left = before;
    bool ended = false;
    while (left > 0) {
      absl::StatusOr<bool> any = frame_buffer_->Ensure(1);
      if (!any.ok()) return any.status();
      if (!*any) {
        ended = true;
        break;
      }
      const size_t n = std::min<uint64_t>(left, frame_buffer_->size());
      frame_buffer_->Consume(n);
      skipped += n;
      left -= n;
    }
    if (ended) break;
    absl::StatusOr<bool> sound = frame_buffer_->Ensure(kHeaderBytes);
    if (!sound.ok()) return sound.status();
    uint64_t length = 0;
    bool fits = *sound && frame_buffer_->ReadHeaderAt(0, &length) &&
                length + kFrameBytes == FrameSize(record);
    if (!fits && *sound) {
      const uint64_t keep = std::exchange(number_, std::min(number_, record));
      absl::StatusOr<bool> mended = MendHeaderAt(0);
      number_ = keep;
      if (!mended.ok()) return mended.status();
      fits = *mended &&
             LoadLittleEndian<uint64_t>(frame_buffer_->data()) + kFrameBytes == FrameSize(record);
    }
    if (fits) {
      DamagedPlace done = lost;
      done.bytes = 0;
      AcceptGap(0, std::move(done), record);
      damage_.back().bytes += skipped;
      return absl::OkStatus();
    }
    from = at + 1 - start;
  }
  // No record is left: the remaining bytes belong to none.
  while (true) {
    absl::StatusOr<bool> any = frame_buffer_->Ensure(1);
    if (!any.ok()) return any.status();
    if (!*any) break;
    skipped += frame_buffer_->size();
    frame_buffer_->Consume(frame_buffer_->size());
  }
  const bool goes_on = stretches_ != nullptr && !stretches_->damage().empty();
  AcceptGap(0, std::move(lost), goes_on ? number_ : std::max(number_, index.records()));
  damage_.back().bytes += skipped;
  if (goes_on) open_ = true;
  return absl::OkStatus();
}

// Skips to the next record, which starts at least `from` bytes after the current position.
// `mendable` says that the length here is damaged but can be derived from the end of its record.
// `frame` is the frame size according to an intact header here, within which frames may belong to
// the payload; 0 if the header is damaged.
absl::Status PastDamage::SkipGap(size_t from, std::string kind, std::string detail, bool mendable,
                                 uint64_t frame) {
  const DamagedPlace place = Place(std::move(kind), std::move(detail));
  if (indexed_) return SkipIndexed(from, place);
  using Chain = FrameBuffer::Chain;
  const uint64_t frame_end = frame_buffer_->offset() + frame;
  size_t at = from;
  std::optional<size_t> weak;
  uint32_t crc = 0;  // CRC of the bytes from kHeaderBytes up to `summed`.
  size_t summed = kHeaderBytes;
  const auto mend = [&](size_t end) {
    if (!mendable || end < kFrameBytes || end - kFooterBytes < summed) return false;
    const std::string_view view = frame_buffer_->view();
    crc = ExtendCrc32c(crc, view.substr(summed, end - kFooterBytes - summed));
    summed = end - kFooterBytes;
    if (LoadLittleEndian<uint32_t>(view.data() + summed) != MaskCrc(crc)) return false;
    WriteHeader(end - kFrameBytes, frame_buffer_->data());
    DamagedPlace mended = place;
    mended.detail += "; repaired, its payload is intact";
    mended.records = 0;
    mended.file_end = FilePlace(frame_buffer_->offset() + kHeaderBytes);
    damage_.push_back(std::move(mended));
    return true;
  };
  size_t skipped = 0;
  while (true) {
    // Find the next intact header.
    size_t found = std::string_view::npos;
    while (true) {
      absl::StatusOr<bool> more = frame_buffer_->Ensure(at + kHeaderBytes);
      if (!more.ok()) return more.status();
      if (!*more) break;
      found = FindHeader(frame_buffer_->view().substr(at));
      if (found != std::string_view::npos) {
        found += at;
        break;
      }
      at = frame_buffer_->size() - (kHeaderBytes - 1);
      if (at > kMostMended && !weak) {
        // This is too much memory to spend on a single record.
        mendable = false;
        frame_buffer_->Consume(at);
        skipped += at;
        at = 0;
      }
    }
    if (found == std::string_view::npos) {
      const size_t end = frame_buffer_->size();
      if (mend(end)) return absl::OkStatus();
      const size_t to = weak.value_or(end);
      const bool goes_on = !weak && stretches_ != nullptr && !stretches_->damage().empty();
      if (goes_on) {
        // Damage ends the stretch here, which is reported separately.
        AcceptGap(to, place, number_);
        damage_.back().bytes += skipped;
        open_ = true;
        return absl::OkStatus();
      }
      AcceptGap(to, place, std::nullopt);
      damage_.back().bytes += skipped;
      return absl::OkStatus();
    }
    if (mend(found)) return absl::OkStatus();
    size_t end = found;
    absl::StatusOr<Chain> chain = frame_buffer_->FollowChain(found, &end);
    if (!chain.ok()) return chain.status();
    // If bytes were inserted into or removed from a record, it does not end where its header says.
    // Frames after the record extend past that offset; frames within its payload do not.
    const bool inside =
        frame_buffer_->offset() + found < frame_end && frame_buffer_->offset() + end < frame_end;
    uint64_t length = 0;
    frame_buffer_->ReadHeaderAt(found, &length);
    const bool alone = end <= found + kFrameBytes + length;
    if (end > found && *chain != Chain::kNested && !inside &&
        (!alone || first_.check != CrcCheck::kAll || frame_buffer_->PayloadFits(found, length))) {
      if (*chain == Chain::kStrong || (weak && end - *weak > (1 << 20)) || !mendable) {
        AcceptGap(weak.value_or(found), place, std::nullopt);
        damage_.back().bytes += skipped;
        return absl::OkStatus();
      }
      if (!weak) weak = found;
      at = end;
    } else {
      at = *chain == Chain::kNested || inside ? std::max(found + 1, end) : found + 1;
    }
  }
}

absl::StatusOr<PastDamage::Step> PastDamage::EndStretch() {
  if (stretches_ == nullptr || stretches_->damage().empty()) return Step::kEnd;
  const std::string why = stretches_->damage();
  const uint64_t begin = stretches_->file_begin();
  absl::StatusOr<bool> more = stretches_->Next(delivered_);
  if (!more.ok()) return more.status();
  const uint64_t end = *more ? stretches_->file_begin() : first_.file->size();
  if (!open_) {
    DamagedPlace place = Place("compressed data", why);
    place.records = indexed_ ? std::optional<uint64_t>(0) : std::nullopt;
    damage_.push_back(std::move(place));
  }
  DamagedPlace& place = damage_.back();
  place.kind = "compressed data";
  place.file_begin = std::min(begin, place.file_begin);
  place.file_end = end;
  place.detail =
      fmt::format("{}: record {} at byte {}: {}; bytes {} to {} of the file are damaged{}",
                  first_.file->path(), place.record, place.offset, why, begin, end,
                  *more ? "" : ", and nothing after them can be inflated");
  open_ = true;
  if (!*more) {
    if (!indexed_) place.records = std::nullopt;
    return Step::kEnd;
  }
  at_start_ = true;
  if (indexed_ && !stretches_->stream_offset()) {
    indexed_ = false;
    place.records = std::nullopt;
  }
  if (!indexed_) {
    exact_ = false;
    place.records = std::nullopt;
  }
  frame_buffer_->Restart(stretches_->stream_offset().value_or(frame_buffer_->offset()));
  return Step::kOn;
}

void PastDamage::Finish() {
  ended_ = true;
  const uint64_t expected = first_.records.value_or(number_);
  if (first_.is_start && records_ == 0) {
    DamagedPlace place;
    place.kind = "not a TFRecord";
    place.detail = first_.error;
    place.file_end = first_.file->size();
    for (const DamagedPlace& one : damage_) place.bytes += one.bytes;
    damage_ = {std::move(place)};
  }
  if (damage_.empty()) {
    // The damage costs no records, unless there are none at all: then the loss is unknown.
    DamagedPlace place;
    place.kind = stretches_ != nullptr ? "compressed data" : "length CRC";
    place.record = number_;
    if (records_ > 0) place.records = 0;
    place.offset = frame_buffer_->offset();
    place.detail = first_.error;
    place.file_end = first_.file->size();
    damage_.push_back(std::move(place));
  }
  // If the loss is unknown at a single place, derive it from the total.
  const auto unknown = std::count_if(damage_.begin(), damage_.end(), [](const DamagedPlace& place) {
    return !place.records.has_value();
  });
  if (indexed_ && number_ < expected && damage_.back().records) {
    *damage_.back().records += expected - number_;
  } else if (first_.records && unknown == 1) {
    uint64_t known = records_;
    for (const DamagedPlace& place : damage_) known += place.records.value_or(0);
    for (DamagedPlace& place : damage_) {
      if (!place.records && known <= expected) place.records = expected - known;
    }
  }
}

}  // namespace shardfeed
