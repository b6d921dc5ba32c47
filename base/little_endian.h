// Little-endian integers, as used by all formats here.

#ifndef SHARDFEED_BASE_LITTLE_ENDIAN_H_
#define SHARDFEED_BASE_LITTLE_ENDIAN_H_

#include <bit>
#include <cstddef>
#include <cstring>
#include <string>

namespace shardfeed {

// `T` is an unsigned integer; `from` need not be aligned.
template <typename T>
T LoadLittleEndian(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (size_t i = 0; i < sizeof(T); ++i) swapped = swapped << 8 | ((value >> (8 * i)) & 0xff);
    return swapped;
  }
  return value;
}

template <typename T>
void StoreLittleEndian(T value, char* to) {
  for (size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<char>(value >> (8 * i));
}

template <typename T>
void AppendLittleEndian(T value, std::string* out) {
  char bytes[sizeof(T)];
  StoreLittleEndian(value, bytes);
  out->append(bytes, sizeof(T));
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_LITTLE_ENDIAN_H_
