#include "cli/flags/image_flags.h"

#include <cstdlib>

namespace shardfeed {

ImageFlags::ImageFlags(CLI::App& command, JpegMode fallback, bool resizes) : fallback_(fallback) {
  CLI::Option* jpeg =
      command
          .add_option("--jpeg", jpeg_,
                      "seekable: rewrite JPEGs losslessly, so that crops of them decode faster; "
                      "keep: store their bytes unchanged")
          ->check(CLI::IsMember({"seekable", "keep"}))
          ->type_name("KIND");
  // A default that changes bytes is named in the help and in the manifest.
  if (fallback == JpegMode::kSeekable) jpeg->default_str("seekable");
  if (!resizes) return;
  CLI::Option* resize =
      command
          .add_option("--resize-shorter", shorter_,
                      "shrink JPEGs whose shorter side is longer to this many pixels")
          ->check(CLI::Range(1, 65500))
          ->type_name("PIXELS");
  command
      .add_option("--quality", quality_, "quality of shrunk JPEGs, on libjpeg's scale; default 90")
      ->check(CLI::Range(1, 100))
      ->needs(resize);
}

StoredImageOptions ImageFlags::options() const {
  StoredImageOptions options;
  options.jpeg = jpeg_.empty()         ? fallback_
                 : jpeg_ == "seekable" ? JpegMode::kSeekable
                                       : JpegMode::kKeep;
  if (!shorter_.empty()) options.resize_shorter = std::atoi(shorter_.c_str());
  if (!quality_.empty()) options.quality = std::atoi(quality_.c_str());
  return options;
}

}  // namespace shardfeed
