// Descriptions of commands for the man page and the shell completions, taken from their CLI11
// definitions and, of the commands of the Python package, from its parsers.

#ifndef SHARDFEED_CLI_COMMANDS_COMMAND_DESCRIPTION_H_
#define SHARDFEED_CLI_COMMANDS_COMMAND_DESCRIPTION_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace shardfeed {

struct OptionDescription {
  std::vector<std::string> names;  // "-q", "--quiet"; for a positional argument, its name
  std::string text;
  std::string value;                 // placeholder of the value, such as SIZE; empty for a flag
  std::vector<std::string> choices;  // all values that the option takes, if they are words
  std::string default_value;
  bool positional = false;
  bool required = false;
  bool repeated = false;        // takes one or more values
  bool value_optional = false;  // may be given without a value
  bool takes_path = false;

  friend bool operator==(const OptionDescription&, const OptionDescription&) = default;
};

struct CommandDescription {
  std::string path;  // "shardfeed convert csv"
  std::string name;  // "csv"
  std::string text;
  std::string details;                       // lines shown below the options
  std::vector<OptionDescription> options;    // including positional arguments
  std::vector<CommandDescription> commands;  // the visible commands, and those of the package
  bool of_python = false;                    // only the Python package has it
};

// Whether paths are values of the option, by its placeholder.
bool TakesPath(const OptionDescription& option);

CommandDescription DescribeCommand(const CLI::App& app);

// Returns `command` and all commands below it, each before its subcommands.
std::vector<const CommandDescription*> AllCommands(const CommandDescription& command);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_COMMAND_DESCRIPTION_H_
