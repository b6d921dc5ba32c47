#include "decode/images/jpeg/jpeg.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/rounding.h"
#include "decode/images/jpeg/jpeg_entropy.h"
#include "decode/images/jpeg/jpeg_layout.h"
#include "decode/images/jpeg/libjpeg.h"
#include "decode/images/pixels/colors.h"
#include "fmt/format.h"
#include "jerror.h"
// libjpeg's internal interface, for struct jpeg_entropy_decoder.
#include "jpegint.h"
#include "media/image_limit.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

// A half-open range of pixels or MCUs.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Rgb {
  uint32_t red;
  uint32_t green;
  uint32_t blue;
};

Rgb FromCmyk(const uint8_t* cmyk, uint32_t inversion) {
  const uint32_t k = cmyk[3] ^ inversion;
  return {MultiplyAsFractions(cmyk[0] ^ inversion, k), MultiplyAsFractions(cmyk[1] ^ inversion, k),
          MultiplyAsFractions(cmyk[2] ^ inversion, k)};
}

// `adobe`: 255 means no ink instead of full ink.
void ConvertCmyk(const uint8_t* cmyk, uint32_t width, bool adobe, int channels, uint8_t* out) {
  const uint32_t inversion = adobe ? 0 : 255;
  for (uint32_t x = 0; x < width; ++x, cmyk += 4, out += channels) {
    const Rgb rgb = FromCmyk(cmyk, inversion);
    if (channels == 3) {
      out[0] = static_cast<uint8_t>(rgb.red);
      out[1] = static_cast<uint8_t>(rgb.green);
      out[2] = static_cast<uint8_t>(rgb.blue);
    } else {
      out[0] = GrayOf(rgb.red, rgb.green, rgb.blue);
    }
  }
}

void Append16(std::string& out, uint32_t value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value));
}

// Whether the components of the image differ in size.
bool IsSubsampled(const JpegLayout& layout) {
  for (uint32_t i = 1; i < layout.frame.num_components; ++i) {
    if (layout.frame.components[i].h != layout.frame.components[0].h ||
        layout.frame.components[i].v != layout.frame.components[0].v) {
      return true;
    }
  }
  return false;
}

}  // namespace

// Functions that call libjpeg are left by longjmp when it fails, so they have only trivial
// variables.
class JpegDecoder::Impl {
 public:
  explicit Impl(const JpegDecoderOptions& options) : options_(options), limit_(options.max_scans) {}
  ~Impl() { jpeg_destroy_decompress(&decoder_); }

  absl::Status DecodeCrop(std::string_view jpeg, const JpegCrop& crop, uint8_t* pixels,
                          size_t row_bytes);
  JpegPath path() const { return path_; }

 private:
  absl::Status Check(uint32_t width, uint32_t height) const;
  // Lets libjpeg decode a small image of just the MCUs under the crop. Their coefficients come from
  // `entropy_`, which takes them from `jpeg`. Returns false if libjpeg must decode the original
  // instead.
  bool DecodeMcus(std::string_view jpeg, const JpegLayout& layout);
  void WriteHeader(const JpegLayout& layout, uint32_t width, uint32_t height);
  bool DecodeSmallImage();
  // Let libjpeg decode the original: its header, then the crop.
  bool OpenWhole(std::string_view jpeg);
  bool DecodeWhole();
  absl::Status LibjpegError(size_t num_bytes) const;
  void ReadHeader(std::string_view jpeg);
  void StartDecompressor();
  bool ReadRows(uint32_t left);
  static boolean DecodeMcu(j_decompress_ptr decoder, JBLOCKROW* blocks);

  const JpegDecoderOptions options_;
  JpegPath path_ = JpegPath::kLibjpeg;
  JpegEntropyDecoder entropy_;
  std::string header_;  // the small image: all but its entropy-coded data
  std::vector<uint8_t> row_memory_;

  // Objects of libjpeg, created for the first image.
  bool created_ = false;
  LibjpegErrors errors_;
  LibjpegMemory source_;
  LibjpegScanLimit limit_;
  jpeg_decompress_struct decoder_ = {};

  // State of the current DecodeCrop.
  JpegCrop crop_;
  uint8_t* pixels_ = nullptr;
  size_t row_bytes_ = 0;
  uint32_t mcus_per_row_ = 0;  // MCUs per row of the original
  Range mcu_columns_;          // columns of the small image, counted in the original
  Range mcu_rows_;
  uint32_t mcu_row_ = 0;  // row that libjpeg asks for next, counted in the original
  uint32_t mcu_column_ = 0;
  bool entropy_failed_ = false;
};

absl::Status JpegDecoder::Impl::Check(uint32_t image_width, uint32_t image_height) const {
  const uint64_t pixels = uint64_t{image_width} * image_height;
  if (pixels == 0) {
    return absl::DataLossError(
        fmt::format("JPEG says that it is {} pixels wide and {} high", image_width, image_height));
  }
  if (pixels > options_.max_pixels) {
    return ImageLimitError(
        fmt::format("JPEG of {} x {} pixels is too large: the limit is {} in all (max_pixels)",
                    image_width, image_height, options_.max_pixels));
  }
  const uint32_t denominator = crop_.scale_denominator;
  if (denominator != 1 && denominator != 2 && denominator != 4 && denominator != 8) {
    return absl::InvalidArgumentError(
        fmt::format("scale_denominator must be 1, 2, 4 or 8, got {}", crop_.scale_denominator));
  }
  if (crop_.channels != 1 && crop_.channels != 3) {
    return absl::InvalidArgumentError(
        fmt::format("channels must be 1 or 3, got {}", crop_.channels));
  }
  const uint32_t width = CeilDivide(image_width, denominator);
  const uint32_t height = CeilDivide(image_height, denominator);
  if (crop_.width == 0 || crop_.height == 0 || crop_.x >= width || crop_.y >= height ||
      crop_.width > width - crop_.x || crop_.height > height - crop_.y) {
    return absl::InvalidArgumentError(
        fmt::format("crop of {} x {} pixels at ({}, {}) in an image of {} x {}", crop_.width,
                    crop_.height, crop_.x, crop_.y, width, height));
  }
  if (row_bytes_ / crop_.channels < crop_.width && crop_.height > 1) {
    return absl::InvalidArgumentError(
        fmt::format("row_bytes {}: a row of {} pixels does not fit", row_bytes_, crop_.width));
  }
  return absl::OkStatus();
}

absl::Status JpegDecoder::Impl::DecodeCrop(std::string_view jpeg, const JpegCrop& crop,
                                           uint8_t* pixels, size_t row_bytes) {
  if (!jpeg.starts_with("\xff\xd8"sv)) {
    return absl::DataLossError("not a JPEG: it does not start with ff d8");
  }
  crop_ = crop;
  pixels_ = pixels;
  row_bytes_ = row_bytes;
  const absl::StatusOr<JpegLayout> layout = ReadJpegLayout(jpeg);
  if (layout.ok()) {
    absl::Status status = Check(layout->frame.width, layout->frame.height);
    if (!status.ok()) return status;
    if (layout->one_scan && DecodeMcus(jpeg, *layout)) {
      path_ = layout->restart_interval > 0 ? JpegPath::kRestarts : JpegPath::kSkipped;
      return absl::OkStatus();
    }
  }
  // libjpeg decides about anything that does not look intact.
  path_ = JpegPath::kLibjpeg;
  bool read = OpenWhole(jpeg);
  if (read) {
    absl::Status status = Check(decoder_.image_width, decoder_.image_height);
    if (!status.ok()) return status;
    read = DecodeWhole();
  }
  absl::Status status = read ? absl::OkStatus() : LibjpegError(jpeg.size());
  // Damage of the header is described better by ReadJpegLayout, which knows where it is. What kind
  // of image such a header announces does not matter.
  if (!layout.ok() && (absl::IsDataLoss(status) || absl::IsUnimplemented(status))) {
    return layout.status();
  }
  return status;
}

absl::Status JpegDecoder::Impl::LibjpegError(size_t num_bytes) const {
  if (errors_.too_many_scans) {
    return ImageLimitError(fmt::format("JPEG of more than {} scans, which is the limit (max_scans)",
                                       options_.max_scans));
  }
  return errors_.ToStatus(num_bytes);
}

bool JpegDecoder::Impl::DecodeMcus(std::string_view jpeg, const JpegLayout& layout) {
  if (!entropy_.Start(jpeg, layout)) return false;
  // Smooth upsampling of the chroma uses neighbors at a distance of at most one pixel of the
  // result.
  const uint32_t margin = IsSubsampled(layout) ? 1 : 0;
  const uint32_t denominator = crop_.scale_denominator;
  const auto mcus = [&](uint32_t begin, uint32_t size, uint32_t mcu_size, uint32_t num_mcus) {
    const uint32_t first = (begin - std::min(begin, margin)) * denominator / mcu_size;
    return Range{first,
                 std::min(CeilDivide((begin + size + margin) * denominator, mcu_size), num_mcus)};
  };
  mcu_columns_ = mcus(crop_.x, crop_.width, layout.mcu_width, layout.mcus_per_row);
  // libjpeg upsamples differently in an image whose chroma is less than 3 wide. One MCU may be that
  // narrow; two are not, unless the whole image is.
  if (mcu_columns_.end - mcu_columns_.begin == 1) {
    if (mcu_columns_.begin > 0) {
      --mcu_columns_.begin;
    } else if (mcu_columns_.end < layout.mcus_per_row) {
      ++mcu_columns_.end;
    }
  }
  mcu_rows_ = mcus(crop_.y, crop_.height, layout.mcu_height, layout.mcu_rows);
  const auto size = [](Range range, uint32_t mcu_size, uint32_t whole) {
    return std::min(range.end * mcu_size, whole) - range.begin * mcu_size;
  };
  WriteHeader(layout, size(mcu_columns_, layout.mcu_width, layout.frame.width),
              size(mcu_rows_, layout.mcu_height, layout.frame.height));
  mcus_per_row_ = layout.mcus_per_row;
  mcu_row_ = mcu_rows_.begin;
  mcu_column_ = mcu_columns_.begin;
  entropy_failed_ = false;
  // From here on the crop is relative to the small image.
  const JpegCrop crop = crop_;
  crop_.x -= mcu_columns_.begin * layout.mcu_width / denominator;
  crop_.y -= mcu_rows_.begin * layout.mcu_height / denominator;
  const bool decoded = DecodeSmallImage();
  crop_ = crop;
  return decoded;
}

// Writes the header of a JPEG of that size, without entropy-coded data. The Huffman tables of the
// original are replaced by tables of a single code, because libjpeg would build lookup tables from
// them that are never used.
void JpegDecoder::Impl::WriteHeader(const JpegLayout& layout, uint32_t width, uint32_t height) {
  const JpegFrame& frame = layout.frame;
  header_ = "\xff\xd8";
  for (size_t i = 0; i < layout.num_meaning; ++i) header_ += layout.meaning[i];
  header_ += "\xff\xc4"sv;
  constexpr std::string_view kOneCode = "\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv;
  Append16(header_, 2 + 2 * (1 + kOneCode.size()));
  for (char kind : {'\x00', '\x10'}) {
    header_ += kind;
    header_ += kOneCode;
  }
  header_ += '\xff';
  header_ += static_cast<char>(frame.sof);
  Append16(header_, 8 + 3 * frame.num_components);
  header_ += static_cast<char>(frame.precision);
  Append16(header_, height);
  Append16(header_, width);
  header_ += static_cast<char>(frame.num_components);
  for (uint32_t i = 0; i < frame.num_components; ++i) {
    const JpegFrame::Component& c = frame.components[i];
    header_ += static_cast<char>(c.id);
    // The sampling factors of a single component mean nothing, but libjpeg would decode several
    // rows of blocks at once for them.
    header_ += static_cast<char>(frame.num_components == 1 ? 0x11 : c.h << 4 | c.v);
    header_ += static_cast<char>(c.quantization);
  }
  header_ += "\xff\xda"sv;
  Append16(header_, 6 + 2 * frame.num_components);
  header_ += static_cast<char>(frame.num_components);
  for (uint32_t i = 0; i < frame.num_components; ++i) {
    header_ += static_cast<char>(frame.components[i].id);
    header_ += '\0';
  }
  header_ += "\x00\x3f\x00\xff\xd9"sv;
}

void JpegDecoder::Impl::ReadHeader(std::string_view jpeg) {
  if (!created_) {
    decoder_.err = &errors_;
    jpeg_create_decompress(&decoder_);
    created_ = true;
    decoder_.src = &source_;
    decoder_.progress = &limit_;
    decoder_.client_data = this;
  }
  source_.Start(jpeg);
  jpeg_read_header(&decoder_, TRUE);
}

void JpegDecoder::Impl::StartDecompressor() {
  switch (decoder_.jpeg_color_space) {
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr:
      decoder_.out_color_space = crop_.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
      break;
    case JCS_CMYK:
    case JCS_YCCK:
      decoder_.out_color_space = JCS_CMYK;
      break;
    default:
      ERREXIT(&decoder_, JERR_CONVERSION_NOTIMPL);
  }
  decoder_.scale_num = 1;
  decoder_.scale_denom = crop_.scale_denominator;
  jpeg_start_decompress(&decoder_);
}

boolean JpegDecoder::Impl::DecodeMcu(j_decompress_ptr decoder, JBLOCKROW* blocks) {
  Impl& impl = *static_cast<Impl*>(decoder->client_data);
  if (impl.entropy_failed_) return FALSE;
  const uint64_t number = uint64_t{impl.mcu_row_} * impl.mcus_per_row_ + impl.mcu_column_;
  if (!impl.entropy_.Decode(number, blocks)) {
    impl.entropy_failed_ = true;
    return FALSE;  // libjpeg treats this as missing input and returns no rows
  }
  if (++impl.mcu_column_ == impl.mcu_columns_.end) {
    impl.mcu_column_ = impl.mcu_columns_.begin;
    ++impl.mcu_row_;
  }
  return TRUE;
}

bool JpegDecoder::Impl::DecodeSmallImage() {
  errors_.Reset(/*accept_damaged_images=*/false);
  if (setjmp(errors_.jump) != 0) {
    jpeg_abort_decompress(&decoder_);
    return false;
  }
  ReadHeader(header_);
  StartDecompressor();
  decoder_.entropy->decode_mcu = DecodeMcu;
  for (int i = 0; i < decoder_.num_components; ++i) {
    if (decoder_.comp_info[i].DCT_scaled_size == 1) entropy_.WantMeansOnly(i);
  }
  const uint64_t mcu_columns = mcu_columns_.end - mcu_columns_.begin;
  entropy_.WantFewOf(uint64_t{mcu_rows_.end} * mcus_per_row_,
                     mcu_columns * (mcu_rows_.end - mcu_rows_.begin));
  if (crop_.y > 0) jpeg_skip_scanlines(&decoder_, crop_.y);
  const bool done = ReadRows(crop_.x);
  jpeg_abort_decompress(&decoder_);
  return done;
}

bool JpegDecoder::Impl::OpenWhole(std::string_view jpeg) {
  errors_.Reset(options_.accept_damaged);
  // libjpeg keeps tables for later images that lack them, which here would hide damage. Small
  // images have all the tables that they need, so only the original needs a new decoder.
  jpeg_destroy_decompress(&decoder_);
  created_ = false;
  if (setjmp(errors_.jump) != 0) {
    jpeg_abort_decompress(&decoder_);
    return false;
  }
  ReadHeader(jpeg);
  return true;
}

bool JpegDecoder::Impl::DecodeWhole() {
  if (setjmp(errors_.jump) != 0) {
    jpeg_abort_decompress(&decoder_);
    return false;
  }
  StartDecompressor();
  bool exact = true;
  for (int i = 0; i < decoder_.num_components; ++i) {
    // libjpeg-turbo 2.1 uses a wrong width when cropping components that are scaled less than
    // others.
    exact &= decoder_.comp_info[i].DCT_scaled_size == decoder_.min_DCT_scaled_size;
    // Smoothing between blocks whose coefficients are incomplete goes wrong at the edges of a crop.
    if (!decoder_.progressive_mode) continue;
    for (int k = 0; k < DCTSIZE2; ++k) exact &= decoder_.coef_bits[i][k] == 0;
  }
  const JDIMENSION whole_width = decoder_.output_width;
  JDIMENSION x = 0;
  if (exact) {
    // A margin for smooth upsampling, see DecodeMcus; libjpeg begins at the start of the MCU.
    const JDIMENSION margin = decoder_.max_h_samp_factor * DCTSIZE;
    x = crop_.x - std::min<JDIMENSION>(crop_.x, margin);
    JDIMENSION width = std::min(crop_.x + crop_.width + margin, decoder_.output_width) - x;
    jpeg_crop_scanline(&decoder_, &x, &width);
    if (crop_.y > 0) jpeg_skip_scanlines(&decoder_, crop_.y);
  }
  const bool done = ReadRows(crop_.x - x);
  // After the last row, the rest of the file up to its end (EOI) has to be intact as well.
  const bool to_the_end =
      decoder_.output_scanline == decoder_.output_height && crop_.x + crop_.width == whole_width;
  if (done && to_the_end && !options_.accept_damaged) jpeg_finish_decompress(&decoder_);
  jpeg_abort_decompress(&decoder_);
  return done;
}

// Reads up to the last row of the crop, which begins `left` pixels into libjpeg's rows.
bool JpegDecoder::Impl::ReadRows(uint32_t left) {
  // Rows are copied in groups, some time after they were written: immediately after, their bytes
  // are still in the store buffer, and loads of another size than the stores have to wait.
  constexpr JDIMENSION kRows = 16;
  const auto components = static_cast<size_t>(decoder_.output_components);
  const size_t row_size = decoder_.output_width * components;
  const bool cmyk = decoder_.out_color_space == JCS_CMYK;
  const bool direct = !cmyk && decoder_.output_width == crop_.width;
  if (row_memory_.size() < kRows * row_size) row_memory_.resize(kRows * row_size);
  const JDIMENSION end = crop_.y + crop_.height;
  JSAMPROW rows[kRows];
  while (decoder_.output_scanline < end) {
    const JDIMENSION y = decoder_.output_scanline;
    const bool wanted = y >= crop_.y;
    const JDIMENSION num = std::min<JDIMENSION>(kRows, (wanted ? end : crop_.y) - y);
    uint8_t* out = wanted ? pixels_ + (y - crop_.y) * row_bytes_ : nullptr;
    for (JDIMENSION i = 0; i < num; ++i) {
      rows[i] = direct && wanted ? out + i * row_bytes_ : row_memory_.data() + i * row_size;
    }
    for (JDIMENSION done = 0; done < num;) {
      const JDIMENSION num_read = jpeg_read_scanlines(&decoder_, rows + done, num - done);
      if (num_read == 0) return false;
      done += num_read;
    }
    if (direct || !wanted) continue;
    for (JDIMENSION i = 0; i < num; ++i, out += row_bytes_) {
      const uint8_t* row = rows[i] + left * components;
      if (cmyk) {
        ConvertCmyk(row, crop_.width, decoder_.saw_Adobe_marker, crop_.channels, out);
      } else {
        std::copy_n(row, crop_.width * components, out);
      }
    }
  }
  return true;
}

JpegDecoder::JpegDecoder(const JpegDecoderOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
JpegDecoder::~JpegDecoder() = default;

absl::Status JpegDecoder::DecodeCrop(std::string_view jpeg, const JpegCrop& crop, uint8_t* pixels,
                                     size_t row_bytes) {
  return impl_->DecodeCrop(jpeg, crop, pixels, row_bytes);
}

JpegPath JpegDecoder::path() const { return impl_->path(); }

}  // namespace shardfeed
