#include "decode/images/formats/codecs.h"

#include <new>

#include "decode/images/formats/bmp.h"
#include "decode/images/formats/gif.h"
#include "decode/images/formats/heif.h"
#include "decode/images/formats/jxl.h"
#include "decode/images/formats/png.h"
#include "decode/images/formats/tiff.h"
#include "decode/images/formats/webp.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

template <typename Call>
absl::Status CatchNoMemory(const ImageHeader& header, const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format("no memory for {} {} of {} x {} pixels",
                                                    header.format == "avif" ? "an" : "a",
                                                    header.format, header.width, header.height));
  }
}

bool IsHeif(const ImageHeader& header) {
  return header.format == "avif" || header.format == "heic";
}

absl::Status Unexpected(const ImageHeader& header) {
  return absl::UnimplementedError(fmt::format("unexpected format {}", header.format));
}

}  // namespace

absl::Status DecodeWithCodec(std::string_view bytes, const ImageHeader& header, int channels,
                             std::vector<uint8_t>* pixels) {
  return CatchNoMemory(header, [&] {
    if (header.format == "gif") return DecodeGif(bytes, header, channels, pixels);
    if (header.format == "png") return DecodePng(bytes, header, channels, pixels);
    if (header.format == "tiff") return DecodeTiff(bytes, header, channels, pixels);
    if (header.format == "bmp") return DecodeBmp(bytes, header, channels, pixels);
    if (header.format == "webp") return DecodeWebp(bytes, header, channels, pixels);
    if (IsHeif(header)) return DecodeHeif(bytes, header, channels, pixels);
    if (header.format == "jxl") return DecodeJxl(bytes, header, channels, pixels);
    return Unexpected(header);
  });
}

absl::Status ReadRawWithCodec(std::string_view bytes, const ImageHeader& header,
                              RawSamples* samples) {
  return CatchNoMemory(header, [&] {
    if (header.format == "gif") return ReadRawGif(bytes, header, samples);
    if (header.format == "png") return ReadRawPng(bytes, header, samples);
    if (header.format == "tiff") return ReadRawTiff(bytes, header, samples);
    if (header.format == "bmp") return ReadRawBmp(bytes, header, samples);
    if (header.format == "webp") return ReadRawWebp(bytes, header, samples);
    if (IsHeif(header)) return ReadRawHeif(bytes, header, samples);
    if (header.format == "jxl") return ReadRawJxl(bytes, header, samples);
    return Unexpected(header);
  });
}

}  // namespace shardfeed
