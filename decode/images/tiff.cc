#include "decode/images/tiff.h"

#include <dlfcn.h>
#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "decode/images/grey.h"
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
  decltype(&TIFFRGBAImageBegin) begin;
  decltype(&TIFFRGBAImageGet) get;
  decltype(&TIFFRGBAImageEnd) end;
};

absl::StatusOr<Library> OpenLibrary() {
  constexpr char kName[] = "libtiff.so.6";
  void* handle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = ::dlerror();
    return absl::UnimplementedError(fmt::format(
        "libtiff is not installed ({}): install it (on Debian: apt-get install libtiff6), or "
        "convert such images to JPEG or PNG",
        error != nullptr ? error : kName));
  }
  Library library;
  bool found = true;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(handle, name));
    found &= *function != nullptr;
  };
  find("TIFFOpenOptionsAlloc", &library.make_options);
  find("TIFFOpenOptionsFree", &library.free_options);
  find("TIFFOpenOptionsSetMaxSingleMemAlloc", &library.set_max_allocation);
  find("TIFFOpenOptionsSetErrorHandlerExtR", &library.set_error_handler);
  find("TIFFOpenOptionsSetWarningHandlerExtR", &library.set_warning_handler);
  find("TIFFClientOpenExt", &library.open);
  find("TIFFClose", &library.close);
  find("TIFFSetField", &library.set_field);
  find("TIFFGetFieldDefaulted", &library.get_field);
  find("TIFFRGBAImageBegin", &library.begin);
  find("TIFFRGBAImageGet", &library.get);
  find("TIFFRGBAImageEnd", &library.end);
  if (!found) return absl::UnimplementedError("libtiff is older than 4.5");
  return library;
}

const absl::StatusOr<Library>& GetLibrary() {
  static const auto* library = new absl::StatusOr<Library>(OpenLibrary());
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

// Undoes the multiplication of a level by `alpha`.
uint8_t Divided(uint32_t level, uint32_t alpha) {
  if (alpha == 0) return 0;
  return static_cast<uint8_t>(std::min<uint32_t>(255, level * 255 / alpha));
}

}  // namespace

absl::Status DecodeTiff(std::string_view bytes, const ImageHeader& header, int channels,
                        std::vector<uint8_t>* pixels) {
  const absl::StatusOr<Library>& found = GetLibrary();
  if (!found.ok()) {
    return absl::UnimplementedError(fmt::format("tiff: {}", std::string(found.status().message())));
  }
  const Library& library = *found;
  Input input = {bytes};
  const std::unique_ptr<TIFFOpenOptions, decltype(library.free_options)> options(
      library.make_options(), library.free_options);
  if (options == nullptr) return absl::ResourceExhaustedError("no memory for a tiff");
  library.set_max_allocation(options.get(), kMaxAllocation);
  library.set_error_handler(options.get(), OnError, &input);
  library.set_warning_handler(options.get(), OnWarning, nullptr);
  const std::unique_ptr<TIFF, decltype(library.close)> tiff(
      library.open("tiff", "r", &input, Read, Write, Seek, Close, Size, Map, Unmap, options.get()),
      library.close);
  if (tiff == nullptr) return Damaged(input);

  uint16_t num_extra = 0;
  uint16_t* extra = nullptr;
  library.get_field(tiff.get(), TIFFTAG_EXTRASAMPLES, &num_extra, &extra);
  const uint16_t alpha = num_extra > 0 ? extra[0] : uint16_t{EXTRASAMPLE_UNSPECIFIED};
  const bool multiplied = alpha == EXTRASAMPLE_ASSOCALPHA;
  if (alpha == EXTRASAMPLE_UNASSALPHA) {
    // Keeps libtiff from multiplying by alpha: it takes the colours to be multiplied already.
    std::vector<uint16_t> kinds(extra, extra + num_extra);
    kinds[0] = EXTRASAMPLE_ASSOCALPHA;
    library.set_field(tiff.get(), TIFFTAG_EXTRASAMPLES, static_cast<int>(num_extra), kinds.data());
  }
  // Keeps libtiff from applying the orientation.
  library.set_field(tiff.get(), TIFFTAG_ORIENTATION, static_cast<int>(ORIENTATION_TOPLEFT));

  char why[1024] = {};
  TIFFRGBAImage image = {};
  input.error.clear();
  if (library.begin(&image, tiff.get(), /*stop=*/1, why) == 0) {
    if (!input.error.empty()) return Damaged(input);
    return absl::UnimplementedError(
        fmt::format("tiff of a kind that libtiff cannot decode: {}", why));
  }
  const std::unique_ptr<TIFFRGBAImage, decltype(library.end)> ended(&image, library.end);
  if (image.width != header.width || image.height != header.height) {
    return absl::DataLossError(fmt::format("tiff has {} x {} pixels, but its header says {} x {}",
                                           image.width, image.height, header.width, header.height));
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
      *to++ = GreyOf(rgb[0], rgb[1], rgb[2]);
    } else {
      to = std::copy_n(rgb, 3, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
