// The subcommands. Each Add* function declares a subcommand, and what runs when it is chosen;
// `exit` receives the exit status.

#ifndef SHARDFEED_CLI_COMMANDS_COMMANDS_H_
#define SHARDFEED_CLI_COMMANDS_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "cli/terminal/console.h"

namespace shardfeed {

// All parameters must outlive the parsing.
void AddConvertCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddCacheCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddCleanCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddCommitCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddIndexCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddVerifyCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddRepairCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddInspectCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddDiffCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddCatCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddReshardCommands(CLI::App& app, CommandOptions& options, int* exit);
void AddBenchCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddPlanCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddReplayCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddTopCommand(CLI::App& app, CommandOptions& options, int* exit);

// Adds `completion` and `man`, which print shell completions and the man page for all commands of
// `app`.
void AddShellCommands(CLI::App& app);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_COMMANDS_H_
