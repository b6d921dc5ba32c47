#include "convert/input/name_list.h"

#include "fmt/format.h"

namespace shardfeed {

void NameList::Add(std::string_view name) {
  constexpr uint64_t kShown = 3;
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

}  // namespace shardfeed
