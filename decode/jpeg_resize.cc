#include "decode/jpeg_resize.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "decode/jpeg.h"
#include "decode/jpeg_layout.h"
#include "decode/jpeg_markers.h"
#include "decode/libjpeg.h"
#include "decode/seekable_jpeg.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

// A rare huge picture does not hold its memory for ever.
constexpr size_t kKeptBytes = size_t{64} << 20;

struct Pixels {
  uint32_t width = 0;
  uint32_t height = 0;
  int channels = 3;
  std::vector<uint8_t> values;
};

// Which source pixels an output pixel covers along one axis, and how much of each.
struct Cover {
  uint32_t first;
  std::vector<float> weights;  // sum to 1
};

std::vector<Cover> FindCovers(uint32_t source, uint32_t out) {
  std::vector<Cover> covers(out);
  for (uint64_t i = 0; i < out; ++i) {
    // In units of 1/out of a source pixel, so that all is exact.
    const uint64_t begin = i * source;
    const uint64_t end = begin + source;
    covers[i].first = static_cast<uint32_t>(begin / out);
    for (uint64_t at = begin; at < end;) {
      const uint64_t next = std::min(end, (at / out + 1) * out);
      covers[i].weights.push_back(static_cast<float>(next - at) / static_cast<float>(source));
      at = next;
    }
  }
  return covers;
}

void Shrink(const Pixels& source, Pixels* out) {
  const auto channels = static_cast<size_t>(source.channels);
  const std::vector<Cover> columns = FindCovers(source.width, out->width);
  const std::vector<Cover> rows = FindCovers(source.height, out->height);
  std::vector<float> sums(out->width * channels);
  out->values.resize(sums.size() * out->height);
  for (uint32_t y = 0; y < out->height; ++y) {
    std::fill(sums.begin(), sums.end(), 0.5F);
    for (size_t r = 0; r < rows[y].weights.size(); ++r) {
      const uint8_t* const row = &source.values[(rows[y].first + r) * source.width * channels];
      for (uint32_t x = 0; x < out->width; ++x) {
        const Cover& cover = columns[x];
        const uint8_t* pixel = row + cover.first * channels;
        for (const float weight : cover.weights) {
          const float w = weight * rows[y].weights[r];
          for (size_t c = 0; c < channels; ++c) sums[x * channels + c] += w * *pixel++;
        }
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      out->values[y * sums.size() + i] = static_cast<uint8_t>(std::min(sums[i], 255.0F));
    }
  }
}

// The segments of the original that are kept.
std::vector<JpegMarker> KeptSegments(std::string_view jpeg, bool cmyk) {
  std::vector<JpegMarker> kept;
  JpegMarkerReader reader(jpeg);
  while (true) {
    const absl::StatusOr<JpegMarker> marker = reader.Next();
    if (!marker.ok() || marker->code == kJpegSos || marker->code == kJpegEoi || marker->code == 0) {
      return kept;
    }
    const bool is_app = marker->code >= kJpegApp0 && marker->code < kJpegApp0 + 16;
    if (!is_app && marker->code != JPEG_COM) continue;
    if (marker->code == kJpegApp0 || marker->code == kJpegApp14) continue;
    // A profile of CMYK says nothing about RGB; offsets of further pictures lead nowhere.
    if (marker->code == kJpegApp2 && (cmyk || marker->payload.starts_with("MPF\0"sv))) continue;
    if (marker->payload.size() <= 65533) kept.push_back(*marker);
  }
}

// Everything that Encode needs, so that a jump out of libjpeg passes no destructor.
struct Encoding {
  explicit Encoding(std::string* out) : target(out), encoder() {
    errors.Reset(/*accept_damaged_pictures=*/false);
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
  // What the transform scales is not decoded in full; it means over areas, too.
  JpegCrop all;
  while (all.scale_denominator < 8 &&
         shorter / (2 * all.scale_denominator) >= options.shorter_side) {
    all.scale_denominator *= 2;
  }
  const auto scaled = [&all](uint32_t size) {
    return (size + all.scale_denominator - 1) / all.scale_denominator;
  };
  whole.width = all.width = scaled(frame.width);
  whole.height = all.height = scaled(frame.height);
  all.channels = whole.channels;
  if (uint64_t{frame.width} * frame.height > JpegDecoderOptions().max_pixels) {
    return absl::UnimplementedError(
        fmt::format("more than {} pixels", JpegDecoderOptions().max_pixels));
  }
  const size_t row_bytes = size_t{whole.width} * whole.channels;
  whole.values.resize(row_bytes * whole.height);
  absl::Status status = decoder->DecodeCrop(jpeg, all, whole.values.data(), row_bytes);
  if (!status.ok()) return status;
  Shrink(whole, &small);

  const std::vector<JpegMarker> segments = KeptSegments(jpeg, frame.num_components == 4);
  resized->resize(size_t{small.width} * small.height / 2 + 4096);
  Encoding encoding(resized);
  if (!Encode(encoding, small, options, segments.data(), segments.size())) {
    return encoding.errors.ToStatus(jpeg.size());
  }
  return ResizedJpeg{small.width, small.height};
}

}  // namespace shardfeed
