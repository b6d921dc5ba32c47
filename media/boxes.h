// Boxes of ISO base media files (ISO/IEC 14496-12, 4.2), which HEIF and JPEG XL consist of.

#ifndef SHARDFEED_MEDIA_BOXES_H_
#define SHARDFEED_MEDIA_BOXES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace shardfeed {

// Consumes big-endian integers. After the end, values are 0 and ok() is false.
class BigEndianCursor {
 public:
  explicit BigEndianCursor(std::string_view bytes) : left_(bytes) {}

  uint64_t Load(size_t size);
  uint32_t Load32(size_t size = 4) { return static_cast<uint32_t>(Load(size)); }
  std::string_view Take(size_t size);
  std::string_view left() const { return left_; }
  bool ok() const { return ok_; }

 private:
  std::string_view left_;
  bool ok_ = true;
};

// Views of the file.
struct Box {
  std::string_view type;  // 4 bytes
  std::string_view content;
};

// Takes the box at the front of `bytes`; one that is cut off ends with them. nullopt: there is
// none.
std::optional<Box> NextBox(std::string_view* bytes);

// The content of the first box of a type in `bytes`.
std::optional<std::string_view> FindBox(std::string_view bytes, std::string_view type);

}  // namespace shardfeed

#endif  // SHARDFEED_MEDIA_BOXES_H_
