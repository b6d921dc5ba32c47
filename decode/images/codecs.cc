#include "decode/images/codecs.h"

#include <dlfcn.h>
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "decode/images/bmp.h"
#include "decode/images/grey.h"
#include "decode/images/png.h"
#include "decode/images/tiff.h"
#include "decode/images/webp.h"
#include "fmt/format.h"
#include "opencv2/core.hpp"
#include "opencv2/imgcodecs.hpp"

namespace shardfeed {
namespace {

// OpenCV's codecs take over a hundred libraries with them, and its core some twenty, so they are
// opened by those who need them: nothing of OpenCV is linked, not even what makes and destroys a
// cv::Mat.
struct Codecs {
  bool (*imencode)(const std::string&, const cv::_InputArray&, std::vector<uint8_t>&,
                   const std::vector<int>&);
  void (*make_mat)(void* mat, int rows, int columns, int type, void* data, size_t step);
  void (*destroy_mat)(void* mat);
  int (*set_log_level)(int level);
};

absl::StatusOr<Codecs> OpenCodecs() {
  const std::string library =
      fmt::format("libopencv_imgcodecs.so.{}{:02}", CV_VERSION_MAJOR, CV_VERSION_MINOR);
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = ::dlerror();
    return absl::UnimplementedError(
        fmt::format("OpenCV's codecs are not here ({}): install them (on Debian: apt-get install "
                    "libopencv-imgcodecs406)",
                    error != nullptr ? error : library));
  }
  Codecs codecs;
  bool found = true;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(::dlsym(handle, name));
    found &= *function != nullptr;
  };
  find(
      "_ZN2cv8imencodeERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS_"
      "11_InputArrayERSt6vectorIhSaIhEERKSB_IiSaIiEE",
      &codecs.imencode);
  find("_ZN2cv3MatC1EiiiPvm", &codecs.make_mat);
  find("_ZN2cv3MatD1Ev", &codecs.destroy_mat);
  find("_ZN2cv5utils7logging11setLogLevelENS1_8LogLevelE", &codecs.set_log_level);
  if (!found) return absl::UnimplementedError(fmt::format("{} is another than expected", library));
  // What it has to say of an image is in the error: nothing goes to standard error.
  codecs.set_log_level(/*LOG_LEVEL_SILENT=*/0);
  return codecs;
}

const absl::StatusOr<Codecs>& GetCodecs() {
  static const auto* codecs = new absl::StatusOr<Codecs>(OpenCodecs());
  return *codecs;
}

// A cv::Mat that the library made.
class Mat {
 public:
  explicit Mat(const Codecs& codecs) : codecs_(codecs) {}
  ~Mat() {
    if (made_) codecs_.destroy_mat(memory_);
  }
  Mat(const Mat&) = delete;
  Mat& operator=(const Mat&) = delete;

  // The pixels are another's.
  void Borrow(void* pixels, uint32_t width, uint32_t height) {
    codecs_.make_mat(memory_, static_cast<int>(height), static_cast<int>(width), CV_8UC3, pixels,
                     size_t{3} * width);
    made_ = true;
  }
  const cv::Mat& get() const { return *reinterpret_cast<const cv::Mat*>(memory_); }

 private:
  const Codecs& codecs_;
  alignas(cv::Mat) char memory_[sizeof(cv::Mat)];
  bool made_ = false;
};

int ReadGifBytes(GifFileType* gif, GifByteType* to, int count) {
  auto& left = *static_cast<std::string_view*>(gif->UserData);
  const size_t n = std::min<size_t>(left.size(), count);
  std::memcpy(to, left.data(), n);
  left.remove_prefix(n);
  return static_cast<int>(n);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { ::DGifCloseFile(gif, nullptr); }
};

absl::Status DecodeGif(std::string_view bytes, const ImageHeader& header, int channels,
                       std::vector<uint8_t>* pixels) {
  const auto damaged = [&](int error) {
    const char* text = ::GifErrorString(error);
    return absl::DataLossError(fmt::format("gif of {} bytes is cut off or damaged: {}",
                                           bytes.size(), text != nullptr ? text : "unknown"));
  };
  std::string_view left = bytes;
  int error = 0;
  const std::unique_ptr<GifFileType, CloseGif> gif(::DGifOpen(&left, ReadGifBytes, &error));
  if (gif == nullptr) return damaged(error);
  while (true) {
    GifRecordType type;
    if (::DGifGetRecordType(gif.get(), &type) == GIF_ERROR) return damaged(gif->Error);
    if (type == IMAGE_DESC_RECORD_TYPE) break;
    if (type == TERMINATE_RECORD_TYPE) return absl::DataLossError("gif without an image");
    int code;
    GifByteType* extension = nullptr;
    if (::DGifGetExtension(gif.get(), &code, &extension) == GIF_ERROR) return damaged(gif->Error);
    while (extension != nullptr) {
      if (::DGifGetExtensionNext(gif.get(), &extension) == GIF_ERROR) return damaged(gif->Error);
    }
  }
  if (::DGifGetImageDesc(gif.get()) == GIF_ERROR) return damaged(gif->Error);
  const GifImageDesc& image = gif->Image;
  const ColorMapObject* colours = image.ColorMap != nullptr ? image.ColorMap : gif->SColorMap;
  if (colours == nullptr) return absl::DataLossError("gif without a table of colours");
  if (image.Left < 0 || image.Top < 0 || image.Width < 1 || image.Height < 1 ||
      uint64_t(image.Left) + image.Width > header.width ||
      uint64_t(image.Top) + image.Height > header.height) {
    return absl::DataLossError(
        fmt::format("gif has an image of {} x {} at ({}, {}), outside of its canvas of {} x {}",
                    image.Width, image.Height, image.Left, image.Top, header.width, header.height));
  }
  pixels->assign(size_t{header.width} * header.height * channels, 0);
  std::vector<GifPixelType> line(image.Width);
  const auto read_line = [&](int y) {
    if (::DGifGetLine(gif.get(), line.data(), image.Width) == GIF_ERROR) return false;
    uint8_t* to = pixels->data() + ((size_t(image.Top) + y) * header.width + image.Left) * channels;
    for (GifPixelType number : line) {
      const GifColorType colour =
          number < colours->ColorCount ? colours->Colors[number] : GifColorType{};
      if (channels == 3) {
        to[0] = colour.Red;
        to[1] = colour.Green;
        to[2] = colour.Blue;
      } else {
        to[0] = GreyOf(colour.Red, colour.Green, colour.Blue);
      }
      to += channels;
    }
    return true;
  };
  if (image.Interlace) {
    for (const auto& [first, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
      for (int y = first; y < image.Height; y += step) {
        if (!read_line(y)) return damaged(gif->Error);
      }
    }
  } else {
    for (int y = 0; y < image.Height; ++y) {
      if (!read_line(y)) return damaged(gif->Error);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeWithCodec(std::string_view bytes, const ImageHeader& header, int channels,
                             std::vector<uint8_t>* pixels) {
  try {
    if (header.format == "gif") return DecodeGif(bytes, header, channels, pixels);
    if (header.format == "png") return DecodePng(bytes, header, channels, pixels);
    if (header.format == "tiff") return DecodeTiff(bytes, header, channels, pixels);
    if (header.format == "bmp") return DecodeBmp(bytes, header, channels, pixels);
    if (header.format == "webp") return DecodeWebp(bytes, header, channels, pixels);
    return absl::UnimplementedError(fmt::format("{} is not decoded here", header.format));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(fmt::format("no memory for a {} of {} x {} pixels",
                                                    header.format, header.width, header.height));
  }
}

absl::Status EncodePng(const uint8_t* pixels, uint32_t width, uint32_t height, std::string* png) {
  const absl::StatusOr<Codecs>& codecs = GetCodecs();
  if (!codecs.ok()) return codecs.status();
  std::vector<uint8_t> bgr(size_t{width} * height * 3);
  for (size_t i = 0; i < bgr.size(); i += 3) {
    bgr[i] = pixels[i + 2];
    bgr[i + 1] = pixels[i + 1];
    bgr[i + 2] = pixels[i];
  }
  std::vector<uint8_t> bytes;
  Mat mat(*codecs);
  try {
    mat.Borrow(bgr.data(), width, height);
    if (!codecs->imencode(".png", mat.get(), bytes, {})) {
      return absl::InternalError("OpenCV could not make the PNG");
    }
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("OpenCV could not make the PNG: {}", e.what()));
  }
  png->assign(bytes.begin(), bytes.end());
  return absl::OkStatus();
}

}  // namespace shardfeed
