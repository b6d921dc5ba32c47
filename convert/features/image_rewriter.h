// Rewrites images on their way into a dataset: makes JPEGs seekable (docs/seekable_jpeg.md),
// shrinks them, or keeps them. Counts what happened, for the notes of a source.

#ifndef SHARDFEED_CONVERT_FEATURES_IMAGE_REWRITER_H_
#define SHARDFEED_CONVERT_FEATURES_IMAGE_REWRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "media/image_header.h"

namespace shardfeed {

enum class JpegMode {
  kSeekable,  // rewrite losslessly where possible
  kKeep,      // keep all bytes without examining them
};

struct StoredImageOptions {
  JpegMode jpeg = JpegMode::kSeekable;
  // JPEGs whose shorter side is longer than this, in pixels, are shrunk to it, which loses detail,
  // and encoded with `quality` (1 to 100). 0: no image is shrunk. Images of other formats are kept.
  uint32_t resize_shorter = 0;
  int quality = 90;
};

// The image to store.
struct StoredImage {
  // The given bytes, or memory of the calling thread that is valid until its next call.
  std::string_view bytes;
  ImageHeader header;  // header of `bytes`
};

// The first bytes of every JPEG.
inline constexpr std::string_view kJpegMagic = "\xff\xd8\xff";

// Thread-safe.
class ImageRewriter {
 public:
  explicit ImageRewriter(const StoredImageOptions& options) : options_(options) {}

  // Whether every image is kept unchanged.
  bool keeps_all() const {
    return options_.jpeg == JpegMode::kKeep && options_.resize_shorter == 0;
  }

  // Whether the stored size may be far from the size of the image.
  bool resizes() const { return options_.resize_shorter > 0; }

  // Returns what to store of an image whose header is `header`. Images that cannot be rewritten are
  // kept. `name` is used in notes and errors.
  //
  // ResourceExhausted: out of memory.
  absl::StatusOr<StoredImage> Rewrite(std::string_view name, const ImageHeader& header,
                                      std::string_view bytes) const;

  // The same for bytes of any kind; bytes that are not a JPEG are kept.
  absl::StatusOr<std::string_view> RewriteJpeg(std::string_view name, std::string_view bytes) const;

  // Resets the counts, so that `notes` covers only later calls.
  void Reset();

  // Notes on how many JPEGs were rewritten, how many were kept and why, and which are damaged. They
  // do not depend on the order of the calls. Empty if there were no JPEGs.
  std::vector<std::string> notes() const;

 private:
  struct Counts {
    uint64_t resized = 0;
    uint64_t not_resized = 0;  // images of other formats
    uint64_t rewritten = 0;
    uint64_t damaged = 0;
    std::map<std::string, uint64_t> kept;  // images kept, by reason; not damaged ones
    // The first damaged images in the order of their names, with the damage.
    std::map<std::string, std::string, std::less<>> damaged_names;
  };

  absl::StatusOr<StoredImage> Resize(std::string_view name, const ImageHeader& header,
                                     std::string_view bytes) const;
  absl::StatusOr<StoredImage> MakeSeekable(std::string_view name, const ImageHeader& header,
                                           std::string_view bytes) const;
  void CountDamaged(std::string_view name, std::string what) const;

  const StoredImageOptions options_;
  mutable Mutex mutex_;
  mutable Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_IMAGE_REWRITER_H_
