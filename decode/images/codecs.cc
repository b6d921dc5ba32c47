#include "decode/images/codecs.h"

#include <dlfcn.h>

#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "decode/images/bmp.h"
#include "decode/images/gif.h"
#include "decode/images/png.h"
#include "decode/images/tiff.h"
#include "decode/images/webp.h"
#include "fmt/format.h"
#include "opencv2/core.hpp"
#include "opencv2/imgcodecs.hpp"

namespace shardfeed {
namespace {

// OpenCV's codecs depend on over a hundred libraries, and its core on some twenty, so they are
// loaded only when needed, and nothing of OpenCV is linked, not even the constructor and destructor
// of cv::Mat.
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
    return absl::UnimplementedError(fmt::format(
        "OpenCV's codecs are not installed ({}): install them (on Debian: apt-get install "
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
  if (!found) return absl::UnimplementedError(fmt::format("{} lacks expected symbols", library));
  // Errors are returned, so OpenCV must not write to standard error.
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

  // Makes the matrix refer to `pixels`, which it does not own.
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

}  // namespace

absl::Status DecodeWithCodec(std::string_view bytes, const ImageHeader& header, int channels,
                             std::vector<uint8_t>* pixels) {
  try {
    if (header.format == "gif") return DecodeGif(bytes, header, channels, pixels);
    if (header.format == "png") return DecodePng(bytes, header, channels, pixels);
    if (header.format == "tiff") return DecodeTiff(bytes, header, channels, pixels);
    if (header.format == "bmp") return DecodeBmp(bytes, header, channels, pixels);
    if (header.format == "webp") return DecodeWebp(bytes, header, channels, pixels);
    return absl::UnimplementedError(fmt::format("unexpected format {}", header.format));
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
