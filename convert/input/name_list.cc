#include "convert/input/name_list.h"

#include "base/excerpt.h"
#include "fmt/format.h"

namespace shardfeed {

void NameList::Add(std::string_view name) {
  if (count_++ < kShown) {
    names_ += fmt::format("{}{}", names_.empty() ? "" : ", ", name);
  } else if (count_ == kShown + 1) {
    names_ += ", ...";
  }
}

std::string NameList::Text(std::string_view one, std::string_view many,
                           std::string_view what) const {
  return fmt::format("{} {} {}: {}", count_, count_ == 1 ? one : many, what, names_);
}

void NameList::AppendNote(std::string_view verb, std::string_view one, std::string_view many,
                          std::string_view what, std::vector<std::string>* notes) const {
  if (count_ > 0) notes->push_back(fmt::format("{} {}", verb, Text(one, many, what)));
}

std::string ListOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  const size_t shown = names.size() <= kShown + 1 ? names.size() : kShown;
  std::string text;
  for (size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + Excerpt(names[i]);
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace shardfeed
