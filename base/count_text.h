// Numbers with their nouns, for messages: "1 record", "2 records".

#ifndef SHARDFEED_BASE_COUNT_TEXT_H_
#define SHARDFEED_BASE_COUNT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace shardfeed {

// `noun` is singular, and forms its plural by an s.
inline std::string CountText(uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count);
  text += ' ';
  text += noun;
  if (count != 1) text += 's';
  return text;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_COUNT_TEXT_H_
