// Texts of the input for messages.

#ifndef SHARDFEED_BASE_EXCERPT_H_
#define SHARDFEED_BASE_EXCERPT_H_

#include <string>
#include <string_view>

namespace shardfeed {

// Returns `text` in double quotes, with control characters and bytes that are not UTF-8 escaped as
// in C, so that a message stays one line of valid text. Cut with "..." after `max_bytes` of `text`.
std::string Excerpt(std::string_view text, size_t max_bytes = 60);
// Returns the whole text, escaped like that, but without quotes.
std::string Escaped(std::string_view text);

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_EXCERPT_H_
