// A count of named things with the names of the first few, for notes and messages.

#ifndef SHARDFEED_CONVERT_INPUT_NAME_LIST_H_
#define SHARDFEED_CONVERT_INPUT_NAME_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardfeed {

class NameList {
 public:
  void Add(std::string_view name);
  // The same with the name that `make` returns, which is called only if the name is shown.
  template <typename Make>
  void AddBy(const Make& make) {
    if (count_ < kShown) {
      Add(make());
    } else {
      Add("");
    }
  }

  uint64_t count() const { return count_; }
  // Returns "a, b, c, ...".
  const std::string& names() const { return names_; }
  // Returns "3 files WHAT: a, b, c"; `one` and `many` are the singular and plural of the noun.
  std::string Text(std::string_view one, std::string_view many, std::string_view what) const;
  // Appends the note "VERB 3 files WHAT: a, b, c" unless there are no names.
  void AppendNote(std::string_view verb, std::string_view one, std::string_view many,
                  std::string_view what, std::vector<std::string>* notes) const;

 private:
  static constexpr uint64_t kShown = 3;

  uint64_t count_ = 0;
  std::string names_;
};

// Returns the names in quotes, as in "a", "b", for the message that none of them was meant: all of
// them, or the first few and how many others there are.
std::string ListOf(const std::vector<std::string>& names);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_NAME_LIST_H_
