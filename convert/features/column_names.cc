#include "convert/features/column_names.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/excerpt.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {

void CompleteNames(std::vector<std::string>& names, std::vector<std::string>* notes) {
  std::unordered_set<std::string> taken(names.begin(), names.end());
  std::unordered_set<std::string> seen;
  std::vector<std::string> unnamed;
  std::vector<std::string> repeated;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = names[i];
    if (name.empty()) {
      // A frame of pandas and a table of R begin with a column of row numbers that has no name.
      name = i == 0 && names.size() > 1 && !taken.contains("index")
                 ? "index"
                 : fmt::format("column{}", i + 1);
    }
    const std::string wanted = name;
    for (size_t n = 1; seen.contains(name) || (name != names[i] && taken.contains(name)); ++n) {
      name = fmt::format("{}.{}", wanted, n);
    }
    if (name != names[i]) (names[i].empty() ? unnamed : repeated).push_back(Excerpt(name));
    seen.insert(name);
    names[i] = std::move(name);
  }
  const auto note = [notes](std::vector<std::string> names, std::string_view what) {
    if (names.empty()) return;
    const size_t count = names.size();
    constexpr size_t kShown = 5;
    if (count > kShown) names.resize(kShown);
    notes->push_back(fmt::format(
        "{} {} and {} called {}{}",
        count == 1 ? "1 column has" : fmt::format("{} columns have", count), what,
        count == 1 ? "is" : "are", fmt::join(names, ", "), count > kShown ? ", ..." : ""));
  };
  note(std::move(unnamed), "no name");
  note(std::move(repeated), "the name of an earlier one");
}

}  // namespace shardfeed
