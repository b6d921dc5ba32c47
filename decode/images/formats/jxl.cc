#include "decode/images/formats/jxl.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "decode/images/formats/loaded_library.h"
#include "decode/images/pixels/colors.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// What is used of libjxl's interface, which is the same in versions 0.7 of 2022 to 0.11.

struct JxlDecoder;

enum Result : int {
  kSuccess = 0,
  kNeedImageOut = 5,
  kBasicInfo = 0x40,
  kColorEncoding = 0x100,
  kFullImage = 0x1000,
};
enum SampleType : int { kUint8 = 2, kUint16 = 3 };
enum ColorSpace : int { kRgb = 0, kGray = 1 };
enum ExtraType : int { kBlack = 4 };

struct BasicInfo {
  int have_container;
  uint32_t width;
  uint32_t height;
  uint32_t bits;
  uint32_t exponent_bits;
  float intensity_target;
  float min_nits;
  int relative_to_max_display;
  float linear_below;
  int uses_original_profile;
  int have_preview;
  int have_animation;
  int orientation;
  uint32_t color_channels;
  uint32_t extra_channels;
  uint32_t alpha_bits;
  uint32_t alpha_exponent_bits;
  int alpha_premultiplied;
  uint32_t preview[2];
  uint32_t animation[4];
  uint32_t intrinsic_size[2];
  uint8_t reserved[100];
};

struct ExtraChannelInfo {
  int type;
  uint32_t bits;
  uint32_t exponent_bits;
  uint32_t dim_shift;
  uint32_t name_length;
  int alpha_premultiplied;
  float spot_color[4];
  uint32_t cfa_channel;
};

struct PixelFormat {
  uint32_t channels;
  int type;
  int endianness;  // 0: that of the machine
  size_t align;    // alignment of rows; 0: none
};

struct ColorEncoding {
  int space;
  int white_point;
  double white_point_xy[2];
  int primaries;
  double red_xy[2];
  double green_xy[2];
  double blue_xy[2];
  int transfer_function;
  double gamma;
  int rendering_intent;
};

struct Library {
  uint32_t (*version)();
  JxlDecoder* (*create)(const void*);
  void (*destroy)(JxlDecoder*);
  int (*subscribe)(JxlDecoder*, int);
  int (*keep_orientation)(JxlDecoder*, int);
  int (*render_spot_colors)(JxlDecoder*, int);
  int (*set_input)(JxlDecoder*, const uint8_t*, size_t);
  void (*close_input)(JxlDecoder*);
  int (*process)(JxlDecoder*);
  int (*get_info)(const JxlDecoder*, BasicInfo*);
  int (*get_extra_info)(const JxlDecoder*, size_t, ExtraChannelInfo*);
  int (*prefer_colors)(JxlDecoder*, const ColorEncoding*);
  int (*out_size)(const JxlDecoder*, const PixelFormat*, size_t*);
  int (*set_out)(JxlDecoder*, const PixelFormat*, void*, size_t);
  int (*extra_size)(const JxlDecoder*, const PixelFormat*, size_t*, uint32_t);
  int (*set_extra)(JxlDecoder*, const PixelFormat*, void*, size_t, uint32_t);
};

absl::StatusOr<Library> OpenLibrary() {
  absl::StatusOr<LoadedLibrary> loaded =
      LoadedLibrary::Open("libjxl", "libjxl.so.0.7", "libjxl0.7");
  for (const char* newer : {"libjxl.so.0.8", "libjxl.so.0.9", "libjxl.so.0.10", "libjxl.so.0.11"}) {
    if (loaded.ok()) break;
    absl::StatusOr<LoadedLibrary> other = LoadedLibrary::Open("libjxl", newer, "libjxl0.7");
    if (other.ok()) loaded.emplace(*other);
  }
  if (!loaded.ok()) return loaded.status();
  Library library;
  loaded->Find("JxlDecoderVersion", &library.version);
  loaded->Find("JxlDecoderCreate", &library.create);
  loaded->Find("JxlDecoderDestroy", &library.destroy);
  loaded->Find("JxlDecoderSubscribeEvents", &library.subscribe);
  loaded->Find("JxlDecoderSetKeepOrientation", &library.keep_orientation);
  loaded->Find("JxlDecoderSetRenderSpotcolors", &library.render_spot_colors);
  loaded->Find("JxlDecoderSetInput", &library.set_input);
  loaded->Find("JxlDecoderCloseInput", &library.close_input);
  loaded->Find("JxlDecoderProcessInput", &library.process);
  loaded->Find("JxlDecoderGetBasicInfo", &library.get_info);
  loaded->Find("JxlDecoderGetExtraChannelInfo", &library.get_extra_info);
  loaded->Find("JxlDecoderSetPreferredColorProfile", &library.prefer_colors);
  loaded->Find("JxlDecoderImageOutBufferSize", &library.out_size);
  loaded->Find("JxlDecoderSetImageOutBuffer", &library.set_out);
  loaded->Find("JxlDecoderExtraChannelBufferSize", &library.extra_size);
  loaded->Find("JxlDecoderSetExtraChannelBuffer", &library.set_extra);
  constexpr uint32_t kFirst = 7000;  // 0.7.0
  constexpr uint32_t kLast = 11999;
  if (!loaded->found_all() || library.version() < kFirst || library.version() > kLast) {
    return absl::FailedPreconditionError("libjxl is not one of the versions 0.7 to 0.11");
  }
  LoadedLibrary::Silence("libjxl.so");  // Debian's prints where it found damage
  return library;
}

absl::StatusOr<const Library*> GetLibrary() {
  static const auto* library = new absl::StatusOr<Library>(OpenLibrary());
  if (library->ok()) return &**library;
  return absl::FailedPreconditionError(
      fmt::format("jxl: {}", std::string(library->status().message())));
}

// Samples of the whole image, as libjxl writes them.
struct Samples {
  PixelFormat format = {};
  std::vector<uint8_t> bytes;

  uint32_t At(size_t i) const {
    if (format.type == kUint8) return bytes[i];
    uint16_t sample;
    std::memcpy(&sample, bytes.data() + 2 * i, sizeof(sample));
    return sample;
  }
};

// libjxl scales all samples to the whole range of their type.
PixelFormat FormatOf(uint32_t channels, uint32_t bits) {
  return {channels, bits > 8 ? kUint16 : kUint8, 0, 0};
}

// Decodes the first frame of one file. Not thread-safe.
class FrameDecoder {
 public:
  FrameDecoder(const Library& library, std::string_view bytes)
      : library_(library), bytes_(bytes), decoder_(library.create(nullptr), library.destroy) {}

  // Reads what the file says about its image, which must have the size of `header`. `mix_inks`:
  // extra channels of inks become part of the colors.
  absl::Status Open(const ImageHeader& header, bool mix_inks);

  const BasicInfo& info() const { return info_; }
  const std::vector<ExtraChannelInfo>& extra() const { return extra_; }

  // Decodes the colors, with the first alpha if `colors` has a channel more than them, and the
  // extra channels, of which there are as many as `extra` has elements, or which `extra` leaves
  // out. Their formats are set.
  absl::Status Decode(Samples* colors, std::vector<Samples>* extra);

 private:
  // Goes on until `event`, which is the next that can come.
  absl::Status ProcessTo(Result event);
  absl::Status PreferSrgb();
  static absl::Status Internal(std::string_view what) {
    return absl::InternalError(fmt::format("jxl: libjxl refuses {}", what));
  }

  const Library& library_;
  const std::string_view bytes_;
  const std::unique_ptr<JxlDecoder, decltype(Library::destroy)> decoder_;
  BasicInfo info_ = {};
  std::vector<ExtraChannelInfo> extra_;
};

absl::Status FrameDecoder::ProcessTo(Result event) {
  if (library_.process(decoder_.get()) == event) return absl::OkStatus();
  return absl::DataLossError(fmt::format("jxl of {} bytes is cut off or damaged", bytes_.size()));
}

absl::Status FrameDecoder::PreferSrgb() {
  constexpr int kD65 = 1;
  constexpr int kSrgbPrimaries = 1;
  constexpr int kSrgbTransfer = 13;
  constexpr int kRelative = 1;
  ColorEncoding srgb = {};
  srgb.space = info_.color_channels == 1 ? kGray : kRgb;
  srgb.white_point = kD65;
  srgb.primaries = kSrgbPrimaries;
  srgb.transfer_function = kSrgbTransfer;
  srgb.rendering_intent = kRelative;
  if (library_.prefer_colors(decoder_.get(), &srgb) == kSuccess) return absl::OkStatus();
  return absl::UnimplementedError("jxl with colors that libjxl cannot convert to sRGB");
}

absl::Status FrameDecoder::Open(const ImageHeader& header, bool mix_inks) {
  if (decoder_ == nullptr) return absl::ResourceExhaustedError("no memory for a jxl");
  JxlDecoder* const decoder = decoder_.get();
  if (library_.subscribe(decoder, kBasicInfo | kColorEncoding | kFullImage) != kSuccess ||
      library_.keep_orientation(decoder, 1) != kSuccess ||
      library_.render_spot_colors(decoder, mix_inks ? 1 : 0) != kSuccess ||
      library_.set_input(decoder, reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()) !=
          kSuccess) {
    return Internal("its options");
  }
  library_.close_input(decoder);
  if (absl::Status status = ProcessTo(kBasicInfo); !status.ok()) return status;
  if (library_.get_info(decoder, &info_) != kSuccess) return Internal("to tell its size");
  if (info_.width != header.width || info_.height != header.height) {
    return absl::DataLossError(fmt::format("jxl has {} x {} pixels, but its header says {} x {}",
                                           info_.width, info_.height, header.width, header.height));
  }
  if (info_.color_channels != 1 && info_.color_channels != 3) {
    return absl::UnimplementedError(fmt::format("jxl of {} colors", info_.color_channels));
  }
  for (uint32_t i = 0; i < info_.extra_channels; ++i) {
    ExtraChannelInfo extra = {};
    if (library_.get_extra_info(decoder, i, &extra) != kSuccess) {
      return Internal("to tell its channels");
    }
    if (extra.type == kBlack) {
      return absl::UnimplementedError("jxl of CMYK cannot be decoded: convert it to JPEG or TIFF");
    }
    extra_.push_back(extra);
  }
  if (absl::Status status = ProcessTo(kColorEncoding); !status.ok()) return status;
  return info_.uses_original_profile != 0 ? absl::OkStatus() : PreferSrgb();
}

absl::Status FrameDecoder::Decode(Samples* colors, std::vector<Samples>* extra) {
  JxlDecoder* const decoder = decoder_.get();
  if (absl::Status status = ProcessTo(kNeedImageOut); !status.ok()) return status;
  const auto size_of = [&](const PixelFormat& format) {
    return size_t{info_.width} * info_.height * format.channels * (format.type == kUint8 ? 1 : 2);
  };
  size_t size = 0;
  colors->bytes.resize(size_of(colors->format));
  if (library_.out_size(decoder, &colors->format, &size) != kSuccess ||
      size != colors->bytes.size() ||
      library_.set_out(decoder, &colors->format, colors->bytes.data(), size) != kSuccess) {
    return Internal("the type of pixels");
  }
  for (uint32_t i = 0; i < extra->size(); ++i) {
    Samples& channel = (*extra)[i];
    channel.bytes.resize(size_of(channel.format));
    if (library_.extra_size(decoder, &channel.format, &size, i) != kSuccess ||
        size != channel.bytes.size() ||
        library_.set_extra(decoder, &channel.format, channel.bytes.data(), size, i) != kSuccess) {
      return Internal("the type of an extra channel");
    }
  }
  return ProcessTo(kFullImage);
}

absl::Status CheckIntegers(uint32_t bits, uint32_t exponent_bits) {
  if (exponent_bits == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      fmt::format("jxl with floating-point samples of {} bits cannot be decoded", bits));
}

// A level of 8 bits of a sample of 16, whose pixel has been multiplied by `alpha`.
uint8_t Divided(uint32_t sample, uint32_t alpha) {
  if (alpha == 0) return 0;
  return static_cast<uint8_t>(std::min<uint32_t>(255, (sample * 255 + alpha / 2) / alpha));
}

// A sample of `bits` bits, which libjxl has scaled to the range of its type.
uint16_t Unscaled(const Samples& samples, size_t i, uint32_t bits) {
  const uint32_t value = samples.At(i);
  const uint32_t range = samples.format.type == kUint8 ? 0xff : 0xffff;
  const uint32_t max = (uint32_t{1} << bits) - 1;
  return static_cast<uint16_t>((uint64_t{value} * max + range / 2) / range);
}

}  // namespace

absl::Status DecodeJxl(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels) {
  const absl::StatusOr<const Library*> library = GetLibrary();
  if (!library.ok()) return library.status();
  FrameDecoder decoder(**library, bytes);
  absl::Status status = decoder.Open(header, /*mix_inks=*/true);
  if (!status.ok()) return status;
  const BasicInfo& info = decoder.info();
  status = CheckIntegers(info.bits, info.exponent_bits);
  if (!status.ok()) return status;
  const bool divide = info.alpha_premultiplied != 0;
  const uint32_t colors = info.color_channels;
  const uint32_t stride = colors + (divide ? 1 : 0);
  Samples samples;
  samples.format = FormatOf(stride, divide ? 16 : info.bits);
  std::vector<Samples> none;
  status = decoder.Decode(&samples, &none);
  if (!status.ok()) return status;
  if (samples.format.type == kUint8 && stride == static_cast<uint32_t>(channels)) {
    pixels->swap(samples.bytes);
    return absl::OkStatus();
  }
  const size_t num_pixels = size_t{header.width} * header.height;
  pixels->resize(num_pixels * channels);
  uint8_t* to = pixels->data();
  for (size_t i = 0; i < num_pixels; ++i) {
    uint8_t rgb[3];
    for (uint32_t c = 0; c < 3; ++c) {
      const uint32_t sample = samples.At(i * stride + (colors == 1 ? 0 : c));
      rgb[c] = divide ? Divided(sample, samples.At(i * stride + colors))
                      : static_cast<uint8_t>(samples.format.type == kUint8 ? sample : sample >> 8);
    }
    if (channels == 1) {
      *to++ = GrayOf(rgb[0], rgb[1], rgb[2]);
    } else {
      to = std::copy_n(rgb, 3, to);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRawJxl(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  const absl::StatusOr<const Library*> library = GetLibrary();
  if (!library.ok()) return library.status();
  FrameDecoder decoder(**library, bytes);
  absl::Status status = decoder.Open(header, /*mix_inks=*/false);
  if (!status.ok()) return status;
  const BasicInfo& info = decoder.info();
  status = CheckIntegers(info.bits, info.exponent_bits);
  uint32_t bits = info.bits;
  Samples colors;
  colors.format = FormatOf(info.color_channels, info.bits);
  std::vector<Samples> extra;
  for (const ExtraChannelInfo& channel : decoder.extra()) {
    if (status.ok()) status = CheckIntegers(channel.bits, channel.exponent_bits);
    bits = std::max(bits, channel.bits);
    extra.push_back({FormatOf(1, channel.bits), {}});
  }
  if (status.ok() && bits > 16) {
    status = absl::UnimplementedError(
        fmt::format("jxl with samples of {} bits, of which at most 16 can be decoded", bits));
  }
  if (status.ok()) {
    status = samples->Start("jxl", header.width, header.height,
                            info.color_channels + info.extra_channels, static_cast<int>(bits));
  }
  if (status.ok()) status = decoder.Decode(&colors, &extra);
  if (!status.ok()) return status;
  size_t at = 0;
  for (uint32_t y = 0; y < header.height; ++y) {
    uint8_t* to = samples->row(y);
    const auto put = [&](uint16_t value) {
      if (samples->sample_bytes() == 1) {
        *to = static_cast<uint8_t>(value);
      } else {
        std::memcpy(to, &value, sizeof(value));
      }
      to += samples->sample_bytes();
    };
    for (uint32_t x = 0; x < header.width; ++x, ++at) {
      for (uint32_t c = 0; c < info.color_channels; ++c) {
        put(Unscaled(colors, at * info.color_channels + c, info.bits));
      }
      for (size_t c = 0; c < extra.size(); ++c) {
        put(Unscaled(extra[c], at, decoder.extra()[c].bits));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
