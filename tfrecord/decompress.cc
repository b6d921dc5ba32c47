#include "tfrecord/decompress.h"

#include <snappy.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "tfrecord/gzip_members.h"
#include "tfrecord/input_buffer.h"

namespace shardfeed {
namespace {

// The common part of the decoders: input, and decoded content that has not been read yet.
class BlockDecompressor : public Decompressor {
 public:
  BlockDecompressor(ByteSource* source, const RestartPoint& from, DecompressOptions options)
      : input_(source, from.file_offset - (from.bits > 0 ? 1 : 0)),
        options_(std::move(options)),
        stream_offset_(from.stream_offset) {}

  uint64_t file_offset() const override { return input_.offset(); }

 protected:
  // Copies the remaining bytes of `content_` to `dst` and returns their number.
  size_t Drain(absl::Span<char> dst) {
    const size_t n = std::min(dst.size(), content_.size() - drained_);
    std::copy_n(content_.data() + drained_, n, dst.data());
    drained_ += n;
    return n;
  }
  bool drained() const { return drained_ == content_.size(); }

  // Returns true if a restart point is due at the current stream offset, which is at `bit` of the
  // file.
  bool RestartPointDue(uint64_t bit) const {
    if (!options_.on_restart_point) return false;
    if (options_.is_restart_point) return options_.is_restart_point(bit);
    return !last_point_ || stream_offset_ - *last_point_ >= options_.restart_interval;
  }
  void EmitRestartPoint(RestartPoint point) {
    point.stream_offset = stream_offset_;
    last_point_ = stream_offset_;
    options_.on_restart_point(std::move(point));
  }
  void EmitHeaderPointIfDue() {
    if (!RestartPointDue(8 * input_.offset())) return;
    RestartPoint point;
    point.file_offset = input_.offset();
    EmitRestartPoint(std::move(point));
  }

  InputBuffer input_;
  DecompressOptions options_;
  // Stream offset of the content that is decoded next.
  uint64_t stream_offset_;
  std::optional<uint64_t> last_point_;
  std::string content_;
  size_t drained_ = 0;
};

// Larger members and blocks, compressed or not, are not decompressed in one step, so that no file
// makes a thread use more than a few times this much memory.
constexpr uint64_t kMostAtOnce = 32 << 20;

// No file is that large.
constexpr uint64_t kMostMemberBytes = uint64_t{1} << 48;

// Decompresses GZIP and ZLIB. Members that record their size, up to kMostAtOnce, are inflated in
// one step by libdeflate, twice as fast as by zlib. All others are inflated by zlib, whose memory
// does not grow with the member, and which can stop at block boundaries for restart points.
class DeflateDecompressor : public BlockDecompressor {
 public:
  DeflateDecompressor(Compression compression, ByteSource* source, RestartPoint from,
                      DecompressOptions options)
      : BlockDecompressor(source, from, std::move(options)),
        gzip_(compression == Compression::kGzip),
        from_(std::move(from)) {}

  ~DeflateDecompressor() override {
    if (inflating_) inflateEnd(&zlib_);
  }

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    if (dst.empty()) return 0;
    while (true) {
      if (!drained()) return Drain(dst);
      if (!error_.ok()) return error_;
      if (inflating_) {
        absl::StatusOr<size_t> n = Inflate(dst);
        if (!n.ok() || *n > 0) return n;
        continue;  // The member has ended.
      }
      absl::StatusOr<bool> more = Begin();
      if (!more.ok()) return more.status();
      if (!*more) return 0;
    }
  }

  absl::StatusOr<bool> SkipToNextMember() override {
    if (!gzip_) return false;
    EndInflate();
    error_ = absl::OkStatus();
    content_.clear();
    drained_ = 0;
    // A damaged member that was to be inflated in one step starts at the current input position, so
    // search after its first byte. If zlib inflated the member, some of its bytes have been
    // consumed.
    const size_t skip = piecewise_ ? 0 : 1;
    while (true) {
      absl::StatusOr<bool> enough = input_.Ensure(kSizedMemberHeaderBytes + 1);
      if (!enough.ok()) return enough.status();
      if (!*enough) return false;
      const size_t at = FindSizedMember(input_.view().substr(skip));
      if (at != std::string_view::npos) {
        input_.Consume(skip + at);
        return true;
      }
      // Keep the bytes that may be the beginning of a header.
      input_.Consume(input_.view().size() - kSizedMemberHeaderBytes);
    }
  }

 private:
  absl::Status Damaged(std::string_view what) {
    return absl::DataLossError(fmt::format("{} data is damaged near byte {}: {}",
                                           gzip_ ? "GZIP" : "ZLIB", input_.offset(), what));
  }
  absl::Status Cut() {
    return absl::DataLossError(
        fmt::format("{} data ends prematurely at byte {}: the file is truncated, or its writer was "
                    "not closed",
                    gzip_ ? "GZIP" : "ZLIB", input_.offset() + input_.view().size()));
  }

  // Begins the next member or the stream; returns false at the end of the file.
  absl::StatusOr<bool> Begin() {
    if (from_) {
      const RestartPoint from = *std::exchange(from_, std::nullopt);
      if (!from.at_header) return BeginInside(from);
    }
    absl::StatusOr<bool> any = input_.Ensure(1);
    if (!any.ok() || !*any) return any;
    if (began_ && !gzip_) {
      return absl::DataLossError(fmt::format(
          "bytes follow the end of the ZLIB stream, at byte {}; TensorFlow would ignore them",
          input_.offset()));
    }
    if (gzip_ && began_ && input_.view()[0] != '\x1f') {
      return absl::DataLossError(
          fmt::format("bytes follow the last GZIP member, at byte {}", input_.offset()));
    }
    began_ = true;
    last_block_ =
        RestartPointDue(8 * input_.offset()) ? std::optional(stream_offset_) : std::nullopt;
    EmitHeaderPointIfDue();
    if (gzip_) {
      absl::StatusOr<bool> header = input_.Ensure(kSizedMemberHeaderBytes);
      if (!header.ok()) return header.status();
      const std::optional<uint64_t> size = SizedMemberBytes(input_.view());
      if (size && *size > kMostMemberBytes) {
        piecewise_ = false;
        return Damaged(fmt::format("the member's header claims {} bytes", *size));
      }
      if (size && *size <= kMostAtOnce) {
        absl::StatusOr<bool> inflated = InflateSizedMember(*size);
        if (!inflated.ok() || *inflated) return inflated;
      }
    }
    BeginInflate(gzip_ ? MAX_WBITS + 16 : MAX_WBITS);
    return true;
  }

  // Returns false if the content may be too large to be inflated in one step.
  absl::StatusOr<bool> InflateSizedMember(uint64_t size) {
    piecewise_ = false;
    absl::StatusOr<bool> whole = input_.Ensure(size);
    if (!whole.ok()) return whole.status();
    if (!*whole) return Cut();
    content_.clear();
    drained_ = 0;
    const std::string_view member = input_.view().substr(0, size);
    const uint64_t claimed = ClaimedContentBytes(member);
    const uint64_t most = size * kMaxDeflateRatio;
    if (claimed > kMostAtOnce && claimed <= most) return false;
    absl::Status status = InflateMember(member, &content_);
    // The trailer records the size modulo 2^32.
    const bool may_be_larger = claimed + (uint64_t{1} << 32) <= most;
    if (absl::IsResourceExhausted(status) && may_be_larger) return false;
    if (!status.ok()) return Damaged(std::string(status.message()));
    input_.Consume(size);
    stream_offset_ += content_.size();
    return true;
  }

  void BeginInflate(int window_bits) {
    zlib_ = {};
    if (inflateInit2(&zlib_, window_bits) != Z_OK) throw std::bad_alloc();
    inflating_ = true;
    piecewise_ = true;
    raw_ = window_bits < 0;
  }

  void EndInflate() {
    if (!inflating_) return;
    inflateEnd(&zlib_);
    inflating_ = false;
  }

  absl::StatusOr<bool> BeginInside(const RestartPoint& from) {
    began_ = true;
    BeginInflate(-MAX_WBITS);
    if (from.bits > 0) {
      absl::StatusOr<bool> any = input_.Ensure(1);
      if (!any.ok()) return any.status();
      if (!*any) return Cut();
      const int byte = static_cast<unsigned char>(input_.view()[0]);
      input_.Consume(1);
      inflatePrime(&zlib_, from.bits, byte >> (8 - from.bits));
    }
    if (!from.dictionary.empty()) {
      inflateSetDictionary(&zlib_, reinterpret_cast<const Bytef*>(from.dictionary.data()),
                           static_cast<uInt>(from.dictionary.size()));
    }
    return true;
  }

  // Fills `dst` from the current member and returns the number of bytes, or 0 if the member has
  // ended. Delivers content that precedes an error first.
  absl::StatusOr<size_t> Inflate(absl::Span<char> dst) {
    dst = dst.subspan(0, size_t{1} << 30);  // zlib counts bytes in an unsigned int.
    zlib_.next_out = reinterpret_cast<Bytef*>(dst.data());
    zlib_.avail_out = static_cast<uInt>(dst.size());
    while (zlib_.avail_out > 0 && inflating_ && error_.ok()) error_ = InflateSome();
    const size_t inflated = dst.size() - zlib_.avail_out;
    if (inflated == 0 && !error_.ok()) return error_;
    return inflated;
  }

  // Inflates buffered input, at most up to the end of a block (if restart points are wanted) or of
  // the member.
  absl::Status InflateSome() {
    absl::StatusOr<bool> any = input_.Ensure(1);
    if (!any.ok()) return any.status();
    if (!*any) return Cut();
    const bool want_blocks = static_cast<bool>(options_.on_restart_point);
    const std::string_view in = input_.view();
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    zlib_.avail_in = static_cast<uInt>(std::min<size_t>(in.size(), size_t{1} << 30));
    const uInt given = zlib_.avail_in;
    const uInt room = zlib_.avail_out;
    const int result = inflate(&zlib_, want_blocks ? Z_BLOCK : Z_NO_FLUSH);
    input_.Consume(given - zlib_.avail_in);
    stream_offset_ += room - zlib_.avail_out;
    if (result == Z_STREAM_END) {
      EndInflate();
      return raw_ ? SkipTrailer() : absl::OkStatus();
    }
    if (result != Z_OK && result != Z_BUF_ERROR) {
      return Damaged(result == Z_NEED_DICT ? "it needs a preset dictionary"
                                           : (zlib_.msg ? zlib_.msg : "not deflated data"));
    }
    const bool block_ended = (zlib_.data_type & 128) && !(zlib_.data_type & 64);
    if (!want_blocks || !block_ended) return absl::OkStatus();
    const uint64_t bit = 8 * input_.offset() - (zlib_.data_type & 7);
    if (RestartPointDue(bit)) {
      last_block_ = stream_offset_;
      RestartPoint point;
      point.file_offset = input_.offset();
      point.bits = zlib_.data_type & 7;
      point.at_header = false;
      point.dictionary.resize(kDictionaryBytes);
      uInt size = 0;
      inflateGetDictionary(&zlib_, reinterpret_cast<Bytef*>(point.dictionary.data()), &size);
      point.dictionary.resize(size);
      EmitRestartPoint(std::move(point));
    } else if (last_block_ && options_.on_deflate_block &&
               stream_offset_ - *last_block_ >= kDeflateBlockInterval) {
      last_block_ = stream_offset_;
      options_.on_deflate_block({bit, stream_offset_});
    }
    return absl::OkStatus();
  }

  // Skips the trailer of a member that was not read from its beginning: the trailer cannot be
  // verified, but must exist.
  absl::Status SkipTrailer() {
    const size_t size = gzip_ ? kGzipTrailerBytes : 4;
    absl::StatusOr<bool> whole = input_.Ensure(size);
    if (!whole.ok()) return whole.status();
    if (!*whole) return Cut();
    input_.Consume(size);
    return absl::OkStatus();
  }

  const bool gzip_;
  std::optional<RestartPoint> from_;
  bool began_ = false;
  bool inflating_ = false;
  // True if zlib inflates, or inflated, the last member.
  bool piecewise_ = false;
  bool raw_ = false;
  // Stream offset of the last block or restart point; nullopt in a member that starts between two
  // points.
  std::optional<uint64_t> last_block_;
  // The error that stopped zlib.
  absl::Status error_;
  z_stream zlib_ = {};
};

// Decompresses TensorFlow's SNAPPY format: a sequence of raw Snappy blocks, each preceded by its
// compressed size as a 4-byte big-endian integer.
class SnappyDecompressor : public BlockDecompressor {
 public:
  using BlockDecompressor::BlockDecompressor;

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    if (dst.empty()) return 0;
    while (drained()) {
      absl::StatusOr<bool> any = input_.Ensure(1);
      if (!any.ok()) return any.status();
      if (!*any) return 0;
      absl::Status status = Block();
      if (!status.ok()) return status;
    }
    return Drain(dst);
  }

 private:
  absl::Status Block() {
    absl::StatusOr<bool> whole = input_.Ensure(4);
    if (!whole.ok()) return whole.status();
    if (!*whole) return Cut();
    EmitHeaderPointIfDue();
    size_t size = 0;
    for (char byte : input_.view().substr(0, 4)) size = size << 8 | static_cast<uint8_t>(byte);
    if (size > snappy::MaxCompressedLength(kMostAtOnce)) return TooLarge();
    whole = input_.Ensure(4 + size);
    if (!whole.ok()) return whole.status();
    if (!*whole) return Cut();
    size_t content = 0;
    // Three bytes of a block decompress to at most 64: do not allocate memory for a larger claim.
    if (!snappy::GetUncompressedLength(input_.view().data() + 4, size, &content) ||
        content > 32 * size) {
      return Damaged();
    }
    if (content > kMostAtOnce) return TooLarge();
    content_.resize(content);
    drained_ = 0;
    if (!snappy::RawUncompress(input_.view().data() + 4, size, content_.data())) {
      content_.clear();
      return Damaged();
    }
    input_.Consume(4 + size);
    stream_offset_ += content;
    return absl::OkStatus();
  }

  absl::Status Cut() {
    return absl::DataLossError(
        fmt::format("SNAPPY data ends within the block at byte {}", input_.offset()));
  }
  absl::Status TooLarge() {
    return absl::DataLossError(
        fmt::format("the SNAPPY block at byte {} is larger than {} bytes, which no TFRecord writer "
                    "produces: the file is damaged",
                    input_.offset(), kMostAtOnce));
  }
  absl::Status Damaged() {
    return absl::DataLossError(
        fmt::format("SNAPPY data is damaged in the block at byte {}", input_.offset()));
  }
};

}  // namespace

std::unique_ptr<Decompressor> MakeDecompressor(Compression compression, ByteSource* source,
                                               RestartPoint from, DecompressOptions options) {
  if (compression == Compression::kSnappy) {
    return std::make_unique<SnappyDecompressor>(source, from, std::move(options));
  }
  return std::make_unique<DeflateDecompressor>(compression, source, std::move(from),
                                               std::move(options));
}

}  // namespace shardfeed
