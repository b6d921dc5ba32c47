#include "decode/images/formats/heif.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "decode/images/formats/loaded_library.h"
#include "decode/images/formats/ycbcr.h"
#include "decode/images/pixels/colors.h"
#include "fmt/format.h"
#include "media/heif_header.h"

namespace shardfeed {
namespace {

// The part of libheif's interface that is used. It has been the same since version 1.8 of 2020:
// objects are opaque, and its structs only grow at their ends.

struct Context;
struct Handle;
struct Image;

struct Error {
  int code;
  int subcode;
  const char* message;
};
enum ErrorCode : int {
  kOk = 0,
  kUnsupportedFile = 3,
  kUnsupportedFeature = 4,
  kNoMemory = 6,
  kDecoderFailed = 7,
};
constexpr int kSecurityLimitExceeded = 1000;  // a subcode

struct DecodingOptions {
  uint8_t version;
  uint8_t ignore_transformations;
};

struct ColorProfile {
  uint8_t version;
  int primaries;
  int transfer;
  int matrix;
  uint8_t full_range;
};

// Since version 1.19; later ones have more members.
struct SecurityLimits {
  uint8_t version;
  uint64_t max_pixels;
  uint64_t max_tiles;
  uint32_t max_bayer_pixels;
  uint32_t max_items;
  uint32_t max_profile_bytes;
  uint64_t max_block_bytes;
  uint32_t max_components;
  uint32_t max_extents;
  uint32_t max_group;
  uint32_t max_children;
  uint64_t max_total_bytes;  // from version 2 of the limits on
};

enum Colorspace : int { kYcbcr = 0, kMonochrome = 2 };
enum Chroma : int { kNoChroma = 0, k420 = 1, k422 = 2, k444 = 3 };
enum Channel : int { kY = 0, kCb = 1, kCr = 2, kAlpha = 6 };
enum Compression : int { kHevc = 1, kAv1 = 4 };

struct Library {
  Context* (*make_context)();
  void (*free_context)(Context*);
  void (*set_max_size)(Context*, int);
  void (*set_max_threads)(Context*, int);
  Error (*read)(Context*, const void*, size_t, const void*);
  Error (*get_primary)(Context*, Handle**);
  void (*release_handle)(const Handle*);
  int (*has_alpha)(const Handle*);
  int (*is_premultiplied)(const Handle*);
  int (*have_decoder)(int);
  DecodingOptions* (*make_options)();
  void (*free_options)(DecodingOptions*);
  Error (*decode)(const Handle*, Image**, int, int, const DecodingOptions*);
  void (*release_image)(const Image*);
  int (*width)(const Image*, int);
  int (*height)(const Image*, int);
  int (*bits)(const Image*, int);
  const uint8_t* (*plane)(const Image*, int, int*);
  Error (*get_profile)(const Image*, ColorProfile**);
  void (*free_profile)(ColorProfile*);
  int (*get_warnings)(Image*, int, Error*, int);
  SecurityLimits* (*get_limits)(Context*);  // null in versions that have none
};

absl::StatusOr<Library> OpenLibrary() {
  absl::StatusOr<LoadedLibrary> loaded = LoadedLibrary::Open("libheif", "libheif.so.1", "libheif1");
  if (!loaded.ok()) return loaded.status();
  Library library;
  loaded->Find("heif_context_alloc", &library.make_context);
  loaded->Find("heif_context_free", &library.free_context);
  loaded->Find("heif_context_set_maximum_image_size_limit", &library.set_max_size);
  loaded->Find("heif_context_set_max_decoding_threads", &library.set_max_threads);
  loaded->Find("heif_context_read_from_memory_without_copy", &library.read);
  loaded->Find("heif_context_get_primary_image_handle", &library.get_primary);
  loaded->Find("heif_image_handle_release", &library.release_handle);
  loaded->Find("heif_image_handle_has_alpha_channel", &library.has_alpha);
  loaded->Find("heif_image_handle_is_premultiplied_alpha", &library.is_premultiplied);
  loaded->Find("heif_have_decoder_for_format", &library.have_decoder);
  loaded->Find("heif_decoding_options_alloc", &library.make_options);
  loaded->Find("heif_decoding_options_free", &library.free_options);
  loaded->Find("heif_decode_image", &library.decode);
  loaded->Find("heif_image_release", &library.release_image);
  loaded->Find("heif_image_get_width", &library.width);
  loaded->Find("heif_image_get_height", &library.height);
  loaded->Find("heif_image_get_bits_per_pixel_range", &library.bits);
  loaded->Find("heif_image_get_plane_readonly", &library.plane);
  loaded->Find("heif_image_get_nclx_color_profile", &library.get_profile);
  loaded->Find("heif_nclx_color_profile_free", &library.free_profile);
  loaded->Find("heif_image_get_decoding_warnings", &library.get_warnings);
  loaded->FindIfThere("heif_context_get_security_limits", &library.get_limits);
  if (!loaded->found_all()) return absl::FailedPreconditionError("libheif is older than 1.13");
  library.have_decoder(kAv1);  // loads it, if it is a plugin
  LoadedLibrary::Silence("libdav1d.so");
  return library;
}

absl::StatusOr<const Library*> GetLibrary(std::string_view format) {
  static const auto* library = new absl::StatusOr<Library>(OpenLibrary());
  if (library->ok()) return &**library;
  return absl::FailedPreconditionError(
      fmt::format("{}: {}", format, std::string(library->status().message())));
}

// libheif's messages may have several lines.
std::string MessageOf(const Error& error) {
  std::string message = error.message != nullptr ? error.message : "";
  while (!message.empty() && message.back() == '\n') message.pop_back();
  std::replace(message.begin(), message.end(), '\n', ' ');
  return message;
}

// Small images may consist of a larger tile, and codecs work on whole blocks.
uint64_t WithBlocks(uint32_t pixels) {
  constexpr uint32_t kTile = 1024;
  constexpr uint32_t kBlock = 256;
  return std::min<uint64_t>(uint64_t{std::max(pixels, kTile)} + kBlock, INT32_MAX);
}

// Several copies of four planes of 16 bits, and what does not depend on the size.
constexpr uint64_t kBytesPerPixel = 64;
constexpr uint64_t kOtherBytes = uint64_t{64} << 20;

// Whether there is memory for all that decoding may take, and for the stacks of a decoder's
// threads.
bool HasMemory(const HeifHeader& header) {
  constexpr uint64_t kStackBytes = uint64_t{8} << 20;
  const uint64_t pixels = WithBlocks(header.stored_width) * WithBlocks(header.stored_height);
  if (pixels > SIZE_MAX / (2 * kBytesPerPixel)) return false;
  const size_t bytes =
      pixels * kBytesPerPixel + kOtherBytes + kStackBytes * std::thread::hardware_concurrency();
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  munmap(memory, bytes);
  return true;
}

// Throws std::bad_alloc for a lack of memory, which the callers tell with the image's size.
absl::Status StatusOf(const Error& error, const HeifHeader& header, std::string_view format,
                      std::string_view bytes) {
  const std::string message = MessageOf(error);
  switch (error.code) {
    case kOk:
      return absl::OkStatus();
    case kUnsupportedFile:
    case kUnsupportedFeature:
      return absl::UnimplementedError(
          fmt::format("{} of a kind that libheif cannot decode: {}", format, message));
    case kNoMemory:
      if (error.subcode == kSecurityLimitExceeded) {  // SetLimits sets them for this header
        return absl::DataLossError(
            fmt::format("{} of {} bytes needs more memory than its header says: {}", format,
                        bytes.size(), message));
      }
      throw std::bad_alloc();
    case kDecoderFailed:  // for any reason, also a lack of memory in one of its threads
      if (!HasMemory(header)) throw std::bad_alloc();
      break;
    default:
      break;
  }
  return absl::DataLossError(
      fmt::format("{} of {} bytes is cut off or damaged: {}", format, bytes.size(), message));
}

// An image that libheif has decoded, with the planes that it stores.
struct Decoded {
  std::unique_ptr<Image, decltype(Library::release_image)> image;
  HeifHeader header;
  YcbcrImage color;
  SamplePlane alpha;  // no data: there is none
  bool premultiplied = false;

  bool gray() const { return color.cb.data == nullptr; }
  int channels() const { return (gray() ? 1 : 3) + (alpha.data != nullptr ? 1 : 0); }
};

SamplePlane PlaneOf(const Library& library, const Image* image, Channel channel) {
  int row_bytes = 0;
  SamplePlane plane;
  plane.data = library.plane(image, channel, &row_bytes);
  if (plane.data == nullptr) return plane;
  plane.row_bytes = row_bytes;
  plane.width = library.width(image, channel);
  plane.height = library.height(image, channel);
  plane.bits = library.bits(image, channel);
  return plane;
}

// Whether a plane has the expected size, and rows that hold it.
bool IsWhole(const SamplePlane& plane, uint32_t width, uint32_t height) {
  const uint64_t bytes = uint64_t{plane.width} * (plane.bits > 8 ? 2 : 1);
  return plane.data != nullptr && plane.width == width && plane.height == height &&
         plane.bits >= 8 && plane.bits <= 16 && plane.row_bytes >= bytes;
}

// Takes the planes of `image`. Its sizes are what the bitstream says, which need not be true to the
// file's header.
absl::StatusOr<Decoded> TakePlanes(const Library& library, Image* image, const HeifHeader& header,
                                   std::string_view format) {
  Decoded decoded{{image, library.release_image}, header, {}, {}, false};
  const uint32_t width = header.stored_width;
  const uint32_t height = header.stored_height;
  YcbcrImage& color = decoded.color;
  color.y = PlaneOf(library, image, kY);
  if (color.y.data != nullptr && (color.y.width != width || color.y.height != height)) {
    return absl::DataLossError(fmt::format("{} has {} x {} pixels, but its header says {} x {}",
                                           format, color.y.width, color.y.height, width, height));
  }
  bool whole = IsWhole(color.y, width, height);
  if (header.chroma != kNoChroma) {
    const uint32_t columns = header.chroma == k444 ? width : width / 2 + width % 2;
    const uint32_t rows = header.chroma == k420 ? height / 2 + height % 2 : height;
    color.cb = PlaneOf(library, image, kCb);
    color.cr = PlaneOf(library, image, kCr);
    whole = whole && IsWhole(color.cb, columns, rows) && IsWhole(color.cr, columns, rows) &&
            color.cb.bits == color.y.bits && color.cr.bits == color.y.bits;
  }
  decoded.alpha = PlaneOf(library, image, kAlpha);
  if (decoded.alpha.data != nullptr) whole = whole && IsWhole(decoded.alpha, width, height);
  if (!whole) {
    return absl::UnimplementedError(
        fmt::format("{} with planes of different sizes or depths", format));
  }
  ColorProfile* profile = nullptr;
  if (library.get_profile(image, &profile).code == kOk && profile != nullptr) {
    color.matrix = profile->matrix;
    color.full_range = profile->full_range != 0;
    library.free_profile(profile);
  }
  if (!IsKnownMatrix(color.matrix)) {
    return absl::UnimplementedError(
        fmt::format("{} with colors of matrix {} (ITU-T H.273)", format, color.matrix));
  }
  return decoded;
}

// Keeps libheif from allocating much more than the image takes, whatever else the file says.
void SetLimits(const Library& library, const HeifHeader& header, Context* context) {
  const uint64_t width = WithBlocks(header.stored_width);
  const uint64_t height = WithBlocks(header.stored_height);
  library.set_max_size(context, static_cast<int>(std::max(width, height)));
  library.set_max_threads(context, 0);  // in this thread
  if (library.get_limits == nullptr) return;
  SecurityLimits* const limits = library.get_limits(context);
  if (limits == nullptr) return;
  limits->max_pixels = width * height;
  if (limits->version < 2) return;
  if (limits->max_pixels < limits->max_total_bytes / kBytesPerPixel) {
    limits->max_total_bytes =
        std::min(limits->max_total_bytes, limits->max_pixels * kBytesPerPixel + kOtherBytes);
  }
}

absl::StatusOr<Decoded> Decode(const Library& library, std::string_view bytes,
                               std::string_view format) {
  const absl::StatusOr<HeifHeader> header = ReadHeifHeader(bytes);
  if (!header.ok()) return header.status();
  const bool av1 = format == "avif";
  if (library.have_decoder(av1 ? kAv1 : kHevc) == 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: libheif has no decoder for {}: install its plugin (on Debian: apt-get install "
        "libheif-plugin-{})",
        format, av1 ? "AV1" : "HEVC", av1 ? "dav1d" : "libde265"));
  }
  // libheif 1.15 turns alpha even if told to ignore transformations, and takes no alpha whose size
  // differs once both are turned. It keeps a view of the file, so the copy outlives the context.
  std::string copy;
  std::string_view file = bytes;
  if (!header->turns.empty()) {
    copy = bytes;
    for (size_t at : header->turns) copy[at] = 0;
    file = copy;
  }
  const std::unique_ptr<Context, decltype(library.free_context)> context(library.make_context(),
                                                                         library.free_context);
  if (context == nullptr) throw std::bad_alloc();
  SetLimits(library, *header, context.get());
  Error error = library.read(context.get(), file.data(), file.size(), nullptr);
  if (error.code != kOk) return StatusOf(error, *header, format, bytes);
  Handle* primary = nullptr;
  error = library.get_primary(context.get(), &primary);
  if (error.code != kOk) return StatusOf(error, *header, format, bytes);
  const std::unique_ptr<const Handle, decltype(library.release_handle)> handle(
      primary, library.release_handle);
  const std::unique_ptr<DecodingOptions, decltype(library.free_options)> options(
      library.make_options(), library.free_options);
  if (options == nullptr) throw std::bad_alloc();
  options->ignore_transformations = 1;
  Image* image = nullptr;
  const int chroma = header->chroma;
  error = library.decode(handle.get(), &image, chroma == kNoChroma ? kMonochrome : kYcbcr, chroma,
                         options.get());
  if (error.code != kOk) return StatusOf(error, *header, format, bytes);
  absl::StatusOr<Decoded> decoded = TakePlanes(library, image, *header, format);
  if (!decoded.ok()) return decoded;
  Error warning = {};
  if (library.get_warnings(image, 0, &warning, 1) > 0) {
    return absl::DataLossError(
        fmt::format("{} of {} bytes is damaged: {}", format, bytes.size(), MessageOf(warning)));
  }
  decoded->premultiplied =
      decoded->alpha.data != nullptr && library.is_premultiplied(handle.get()) != 0;
  return decoded;
}

// Rounds a level of 0 to 1 to 0 to `max`.
uint32_t Quantized(float level, uint32_t max) {
  return static_cast<uint32_t>(
      std::lround(std::clamp(level, 0.0f, 1.0f) * static_cast<float>(max)));
}

}  // namespace

absl::Status DecodeHeif(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels) {
  const absl::StatusOr<const Library*> library = GetLibrary(header.format);
  if (!library.ok()) return library.status();
  const absl::StatusOr<Decoded> decoded = Decode(**library, bytes, header.format);
  if (!decoded.ok()) return decoded.status();
  YcbcrRows rows(decoded->color);
  const HeifHeader& part = decoded->header;
  std::vector<float> row(size_t{3} * part.stored_width);
  pixels->resize(size_t{part.width} * part.height * channels);
  uint8_t* to = pixels->data();
  for (uint32_t y = part.top; y < part.top + part.height; ++y) {
    rows.Convert(y, row.data());
    for (uint32_t x = part.left; x < part.left + part.width; ++x) {
      float factor = 1;
      if (decoded->premultiplied) {
        const uint32_t alpha = decoded->alpha.At(x, y);
        factor = alpha == 0 ? 0 : static_cast<float>(decoded->alpha.max()) / alpha;
      }
      uint8_t rgb[3];
      for (size_t c = 0; c < 3; ++c) rgb[c] = Quantized(row[3 * x + c] * factor, 255);
      if (channels == 1) {
        *to++ = GrayOf(rgb[0], rgb[1], rgb[2]);
      } else {
        to = std::copy_n(rgb, 3, to);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRawHeif(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  const absl::StatusOr<const Library*> library = GetLibrary(header.format);
  if (!library.ok()) return library.status();
  const absl::StatusOr<Decoded> decoded = Decode(**library, bytes, header.format);
  if (!decoded.ok()) return decoded.status();
  const YcbcrImage& color = decoded->color;
  const SamplePlane& alpha = decoded->alpha;
  const int bits = std::max(color.y.bits, alpha.data != nullptr ? alpha.bits : 0);
  const HeifHeader& part = decoded->header;
  absl::Status status =
      samples->Start(header.format, part.width, part.height, decoded->channels(), bits);
  if (!status.ok()) return status;
  YcbcrRows rows(color);
  std::vector<float> row(size_t{3} * part.stored_width);
  for (uint32_t y = part.top; y < part.top + part.height; ++y) {
    uint8_t* to = samples->row(y - part.top);
    const auto put = [&](uint32_t sample) {
      const auto value = static_cast<uint16_t>(sample);
      if (samples->sample_bytes() == 1) {
        *to = static_cast<uint8_t>(value);
      } else {
        std::memcpy(to, &value, sizeof(value));
      }
      to += samples->sample_bytes();
    };
    if (!decoded->gray()) rows.Convert(y, row.data());
    for (uint32_t x = part.left; x < part.left + part.width; ++x) {
      if (decoded->gray()) {
        put(color.y.At(x, y));
      } else {
        for (size_t c = 0; c < 3; ++c) put(Quantized(row[size_t{3} * x + c], color.y.max()));
      }
      if (alpha.data != nullptr) put(alpha.At(x, y));
    }
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
