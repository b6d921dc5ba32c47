// The flags that every command has, and checks of the values of flags.

#ifndef SHARDFEED_CLI_FLAGS_COMMON_FLAGS_H_
#define SHARDFEED_CLI_FLAGS_COMMON_FLAGS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/terminal/console.h"

namespace shardfeed {

// Adds the options that every command has: --json, --quiet, --jobs and --max-record-bytes.
void AddCommonOptions(CLI::App& command, CommandOptions& options);

// Accepts integers from `least` to `most`.
CLI::Validator WholeNumber(uint64_t least, uint64_t most = UINT64_MAX);
// Accepts numbers from `least` to `most` that are finite.
CLI::Validator FiniteNumber(double least, double most = std::numeric_limits<double>::infinity());

// Accepts one of these words and replaces it with the number of its value in the enumeration E.
template <typename E>
CLI::Validator OneOf(const std::vector<std::pair<std::string, E>>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "{" : ",") + name;
  names += "}";
  return CLI::Validator(
      [choices, names](std::string& word) {
        for (const auto& [name, value] : choices) {
          if (word != name) continue;
          word = std::to_string(static_cast<int64_t>(value));
          return std::string();
        }
        return word + " not in " + names;
      },
      names);
}

// The error of an option that only compression uses, where nothing is compressed.
inline std::string NothingCompressed(std::string_view option) {
  return std::string(option) + ": nothing is compressed without --compression gzip or zlib";
}

// The error of --tfds with an output in a store.
inline constexpr char kNoTfdsInStores[] =
    "--tfds needs a local folder, in which it writes its description";

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_FLAGS_COMMON_FLAGS_H_
