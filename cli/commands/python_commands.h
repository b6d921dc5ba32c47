// Commands that only the Python package has.

#ifndef SHARDFEED_CLI_COMMANDS_PYTHON_COMMANDS_H_
#define SHARDFEED_CLI_COMMANDS_PYTHON_COMMANDS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/commands/command_description.h"

namespace shardfeed {

struct PythonCommand {
  std::string name;     // "convert parquet"
  std::string package;  // what pip installs for it, as one types it in a shell
  std::string text;
  std::string details;
  std::vector<OptionDescription> options;
};

// Returns a command as the package's own parser defines it. Nothing: the package has no such
// command.
std::optional<PythonCommand> FindPythonCommand(std::string_view name);

// Accept `view`, `report` and the kinds of `convert` that the package reads, with any arguments,
// and say how to install it. `exit` must outlive the parsing. The help does not list the kinds.
void AddViewCommands(CLI::App& app, int* exit);
void AddPythonKinds(CLI::App& convert, int* exit);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_PYTHON_COMMANDS_H_
