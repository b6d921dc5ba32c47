// Validation of UTF-8.

#ifndef SHARDFEED_DECODE_FEATURES_UTF8_H_
#define SHARDFEED_DECODE_FEATURES_UTF8_H_

#include <cstddef>
#include <string_view>

namespace shardfeed {

// The offset of the first character that is not valid UTF-8 by RFC 3629 (no surrogates, nothing
// above U+10FFFF, only the shortest form), or npos if there is none.
size_t FindInvalidUtf8(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_UTF8_H_
