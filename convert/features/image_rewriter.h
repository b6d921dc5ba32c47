// What becomes of images on their way into a dataset: JPEGs are made seekable
// (docs/seekable_jpeg.md), or all are kept as they are. Counts what happened, for the notes of a
// source.

#ifndef SHARDFEED_CONVERT_FEATURES_IMAGE_REWRITER_H_
#define SHARDFEED_CONVERT_FEATURES_IMAGE_REWRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "decode/images/image_header.h"

namespace shardfeed {

enum class JpegMode {
  kSeekable,  // rewritten losslessly where that can be done
  kKeep,      // all bytes as they are, and not looked at
};

struct ImageOptions {
  JpegMode jpeg = JpegMode::kSeekable;
  // JPEGs whose shorter side is longer than this, in pixels, are shrunk to it, which loses detail,
  // and encoded with `quality` (1 to 100). 0: none are. Other images are kept.
  uint32_t resize_shorter = 0;
  int quality = 90;
};

// What is stored of an image.
struct StoredImage {
  // The bytes given, or memory of the thread that lives until its next call.
  std::string_view bytes;
  ImageHeader header;  // header of `bytes`
};

// How every JPEG begins.
inline constexpr std::string_view kJpegMagic = "\xff\xd8\xff";

// Thread safe.
class ImageRewriter {
 public:
  explicit ImageRewriter(const ImageOptions& options) : options_(options) {}

  // Whether every image is kept as it is.
  bool keeps_all() const {
    return options_.jpeg == JpegMode::kKeep && options_.resize_shorter == 0;
  }

  // Whether the size of what is stored may be far from that of the image.
  bool resizes() const { return options_.resize_shorter > 0; }

  // What to store of an image whose header is `header`. Images that cannot be rewritten are
  // kept. `name` is for notes and errors.
  //
  // ResourceExhausted: there is not enough memory.
  absl::StatusOr<StoredImage> Rewrite(std::string_view name, const ImageHeader& header,
                                      std::string_view bytes) const;

  // The same for bytes of any kind: those that are no JPEG are kept.
  absl::StatusOr<std::string_view> RewriteJpeg(std::string_view name, std::string_view bytes) const;

  // Forgets what happened so far, which `notes` are then not about.
  void Reset();

  // How many JPEGs were rewritten, how many were kept and why, and which are damaged. The same
  // whatever the order of the calls. None if there were no JPEGs.
  std::vector<std::string> notes() const;

 private:
  struct Counts {
    uint64_t resized = 0;
    uint64_t not_resized = 0;  // images of other formats
    uint64_t rewritten = 0;
    uint64_t damaged = 0;
    std::map<std::string, uint64_t>
        kept;  // images kept, by reason; damaged ones are counted elsewhere
    // The first damaged in the order of their names, with what is wrong.
    std::map<std::string, std::string, std::less<>> damaged_names;
  };

  absl::StatusOr<StoredImage> Resize(std::string_view name, const ImageHeader& header,
                                     std::string_view bytes) const;
  absl::StatusOr<StoredImage> MakeSeekable(std::string_view name, const ImageHeader& header,
                                           std::string_view bytes) const;
  void CountDamaged(std::string_view name, std::string what) const;

  const ImageOptions options_;
  mutable Mutex mutex_;
  mutable Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_IMAGE_REWRITER_H_
