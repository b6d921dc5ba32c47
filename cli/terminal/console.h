// What the commands share: exit statuses, messages and interruption.

#ifndef SHARDFEED_CLI_TERMINAL_CONSOLE_H_
#define SHARDFEED_CLI_TERMINAL_CONSOLE_H_

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Exit statuses of all commands. docs/command_line.md says what they mean for each.
inline constexpr int kExitDone = 0;
inline constexpr int kExitDefects = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitIo = 3;
inline constexpr int kExitInterrupted = 130;

struct ExitStatus {
  int status;
  std::string_view meaning;
};
inline constexpr ExitStatus kExitStatuses[] = {
    {kExitDone, "All is well."},
    {kExitDefects, "Data is damaged or incomplete, records were left out, or datasets differ."},
    {kExitUsage, "Misuse: a wrong command line, or a name that is taken or unfinished."},
    {kExitIo, "The system failed: a missing file, a full disk, no permission, no memory."},
    {kExitInterrupted, "Interrupted."},
};

// The options that every command has.
struct CommandOptions {
  bool json = false;   // one JSON object on standard output
  bool quiet = false;  // no progress, no summary; errors only
  int threads = 0;     // 0: one per processor
  std::string cache;   // a folder; empty: none
  std::string cache_size;
};

// Returns `text` for one line of a terminal: line breaks and control characters, which file names
// may contain, are written as
//  or \x1b.
std::string OneLine(std::string_view text);

// Spells an option with a value as one types it in a shell: "--delimiter ';'". An empty value is
// left out.
std::string SpellFlag(std::string_view option, std::string_view value);

// Returns the error's message and the option that remedies it, if any: "...; pass --overwrite to
// replace it".
std::string DescribeError(const absl::Status& status);

// Prints "shardfeed: TEXT" to standard error, above the progress if it is shown.
void Say(std::string_view text);

// Prints "note: TEXT" to standard output.
void PrintNote(std::string_view text);
// Prints the first notes, and if there are many, how many others there are and where: `rest`, such
// as "--json shows all".
void PrintNotes(const std::vector<std::string>& notes, std::string_view rest);

// Prints "shardfeed: MESSAGE" to standard error and returns the matching exit status.
int ReportError(const absl::Status& status);

// The first Ctrl-C (SIGINT) or SIGTERM asks the token to stop; a second one ends the process at
// once. Call StartInterruptHandler before any thread is started.
void StartInterruptHandler();
std::stop_token InterruptToken();

// The most memory this process has had resident, in bytes.
uint64_t PeakResidentBytes();

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_TERMINAL_CONSOLE_H_
