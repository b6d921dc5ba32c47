#include "media/boxes.h"

#include <algorithm>

namespace shardfeed {

uint64_t BigEndianCursor::Load(size_t size) {
  if (left_.size() < size) {
    ok_ = false;
    left_ = {};
    return 0;
  }
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(left_[i]);
  left_.remove_prefix(size);
  return value;
}

std::string_view BigEndianCursor::Take(size_t size) {
  if (left_.size() < size) ok_ = false;
  const std::string_view taken = left_.substr(0, size);
  left_.remove_prefix(taken.size());
  return taken;
}

std::optional<Box> NextBox(std::string_view* bytes) {
  BigEndianCursor cursor(*bytes);
  uint64_t size = cursor.Load(4);
  const std::string_view type = cursor.Take(4);
  if (size == 1) size = cursor.Load(8);
  if (!cursor.ok()) return std::nullopt;
  const size_t head = bytes->size() - cursor.left().size();
  if (size == 0) size = bytes->size();  // up to the end
  if (size < head) return std::nullopt;
  const Box box = {type, cursor.left().substr(0, size - head)};
  bytes->remove_prefix(std::min<uint64_t>(size, bytes->size()));
  return box;
}

std::optional<std::string_view> FindBox(std::string_view bytes, std::string_view type) {
  while (const std::optional<Box> box = NextBox(&bytes)) {
    if (box->type == type) return box->content;
  }
  return std::nullopt;
}

}  // namespace shardfeed
