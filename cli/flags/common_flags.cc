#include "cli/flags/common_flags.h"

#include <charconv>
#include <climits>
#include <cmath>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "cli/terminal/color.h"
#include "cli/terminal/console.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

void AddCommonOptions(CLI::App& command, CommandOptions& options) {
  command.add_flag("--json", options.json, "print one JSON object on standard output");
  command.add_flag("-q,--quiet", options.quiet, "print errors only");
  command.add_option("-j,--jobs,--threads", options.threads, "threads; default: one per processor")
      ->check(WholeNumber(1, INT_MAX));
  command
      .add_option_function<std::string>(
          "--color",
          [](const std::string& text) {
            SetUseColor(text == "always"  ? UseColor::kAlways
                        : text == "never" ? UseColor::kNever
                                          : UseColor::kAuto);
          },
          "auto, always or never; default: auto, on terminals unless NO_COLOR or CLICOLOR=0 is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
  command
      .add_option_function<std::string>(
          "--max-record-bytes",
          [](const std::string& text) {
            const std::optional<uint64_t> size = ParseSize(text);
            if (!size || *size == 0)
              throw CLI::ValidationError("--max-record-bytes", text + " is not a size");
            SetMaxRecordBytes(*size);
          },
          "a longer record of a compressed shard is an error; default 2GiB")
      ->type_name("SIZE");
}

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  const auto check = [least, most](const std::string& text) {
    uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_number = stop == end && error != std::errc::invalid_argument;
    if (is_number && (error == std::errc::result_out_of_range || value > most)) {
      return fmt::format("'{}' is greater than {}", text, most);
    }
    if (is_number && value >= least) return std::string();
    return fmt::format("'{}' is not an integer of at least {}", text, least);
  };
  return CLI::Validator(check, "");
}

CLI::Validator FiniteNumber(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && std::isfinite(value) && value >= least &&
        value <= most) {
      return std::string();
    }
    return std::isfinite(most)
               ? fmt::format("'{}' is not a number from {} to {}", text, least, most)
               : fmt::format("'{}' is not a number of at least {}", text, least);
  };
  return CLI::Validator(check, "");
}

}  // namespace shardfeed
