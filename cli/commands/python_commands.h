// Commands that only the Python package has.

#ifndef SHARDFEED_CLI_COMMANDS_PYTHON_COMMANDS_H_
#define SHARDFEED_CLI_COMMANDS_PYTHON_COMMANDS_H_

#include <string>

#include "CLI/CLI.hpp"

namespace shardfeed {

// Accepts `parent name` with any arguments, and says how to install it. `package` is
// what pip installs, such as "shardfeed". The command is listed if `description` is not empty.
// `exit` must outlive the parsing.
void AddCommandOfPython(CLI::App& parent, const std::string& name, const std::string& description,
                        const std::string& package, int* exit);

// Adds `view` and `report`.
void AddViewCommands(CLI::App& app, int* exit);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_PYTHON_COMMANDS_H_
