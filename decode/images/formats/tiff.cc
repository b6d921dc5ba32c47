#include "decode/images/formats/tiff.h"

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "decode/images/formats/loaded_library.h"
#include "decode/images/pixels/colors.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// The most that a damaged file may make libtiff allocate at once. An image takes at most half of
// it.
constexpr tmsize_t kMaxAllocation = tmsize_t{1} << 30;

// libtiff depends on a dozen libraries, so it is loaded only when needed.
struct Library {
  decltype(&TIFFOpenOptionsAlloc) make_options;
  decltype(&TIFFOpenOptionsFree) free_options;
  decltype(&TIFFOpenOptionsSetMaxSingleMemAlloc) set_max_allocation;
  decltype(&TIFFOpenOptionsSetErrorHandlerExtR) set_error_handler;
  decltype(&TIFFOpenOptionsSetWarningHandlerExtR) set_warning_handler;
  decltype(&TIFFClientOpenExt) open;
  decltype(&TIFFClose) close;
  decltype(&TIFFSetField) set_field;
  decltype(&TIFFGetFieldDefaulted) get_field;
  decltype(&TIFFIsCODECConfigured) has_codec;
  decltype(&TIFFRGBAImageBegin) begin;
  decltype(&TIFFRGBAImageGet) get;
  decltype(&TIFFRGBAImageEnd) end;
  decltype(&TIFFIsTiled) is_tiled;
  decltype(&TIFFScanlineSize) row_size;
  decltype(&TIFFReadScanline) read_row;
  decltype(&TIFFTileSize) tile_size;
  decltype(&TIFFTileRowSize) tile_row_size;
  decltype(&TIFFReadTile) read_tile;
};

absl::StatusOr<Library> OpenLibrary() {
  absl::StatusOr<LoadedLibrary> loaded = LoadedLibrary::Open("libtiff", "libtiff.so.6", "libtiff6");
  if (!loaded.ok()) return loaded.status();
  Library library;
  loaded->Find("TIFFOpenOptionsAlloc", &library.make_options);
  loaded->Find("TIFFOpenOptionsFree", &library.free_options);
  loaded->Find("TIFFOpenOptionsSetMaxSingleMemAlloc", &library.set_max_allocation);
  loaded->Find("TIFFOpenOptionsSetErrorHandlerExtR", &library.set_error_handler);
  loaded->Find("TIFFOpenOptionsSetWarningHandlerExtR", &library.set_warning_handler);
  loaded->Find("TIFFClientOpenExt", &library.open);
  loaded->Find("TIFFClose", &library.close);
  loaded->Find("TIFFSetField", &library.set_field);
  loaded->Find("TIFFGetFieldDefaulted", &library.get_field);
  loaded->Find("TIFFIsCODECConfigured", &library.has_codec);
  loaded->Find("TIFFRGBAImageBegin", &library.begin);
  loaded->Find("TIFFRGBAImageGet", &library.get);
  loaded->Find("TIFFRGBAImageEnd", &library.end);
  loaded->Find("TIFFIsTiled", &library.is_tiled);
  loaded->Find("TIFFScanlineSize", &library.row_size);
  loaded->Find("TIFFReadScanline", &library.read_row);
  loaded->Find("TIFFTileSize", &library.tile_size);
  loaded->Find("TIFFTileRowSize", &library.tile_row_size);
  loaded->Find("TIFFReadTile", &library.read_tile);
  if (!loaded->found_all()) return absl::FailedPreconditionError("libtiff is older than 4.5");
  return library;
}

const absl::StatusOr<Library>& GetLibrary() {
  static const auto* library = new absl::StatusOr<Library>([]() -> absl::StatusOr<Library> {
    absl::StatusOr<Library> opened = OpenLibrary();
    if (opened.ok()) return opened;
    return absl::FailedPreconditionError(
        fmt::format("tiff: {}", std::string(opened.status().message())));
  }());
  return *library;
}

// The file in memory, and libtiff's first error.
struct Input {
  std::string_view bytes;
  toff_t at = 0;
  std::string error;
};

tmsize_t Read(thandle_t handle, void* to, tmsize_t count) {
  auto& input = *static_cast<Input*>(handle);
  const toff_t left = input.bytes.size() - std::min<toff_t>(input.at, input.bytes.size());
  const toff_t n = std::min<toff_t>(left, static_cast<toff_t>(std::max<tmsize_t>(count, 0)));
  if (n > 0) std::memcpy(to, input.bytes.data() + input.at, n);
  input.at += n;
  return static_cast<tmsize_t>(n);
}

tmsize_t Write(thandle_t, void*, tmsize_t) { return 0; }

toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  auto& input = *static_cast<Input*>(handle);
  if (whence == SEEK_SET) input.at = offset;
  if (whence == SEEK_CUR) input.at += offset;
  if (whence == SEEK_END) input.at = input.bytes.size() + offset;
  return input.at;
}

int Close(thandle_t) { return 0; }
toff_t Size(thandle_t handle) { return static_cast<Input*>(handle)->bytes.size(); }

// Lets libtiff read directly from memory.
int Map(thandle_t handle, void** base, toff_t* size) {
  const std::string_view bytes = static_cast<Input*>(handle)->bytes;
  *base = const_cast<char*>(bytes.data());
  *size = bytes.size();
  return 1;
}
void Unmap(thandle_t, void*, toff_t) {}

int OnError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto& input = *static_cast<Input*>(user);
  if (input.error.empty()) {
    char text[200];
    std::vsnprintf(text, sizeof(text), format, arguments);
    input.error = text;
  }
  return 1;
}
int OnWarning(TIFF*, void*, const char*, const char*, va_list) { return 1; }

absl::Status Damaged(const Input& input) {
  return absl::DataLossError(fmt::format("tiff of {} bytes is cut off or damaged{}{}",
                                         input.bytes.size(), input.error.empty() ? "" : ": ",
                                         input.error));
}

using File = std::unique_ptr<TIFF, decltype(Library::close)>;

// Opens `input`, which must outlive the result. Unimplemented: libtiff cannot decode its
// compression.
absl::StatusOr<File> Open(const Library& library, Input* input) {
  const std::unique_ptr<TIFFOpenOptions, decltype(library.free_options)> options(
      library.make_options(), library.free_options);
  if (options == nullptr) return absl::ResourceExhaustedError("no memory for a tiff");
  library.set_max_allocation(options.get(), kMaxAllocation);
  library.set_error_handler(options.get(), OnError, input);
  library.set_warning_handler(options.get(), OnWarning, nullptr);
  File tiff(
      library.open("tiff", "r", input, Read, Write, Seek, Close, Size, Map, Unmap, options.get()),
      library.close);
  if (tiff == nullptr) return Damaged(*input);
  input->error.clear();  // a tag that has no meaning here, such as a wrong orientation
  uint16_t compression = COMPRESSION_NONE;
  library.get_field(tiff.get(), TIFFTAG_COMPRESSION, &compression);
  // 0 is no compression's number.
  if (compression != 0 && library.has_codec(compression) == 0) {
    return absl::UnimplementedError(
        fmt::format("tiff with compression {}, which libtiff cannot decode", compression));
  }
  return tiff;
}

// Undoes the multiplication of a level by `alpha`.
uint8_t Divided(uint32_t level, uint32_t alpha) {
  if (alpha == 0) return 0;
  return static_cast<uint8_t>(std::min<uint32_t>(255, level * 255 / alpha));
}

// How samples are stored.
struct Storage {
  uint32_t width = 0;
  uint32_t height = 0;
  uint16_t channels = 1;
  uint16_t bits = 1;
  uint16_t sample_format = SAMPLEFORMAT_UINT;
  uint16_t photometric = PHOTOMETRIC_MINISBLACK;
  uint16_t compression = COMPRESSION_NONE;
  uint16_t planes = PLANARCONFIG_CONTIG;

  // Channels that stand beside each other, and how often rows or tiles of them are stored.
  uint16_t beside() const { return planes == PLANARCONFIG_SEPARATE ? uint16_t{1} : channels; }
  uint16_t times() const { return planes == PLANARCONFIG_SEPARATE ? channels : uint16_t{1}; }
  uint64_t BytesOf(uint64_t pixels) const { return (pixels * beside() * bits + 7) / 8; }
};

absl::Status CheckUnsigned(uint16_t sample_format, uint16_t bits) {
  if (sample_format == SAMPLEFORMAT_UINT || sample_format == SAMPLEFORMAT_VOID) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(fmt::format("tiff with {} samples of {} bits",
                                              sample_format == SAMPLEFORMAT_IEEEFP
                                                  ? "floating-point"
                                              : sample_format == SAMPLEFORMAT_INT ? "signed"
                                                                                  : "complex",
                                              bits));
}

// Checks the size of an image against that of its header.
absl::Status CheckSize(uint32_t width, uint32_t height, const ImageHeader& header) {
  if (width == header.width && height == header.height) return absl::OkStatus();
  return absl::DataLossError(fmt::format("tiff has {} x {} pixels, but its header says {} x {}",
                                         width, height, header.width, header.height));
}

absl::StatusOr<Storage> StorageOf(const Library& library, TIFF* tiff) {
  Storage storage;
  library.get_field(tiff, TIFFTAG_IMAGEWIDTH, &storage.width);
  library.get_field(tiff, TIFFTAG_IMAGELENGTH, &storage.height);
  library.get_field(tiff, TIFFTAG_SAMPLESPERPIXEL, &storage.channels);
  library.get_field(tiff, TIFFTAG_BITSPERSAMPLE, &storage.bits);
  library.get_field(tiff, TIFFTAG_SAMPLEFORMAT, &storage.sample_format);
  library.get_field(tiff, TIFFTAG_PHOTOMETRIC, &storage.photometric);
  library.get_field(tiff, TIFFTAG_COMPRESSION, &storage.compression);
  library.get_field(tiff, TIFFTAG_PLANARCONFIG, &storage.planes);
  if (absl::Status status = CheckUnsigned(storage.sample_format, storage.bits); !status.ok()) {
    return status;
  }
  const uint16_t bits = storage.bits;
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16) {
    return absl::UnimplementedError(fmt::format("tiff with samples of {} bits", bits));
  }
  const bool ycbcr = storage.photometric == PHOTOMETRIC_YCBCR;
  if (ycbcr && storage.compression == COMPRESSION_JPEG) {
    library.set_field(tiff, TIFFTAG_JPEGCOLORMODE, static_cast<int>(JPEGCOLORMODE_RGB));
  } else if (ycbcr || storage.photometric == PHOTOMETRIC_LOGL ||
             storage.photometric == PHOTOMETRIC_LOGLUV) {
    return absl::UnimplementedError(fmt::format(
        "tiff with colors of kind {} (PhotometricInterpretation)", storage.photometric));
  }
  return storage;
}

// Writes `count` samples of `bits` bits, which are packed from the highest bit, to every
// `step`-th sample from `to` on.
void Unpack(const uint8_t* from, int bits, size_t count, size_t step, uint8_t* to) {
  const size_t bytes = bits > 8 ? 2 : 1;
  if (bits >= 8 && step == 1) {
    std::memcpy(to, from, count * bytes);
    return;
  }
  for (size_t i = 0; i < count; ++i, to += step * bytes) {
    if (bits >= 8) {
      std::memcpy(to, from + i * bytes, bytes);
    } else {
      const size_t bit = i * bits;
      *to = from[bit / 8] >> (8 - bits - bit % 8) & ((1 << bits) - 1);
    }
  }
}

// Writes `width` pixels of a row or a tile, beginning at (x, y), to the samples.
void Place(const uint8_t* from, const Storage& storage, uint16_t plane, uint32_t x, uint32_t y,
           uint32_t width, RawSamples* samples) {
  const size_t pixel = size_t{storage.channels} * samples->sample_bytes();
  const size_t step = storage.channels / storage.beside();
  Unpack(from, storage.bits, size_t{width} * storage.beside(), step,
         samples->row(y) + x * pixel + size_t{plane} * samples->sample_bytes());
}

absl::Status ReadRows(const Library& library, TIFF* tiff, const Storage& storage,
                      const Input& input, RawSamples* samples) {
  const tmsize_t row_size = library.row_size(tiff);
  if (static_cast<uint64_t>(row_size) != storage.BytesOf(storage.width)) return Damaged(input);
  std::vector<uint8_t> row(row_size);
  for (uint16_t plane = 0; plane < storage.times(); ++plane) {
    for (uint32_t y = 0; y < storage.height; ++y) {
      if (library.read_row(tiff, row.data(), y, plane) < 0) {
        return Damaged(input);
      }
      Place(row.data(), storage, plane, 0, y, storage.width, samples);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTiles(const Library& library, TIFF* tiff, const Storage& storage,
                       const Input& input, RawSamples* samples) {
  // A tile may be larger than a small image, but not by any amount.
  constexpr uint64_t kMaxTile = 64 << 20;
  uint32_t width = 0;
  uint32_t height = 0;
  library.get_field(tiff, TIFFTAG_TILEWIDTH, &width);
  library.get_field(tiff, TIFFTAG_TILELENGTH, &height);
  const tmsize_t row_size = library.tile_row_size(tiff);
  const tmsize_t size = library.tile_size(tiff);
  if (width == 0 || height == 0 || static_cast<uint64_t>(row_size) != storage.BytesOf(width) ||
      size / height != row_size) {
    return Damaged(input);
  }
  if (static_cast<uint64_t>(size) > std::max<uint64_t>(samples->size(), kMaxTile)) {
    return absl::UnimplementedError(
        fmt::format("tiff of {} x {} pixels with tiles of {} x {}, which are too large",
                    storage.width, storage.height, width, height));
  }
  std::vector<uint8_t> tile(size);
  for (uint16_t plane = 0; plane < storage.times(); ++plane) {
    for (uint64_t y = 0; y < storage.height; y += height) {
      for (uint64_t x = 0; x < storage.width; x += width) {
        if (library.read_tile(tiff, tile.data(), x, y, 0, plane) < 0) {
          return Damaged(input);
        }
        const auto columns = static_cast<uint32_t>(std::min<uint64_t>(width, storage.width - x));
        const uint64_t rows = std::min<uint64_t>(height, storage.height - y);
        for (uint64_t line = 0; line < rows; ++line) {
          Place(tile.data() + line * row_size, storage, plane, x, y + line, columns, samples);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSamples(const Library& library, TIFF* tiff, const Storage& storage,
                         const ImageHeader& header, const Input& input, RawSamples* samples) {
  absl::Status status = CheckSize(storage.width, storage.height, header);
  if (!status.ok()) return status;
  status = samples->Start("tiff", header.width, header.height, storage.channels, storage.bits);
  if (!status.ok()) return status;
  status = library.is_tiled(tiff) != 0 ? ReadTiles(library, tiff, storage, input, samples)
                                       : ReadRows(library, tiff, storage, input, samples);
  if (status.ok() && !input.error.empty()) return Damaged(input);
  return status;
}

// Whether DecodeSamples decodes the image. libtiff 4.5 places gray pixels of tiles wrongly if there
// is alpha or 16 bits and the last column of tiles is not full, and truncates what CMYK becomes.
bool IsGrayOrCmyk(const Library& library, TIFF* tiff) {
  uint16_t photometric = PHOTOMETRIC_RGB;
  uint16_t channels = 1;
  uint16_t inks = INKSET_CMYK;
  library.get_field(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
  library.get_field(tiff, TIFFTAG_SAMPLESPERPIXEL, &channels);
  library.get_field(tiff, TIFFTAG_INKSET, &inks);
  return photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE ||
         (photometric == PHOTOMETRIC_SEPARATED && channels >= 4 && inks == INKSET_CMYK);
}

// `multiplied`: gray by the second channel, which is alpha.
absl::Status DecodeSamples(const Library& library, TIFF* tiff, const ImageHeader& header,
                           const Input& input, bool multiplied, int channels,
                           std::vector<uint8_t>* pixels) {
  const absl::StatusOr<Storage> storage = StorageOf(library, tiff);
  if (!storage.ok()) return storage.status();
  RawFormat format;
  format.channels = storage->channels;
  format.max_bytes = kMaxAllocation;
  RawSamples samples(format);
  absl::Status status = ReadSamples(library, tiff, *storage, header, input, &samples);
  if (!status.ok()) return status;
  const uint32_t most = (1U << storage->bits) - 1;
  // A sample in 8 bits: of 16 bits the upper ones.
  const auto level = [&](const uint8_t* at) -> uint32_t {
    if (storage->bits < 16) return *at * 255U / most;
    uint16_t sample;
    std::memcpy(&sample, at, sizeof(sample));
    return sample >> 8;
  };
  const bool cmyk = storage->photometric == PHOTOMETRIC_SEPARATED;
  const uint32_t white = storage->photometric == PHOTOMETRIC_MINISBLACK ? 0 : 255;
  multiplied = multiplied && !cmyk && storage->channels > 1;
  pixels->resize(size_t{header.width} * header.height * channels);
  uint8_t* to = pixels->data();
  const size_t sample = samples.sample_bytes();
  for (uint32_t y = 0; y < header.height; ++y) {
    const uint8_t* from = samples.row(y);
    for (uint32_t x = 0; x < header.width; ++x, from += sample * storage->channels) {
      uint32_t rgb[3];
      rgb[0] = level(from) ^ white;
      if (multiplied) rgb[0] = Divided(rgb[0], level(from + sample));
      rgb[1] = rgb[2] = rgb[0];
      if (cmyk) {
        const uint32_t key = level(from + 3 * sample) ^ white;
        for (int c = 0; c < 3; ++c) {
          rgb[c] = MultiplyAsFractions(level(from + c * sample) ^ white, key);
        }
      }
      if (channels == 1) {
        *to++ = cmyk ? GrayOf(rgb[0], rgb[1], rgb[2]) : static_cast<uint8_t>(rgb[0]);
      } else {
        to = std::copy_n(rgb, 3, to);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeTiff(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels) {
  const absl::StatusOr<Library>& found = GetLibrary();
  if (!found.ok()) return found.status();
  const Library& library = *found;
  Input input = {bytes};
  const absl::StatusOr<File> opened = Open(library, &input);
  if (!opened.ok()) return opened.status();
  const File& tiff = *opened;

  uint16_t sample_format = SAMPLEFORMAT_UINT;
  uint16_t bits = 1;
  library.get_field(tiff.get(), TIFFTAG_SAMPLEFORMAT, &sample_format);
  library.get_field(tiff.get(), TIFFTAG_BITSPERSAMPLE, &bits);
  if (absl::Status status = CheckUnsigned(sample_format, bits); !status.ok()) return status;
  uint16_t num_extra = 0;
  uint16_t* extra = nullptr;
  library.get_field(tiff.get(), TIFFTAG_EXTRASAMPLES, &num_extra, &extra);
  const uint16_t alpha = num_extra > 0 ? extra[0] : uint16_t{EXTRASAMPLE_UNSPECIFIED};
  const bool multiplied = alpha == EXTRASAMPLE_ASSOCALPHA;
  if (IsGrayOrCmyk(library, tiff.get())) {
    return DecodeSamples(library, tiff.get(), header, input, multiplied, channels, pixels);
  }
  if (alpha == EXTRASAMPLE_UNASSALPHA) {
    // Keeps libtiff from multiplying by alpha: it takes the colors to be multiplied already.
    std::vector<uint16_t> kinds(extra, extra + num_extra);
    kinds[0] = EXTRASAMPLE_ASSOCALPHA;
    library.set_field(tiff.get(), TIFFTAG_EXTRASAMPLES, static_cast<int>(num_extra), kinds.data());
  }
  // Keeps libtiff from applying the orientation.
  library.set_field(tiff.get(), TIFFTAG_ORIENTATION, static_cast<int>(ORIENTATION_TOPLEFT));

  char why[1024] = {};
  TIFFRGBAImage image = {};
  if (library.begin(&image, tiff.get(), /*stop=*/1, why) == 0) {
    if (!input.error.empty()) return Damaged(input);
    return absl::UnimplementedError(
        fmt::format("tiff of a kind that libtiff cannot decode: {}", why));
  }
  const std::unique_ptr<TIFFRGBAImage, decltype(library.end)> ended(&image, library.end);
  if (absl::Status status = CheckSize(image.width, image.height, header); !status.ok()) {
    return status;
  }
  image.req_orientation = ORIENTATION_TOPLEFT;
  if (image.Bitdepth16To8 != nullptr) {
    for (uint32_t i = 0; i < 65536; ++i) image.Bitdepth16To8[i] = static_cast<uint8_t>(i >> 8);
  }
  const size_t count = size_t{header.width} * header.height;
  std::vector<uint32_t> raster(count);
  if (library.get(&image, raster.data(), header.width, header.height) == 0 ||
      !input.error.empty()) {
    return Damaged(input);
  }
  pixels->resize(count * channels);
  uint8_t* to = pixels->data();
  for (uint32_t pixel : raster) {
    uint8_t rgb[] = {static_cast<uint8_t>(TIFFGetR(pixel)), static_cast<uint8_t>(TIFFGetG(pixel)),
                     static_cast<uint8_t>(TIFFGetB(pixel))};
    if (multiplied) {
      for (uint8_t& level : rgb) level = Divided(level, TIFFGetA(pixel));
    }
    if (channels == 1) {
      *to++ = GrayOf(rgb[0], rgb[1], rgb[2]);
    } else {
      to = std::copy_n(rgb, 3, to);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRawTiff(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  const absl::StatusOr<Library>& found = GetLibrary();
  if (!found.ok()) return found.status();
  const Library& library = *found;
  Input input = {bytes};
  const absl::StatusOr<File> tiff = Open(library, &input);
  if (!tiff.ok()) return tiff.status();
  const absl::StatusOr<Storage> storage = StorageOf(library, tiff->get());
  if (!storage.ok()) return storage.status();
  return ReadSamples(library, tiff->get(), *storage, header, input, samples);
}

}  // namespace shardfeed
