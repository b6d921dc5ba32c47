// What is wrong with a command line, in words.

#ifndef SHARDFEED_CLI_WRONG_USE_H_
#define SHARDFEED_CLI_WRONG_USE_H_

#include <string>

#include "CLI/CLI.hpp"

namespace shardfeed {

// What was given, what is wanted and an example, and which help has more; ends with a newline.
// `app` is the whole program's, whose parsing ended with `error`.
std::string ExplainWrongUse(const CLI::App& app, const CLI::Error& error);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_WRONG_USE_H_
