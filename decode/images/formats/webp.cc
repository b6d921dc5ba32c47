#include "decode/images/formats/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "decode/images/pixels/colors.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

const uint8_t* DataOf(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

absl::Status ErrorOf(VP8StatusCode code, std::string_view bytes) {
  switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError("no memory for a webp");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return absl::DataLossError(fmt::format(
          "webp is cut off: the file ends after {} bytes, before its image", bytes.size()));
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return absl::UnimplementedError("webp of a kind that libwebp cannot decode");
    default:
      return absl::DataLossError(fmt::format("webp of {} bytes is damaged", bytes.size()));
  }
}

void WriteGray(const uint8_t* from, size_t stride, std::vector<uint8_t>* pixels) {
  for (uint8_t& gray : *pixels) {
    gray = GrayOf(from[0], from[1], from[2]);
    from += stride;
  }
}

// Calls `take` with the RGBA pixels of an animation's first frame.
template <class Take>
absl::Status ReadFirstFrame(std::string_view bytes, const ImageHeader& header, const Take& take) {
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  const WebPData data = {DataOf(bytes), bytes.size()};
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(
      WebPAnimDecoderNew(&data, &options), WebPAnimDecoderDelete);
  WebPAnimInfo info;
  uint8_t* rgba = nullptr;
  int time = 0;
  if (decoder == nullptr || WebPAnimDecoderGetInfo(decoder.get(), &info) == 0 ||
      info.canvas_width != header.width || info.canvas_height != header.height ||
      WebPAnimDecoderGetNext(decoder.get(), &rgba, &time) == 0) {
    return ErrorOf(VP8_STATUS_BITSTREAM_ERROR, bytes);
  }
  take(rgba);
  return absl::OkStatus();
}

absl::Status ReadFeatures(std::string_view bytes, const ImageHeader& header,
                          WebPDecoderConfig* config) {
  WebPInitDecoderConfig(config);
  const VP8StatusCode code = WebPGetFeatures(DataOf(bytes), bytes.size(), &config->input);
  if (code != VP8_STATUS_OK) return ErrorOf(code, bytes);
  if (config->input.has_animation == 0 &&
      (config->input.width != static_cast<int>(header.width) ||
       config->input.height != static_cast<int>(header.height))) {
    return absl::DataLossError(fmt::format("webp has {} x {} pixels, but its header says {} x {}",
                                           config->input.width, config->input.height, header.width,
                                           header.height));
  }
  return absl::OkStatus();
}

// Decodes a still image to rows of `channels` (3 or 4) channels.
absl::Status DecodeRows(std::string_view bytes, const ImageHeader& header, int channels,
                        WebPDecoderConfig* config, uint8_t* rows) {
  const size_t row_bytes = size_t{header.width} * channels;
  config->output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config->output.is_external_memory = 1;
  config->output.u.RGBA = {rows, static_cast<int>(row_bytes), row_bytes * header.height};
  const VP8StatusCode code = WebPDecode(DataOf(bytes), bytes.size(), config);
  WebPFreeDecBuffer(&config->output);
  return code == VP8_STATUS_OK ? absl::OkStatus() : ErrorOf(code, bytes);
}

}  // namespace

absl::Status DecodeWebp(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels) {
  WebPDecoderConfig config;
  if (absl::Status status = ReadFeatures(bytes, header, &config); !status.ok()) return status;
  const size_t num_pixels = size_t{header.width} * header.height;
  if (config.input.has_animation != 0) {
    return ReadFirstFrame(bytes, header, [&](const uint8_t* rgba) {
      pixels->resize(num_pixels * channels);
      if (channels == 1) return WriteGray(rgba, 4, pixels);
      for (auto to = pixels->begin(); to != pixels->end(); rgba += 4) to = std::copy_n(rgba, 3, to);
    });
  }
  std::vector<uint8_t> colors;
  std::vector<uint8_t>& rgb = channels == 3 ? *pixels : colors;
  rgb.resize(num_pixels * 3);
  absl::Status status = DecodeRows(bytes, header, 3, &config, rgb.data());
  if (status.ok() && channels == 1) {
    pixels->resize(num_pixels);
    WriteGray(colors.data(), 3, pixels);
  }
  return status;
}

absl::Status ReadRawWebp(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  WebPDecoderConfig config;
  absl::Status status = ReadFeatures(bytes, header, &config);
  if (!status.ok()) return status;
  const int channels = config.input.has_alpha != 0 ? 4 : 3;
  status = samples->Start("webp", header.width, header.height, channels, 8);
  if (!status.ok()) return status;
  if (config.input.has_animation == 0) {
    return DecodeRows(bytes, header, channels, &config, samples->row(0));
  }
  return ReadFirstFrame(bytes, header, [&](const uint8_t* rgba) {
    uint8_t* const end = samples->row(header.height);
    for (uint8_t* to = samples->row(0); to != end; rgba += 4) to = std::copy_n(rgba, channels, to);
  });
}

}  // namespace shardfeed
