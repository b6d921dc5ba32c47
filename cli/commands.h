// The subcommands. Each Add* function declares one and what runs when it is chosen; `exit` gets the
// exit status.

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
void AddIndexCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddVerifyCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddRepairCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddInspectCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddCatCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddReshardCommands(CLI::App& app, CommandOptions& options, int* exit);
void AddBenchCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddPlanCommand(CLI::App& app, CommandOptions& options, int* exit);
void AddReplayCommand(CLI::App& app, CommandOptions& options, int* exit);

// `completion` and `man`, which print what is known of all commands in `app`.
void AddShellCommands(CLI::App& app);

// --json, --quiet and --jobs, which all of them have.
void AddCommonOptions(CLI::App& command, CommandOptions& options);

// --cache and --cache-size, of commands that read datasets. All that the process reads from stores
// then goes through the cache.
void AddCacheOptions(CLI::App& command, CommandOptions& options);
// Prints what came from the cache; nothing without one.
void PrintCacheUse(const CommandOptions& options);
// The note on standard error that the cache could not keep something; none if it could.
void NoteCache(const CommandOptions& options);

// Accepts whole numbers from `least` on.
CLI::Validator WholeNumber(uint64_t least);

// Accepts these words, each of which stands for a value of the enumeration E.
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
