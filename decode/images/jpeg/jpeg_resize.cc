#include "decode/images/jpeg/jpeg_resize.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/rounding.h"
#include "decode/images/jpeg/jpeg.h"
#include "decode/images/jpeg/jpeg_layout.h"
#include "decode/images/jpeg/libjpeg.h"
#include "decode/images/jpeg/seekable_jpeg.h"
#include "decode/images/pixels/resample.h"
#include "fmt/format.h"
#include "media/image_limit.h"
#include "media/jpeg_markers.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

// A rare huge image must not keep its memory forever.
constexpr size_t kKeptBytes = size_t{64} << 20;

struct Pixels {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 3;
  std::vector<uint8_t> values;
};

// The segments of the original that are kept.
std::vector<JpegMarker> KeptSegments(std::string_view jpeg, bool cmyk) {
  std::vector<JpegMarker> kept;
  JpegMarkerReader reader(jpeg);
  JpegMarker marker;
  while (reader.Next(&marker) && marker.code != kJpegSos && marker.code != kJpegEoi) {
    const bool is_app = marker.code >= kJpegApp0 && marker.code < kJpegApp0 + 16;
    if (!is_app && marker.code != JPEG_COM) continue;
    if (marker.code == kJpegApp0 || marker.code == kJpegApp14) continue;
    // A CMYK profile does not apply to RGB, and offsets of further images would be wrong.
    if (marker.code == kJpegApp2 && (cmyk || marker.payload.starts_with("MPF\0"sv))) continue;
    if (marker.payload.size() <= 65533) kept.push_back(marker);
  }
  return kept;
}

// Holds everything that Encode needs, so that longjmp out of libjpeg bypasses no destructor.
struct Encoding {
  explicit Encoding(std::string* out) : target(out), encoder() {
    errors.Reset(/*accept_damaged_images=*/false);
    encoder.err = &errors;
  }
  ~Encoding() { jpeg_destroy_compress(&encoder); }
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  LibjpegErrors errors;
  LibjpegOutput target;
  jpeg_compress_struct encoder;
};

bool Encode(Encoding& e, const Pixels& pixels, const JpegResizeOptions& options,
            const JpegMarker* segments, size_t num_segments) {
  if (setjmp(e.errors.jump) != 0) return false;
  jpeg_compress_struct& encoder = e.encoder;
  jpeg_create_compress(&encoder);
  encoder.dest = &e.target;
  encoder.image_width = pixels.width;
  encoder.image_height = pixels.height;
  encoder.input_components = pixels.channels;
  encoder.in_color_space = pixels.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, options.quality, /*force_baseline=*/TRUE);
  encoder.optimize_coding = TRUE;
  if (options.seekable) {
    const uint32_t mcu = pixels.channels == 3 ? 16 : 8;
    encoder.restart_interval = SeekableRestartInterval((pixels.width + mcu - 1) / mcu);
  }
  jpeg_start_compress(&encoder, TRUE);
  for (size_t i = 0; i < num_segments; ++i) {
    const std::string_view payload = segments[i].payload;
    jpeg_write_marker(&encoder, segments[i].code, reinterpret_cast<const JOCTET*>(payload.data()),
                      static_cast<unsigned>(payload.size()));
  }
  const size_t row_bytes = size_t{pixels.width} * pixels.channels;
  while (encoder.next_scanline < encoder.image_height) {
    auto* row = const_cast<JSAMPROW>(&pixels.values[encoder.next_scanline * row_bytes]);
    jpeg_write_scanlines(&encoder, &row, 1);
  }
  jpeg_finish_compress(&encoder);
  return true;
}

}  // namespace

absl::StatusOr<ResizedJpeg> ResizeJpeg(std::string_view jpeg, const JpegResizeOptions& options,
                                       std::string* resized) {
  if (!jpeg.starts_with("\xff\xd8"sv)) {
    return absl::DataLossError("not a JPEG: it does not start with ff d8");
  }
  const absl::StatusOr<JpegLayout> layout = ReadJpegLayout(jpeg);
  if (!layout.ok()) return layout.status();
  const JpegFrame& frame = layout->frame;
  const uint32_t shorter = std::min(frame.width, frame.height);
  if (shorter <= options.shorter_side) return ResizedJpeg{};

  thread_local const auto decoder = std::make_unique<JpegDecoder>();
  thread_local Pixels whole;
  thread_local Pixels small;
  if (whole.values.capacity() > kKeptBytes) std::vector<uint8_t>().swap(whole.values);
  const auto other = [&](uint32_t side) {
    const double scaled = static_cast<double>(side) * options.shorter_side / shorter;
    return static_cast<uint32_t>(std::clamp<double>(std::round(scaled), 1, JPEG_MAX_DIMENSION));
  };
  small.width = other(frame.width);
  small.height = other(frame.height);
  small.channels = whole.channels = frame.num_components == 1 ? 1 : 3;
  // Scaling in the transform saves decoding in full, but averages other areas than those of the
  // result's pixels. That blurs unless several scaled pixels make up each pixel of the result.
  constexpr uint32_t kPixelsAcross = 4;
  JpegCrop all;
  while (all.scale_denominator < 8 &&
         shorter / (2 * all.scale_denominator) >= kPixelsAcross * options.shorter_side) {
    all.scale_denominator *= 2;
  }
  whole.width = all.width = CeilDivide(frame.width, static_cast<uint32_t>(all.scale_denominator));
  whole.height = all.height =
      CeilDivide(frame.height, static_cast<uint32_t>(all.scale_denominator));
  all.channels = whole.channels;
  if (uint64_t{frame.width} * frame.height > JpegDecoderOptions().max_pixels) {
    return absl::UnimplementedError(
        fmt::format("more than {} pixels", JpegDecoderOptions().max_pixels));
  }
  const size_t row_bytes = size_t{whole.width} * whole.channels;
  whole.values.resize(row_bytes * whole.height);
  absl::Status status = decoder->DecodeCrop(jpeg, all, whole.values.data(), row_bytes);
  if (IsImageLimit(status)) {  // that of pixels is checked above
    return absl::UnimplementedError(
        fmt::format("more than {} scans", JpegDecoderOptions().max_scans));
  }
  if (!status.ok()) return status;
  const size_t small_row_bytes = size_t{small.width} * small.channels;
  small.values.resize(small_row_bytes * small.height);
  ResampleOptions area;
  area.interpolation = Interpolation::kArea;
  // The last pixel that the transform scales may lie partly outside the image.
  area.width = double{1} * frame.width / all.scale_denominator;
  area.height = double{1} * frame.height / all.scale_denominator;
  thread_local Resampler resampler;
  resampler.Resize({whole.values.data(), row_bytes, whole.width, whole.height}, whole.channels,
                   area, small.width, small.height, small.values.data(), small_row_bytes);

  const std::vector<JpegMarker> segments = KeptSegments(jpeg, frame.num_components == 4);
  resized->resize(size_t{small.width} * small.height / 2 + 4096);
  Encoding encoding(resized);
  if (!Encode(encoding, small, options, segments.data(), segments.size())) {
    return encoding.errors.ToStatus(jpeg.size());
  }
  return ResizedJpeg{small.width, small.height};
}

}  // namespace shardfeed
