// A count of named things with the names of the first few, for notes and messages.

#ifndef SHARDFEED_CONVERT_INPUT_NAME_LIST_H_
#define SHARDFEED_CONVERT_INPUT_NAME_LIST_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace shardfeed {

class NameList {
 public:
  void Add(std::string_view name);

  uint64_t count() const { return count_; }
  // Returns "a, b, c, ...".
  const std::string& names() const { return names_; }
  // Returns "3 files WHAT: a, b, c"; `one` and `many` are the singular and plural of the noun.
  std::string Text(std::string_view one, std::string_view many, std::string_view what) const;

 private:
  uint64_t count_ = 0;
  std::string names_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_NAME_LIST_H_
