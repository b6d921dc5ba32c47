// The manual page of the program.

#ifndef SHARDFEED_CLI_COMMANDS_MAN_PAGE_H_
#define SHARDFEED_CLI_COMMANDS_MAN_PAGE_H_

#include <string>
#include <string_view>

#include "cli/commands/command_description.h"

namespace shardfeed {

// Returns shardfeed.1 in roff's man macros. An option that all subcommands of a command have is
// described once, with that command.
std::string ManPage(const CommandDescription& program, std::string_view version);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_MAN_PAGE_H_
