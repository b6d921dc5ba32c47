#include "shard/salvage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "io/buffer.h"
#include "shard/spec.h"
#include "tfrecord/framing.h"
#include "tfrecord/little_endian.h"

namespace shardfeed {
namespace {

// Records delivered at a time, about.
constexpr size_t kBlockBytes = 512 << 10;
constexpr size_t kReadBytes = 256 << 10;
// A run of frames as long as this is not one within a record. (Where it could be, see
// FollowChain.)
constexpr size_t kChainBytes = 64 << 10;
// So much behind a damaged length is kept in memory to find where its record ends.
constexpr size_t kMostMended = 64 << 20;
constexpr int kIndexSamples = 64;

bool SoundHeader(std::string_view bytes, size_t at, uint64_t* length) {
  return at + kHeaderBytes <= bytes.size() && ReadHeader(bytes.data() + at, length) &&
         *length <= UINT64_MAX / 2;
}

// Whether there is no index, by the error of reading it: it is missing, damaged, or no file.
bool CountsAsNone(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

// A growing window over a source, whose bytes can be mended.
class ShardSalvager::Window {
 public:
  Window(ByteSource* source, uint64_t offset) : source_(source), offset_(offset) {}

  // Reads until there are `size` bytes, and returns whether there are. Memory grows with what was
  // really read.
  absl::StatusOr<bool> Ensure(uint64_t size) {
    if (end_ - begin_ >= size) return true;
    if (ended_) return false;
    if (begin_ < end_) std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    while (end_ < size && !ended_) {
      if (bytes_.size() - end_ < kReadBytes) {
        const size_t more = std::max<uint64_t>(bytes_.size() + kReadBytes,
                                               std::min<uint64_t>(2 * end_, size + kReadBytes));
        bytes_.reserve(more);  // and not twice as much
        bytes_.resize(more);
      }
      absl::StatusOr<size_t> n =
          source_->Read(absl::MakeSpan(bytes_.data() + end_, bytes_.size() - end_));
      if (!n.ok()) return n.status();
      if (*n == 0) ended_ = true;
      end_ += *n;
    }
    return end_ >= size;
  }
  void Consume(size_t size) {
    begin_ += size;
    offset_ += size;
  }
  // The source goes on elsewhere.
  void Restart(uint64_t offset) {
    begin_ = end_ = 0;
    ended_ = false;
    offset_ = offset;
  }
  std::string_view view() const { return {bytes_.data() + begin_, end_ - begin_}; }
  char* data() { return bytes_.data() + begin_; }
  size_t size() const { return end_ - begin_; }
  uint64_t offset() const { return offset_; }

 private:
  ByteSource* source_;
  uint64_t offset_;  // in the stream, of the first byte
  std::vector<char> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool ended_ = false;
};

// Opens the index where there is one. A failing read is no reason to save less than it knows of.
absl::Status ShardSalvager::OpenIndex() {
  if (!options_.use_index) return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<const ShardIndex>> index =
      ShardIndex::Open(IndexPath(file_->path()));
  if (CountsAsNone(index.status())) return absl::OkStatus();
  if (!index.ok()) return index.status();
  index_ = *std::move(index);
  return absl::OkStatus();
}

// Keeps the index where it fits; `record` records were read, up to `offset`.
absl::Status ShardSalvager::AdoptIndex(uint64_t record, uint64_t offset) {
  if (absl::Status status = OpenIndex(); !status.ok()) return status;
  if (index_ == nullptr) return absl::OkStatus();
  const ShardIndex& index = *index_;
  if (!not_told_.empty()) compression_ = index.summary().compression;
  absl::StatusOr<bool> fits = IndexFits(record, offset);
  if (!fits.ok()) return fits.status();
  indexed_ = *fits;
  const bool all_read = record > 0 && record == index.records() &&
                        index.summary().compression == compression_ &&
                        index.summary().stream_bytes == offset;
  if ((indexed_ || all_read) && !options_.records) options_.records = index.records();
  if (indexed_) {
    shift_ = ShiftOf(index);
  } else {
    index_ = nullptr;
  }
  return absl::OkStatus();
}

ShardSalvager::~ShardSalvager() = default;

absl::StatusOr<Compression> ShardSalvager::GuessCompression(std::shared_ptr<const File> file,
                                                            const SalvageOptions& options) {
  absl::StatusOr<std::optional<Compression>> guess = ContentStretches::Guess(file, false);
  if (!guess.ok()) return guess.status();
  if (*guess) return **guess;
  // Does it hold a record as it is?
  SalvageOptions raw = options;
  raw.use_index = false;
  raw.compression = Compression::kNone;
  absl::StatusOr<std::unique_ptr<ShardSalvager>> trial = Open(file->path(), raw);
  if (!trial.ok()) return trial.status();
  RecordBlock block;
  if (absl::Status status = (*trial)->Next(&block); !status.ok()) return status;
  if (!block.records.empty()) return Compression::kNone;
  guess = ContentStretches::Guess(file, true);
  if (!guess.ok()) return guess.status();
  return guess->value_or(Compression::kNone);
}

absl::StatusOr<std::unique_ptr<ShardSalvager>> ShardSalvager::Open(const std::string& path,
                                                                   SalvageOptions options) {
  std::unique_ptr<ShardSalvager> salvager(new ShardSalvager());
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
  if (!file.ok()) return file.status();
  salvager->options_ = std::move(options);
  const SalvageOptions& known = salvager->options_;
  salvager->file_ = *file;
  absl::StatusOr<Compression> compression = DetectShardCompression(**file);
  if (!compression.ok() && !absl::IsDataLoss(compression.status())) return compression.status();
  if (compression.ok()) {
    salvager->compression_ = *compression;
    (*file)->Advise(File::Access::kSequential);
    ShardReaderOptions reading;
    reading.check = known.check;
    reading.block_bytes = 512 << 10;  // stays in the second-level cache between read and CRC
    reading.decompress = known.decompress;
    absl::StatusOr<std::unique_ptr<ShardReader>> reader =
        ShardReader::OpenAt(*file, *compression, RestartPoint(), 0, 0, std::move(reading));
    if (!reader.ok()) return reader.status();
    salvager->reader_ = *std::move(reader);
    return salvager;
  }
  // The first bytes are damaged: the index knows, or the caller, or what is left.
  salvager->not_told_ = std::string(compression.status().message());
  if (absl::Status status = salvager->AdoptIndex(0, 0); !status.ok()) return status;
  if (!salvager->indexed_ && known.compression) {
    salvager->compression_ = *known.compression;
  } else if (!salvager->indexed_) {
    absl::StatusOr<Compression> guess = GuessCompression(*file, known);
    if (!guess.ok()) return guess.status();
    salvager->compression_ = *guess;
  }
  salvager->Begin(compression.status(), 0);
  return salvager;
}

uint64_t ShardSalvager::stream_bytes() const {
  return window_ != nullptr ? window_->offset() : reader_->stream().offset();
}

uint64_t ShardSalvager::file_position() const {
  if (ended_) return file_->size();
  if (stretches_ != nullptr) return stretches_->file_position();
  return window_ != nullptr ? window_->offset() : reader_->file_position();
}

std::optional<uint64_t> ShardSalvager::records_lost() const {
  uint64_t sum = 0;
  for (const DamagedPlace& place : damage_) {
    if (!place.records) return std::nullopt;
    sum += *place.records;
  }
  return sum;
}

uint64_t ShardSalvager::bytes_skipped() const {
  uint64_t sum = 0;
  for (const DamagedPlace& place : damage_) sum += place.bytes;
  return sum;
}

absl::Status ShardSalvager::Next(RecordBlock* block) {
  if (window_ == nullptr && !ended_) {
    absl::Status status = reader_->Next(block);
    if (status.ok() && !block->records.empty()) {
      records_ += block->records.size();
      return status;
    }
    if (status.ok()) {
      number_ = records_;
      return Finish();
    }
    if (!absl::IsDataLoss(status)) return status;
    number_ = records_;
    const uint64_t offset = reader_->stream().offset();
    if (absl::Status adopted = AdoptIndex(number_, offset); !adopted.ok()) return adopted;
    reader_ = nullptr;  // with what it has of the damaged record
    Begin(status, offset);
  }
  block->buffer.reset();
  block->records.clear();
  return ended_ ? absl::OkStatus() : NextPastDamage(block);
}

// Whether the index is that of this shard, damage apart, and knows what comes. `record` records
// were read, up to `offset`. One that agrees with them, but is of another size, may still be that
// of another shard which begins alike: of what it says of the rest, a quarter must be there.
absl::StatusOr<bool> ShardSalvager::IndexFits(uint64_t record, uint64_t offset) const {
  const ShardIndex& index = *index_;
  if (index.summary().compression != compression_ || record >= index.records() ||
      index.Offset(record) != offset) {
    return false;
  }
  if (record > 0 && file_->size() == index.summary().shard_bytes) return true;
  // One of a much smaller shard is another's.
  if (file_->size() / 5 * 4 > index.summary().shard_bytes) return false;
  const int64_t shift = ShiftOf(index);
  uint64_t looked = 0;
  uint64_t found = 0;
  // Some of the places of numbers [first, end); each also where the file's growth has moved it.
  const auto look = [&](uint64_t first, uint64_t end, size_t size, const auto& place_of,
                        const auto& sound, const auto& must_be) -> absl::Status {
    std::string bytes(size, '\0');
    const uint64_t step = std::max<uint64_t>(1, (end - first) / kIndexSamples);
    for (uint64_t i = first; i < end; i += step) {
      const std::optional<uint64_t> at = place_of(i);
      if (!at) continue;
      if (*at + size > file_->size()) break;  // the file was cut
      bool there = false;
      for (const int64_t moved : {int64_t{0}, shift}) {
        const uint64_t place = *at + static_cast<uint64_t>(moved);
        if (place >= file_->size() || size > file_->size() - place) continue;
        absl::Status status = file_->ReadExactlyAt(place, absl::MakeSpan(bytes));
        if (!status.ok()) return status;
        there = sound(i, bytes);
        if (there) break;
      }
      found += there;
      looked += there || must_be(i);
    }
    return absl::OkStatus();
  };
  absl::Status status;
  if (compression_ == Compression::kNone) {
    status = look(
        record, index.records(), kHeaderBytes,
        [&](uint64_t i) { return std::optional(index.Offset(i)); },
        [&](uint64_t i, const std::string& header) {
          uint64_t length;
          return ReadHeader(header.data(), &length) && length + kFrameBytes == FrameSize(i);
        },
        [](uint64_t) { return true; });
  } else {
    // A GZIP member's magic; the empty block of a full flush in front of a segment of ZLIB. Other
    // restart points cannot be told by a look.
    const bool gzip = compression_ == Compression::kGzip;
    const std::string_view mark =
        gzip ? std::string_view("\x1f\x8b\x08", 3) : std::string_view("\x00\x00\xff\xff", 4);
    status = look(
        gzip ? 0 : 1, std::max<uint64_t>(gzip ? 0 : 1, index.num_restart_points()), mark.size(),
        [&](uint64_t i) -> std::optional<uint64_t> {
          const RestartPoint point = index.PointAt(i);
          if (gzip && point.at_header) return point.file_offset;
          if (gzip || point.bits != 0) return std::nullopt;
          return point.file_offset - std::min<uint64_t>(mark.size(), point.file_offset);
        },
        [&](uint64_t, const std::string& bytes) { return bytes == mark; },
        // What others wrote begins a block anywhere.
        [&](uint64_t i) { return gzip || index.WindowAt(i).empty(); });
  }
  if (!status.ok()) return status;
  return 4 * found >= looked;  // also where nothing can be told by a look
}

int64_t ShardSalvager::ShiftOf(const ShardIndex& index) const {
  return static_cast<int64_t>(file_->size() - index.summary().shard_bytes);
}

void ShardSalvager::Begin(const absl::Status& first_error, uint64_t offset) {
  first_error_ = std::string(first_error.message());
  delivered_ = offset;
  if (compression_ == Compression::kNone) {
    source_ = std::make_unique<FileSource>(file_, offset, file_->size());
    window_ = std::make_unique<Window>(source_.get(), offset);
    return;
  }
  // Compressed data are read again from the beginning, a member or segment at a time.
  skip_ = number_;
  number_ = 0;
  delivered_ = 0;
  stretches_ = std::make_unique<ContentStretches>(file_, compression_, index_, shift_);
  window_ = std::make_unique<Window>(stretches_.get(), 0);
}

absl::Status ShardSalvager::NextPastDamage(RecordBlock* block) {
  std::string frames;
  std::vector<std::pair<size_t, uint64_t>> places;  // in `frames`, in the stream
  uint64_t first = 0;
  while (frames.size() < kBlockBytes) {
    size_t frame_bytes = 0;
    absl::StatusOr<Step> step = TakeStep(&frame_bytes);
    if (!step.ok()) return step.status();
    if (*step == Step::kEnd) {
      if (absl::Status status = Finish(); !status.ok()) return status;
      break;
    }
    if (*step == Step::kOn) continue;
    if (number_ >= skip_) {
      if (places.empty()) first = number_;
      if (number_ != first + places.size()) break;
      places.emplace_back(frames.size(), window_->offset());
      frames.append(window_->view().substr(0, frame_bytes));
      ++records_;
    }
    open_ = false;
    at_start_ = false;
    ++number_;
    window_->Consume(frame_bytes);
    delivered_ = window_->offset();
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

DamagedPlace ShardSalvager::Place(std::string kind, std::string detail) const {
  DamagedPlace place;
  place.kind = std::move(kind);
  place.record = number_;
  place.record_exact = exact_;
  place.offset = window_->offset();
  place.detail =
      fmt::format("{}: record {} at byte {}: {}", file_->path(), number_, place.offset, detail);
  place.file_begin = stretches_ != nullptr ? stretches_->file_begin() : place.offset;
  place.file_end = place.file_begin;
  return place;
}

uint64_t ShardSalvager::FilePlace(uint64_t offset) const {
  return stretches_ != nullptr ? stretches_->file_position() : offset;
}

absl::StatusOr<bool> ShardSalvager::HeaderAt(size_t at) {
  absl::StatusOr<bool> there = window_->Ensure(at + kHeaderBytes);
  if (!there.ok() || !*there) return there;
  uint64_t length;
  return SoundHeader(window_->view(), at, &length);
}

absl::StatusOr<bool> ShardSalvager::EndsAt(size_t at) {
  absl::StatusOr<bool> more = window_->Ensure(at + 1);
  if (!more.ok()) return more.status();
  return !*more && window_->size() == at;
}

bool ShardSalvager::PayloadFits(size_t at, uint64_t length) const {
  const std::string_view payload = window_->view().substr(at + kHeaderBytes, length);
  return LoadLittleEndian<uint32_t>(payload.data() + length) == MaskCrc(Crc32c(payload));
}

std::optional<uint64_t> ShardSalvager::RecordAtOffset(uint64_t offset) const {
  if (!indexed_) return std::nullopt;
  const ShardIndex& index = *index_;
  const int64_t stream_shift = stretches_ == nullptr ? shift_ : 0;
  for (const int64_t shift : {int64_t{0}, stream_shift}) {
    const uint64_t at = offset - static_cast<uint64_t>(shift);
    if (at >= index.summary().stream_bytes) continue;
    const uint64_t record = index.RecordAt(at);
    if (record >= number_ && index.Offset(record) == at) return record;
  }
  return std::nullopt;
}

// Makes the header at `at` sound if that leads to a record whose payload fits: its length as the
// index has it, or with one byte of the header changed.
absl::StatusOr<bool> ShardSalvager::MendHeaderAt(size_t at) {
  absl::StatusOr<bool> there = window_->Ensure(at + kFrameBytes);
  if (!there.ok() || !*there) return there;
  const auto try_length = [&](uint64_t length) -> absl::StatusOr<bool> {
    if (length > UINT64_MAX / 2) return false;
    if (stretches_ == nullptr && length > file_->size()) return false;
    absl::StatusOr<bool> whole = window_->Ensure(at + kFrameBytes + length);
    if (!whole.ok() || !*whole) return whole;
    if (!PayloadFits(at, length)) return false;
    WriteHeader(length, window_->data() + at);
    return true;
  };
  if (const auto record = RecordAtOffset(window_->offset() + at)) {
    const uint64_t frame = FrameSize(*record);
    if (frame >= kFrameBytes) {
      absl::StatusOr<bool> mended = try_length(frame - kFrameBytes);
      if (!mended.ok() || *mended) return mended;
    }
  }
  const auto length = LoadLittleEndian<uint64_t>(window_->data() + at);
  const auto crc = LoadLittleEndian<uint32_t>(window_->data() + at + 8);
  const uint32_t wrong = crc ^ MaskCrc(Crc32cU64(length));
  for (int byte = 0; byte < 4; ++byte) {
    if ((wrong & ~(uint32_t{0xff} << (8 * byte))) != 0) continue;
    absl::StatusOr<bool> mended = try_length(length);
    if (!mended.ok() || *mended) return mended;
    break;
  }
  for (int byte = 0; byte < 8; ++byte) {
    for (uint64_t change = 1; change < 256; ++change) {
      const uint64_t other = length ^ change << (8 * byte);
      if (MaskCrc(Crc32cU64(other)) != crc) continue;
      absl::StatusOr<bool> mended = try_length(other);
      if (!mended.ok() || *mended) return mended;
    }
  }
  return false;
}

absl::StatusOr<ShardSalvager::Step> ShardSalvager::TakeStep(size_t* frame_bytes) {
  absl::StatusOr<bool> any = window_->Ensure(1);
  if (!any.ok()) return any.status();
  if (!*any) return EndStretch();
  if (at_start_ && indexed_) {
    // Where this stretch starts is known, and so is the next record.
    const ShardIndex& index = *index_;
    const uint64_t offset = window_->offset();
    uint64_t record = index.records();
    if (offset < index.summary().stream_bytes) {
      record = index.RecordAt(offset);
      if (index.Offset(record) < offset) ++record;
    }
    at_start_ = false;
    if (open_ && damage_.back().records) *damage_.back().records += LostUpTo(record);
    // Data that are there twice bring records again.
    skip_ = std::max(skip_, number_);
    number_ = record;
  }
  absl::StatusOr<bool> header = window_->Ensure(kHeaderBytes);
  if (!header.ok()) return header.status();
  uint64_t length = 0;
  if (!*header) {
    absl::Status status = SkipGap(
        window_->size(), "cut header",
        fmt::format("cut header: {} bytes where a header has {}", window_->size(), kHeaderBytes),
        false, 0);
    if (!status.ok()) return status;
    return Step::kOn;
  }
  if (!SoundHeader(window_->view(), 0, &length)) {
    const auto found = LoadLittleEndian<uint64_t>(window_->data());
    std::string detail = fmt::format("length CRC expected {:#010x}, found {:#010x} (length {})",
                                     MaskCrc(Crc32cU64(found)),
                                     LoadLittleEndian<uint32_t>(window_->data() + 8), found);
    absl::StatusOr<bool> mended = MendHeaderAt(0);
    if (!mended.ok()) return mended.status();
    absl::Status status;
    if (*mended) {
      DamagedPlace place = Place("length CRC", detail + "; mended, its payload is sound");
      place.records = 0;
      place.file_end = FilePlace(window_->offset() + kHeaderBytes);
      damage_.push_back(std::move(place));
      open_ = at_start_ = false;
    } else {
      status = SkipGap(1, "length CRC", std::move(detail), !at_start_, 0);
    }
    if (!status.ok()) return status;
    return Step::kOn;
  }
  const uint64_t frame = length + kFrameBytes;
  absl::StatusOr<bool> whole = false;
  if (stretches_ != nullptr || frame <= file_->size()) whole = window_->Ensure(frame);
  if (!whole.ok()) return whole.status();
  if (!*whole) {
    const uint64_t there = window_->size();
    const bool footer = there >= kHeaderBytes + length;
    absl::Status status = SkipGap(
        kHeaderBytes, footer ? "cut footer" : "cut payload",
        footer ? fmt::format("cut footer: {} bytes of the payload's CRC are missing", frame - there)
               : fmt::format("cut payload: {} bytes of {} are there", there - kHeaderBytes, length),
        false, frame);
    if (!status.ok()) return status;
    return Step::kOn;
  }
  if (options_.check != CrcCheck::kAll || PayloadFits(0, length)) {
    *frame_bytes = frame;
    return Step::kRecord;
  }
  const std::string_view payload = window_->view().substr(kHeaderBytes, length);
  std::string detail = fmt::format("payload CRC expected {:#010x}, found {:#010x} (length {})",
                                   MaskCrc(Crc32c(payload)),
                                   LoadLittleEndian<uint32_t>(payload.data() + length), length);
  // It is lost alone if a record, or the end, stands behind it.
  absl::StatusOr<bool> follows = HeaderAt(frame);
  if (follows.ok() && !*follows) follows = EndsAt(frame);
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
  absl::Status status = AcceptGap(frame, std::move(place), number_ + 1);
  if (!status.ok()) return status;
  if (mended) {
    DamagedPlace header_place = Place("length CRC", "the length was damaged; mended");
    header_place.records = 0;
    header_place.file_end = FilePlace(window_->offset() + kHeaderBytes);
    damage_.push_back(std::move(header_place));
  }
  return Step::kOn;
}

// Notes that the next `bytes` belong to no sound record. `number` is that of the record behind
// them, if it is known.
absl::Status ShardSalvager::AcceptGap(size_t bytes, DamagedPlace place,
                                      std::optional<uint64_t> number) {
  window_->Consume(bytes);
  const uint64_t lost = number ? LostUpTo(*number) : 0;
  if (open_ || at_start_) {
    // It goes on.
    DamagedPlace& before = damage_.back();
    before.bytes += bytes;
    before.file_end = std::max(before.file_end, FilePlace(window_->offset()));
    if (number && before.records) *before.records += lost;
    if (!number && !open_) before.records = std::nullopt;
    if (number) number_ = *number;
    at_start_ = false;
    return absl::OkStatus();
  }
  place.bytes = bytes;
  place.file_end = FilePlace(window_->offset());
  if (number) {
    place.records = lost;
    number_ = *number;
  } else {
    place.records = std::nullopt;
    exact_ = false;
    ++number_;
  }
  damage_.push_back(std::move(place));
  return absl::OkStatus();
}

absl::StatusOr<ShardSalvager::Chain> ShardSalvager::FollowChain(size_t at, size_t* end) {
  size_t z = at;
  uint64_t length;
  while (z - at < kChainBytes) {
    absl::StatusOr<bool> there = window_->Ensure(z + kHeaderBytes);
    if (!there.ok()) return there.status();
    if (!SoundHeader(window_->view(), z, &length)) break;
    if (stretches_ == nullptr && length + kFrameBytes > file_->size()) break;
    there = window_->Ensure(z + kFrameBytes + length);
    if (!there.ok()) return there.status();
    if (!*there) break;
    z += kFrameBytes + length;
  }
  *end = z;
  absl::StatusOr<bool> ends = EndsAt(z);
  if (!ends.ok()) return ends.status();
  if (*ends || z - at >= kChainBytes) return Chain::kStrong;
  // Four bytes behind it, the footer of a record that these frames are the end of?
  ends = EndsAt(z + kFooterBytes);
  if (ends.ok() && !*ends) ends = HeaderAt(z + kFooterBytes);
  if (!ends.ok()) return ends.status();
  return *ends ? Chain::kNested : Chain::kWeak;
}

// With an index, only places that it names are records.
absl::Status ShardSalvager::SkipIndexed(size_t from, const DamagedPlace& place) {
  const ShardIndex& index = *index_;
  const uint64_t start = window_->offset();
  const int64_t shift = stretches_ == nullptr ? shift_ : 0;
  uint64_t straight = number_;  // records at the places that the index names
  uint64_t moved = number_;     // and at those, moved
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
    // Let go of what lies before.
    const uint64_t before = at - window_->offset();
    uint64_t left = before;
    bool ended = false;
    while (left > 0) {
      absl::StatusOr<bool> any = window_->Ensure(1);
      if (!any.ok()) return any.status();
      if (!*any) {
        ended = true;
        break;
      }
      const size_t n = std::min<uint64_t>(left, window_->size());
      window_->Consume(n);
      skipped += n;
      left -= n;
    }
    if (ended) break;
    absl::StatusOr<bool> sound = window_->Ensure(kHeaderBytes);
    if (!sound.ok()) return sound.status();
    uint64_t length = 0;
    bool fits = *sound && SoundHeader(window_->view(), 0, &length) &&
                length + kFrameBytes == FrameSize(record);
    if (!fits && *sound) {
      const uint64_t keep = std::exchange(number_, std::min(number_, record));
      absl::StatusOr<bool> mended = MendHeaderAt(0);
      number_ = keep;
      if (!mended.ok()) return mended.status();
      fits =
          *mended && LoadLittleEndian<uint64_t>(window_->data()) + kFrameBytes == FrameSize(record);
    }
    if (fits) {
      DamagedPlace done = lost;
      done.bytes = 0;
      absl::Status status = AcceptGap(0, std::move(done), record);
      if (!damage_.empty()) damage_.back().bytes += skipped;
      return status;
    }
    from = at + 1 - start;
  }
  // None is left: what follows belongs to no record.
  while (true) {
    absl::StatusOr<bool> any = window_->Ensure(1);
    if (!any.ok()) return any.status();
    if (!*any) break;
    skipped += window_->size();
    window_->Consume(window_->size());
  }
  const bool goes_on = stretches_ != nullptr && !stretches_->damage().empty();
  absl::Status status =
      AcceptGap(0, std::move(lost), goes_on ? number_ : std::max(number_, index.records()));
  damage_.back().bytes += skipped;
  if (goes_on) open_ = true;
  return status;
}

// Goes to the next record, which starts `from` bytes from here or later. `mendable`: the length
// here is damaged, and where its record ends tells what it was. `frame`: what a sound header here
// says of its size; frames inside of it may be its payload's. 0: the header is not sound.
absl::Status ShardSalvager::SkipGap(size_t from, std::string kind, std::string detail,
                                    bool mendable, uint64_t frame) {
  const DamagedPlace place = Place(std::move(kind), std::move(detail));
  if (indexed_) return SkipIndexed(from, place);
  const uint64_t frame_end = window_->offset() + frame;
  size_t at = from;
  std::optional<size_t> weak;
  uint32_t crc = 0;  // of the bytes from kHeaderBytes up to `summed`
  size_t summed = kHeaderBytes;
  const auto mend = [&](size_t end) {
    if (!mendable || end < kFrameBytes || end - kFooterBytes < summed) return false;
    const std::string_view view = window_->view();
    crc = ExtendCrc32c(crc, view.substr(summed, end - kFooterBytes - summed));
    summed = end - kFooterBytes;
    if (LoadLittleEndian<uint32_t>(view.data() + summed) != MaskCrc(crc)) return false;
    WriteHeader(end - kFrameBytes, window_->data());
    DamagedPlace mended = place;
    mended.detail += "; mended, its payload is sound";
    mended.records = 0;
    mended.file_end = FilePlace(window_->offset() + kHeaderBytes);
    damage_.push_back(std::move(mended));
    return true;
  };
  size_t skipped = 0;
  while (true) {
    // The next sound header.
    size_t found = std::string_view::npos;
    while (true) {
      absl::StatusOr<bool> more = window_->Ensure(at + kHeaderBytes);
      if (!more.ok()) return more.status();
      if (!*more) break;
      found = FindHeader(window_->view().substr(at));
      if (found != std::string_view::npos) {
        found += at;
        break;
      }
      at = window_->size() - (kHeaderBytes - 1);
      if (at > kMostMended && !weak) {
        // Too much to keep for the sake of one record.
        mendable = false;
        window_->Consume(at);
        skipped += at;
        at = 0;
      }
    }
    if (found == std::string_view::npos) {
      const size_t end = window_->size();
      if (mend(end)) return absl::OkStatus();
      const size_t to = weak.value_or(end);
      const bool goes_on = !weak && stretches_ != nullptr && !stretches_->damage().empty();
      if (goes_on) {
        // The stretch ends here by damage, which is told as such.
        absl::Status status = AcceptGap(to, place, number_);
        damage_.back().bytes += skipped;
        open_ = true;
        return status;
      }
      absl::Status status = AcceptGap(to, place, std::nullopt);
      damage_.back().bytes += skipped;
      return status;
    }
    if (mend(found)) return absl::OkStatus();
    size_t end = found;
    absl::StatusOr<Chain> chain = FollowChain(found, &end);
    if (!chain.ok()) return chain.status();
    // A record that some bytes were added to or taken from ends elsewhere than its header says. The
    // frames behind it go on past that place; those of its payload do not.
    const bool inside =
        window_->offset() + found < frame_end && window_->offset() + end < frame_end;
    uint64_t length = 0;
    SoundHeader(window_->view(), found, &length);
    const bool alone = end <= found + kFrameBytes + length;
    if (end > found && *chain != Chain::kNested && !inside &&
        (!alone || options_.check != CrcCheck::kAll || PayloadFits(found, length))) {
      if (*chain == Chain::kStrong || (weak && end - *weak > (1 << 20)) || !mendable) {
        absl::Status status = AcceptGap(weak.value_or(found), place, std::nullopt);
        damage_.back().bytes += skipped;
        return status;
      }
      if (!weak) weak = found;
      at = end;
    } else {
      at = *chain == Chain::kNested || inside ? std::max(found + 1, end) : found + 1;
    }
  }
}

absl::StatusOr<ShardSalvager::Step> ShardSalvager::EndStretch() {
  if (stretches_ == nullptr || stretches_->damage().empty()) return Step::kEnd;
  const std::string why = stretches_->damage();
  const uint64_t begin = stretches_->file_begin();
  absl::StatusOr<bool> more = stretches_->Next(delivered_);
  if (!more.ok()) return more.status();
  const uint64_t end = *more ? stretches_->file_begin() : file_->size();
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
                  file_->path(), place.record, place.offset, why, begin, end,
                  *more ? "" : ", and nothing behind them can be inflated");
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
  window_->Restart(stretches_->stream_offset().value_or(window_->offset()));
  return Step::kOn;
}

absl::Status ShardSalvager::Finish() {
  ended_ = true;
  const uint64_t expected = options_.records.value_or(number_);
  if (window_ == nullptr) {
    // Sound as far as it goes; is something missing at the end?
    if (!options_.use_index) return absl::OkStatus();
    absl::StatusOr<IndexSummary> summary = ReadIndexSummary(IndexPath(file_->path()));
    if (CountsAsNone(summary.status())) return absl::OkStatus();
    if (!summary.ok()) return summary.status();
    if (summary->records <= number_) return absl::OkStatus();
    if (absl::Status status = OpenIndex(); !status.ok()) return status;
    const ShardIndex* const index = index_.get();
    if (index == nullptr || number_ >= index->records() ||
        (index->summary().compression != compression_ && file_->size() > 0) ||
        index->summary().shard_bytes <= file_->size() ||
        index->Offset(number_) != reader_->stream().offset()) {
      return absl::OkStatus();
    }
    DamagedPlace place;
    place.kind = "cut shard";
    place.record = number_;
    place.records = index->records() - number_;
    place.offset = reader_->stream().offset();
    place.file_begin = place.file_end = file_->size();
    place.detail = fmt::format(
        "{}: ends in front of record {} at byte {}; its index knows {} records in {} bytes",
        file_->path(), number_, place.offset, index->records(), index->summary().shard_bytes);
    damage_.push_back(std::move(place));
    return absl::OkStatus();
  }
  if (!not_told_.empty() && records_ == 0) {
    DamagedPlace place;
    place.kind = "not a TFRecord";
    place.detail = not_told_;
    place.file_end = file_->size();
    place.bytes = bytes_skipped();
    damage_ = {std::move(place)};
  }
  if (damage_.empty()) {
    // What is wrong costs no record; where there is none, nobody knows what it costs.
    DamagedPlace place;
    place.kind = stretches_ != nullptr ? "compressed data" : "length CRC";
    place.record = number_;
    if (records_ > 0) place.records = 0;
    place.offset = window_->offset();
    place.detail = first_error_;
    place.file_end = file_->size();
    damage_.push_back(std::move(place));
  }
  // Of a single place where records were not counted, the total tells.
  const auto unknown = std::count_if(damage_.begin(), damage_.end(), [](const DamagedPlace& place) {
    return !place.records.has_value();
  });
  if (indexed_ && number_ < expected && damage_.back().records) {
    *damage_.back().records += expected - number_;
  } else if (options_.records && unknown == 1) {
    uint64_t known = records_;
    for (const DamagedPlace& place : damage_) known += place.records.value_or(0);
    for (DamagedPlace& place : damage_) {
      if (!place.records && known <= expected) place.records = expected - known;
    }
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
