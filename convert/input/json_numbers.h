// Numbers in JSON texts that the fast parser refuses or changes: NaN and the infinities as Python
// and pandas write them, integers of more than 64 bits, and the digits of other numbers.

#ifndef SHARDFEED_CONVERT_INPUT_JSON_NUMBERS_H_
#define SHARDFEED_CONVERT_INPUT_JSON_NUMBERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace shardfeed {

// Copies `text` to `out` with `placeholder`, a number, in place of each such number outside of
// strings, and appends those to `replaced`, as views of `text`: "NaN", "Infinity", "-Infinity" and
// integers of more than 64 bits; with `all`, also all numbers whose digits a double may not keep,
// and -0, whose sign an integer does not.
void ReplaceNumbers(std::string_view text, bool all, std::string_view placeholder, std::string* out,
                    std::vector<std::string_view>* replaced);

// Whether `text` may have a number that is too close to 0 for a double, such as 1e-400. False for
// almost all texts, true for all that have one.
bool MayUnderflow(std::string_view text);

// Returns `text` with each "NaN" and "Infinity" outside of strings replaced by a number of the same
// size, so that places of other defects stay the same.
std::string WithoutNonFinite(std::string_view text);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_JSON_NUMBERS_H_
