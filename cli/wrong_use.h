// Explanations of wrong command lines.

#ifndef SHARDFEED_CLI_WRONG_USE_H_
#define SHARDFEED_CLI_WRONG_USE_H_

#include <string>

#include "CLI/CLI.hpp"

namespace shardfeed {

// Returns what was given, what is expected with an example, and the command for more help; ends
// with a newline. `app` is the whole program, whose parsing threw `error`.
std::string ExplainWrongUse(const CLI::App& app, const CLI::Error& error);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_WRONG_USE_H_
