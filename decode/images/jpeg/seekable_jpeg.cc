#include "decode/images/jpeg/seekable_jpeg.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/rounding.h"
#include "decode/images/jpeg/jpeg.h"
#include "decode/images/jpeg/jpeg_layout.h"
#include "decode/images/jpeg/libjpeg.h"
#include "decode/images/jpeg/restart_markers.h"
#include "fmt/format.h"
#include "jerror.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;
using Outcome = SeekableJpeg::Outcome;

// The most components for which sampling factors and tables can be given.
constexpr uint32_t kMaxComponents = 4;

// The state of rewriting one image. Holds everything that Rewrite needs, so that longjmp out of
// libjpeg bypasses no destructor.
struct Rewriting {
  Rewriting(std::string_view jpeg, int max_scans, std::string* out)
      : limit(max_scans), target(out), decoder(), encoder() {
    errors.Reset(/*accept_damaged_images=*/false);
    source.Start(jpeg);
    decoder.err = &errors;
    encoder.err = &errors;
  }
  ~Rewriting() {
    jpeg_destroy_compress(&encoder);
    jpeg_destroy_decompress(&decoder);
  }
  Rewriting(const Rewriting&) = delete;
  Rewriting& operator=(const Rewriting&) = delete;

  LibjpegErrors errors;
  LibjpegMemory source;
  LibjpegScanLimit limit;
  LibjpegOutput target;
  jpeg_decompress_struct decoder;
  jpeg_compress_struct encoder;
  // Why the image is not rewritten although it could be read; a literal.
  const char* unsupported = nullptr;
};

// Decoders smooth between blocks of progressive images whose coefficients are incomplete, but not
// between blocks of sequential images, so rewriting would change the pixels.
bool HasAllCoefficients(const jpeg_decompress_struct& decoder) {
  if (!decoder.progressive_mode) return true;
  for (int component = 0; component < decoder.num_components; ++component) {
    for (int k = 0; k < DCTSIZE2; ++k) {
      if (decoder.coef_bits[component][k] != 0) return false;
    }
  }
  return true;
}

uint32_t BlocksInMcu(const jpeg_decompress_struct& decoder) {
  if (decoder.num_components == 1) return 1;
  uint32_t blocks = 0;
  for (int i = 0; i < decoder.num_components; ++i) {
    blocks += decoder.comp_info[i].h_samp_factor * decoder.comp_info[i].v_samp_factor;
  }
  return blocks;
}

uint32_t McusPerRow(const jpeg_decompress_struct& decoder) {
  const uint32_t width =
      DCTSIZE *
      (decoder.num_components == 1 ? 1 : static_cast<uint32_t>(decoder.max_h_samp_factor));
  return (decoder.image_width + width - 1) / width;
}

// Multi-Picture Format (CIPA DC-007): more images follow the first one, and are found by their
// offsets.
bool TellsOffsets(const jpeg_marker_struct& marker) {
  return marker.marker == kJpegApp2 && marker.data_length >= 4 &&
         std::equal(marker.data, marker.data + 4, "MPF");
}

// Returns false if it failed or the image must not be rewritten; errors and unsupported say why.
bool Rewrite(Rewriting& r) {
  if (setjmp(r.errors.jump) != 0) return false;
  jpeg_decompress_struct& decoder = r.decoder;
  jpeg_compress_struct& encoder = r.encoder;
  jpeg_create_decompress(&decoder);
  decoder.src = &r.source;
  decoder.progress = &r.limit;
  jpeg_save_markers(&decoder, JPEG_COM, 0xffff);
  for (int app = 0; app < 16; ++app) jpeg_save_markers(&decoder, JPEG_APP0 + app, 0xffff);
  jpeg_read_header(&decoder, TRUE);
  jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&decoder);
  if (!HasAllCoefficients(decoder)) {
    r.unsupported = "progressive with incomplete coefficients";
    return false;
  }
  for (int i = 0; i < decoder.num_components; ++i) {
    if (decoder.comp_info[i].quant_table != nullptr) continue;
    r.unsupported = "a component that is in no scan";
    return false;
  }
  if (BlocksInMcu(decoder) > C_MAX_BLOCKS_IN_MCU) {
    r.unsupported = "sampling factors that need several scans";
    return false;
  }
  for (const jpeg_marker_struct* m = decoder.marker_list; m != nullptr; m = m->next) {
    if (!TellsOffsets(*m) || r.source.bytes_in_buffer == 0) continue;
    r.unsupported = "several images in one file";
    return false;
  }

  jpeg_create_compress(&encoder);
  encoder.dest = &r.target;
  jpeg_copy_critical_parameters(&decoder, &encoder);
  encoder.optimize_coding = TRUE;
  encoder.restart_interval = SeekableRestartInterval(McusPerRow(decoder));
  // Both segments are among those that are copied.
  encoder.write_JFIF_header = FALSE;
  encoder.write_Adobe_marker = FALSE;
  jpeg_write_coefficients(&encoder, coefficients);
  for (const jpeg_marker_struct* m = decoder.marker_list; m != nullptr; m = m->next) {
    jpeg_write_marker(&encoder, m->marker, m->data, m->data_length);
  }
  jpeg_finish_compress(&encoder);
  jpeg_finish_decompress(&decoder);
  return true;
}

// Why images of this kind are not rewritten, or null.
const char* UnsupportedKind(const JpegFrame& frame) {
  if (frame.sof >= kJpegSof9) return "arithmetic coding";
  if (frame.sof == 0xc3) return "lossless coding";
  if (frame.sof > 0xc3) return "hierarchical coding";
  if (frame.precision != 8) return "samples of more than 8 bits";
  if (frame.num_components > kMaxComponents) return "more than 4 components";
  return nullptr;
}

// The result for an image that is not rewritten: kDamaged if it cannot be decoded, else `outcome`.
SeekableJpeg Kept(Outcome outcome, std::string reason, std::string_view jpeg,
                  const JpegFrame& frame) {
  thread_local const auto decoder = std::make_unique<JpegDecoder>();
  thread_local std::vector<uint8_t> pixels;
  JpegCrop all;
  all.scale_denominator = 8;
  all.channels = 1;
  all.width = CeilDivide(frame.width, uint32_t{8});
  all.height = CeilDivide(frame.height, uint32_t{8});
  pixels.resize(size_t{all.width} * all.height);
  const absl::Status status = decoder->DecodeCrop(jpeg, all, pixels.data(), all.width);
  if (absl::IsDataLoss(status)) return {Outcome::kDamaged, std::string(status.message())};
  return {outcome, std::move(reason)};
}

SeekableJpeg Unsupported(std::string reason) { return {Outcome::kUnsupported, std::move(reason)}; }

bool HasAllRestartMarkers(std::string_view jpeg, const JpegLayout& layout) {
  const uint64_t intervals =
      (layout.num_mcus() + layout.restart_interval - 1) / layout.restart_interval;
  RestartMarkers markers;
  markers.Start(jpeg, layout.scan_begin);
  size_t last = 0;
  if (!markers.Find(intervals - 1, &last)) return false;
  const size_t end = RestartMarkers::FindMarker(jpeg, last);
  return end < jpeg.size() && static_cast<uint8_t>(jpeg[end + 1]) == kJpegEoi;
}

bool IsSeekable(std::string_view jpeg, const JpegLayout& layout) {
  return layout.one_scan && layout.restart_interval > 0 &&
         layout.mcus_per_row % layout.restart_interval == 0 &&
         layout.restart_interval <= SeekableRestartInterval(layout.mcus_per_row) &&
         HasAllRestartMarkers(jpeg, layout);
}

}  // namespace

uint32_t SeekableRestartInterval(uint32_t mcus_per_row) {
  for (uint32_t interval : {4, 3, 2}) {
    if (mcus_per_row % interval == 0) return interval;
  }
  for (uint32_t interval = 5; interval * interval <= mcus_per_row; interval += 2) {
    if (mcus_per_row % interval == 0) return interval;
  }
  return mcus_per_row;
}

bool IsSeekable(std::string_view jpeg) {
  if (!jpeg.starts_with("\xff\xd8"sv)) return false;
  const absl::StatusOr<JpegLayout> layout = ReadJpegLayout(jpeg);
  return layout.ok() && IsSeekable(jpeg, *layout);
}

absl::StatusOr<SeekableJpeg> MakeSeekable(std::string_view jpeg, const SeekableJpegOptions& options,
                                          std::string* seekable) {
  if (!jpeg.starts_with("\xff\xd8"sv)) {
    return SeekableJpeg{Outcome::kDamaged, "not a JPEG: it does not start with ff d8"};
  }
  const absl::StatusOr<JpegLayout> layout = ReadJpegLayout(jpeg);
  if (!layout.ok()) {
    return SeekableJpeg{Outcome::kDamaged, std::string(layout.status().message())};
  }
  if (uint64_t{layout->frame.width} * layout->frame.height > options.max_pixels) {
    return Unsupported(fmt::format("more than {} pixels", options.max_pixels));
  }
  if (const char* kind = UnsupportedKind(layout->frame); kind != nullptr) {
    return Kept(Outcome::kUnsupported, kind, jpeg, layout->frame);
  }
  if (IsSeekable(jpeg, *layout)) return Kept(Outcome::kAlready, "", jpeg, layout->frame);

  // Restart markers and new Huffman tables change the size only a little.
  seekable->resize(jpeg.size() + jpeg.size() / 8 + 1024);
  Rewriting rewriting(jpeg, options.max_scans, seekable);
  if (Rewrite(rewriting)) {
    seekable->append(jpeg.substr(jpeg.size() - rewriting.source.bytes_in_buffer));
    return SeekableJpeg{Outcome::kRewritten, ""};
  }
  if (rewriting.unsupported != nullptr) return Unsupported(rewriting.unsupported);
  // The original is intact: decoders accept coefficients that no encoder writes.
  if (rewriting.errors.code == JERR_BAD_DCT_COEF) {
    return Unsupported("coefficients that are out of range");
  }
  if (rewriting.errors.too_many_scans) {
    return Unsupported(fmt::format("more than {} scans", options.max_scans));
  }
  const absl::Status status = rewriting.errors.ToStatus(jpeg.size());
  if (absl::IsResourceExhausted(status)) return status;
  if (absl::IsUnimplemented(status)) return Unsupported(std::string(rewriting.errors.text));
  return SeekableJpeg{Outcome::kDamaged, std::string(status.message())};
}

}  // namespace shardfeed
