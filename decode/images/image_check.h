// Checks whether the images in records can be decoded.

#ifndef SHARDFEED_DECODE_IMAGES_IMAGE_CHECK_H_
#define SHARDFEED_DECODE_IMAGES_IMAGE_CHECK_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace shardfeed {

// An image is a value of a bytes feature that begins like an image file (ReadImageHeader) and tells
// its size, or whose feature is named like an image: image/encoded, or a name that ends in such a
// file's suffix ("jpg", "seg.png"). A bare codestream of JPEG XL has only two bytes to know it by,
// so a damaged one is only an image if its feature says so.
//
// JPEGs are decoded at an eighth of their size, which still reads all their data up to the end of
// the image, and are intact if libjpeg gives no warning. The others are decoded whole.
//
// Thread-safe.
class ImageCheck {
 public:
  // Checks the images of a serialized Example or SequenceExample, and appends a text for each
  // broken one, with the name of its feature, to `defects`. Records that are not Examples are
  // ignored. ResourceExhausted: there is not enough memory for an image; the message names its
  // feature.
  absl::Status CheckRecord(std::string_view record, std::vector<std::string>* defects);

  struct Counts {
    uint64_t sound = 0;
    uint64_t broken = 0;
    // How many were not decoded, by format and reason: "tiff: ...".
    std::map<std::string, uint64_t> not_decoded;
  };
  Counts counts() const;

 private:
  absl::Status CheckValue(std::string_view feature, std::string_view value,
                          std::vector<std::string>* defects);
  void CountNotDecoded(const std::string& why);

  mutable Mutex mutex_;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_IMAGE_CHECK_H_
