// Colors in what people read, used sparingly: the name of the program before errors, the word
// before notes, and verdicts.

#ifndef SHARDFEED_CLI_TERMINAL_COLOR_H_
#define SHARDFEED_CLI_TERMINAL_COLOR_H_

#include <string>
#include <string_view>

namespace shardfeed {

// kAuto colors text on terminals, unless the environment says otherwise: never with a NO_COLOR that
// is not empty or with CLICOLOR=0; otherwise always with a CLICOLOR_FORCE other than 0.
enum class UseColor { kAuto, kAlways, kNever };

// Not thread-safe: call before anything is printed.
void SetUseColor(UseColor use);

enum class Paint { kError, kNote, kGood, kBad };

// Returns `text`, painted if the stream (STDOUT_FILENO or STDERR_FILENO) has colors.
std::string Painted(Paint paint, std::string_view text, int stream);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_COLOR_H_
