// Reads what the header of a JPEG XL file says about its image.
//
// Format: ISO/IEC 18181-1, annexes A to E (the codestream), and 18181-2 (the container).

#ifndef SHARDFEED_MEDIA_JXL_HEADER_H_
#define SHARDFEED_MEDIA_JXL_HEADER_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct JxlHeader {
  uint32_t height = 0;  // in pixels, at least 1, as stored
  uint32_t width = 0;
  // 1 or 3 channels of color, and the number of other channels (alpha, depth, ...).
  uint32_t color_channels = 3;
  uint32_t extra_channels = 0;
  // How the image has to be turned and mirrored to be upright, as an Exif orientation, 1 to 8. Exif
  // data of the container says nothing about that.
  int orientation = 1;
};

// The first bytes of a container.
inline constexpr std::string_view kJxlContainer{"\0\0\0\x0cJXL \x0d\x0a\x87\x0a", 12};

// Whether `bytes` begin as a container or as a codestream does, which has only two bytes to know it
// by.
bool IsJxl(std::string_view bytes);

// `bytes` are the whole file, for which IsJxl is true. Any bytes are safe to pass. Thread-safe.
//
// DataLoss: cut off or damaged before the end of what is read; the message does not name the file.
absl::StatusOr<JxlHeader> ReadJxlHeader(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_MEDIA_JXL_HEADER_H_
