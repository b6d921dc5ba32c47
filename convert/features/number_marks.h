// The marks that people write in numbers: between groups of digits, and before fractions.

#ifndef SHARDFEED_CONVERT_FEATURES_NUMBER_MARKS_H_
#define SHARDFEED_CONVERT_FEATURES_NUMBER_MARKS_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace shardfeed {

// Marks between groups of digits besides points and commas: those of Switzerland and France. A
// blank and an apostrophe stand for what typesetters write, too: see CellOptions::thousands.
inline constexpr std::array<char, 2> kOtherThousands = {'\'', ' '};

// Which mark the text is, if it is one: a point, a comma or one of kOtherThousands.
std::optional<char> MarkOf(std::string_view text);

// A number without its sign, if that is a plus.
std::string_view WithoutPlus(std::string_view text);

// Rewrites a number with these marks to the form that column.h parses: "1.234,5" becomes "1234.5".
// Returns nullopt if the marks stand where they cannot, and a view of `text` or of `scratch`
// otherwise; other text is returned unchanged.
std::optional<std::string_view> WithPlainMarks(std::string_view text, char decimal, char thousands,
                                               std::string* scratch);

// Whether the text is a number if its marks are these.
bool IsNumberWith(std::string_view text, char decimal, char thousands);

// Whether people write numbers so: with or without marks between groups of digits, and with a
// point or a comma before fractions. No kind of feature need hold it.
bool IsWrittenAsNumber(std::string_view text);

enum class Writing {
  kOther,
  kPlain,   // a number without marks but the decimal one, whether or not a kind of feature holds it
  kMarked,  // a number with marks between groups of three digits, or with another decimal mark
};

// How the text is written if it is a number whose decimal mark is this one.
Writing WritingOf(std::string_view text, char decimal);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_NUMBER_MARKS_H_
