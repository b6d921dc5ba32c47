#include "decode/images/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>

#include "decode/images/grey.h"
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

void WriteGrey(const uint8_t* from, size_t stride, std::vector<uint8_t>* pixels) {
  for (uint8_t& grey : *pixels) {
    grey = GreyOf(from[0], from[1], from[2]);
    from += stride;
  }
}

absl::Status DecodeFirstFrame(std::string_view bytes, const ImageHeader& header, int channels,
                              std::vector<uint8_t>* pixels) {
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
  pixels->resize(size_t{header.width} * header.height * channels);
  if (channels == 1) {
    WriteGrey(rgba, 4, pixels);
  } else {
    for (auto to = pixels->begin(); to != pixels->end(); rgba += 4) to = std::copy_n(rgba, 3, to);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeWebp(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels) {
  WebPDecoderConfig config;
  WebPInitDecoderConfig(&config);
  const VP8StatusCode features = WebPGetFeatures(DataOf(bytes), bytes.size(), &config.input);
  if (features != VP8_STATUS_OK) return ErrorOf(features, bytes);
  if (config.input.has_animation != 0) return DecodeFirstFrame(bytes, header, channels, pixels);
  if (config.input.width != static_cast<int>(header.width) ||
      config.input.height != static_cast<int>(header.height)) {
    return absl::DataLossError(fmt::format("webp has {} x {} pixels, but its header says {} x {}",
                                           config.input.width, config.input.height, header.width,
                                           header.height));
  }
  std::vector<uint8_t> colours;
  std::vector<uint8_t>& rgb = channels == 3 ? *pixels : colours;
  const size_t row_bytes = size_t{header.width} * 3;
  rgb.resize(row_bytes * header.height);
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {rgb.data(), static_cast<int>(row_bytes), rgb.size()};
  const VP8StatusCode code = WebPDecode(DataOf(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (code != VP8_STATUS_OK) return ErrorOf(code, bytes);
  if (channels == 1) {
    pixels->resize(size_t{header.width} * header.height);
    WriteGrey(colours.data(), 3, pixels);
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
