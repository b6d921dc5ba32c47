// Whether bytes are text.

#ifndef SHARDFEED_DECODE_FEATURES_UTF8_H_
#define SHARDFEED_DECODE_FEATURES_UTF8_H_

#include <cstddef>
#include <string_view>

namespace shardfeed {

// Where the first character starts that is not UTF-8 as RFC 3629 has it (no surrogates, nothing
// above U+10FFFF, the shortest form alone); npos: there is none.
size_t FindInvalidUtf8(std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_UTF8_H_
