// The subcommands. Each Add* function declares one and what runs when it is chosen; `exit` gets the
// exit status.

#ifndef SHARDFEED_CLI_COMMANDS_H_
#define SHARDFEED_CLI_COMMANDS_H_

#include <cstdint>

#include "CLI/CLI.hpp"
#include "cli/console.h"

namespace shardfeed {

// All parameters must outlive the parsing.
void AddConvertCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddIndexCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddVerifyCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddInspectCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddCatCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddReshardCommands(CLI::App& app, CommandOptions& options, int* exit);
void AddReadCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddPlanCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddReplayCommand(CLI::App& app, CommandOptions& options, int* exit);

// --json, --quiet and --jobs, which all of them have.
void AddCommonOptions(CLI::App& command, CommandOptions& options);

// Accepts whole numbers from `least` on.
CLI::Validator WholeNumber(uint64_t least);

inline constexpr char kVersion[] = "0.1.0";

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_H_
