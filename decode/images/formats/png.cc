#include "decode/images/formats/png.h"

#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "decode/images/pixels/colors.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// The state of decoding one image. libpng reports errors by longjmp, which must not bypass a
// destructor, so all objects with destructors live here.
struct Reading {
  explicit Reading(std::string_view bytes) : left(bytes) {}
  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  std::string_view left;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<uint8_t> colors;  // RGB rows that are then converted to gray
  bool cut_off = false;
  bool out_of_memory = false;
  char error[160] = {};
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto& reading = *static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading.error, sizeof(reading.error), "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void Read(png_structp png, png_bytep to, png_size_t count) {
  auto& reading = *static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading.left.size()) {
    reading.cut_off = true;
    png_error(png, "the file ends");
  }
  std::memcpy(to, reading.left.data(), count);
  reading.left.remove_prefix(count);
}

// Reads what comes before the image. Returns false after an error.
bool Open(Reading& reading) {
  reading.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, OnError, OnWarning);
  if (reading.png == nullptr) {
    reading.out_of_memory = true;
    return false;
  }
  png_structp png = reading.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  reading.info = png_create_info_struct(png);
  if (reading.info == nullptr) {
    reading.out_of_memory = true;
    return false;
  }
  // The caller has limits of its own.
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_read_fn(png, &reading, Read);
  png_read_info(png, reading.info);
  return true;
}

// Sets up decoding to 8-bit gray or RGB samples without transparency: the file's, or RGB
// `to_color`. Returns the number of channels, or 0 after an error.
int PrepareLevels(Reading& reading, bool to_color) {
  png_structp png = reading.png;
  if (setjmp(png_jmpbuf(png)) != 0) return 0;
  const int color = png_get_color_type(png, reading.info);
  const int depth = png_get_bit_depth(png, reading.info);
  if (depth == 16) png_set_strip_16(png);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if ((color & PNG_COLOR_MASK_ALPHA) != 0 ||
      (color == PNG_COLOR_TYPE_PALETTE && png_get_valid(png, reading.info, PNG_INFO_tRNS) != 0)) {
    png_set_strip_alpha(png);
  }
  const bool gray = (color & PNG_COLOR_MASK_COLOR) == 0;
  if (gray && to_color) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, reading.info);
  return gray && !to_color ? 1 : 3;
}

// Sets up decoding to samples as they are, each in a byte or two. Returns false after an error.
bool PrepareRaw(Reading& reading) {
  png_structp png = reading.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_packing(png);
  if (png_get_bit_depth(png, reading.info) == 16 && std::endian::native == std::endian::little) {
    png_set_swap(png);
  }
  png_set_interlace_handling(png);
  png_read_update_info(png, reading.info);
  return true;
}

// Reads the image to `height` rows of `row_bytes` bytes. Returns false after an error.
bool ReadRows(Reading& reading, uint8_t* rows, size_t row_bytes, uint32_t height) {
  png_structp png = reading.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  for (int pass = png_set_interlace_handling(png); pass > 0; --pass) {
    for (size_t y = 0; y < height; ++y) png_read_row(png, rows + y * row_bytes, nullptr);
  }
  png_read_end(png, nullptr);
  return true;
}

// The state of encoding one image; see Reading.
struct Writing {
  ~Writing() { png_destroy_write_struct(&png, &info); }

  std::string* out = nullptr;
  png_structp png = nullptr;
  png_infop info = nullptr;
  bool out_of_memory = false;
  char error[160] = {};
};

[[noreturn]] void OnWriteError(png_structp png, png_const_charp message) {
  auto& writing = *static_cast<Writing*>(png_get_error_ptr(png));
  std::snprintf(writing.error, sizeof(writing.error), "%s", message);
  png_longjmp(png, 1);
}

// An exception must not pass through libpng.
void Write(png_structp png, png_bytep from, png_size_t count) {
  auto& writing = *static_cast<Writing*>(png_get_io_ptr(png));
  try {
    writing.out->append(reinterpret_cast<const char*>(from), count);
  } catch (const std::bad_alloc&) {
    writing.out_of_memory = true;
  }
  if (writing.out_of_memory) png_error(png, "Out of memory");
}

bool Encode(Writing& writing, const uint8_t* pixels, uint32_t width, uint32_t height) {
  writing.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writing, OnWriteError, OnWarning);
  png_structp png = writing.png;
  if (png != nullptr) writing.info = png_create_info_struct(png);
  if (writing.info == nullptr) {
    writing.out_of_memory = true;
    return false;
  }
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &writing, Write, nullptr);
  png_set_IHDR(png, writing.info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, writing.info);
  for (uint32_t y = 0; y < height; ++y) png_write_row(png, pixels + size_t{3} * width * y);
  png_write_end(png, nullptr);
  return true;
}

absl::Status ErrorOf(const Reading& reading, std::string_view bytes) {
  if (reading.out_of_memory || std::string_view(reading.error) == "Out of memory") {
    return absl::ResourceExhaustedError("no memory for a png");
  }
  if (reading.cut_off) {
    return absl::DataLossError(fmt::format(
        "png is cut off: the file ends after {} bytes, before its image", bytes.size()));
  }
  return absl::DataLossError(fmt::format("png is damaged: {}", std::string_view(reading.error)));
}

absl::Status CheckSize(const Reading& reading, const ImageHeader& header, size_t row_bytes) {
  if (png_get_image_width(reading.png, reading.info) != header.width ||
      png_get_image_height(reading.png, reading.info) != header.height ||
      png_get_rowbytes(reading.png, reading.info) != row_bytes) {
    return absl::DataLossError("png does not have the size that its header says");
  }
  return absl::OkStatus();
}

// Checks that so few bytes can hold the image, before anything is allocated for it.
absl::Status CheckBytes(const Reading& reading, std::string_view bytes) {
  const uint32_t width = png_get_image_width(reading.png, reading.info);
  const uint32_t height = png_get_image_height(reading.png, reading.info);
  const uint32_t bits = uint32_t{png_get_channels(reading.png, reading.info)} *
                        png_get_bit_depth(reading.png, reading.info);
  const bool interlaced = png_get_interlace_type(reading.png, reading.info) != PNG_INTERLACE_NONE;
  unsigned __int128 needed = 0;  // uncompressed: rows, each after the number of its filter
  for (int pass = 0; pass < (interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); ++pass) {
    const uint64_t columns = interlaced ? PNG_PASS_COLS(width, pass) : width;
    const uint64_t rows = interlaced ? PNG_PASS_ROWS(height, pass) : height;
    if (columns > 0) needed += (unsigned __int128){rows} * (1 + (columns * bits + 7) / 8);
  }
  constexpr uint64_t kMostFromByte = 1032;  // a length of 258 bytes takes at least 2 bits
  if (needed <= (unsigned __int128){bytes.size()} * kMostFromByte) return absl::OkStatus();
  return absl::DataLossError(
      fmt::format("png is cut off or damaged: its {} bytes cannot hold {} x {} pixels",
                  bytes.size(), width, height));
}

}  // namespace

absl::Status DecodePng(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels) {
  Reading reading(bytes);
  if (!Open(reading)) return ErrorOf(reading, bytes);
  if (absl::Status status = CheckBytes(reading, bytes); !status.ok()) return status;
  const int read = PrepareLevels(reading, /*to_color=*/channels == 3);
  if (read == 0) return ErrorOf(reading, bytes);
  const size_t row_bytes = size_t{header.width} * read;
  if (absl::Status status = CheckSize(reading, header, row_bytes); !status.ok()) return status;
  pixels->resize(size_t{header.width} * header.height * channels);
  uint8_t* to = pixels->data();
  if (read != channels) {
    reading.colors.resize(row_bytes * header.height);
    to = reading.colors.data();
  }
  if (!ReadRows(reading, to, row_bytes, header.height)) return ErrorOf(reading, bytes);
  if (read != channels) {
    const uint8_t* from = reading.colors.data();
    for (uint8_t& gray : *pixels) {
      gray = GrayOf(from[0], from[1], from[2]);
      from += 3;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadRawPng(std::string_view bytes, const ImageHeader& header, RawSamples* samples) {
  Reading reading(bytes);
  if (!Open(reading)) return ErrorOf(reading, bytes);
  absl::Status status = CheckBytes(reading, bytes);
  if (!status.ok()) return status;
  if (!PrepareRaw(reading)) return ErrorOf(reading, bytes);
  status = samples->Start("png", header.width, header.height,
                          png_get_channels(reading.png, reading.info),
                          png_get_bit_depth(reading.png, reading.info));
  if (status.ok()) status = CheckSize(reading, header, samples->row_bytes());
  if (!status.ok()) return status;
  const bool read = ReadRows(reading, samples->row(0), samples->row_bytes(), header.height);
  return read ? absl::OkStatus() : ErrorOf(reading, bytes);
}

absl::Status EncodePng(const uint8_t* pixels, uint32_t width, uint32_t height, std::string* png) {
  png->clear();
  Writing writing;
  writing.out = png;
  if (Encode(writing, pixels, width, height)) return absl::OkStatus();
  if (writing.out_of_memory || std::string_view(writing.error) == "Out of memory") {
    return absl::ResourceExhaustedError("no memory for a png");
  }
  return absl::InvalidArgumentError(fmt::format("cannot make a png of {} x {} pixels: {}", width,
                                                height, std::string_view(writing.error)));
}

}  // namespace shardfeed
