// Errors of images that exceed a limit of the options, such as max_pixels. They have the code
// ResourceExhausted, as a lack of memory has, but the image is to blame and not the system.

#ifndef SHARDFEED_MEDIA_IMAGE_LIMIT_H_
#define SHARDFEED_MEDIA_IMAGE_LIMIT_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace shardfeed {

inline constexpr char kImageLimitUrl[] = "shardfeed/image_limit";

// The message names the limit and its option.
inline absl::Status ImageLimitError(std::string_view message) {
  absl::Status status = absl::ResourceExhaustedError({message.data(), message.size()});
  status.SetPayload(kImageLimitUrl, absl::Cord());
  return status;
}

inline bool IsImageLimit(const absl::Status& status) {
  return status.GetPayload(kImageLimitUrl).has_value();
}

}  // namespace shardfeed

#endif  // SHARDFEED_MEDIA_IMAGE_LIMIT_H_
