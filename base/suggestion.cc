#include "base/suggestion.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace shardfeed {
namespace {

// Longer words are not typed, and the comparison takes quadratic time.
constexpr size_t kLongestWord = 100;
constexpr size_t kLeastPrefix = 3;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// Returns the least number of insertions, deletions, replacements and swaps of neighbors, none of
// which touches the same letter twice, that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1);
  std::vector<size_t> last(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> Nearest(std::string_view given, const std::vector<std::string>& known) {
  if (given.empty() || given.size() > kLongestWord) return std::nullopt;
  const std::string wanted = Lower(given);
  const std::string* nearest = nullptr;
  size_t least = 0;
  const std::string* longer = nullptr;
  size_t num_longer = 0;
  for (const std::string& word : known) {
    if (word.size() > kLongestWord || word == given) continue;
    const std::string lower = Lower(word);
    const size_t distance = EditDistance(wanted, lower);
    if (distance * 3 <= std::max(wanted.size(), lower.size()) &&
        (nearest == nullptr || distance < least)) {
      nearest = &word;
      least = distance;
    }
    if (wanted.size() >= kLeastPrefix && lower.starts_with(wanted)) {
      longer = &word;
      ++num_longer;
    }
  }
  if (nearest != nullptr) return *nearest;
  if (num_longer == 1) return *longer;
  return std::nullopt;
}

std::string DidYouMean(std::string_view given, const std::vector<std::string>& known) {
  const std::optional<std::string> nearest = Nearest(given, known);
  return nearest ? "; did you mean '" + *nearest + "'?" : "";
}

}  // namespace shardfeed
