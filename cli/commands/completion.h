// Scripts that teach a shell to complete shardfeed's command lines.

#ifndef SHARDFEED_CLI_COMMANDS_COMPLETION_H_
#define SHARDFEED_CLI_COMMANDS_COMPLETION_H_

#include <string>

#include "cli/commands/command_description.h"

namespace shardfeed {

// Each script completes commands, options, the values of options that have fixed choices, and paths
// elsewhere.
std::string BashCompletion(const CommandDescription& program);
std::string ZshCompletion(const CommandDescription& program);
std::string FishCompletion(const CommandDescription& program);

}  // namespace shardfeed

#endif  // SHARDFEED_CLI_COMMANDS_COMPLETION_H_
