// Tar archives for tests, member by member. Two blocks of zeros end one.

#ifndef SHARDFEED_TESTS_TESTING_TAR_MEMBERS_H_
#define SHARDFEED_TESTS_TESTING_TAR_MEMBERS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace shardfeed::testing {

// The header and padded content of one member, in POSIX layout.
inline std::string Member(const std::string& name, std::string_view content, char type = '0',
                          const std::string& link = "", const std::string& prefix = "",
                          const std::string& size = "") {
  std::string header(512, '\0');
  const auto put = [&header](size_t at, std::string_view text) {
    header.replace(at, text.size(), text);
  };
  put(0, name);
  put(100, "0000644");
  put(124, size.empty() ? fmt::format("{:011o}", content.size()) : size);
  put(148, "        ");
  header[156] = type;
  put(157, link);
  put(257, std::string("ustar\0", 6) + "00");
  put(345, prefix);
  uint32_t sum = 0;
  for (char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string padded(content);
  padded.resize((content.size() + 511) / 512 * 512);
  return header + padded;
}

// The pax records of the member that follows; for all members with type 'g'.
inline std::string Pax(std::vector<std::pair<std::string, std::string>> records, char type = 'x') {
  std::string content;
  for (const auto& [key, value] : records) {
    size_t length = key.size() + value.size() + 3;
    while (std::to_string(length).size() + key.size() + value.size() + 3 != length) {
      length = std::to_string(length).size() + key.size() + value.size() + 3;
    }
    content += fmt::format("{} {}={}\n", length, key, value);
  }
  return Member("pax", content, type);
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_TAR_MEMBERS_H_
