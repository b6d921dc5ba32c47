// The subcommands. Each Add* function declares a subcommand, and what runs when it is chosen;
// `exit` receives the exit status.

#ifndef SHARDFEED_CLI_COMMANDS_H_
#define SHARDFEED_CLI_COMMANDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "cli/console.h"

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

// Adds the options that every command has: --json, --quiet, --jobs and --max-record-bytes.
void AddCommonOptions(CLI::App& command, CommandOptions& options);

// Adds --cache and --cache-size, the options of commands that read datasets. Everything that the
// process reads from stores then goes through the cache.
void AddCacheOptions(CLI::App& command, CommandOptions& options);
// Prints how much was read from the cache; nothing without one.
void PrintCacheUse(const CommandOptions& options);
// Prints a note to standard error if the cache could not store something.
void NoteCache(const CommandOptions& options);

// Accepts integers that are not less than `least`.
CLI::Validator WholeNumber(uint64_t least);

// Accepts one of these words and replaces it with the number of its value in the enumeration E.
template <typename E>
CLI::Validator OneOf(const std::vector<std::pair<std::string, E>>& choices) {
  std::string names;
  for (const auto& [name, value] : choices) names += (names.empty() ? "{" : ",") + name;
  names += "}";
  return CLI::Validator(
      [choices, names](std::string& word) {
        for (const auto& [name, value] : choices) {
          if (word != name) continue;
          word = std::to_string(static_cast<int64_t>(value));
          return std::string();
        }
        return word + " not in " + names;
      },
      names);
}

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_H_
