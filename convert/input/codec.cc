#include "convert/input/codec.h"

#include <bzlib.h>
#include <lzma.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "fmt/format.h"
#include "tfrecord/input_buffer.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd"sv;
constexpr std::string_view kXzMagic =
    "\xfd"
    "7zXZ\0"sv;
// The end of the magic of Zstandard's skippable frames, with which some programs start a file.
constexpr std::string_view kSkippableMagic = "\x2a\x4d\x18"sv;

// No codec's library is given more than this at once: some count bytes in an unsigned int.
constexpr size_t kMostAtOnce = size_t{1} << 30;
constexpr uint64_t kMostXzMemory = uint64_t{256} << 20;

// The common part: a file is a sequence of members, each of which is decoded by a codec's library.
class MemberDecompressor : public Decompressor {
 public:
  MemberDecompressor(Codec codec, ByteSource* source) : codec_(codec), input_(source, 0) {}

  uint64_t file_offset() const override { return input_.offset(); }

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    if (dst.empty()) return 0;
    if (!error_.ok()) return error_;
    dst = dst.subspan(0, kMostAtOnce);
    while (true) {
      if (!inside_) {
        absl::StatusOr<bool> more = Begin();
        if (!more.ok()) return more.status();
        if (!*more) return 0;
      }
      absl::StatusOr<bool> any = input_.Ensure(1);
      if (!any.ok()) return any.status();
      const std::string_view in = input_.view().substr(0, kMostAtOnce);
      const Step step = Decode(in, dst);
      input_.Consume(step.consumed);
      if (step.ended) inside_ = false;
      error_ = step.error;
      if (step.produced > 0) return step.produced;
      if (!error_.ok()) return error_;
      if (step.ended || step.consumed > 0) continue;
      if (*any) return Damaged("it cannot be decoded further");
      return absl::DataLossError(
          fmt::format("{} data ends prematurely at byte {}: the file is truncated, or its writer "
                      "was not closed",
                      CodecName(codec_), input_.offset()));
    }
  }

 protected:
  struct Step {
    size_t consumed = 0;
    size_t produced = 0;
    bool ended = false;  // the member has ended
    absl::Status error;
  };
  virtual void BeginMember() = 0;
  // Decodes a part of the member. `in` is empty at the end of the file.
  virtual Step Decode(std::string_view in, absl::Span<char> dst) = 0;

  absl::Status Damaged(std::string_view what) const {
    return absl::DataLossError(fmt::format("{} data is damaged near byte {}: {}", CodecName(codec_),
                                           input_.offset(), what));
  }

 private:
  // Begins the next member; returns false at the end of the file.
  absl::StatusOr<bool> Begin() {
    absl::StatusOr<bool> any = input_.Ensure(1);
    if (!any.ok() || !*any) return any;
    // At the end of a short file there are fewer bytes.
    if (absl::Status status = input_.Ensure(kCodecMagicBytes).status(); !status.ok()) return status;
    if (began_ && codec_ == Codec::kXz) {
      // A stream may be followed by zeros, a multiple of four (stream padding).
      constexpr std::string_view kPadding = "\0\0\0\0"sv;
      while (input_.view().starts_with(kPadding)) {
        input_.Consume(kPadding.size());
        any = input_.Ensure(kCodecMagicBytes);
        if (!any.ok()) return any;
        if (input_.view().empty()) return false;
      }
    }
    if (began_ && CodecOf(input_.view()) != codec_) {
      return absl::DataLossError(
          fmt::format("bytes follow the end of the {} data, at byte {}; the file is damaged, or "
                      "something was appended to it",
                      CodecName(codec_), input_.offset()));
    }
    BeginMember();
    began_ = inside_ = true;
    return true;
  }

  const Codec codec_;
  InputBuffer input_;
  bool began_ = false;
  bool inside_ = false;
  absl::Status error_;  // for the Read after the content that precedes it
};

class ZstdDecompressor : public MemberDecompressor {
 public:
  explicit ZstdDecompressor(ByteSource* source)
      : MemberDecompressor(Codec::kZstd, source), stream_(ZSTD_createDCtx()) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }
  ~ZstdDecompressor() override { ZSTD_freeDCtx(stream_); }

 private:
  void BeginMember() override { ZSTD_DCtx_reset(stream_, ZSTD_reset_session_only); }

  Step Decode(std::string_view in, absl::Span<char> dst) override {
    ZSTD_inBuffer input = {in.data(), in.size(), 0};
    ZSTD_outBuffer output = {dst.data(), dst.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_, &output, &input);
    return {input.pos, output.pos, result == 0, ErrorOf(result)};
  }

  absl::Status ErrorOf(size_t result) const {
    if (!ZSTD_isError(result)) return absl::OkStatus();
    const ZSTD_ErrorCode error = ZSTD_getErrorCode(result);
    if (error == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (error == ZSTD_error_frameParameter_windowTooLarge) {
      return absl::ResourceExhaustedError(
          "it was compressed with a window of more than 128 MiB; decompress it first (zstd -d "
          "--long=31)");
    }
    if (error == ZSTD_error_dictionary_wrong) {
      return absl::FailedPreconditionError(
          "it was compressed with a dictionary; decompress it first (zstd -d -D DICTIONARY)");
    }
    return Damaged(ZSTD_getErrorString(error));
  }

  ZSTD_DCtx* const stream_;
};

class XzDecompressor : public MemberDecompressor {
 public:
  explicit XzDecompressor(ByteSource* source) : MemberDecompressor(Codec::kXz, source) {}
  ~XzDecompressor() override { lzma_end(&stream_); }

 private:
  void BeginMember() override {
    if (lzma_stream_decoder(&stream_, kMostXzMemory, 0) != LZMA_OK) throw std::bad_alloc();
  }

  Step Decode(std::string_view in, absl::Span<char> dst) override {
    stream_.next_in = reinterpret_cast<const uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<uint8_t*>(dst.data());
    stream_.avail_out = dst.size();
    const lzma_ret result = lzma_code(&stream_, LZMA_RUN);
    return {in.size() - stream_.avail_in, dst.size() - stream_.avail_out, result == LZMA_STREAM_END,
            ErrorOf(result)};
  }

  absl::Status ErrorOf(lzma_ret result) const {
    switch (result) {
      case LZMA_OK:
      case LZMA_STREAM_END:
      case LZMA_BUF_ERROR:  // no progress
        return absl::OkStatus();
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_MEMLIMIT_ERROR:
        return absl::ResourceExhaustedError(
            fmt::format("it takes {} MiB of memory to decompress, more than {}; decompress it "
                        "first (xz -d)",
                        lzma_memusage(&stream_) >> 20, kMostXzMemory >> 20));
      case LZMA_OPTIONS_ERROR:
        return Damaged("it has options that are not supported");
      default:
        return Damaged("the compressed data is corrupt");
    }
  }

  lzma_stream stream_ = LZMA_STREAM_INIT;
};

class Bzip2Decompressor : public MemberDecompressor {
 public:
  explicit Bzip2Decompressor(ByteSource* source) : MemberDecompressor(Codec::kBzip2, source) {}
  ~Bzip2Decompressor() override {
    if (open_) BZ2_bzDecompressEnd(&stream_);
  }

 private:
  void BeginMember() override {
    if (open_) BZ2_bzDecompressEnd(&stream_);
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
    open_ = true;
  }

  Step Decode(std::string_view in, absl::Span<char> dst) override {
    stream_.next_in = const_cast<char*>(in.data());
    stream_.avail_in = static_cast<unsigned>(in.size());
    stream_.next_out = dst.data();
    stream_.avail_out = static_cast<unsigned>(dst.size());
    const int result = BZ2_bzDecompress(&stream_);
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    const bool sound = result == BZ_OK || result == BZ_STREAM_END;
    return {in.size() - stream_.avail_in, dst.size() - stream_.avail_out, result == BZ_STREAM_END,
            sound ? absl::OkStatus() : Damaged("the compressed data is corrupt")};
  }

  bz_stream stream_ = {};
  bool open_ = false;
};

}  // namespace

Codec CodecOf(std::string_view first_bytes) {
  if (first_bytes.starts_with("\x1f\x8b")) return Codec::kGzip;
  if (first_bytes.starts_with(kZstdMagic)) return Codec::kZstd;
  if (first_bytes.size() >= 4 && (first_bytes[0] & 0xf0) == 0x50 &&
      first_bytes.substr(1, 3) == kSkippableMagic) {
    return Codec::kZstd;
  }
  if (first_bytes.starts_with(kXzMagic)) return Codec::kXz;
  // "BZh" and a digit may start a text; the magic of the first block, or of the end, does not.
  if (first_bytes.size() >= kCodecMagicBytes && first_bytes.starts_with("BZh") &&
      first_bytes[3] >= '1' && first_bytes[3] <= '9') {
    const std::string_view block = first_bytes.substr(4, 6);
    if (block == "1AY&SY" || block == "\x17\x72\x45\x38\x50\x90") return Codec::kBzip2;
  }
  return Codec::kNone;
}

std::string_view CodecName(Codec codec) {
  switch (codec) {
    case Codec::kNone:
      break;
    case Codec::kGzip:
      return "gzip";
    case Codec::kZstd:
      return "Zstandard";
    case Codec::kXz:
      return "xz";
    case Codec::kBzip2:
      return "bzip2";
  }
  return "no compression";
}

std::string_view CodecProgram(Codec codec) {
  return codec == Codec::kZstd ? "zstd" : CodecName(codec);
}

std::unique_ptr<Decompressor> MakeCodecDecompressor(Codec codec, ByteSource* source) {
  switch (codec) {
    case Codec::kNone:
    case Codec::kGzip:
      break;
    case Codec::kZstd:
      return std::make_unique<ZstdDecompressor>(source);
    case Codec::kXz:
      return std::make_unique<XzDecompressor>(source);
    case Codec::kBzip2:
      return std::make_unique<Bzip2Decompressor>(source);
  }
  return MakeDecompressor(Compression::kGzip, source);
}

}  // namespace shardfeed
