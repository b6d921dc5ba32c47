#include "cli/flags/table_flags.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "cli/terminal/console.h"
#include "convert/features/number_marks.h"
#include "fmt/format.h"

namespace shardfeed {

void AddDatesFlag(CLI::App& command, std::string_view what, std::string* dates) {
  command
      .add_option("--dates", *dates,
                  fmt::format("what a {} of dates alone becomes (2024-01-31, "
                              "2024-01-31T13:45:00Z): text, the default; epoch, seconds since "
                              "1970; or epoch-us, microseconds",
                              what))
      ->type_name("KIND");
}

absl::StatusOr<DatesAs> ReadDatesFlag(std::string_view dates) {
  constexpr std::pair<std::string_view, DatesAs> kDates[] = {{"", DatesAs::kText},
                                                             {"text", DatesAs::kText},
                                                             {"epoch", DatesAs::kSeconds},
                                                             {"epoch-us", DatesAs::kMicroseconds}};
  const auto* const found =
      std::ranges::find(kDates, dates, [](const auto& one) { return one.first; });
  if (found != std::end(kDates)) return found->second;
  return absl::InvalidArgumentError(
      fmt::format("--dates {}: expected text, epoch or epoch-us", dates));
}

std::shared_ptr<TableFlags> AddTableFlags(CLI::App& command, bool tabs) {
  auto flags = std::make_shared<TableFlags>();
  command.add_flag("--no-quotes", flags->no_quotes, "treat quotes as ordinary characters");
  if (!tabs) {
    command
        .add_option(
            "--delimiter", flags->delimiter,
            "character between cells, or 'tab'; default: the one of , ; | and tab that fits "
            "the first rows")
        ->type_name("CHARACTER");
  }
  CLI::Option* header = command.add_flag("--header", flags->header,
                                         "the first row names the columns; default: unless it has "
                                         "numbers or dates where columns have them");
  command
      .add_flag("--no-header", flags->no_header,
                "the first row is data; the columns are called column1, column2, ...")
      ->excludes(header);
  command
      .add_option("--names", flags->options.names,
                  "names of the columns; without --header, the files have no header")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...");
  command.add_flag("--no-comments", flags->no_comments,
                   "do not skip lines at the beginning that start with #");
  command
      .add_option("--encoding", flags->encoding,
                  "utf-8, utf-16, latin-1 or windows-1252, unless a byte order mark names another; "
                  "default: UTF-8, or Windows-1252 if a file looks like it and is not UTF-8")
      ->type_name("NAME");
  command
      .add_option(
          "--na", flags->missing,
          "texts that mean a missing value in every column; 'usual' stands for the default: NA, "
          "N/A, n/a, NaN, nan, null, NULL, None, <NA>, #N/A and -, which otherwise mean it in "
          "columns of numbers alone. Empty cells always do")
      ->type_name("TEXT,...");
  CLI::Option* trim = command.add_flag(
      "--trim", flags->trim,
      "remove the blanks around all cells; default: those around numbers, and those "
      "after delimiters if all rows have them");
  command.add_flag("--no-trim", flags->no_trim, "keep all blanks")->excludes(trim);
  command
      .add_option("--decimal", flags->decimal,
                  "decimal mark; default: '.', or ',' if the first rows have it and commas do not "
                  "separate their cells")
      ->type_name("CHARACTER");
  command
      .add_option("--thousands", flags->thousands,
                  "mark between groups of three digits; ' ' is any space, no-break ones too; "
                  "default: none, 1,234 is text")
      ->type_name("CHARACTER");
  AddDatesFlag(command, "column", &flags->dates);
  return flags;
}

namespace {

// The texts of --na.
std::vector<std::string> MissingTexts(const std::string& flag) {
  std::vector<std::string> texts;
  for (const auto text : absl::StrSplit(flag, ',', absl::SkipEmpty())) {
    if (text != "usual") {
      texts.emplace_back(text.data(), text.size());
      continue;
    }
    for (std::string& usual : UsualMissing()) texts.push_back(std::move(usual));
  }
  return texts;
}

}  // namespace

absl::StatusOr<CsvOptions> ReadTableFlags(const TableFlags& flags) {
  CsvOptions options = flags.options;
  const auto character = [](std::string_view name,
                            std::string_view text) -> absl::StatusOr<std::optional<char>> {
    if (text.empty()) return std::optional<char>();
    if (name == "delimiter" && (text == "tab" || text == "\\t")) return std::optional<char>('\t');
    if (text.size() == 1) return std::optional<char>(text.front());
    if (name == "thousands" && MarkOf(text)) return MarkOf(text);
    return absl::InvalidArgumentError(
        fmt::format("--{} {}: expected one ASCII character", name, text));
  };
  absl::StatusOr<std::optional<char>> delimiter = character("delimiter", flags.delimiter);
  absl::StatusOr<std::optional<char>> decimal = character("decimal", flags.decimal);
  absl::StatusOr<std::optional<char>> thousands = character("thousands", flags.thousands);
  for (const auto* given : {&delimiter, &decimal, &thousands}) {
    if (!given->ok()) return given->status();
  }
  options.delimiter = *delimiter;
  options.decimal = *decimal;
  options.thousands = thousands->value_or('\0');
  options.quotes = !flags.no_quotes;
  if (flags.header || flags.no_header) options.header = flags.header;
  options.comments = !flags.no_comments;
  if (flags.trim) options.trim = CsvOptions::Trim::kAll;
  if (flags.no_trim) options.trim = CsvOptions::Trim::kNone;
  if (flags.missing) options.missing = MissingTexts(*flags.missing);
  if (!flags.encoding.empty()) {
    options.encoding = ParseTextEncoding(flags.encoding);
    if (!options.encoding) {
      return absl::InvalidArgumentError(
          fmt::format("--encoding {}: expected utf-8, utf-16, utf-16le, utf-16be, latin-1 or "
                      "windows-1252; iconv converts other encodings",
                      flags.encoding));
    }
  }
  const absl::StatusOr<DatesAs> dates = ReadDatesFlag(flags.dates);
  if (!dates.ok()) return dates.status();
  options.dates = *dates;
  options.spell = SpellFlag;
  return options;
}

}  // namespace shardfeed
