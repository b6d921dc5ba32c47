#include "cli/flags/image_flags.h"

#include <cstdlib>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// Takes an option of the images from the dataset of --like, if it is not `given`, and refuses
// another value.
absl::StatusOr<std::string> LikeOption(const std::string& name, const std::string& given,
                                       const NamedManifest* like) {
  const bool converted = like != nullptr && like->manifest.made_by.count("command") > 0 &&
                         like->manifest.made_by.at("command").starts_with("convert ");
  if (!converted) return given;
  const std::string theirs = OptionOf(like->manifest, name).value_or("");
  if (given.empty() || given == theirs) return theirs;
  return absl::InvalidArgumentError(fmt::format(
      "{} {}: {} was written {}; leave one of {} and --like out", name, given, like->name,
      theirs.empty() ? "without it" : fmt::format("with {} {}", name, theirs), name));
}

}  // namespace

ImageFlags::ImageFlags(CLI::App& command, JpegMode fallback, bool resizes)
    : fallback_(fallback), resizes_(resizes) {
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

absl::StatusOr<StoredImageOptions> ImageFlags::options(const NamedManifest* like) const {
  const absl::StatusOr<std::string> jpeg = LikeOption("--jpeg", jpeg_, like);
  if (!jpeg.ok()) return jpeg.status();
  StoredImageOptions options;
  options.jpeg = jpeg->empty()         ? fallback_
                 : *jpeg == "seekable" ? JpegMode::kSeekable
                                       : JpegMode::kKeep;
  const auto number = [&](const std::string& name, const std::string& given,
                          auto* value) -> absl::Status {
    const absl::StatusOr<std::string> text = LikeOption(name, given, like);
    if (text.ok() && !text->empty()) *value = std::atoi(text->c_str());
    return text.status();
  };
  if (!resizes_) return options;
  absl::Status status = number("--resize-shorter", shorter_, &options.resize_shorter);
  if (status.ok()) status = number("--quality", quality_, &options.quality);
  if (!status.ok()) return status;
  return options;
}

}  // namespace shardfeed
