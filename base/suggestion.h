// Suggestions for words that are likely typos of known ones.

#ifndef SHARDFEED_BASE_SUGGESTION_H_
#define SHARDFEED_BASE_SUGGESTION_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardfeed {

// Returns the known word that `given` is most likely meant to be: the one with the fewest inserted,
// left out, replaced and swapped letters, at most one for every three letters; otherwise the only
// one that begins with `given`. Case does not count. Nullopt: none is near.
std::optional<std::string> Nearest(std::string_view given, const std::vector<std::string>& known);

// Returns "; did you mean 'WORD'?" for the nearest word, or an empty string: the end of a message.
std::string DidYouMean(std::string_view given, const std::vector<std::string>& known);

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_SUGGESTION_H_
