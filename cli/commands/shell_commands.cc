// The commands completion and man. They are hidden from --help, since packages call them, not
// users.

#include <memory>
#include <string>

#include "cli/commands/command_description.h"
#include "cli/commands/commands.h"
#include "cli/commands/completion.h"
#include "cli/commands/man_page.h"
#include "fmt/format.h"
#include "shardfeed/version.h"

namespace shardfeed {

void AddShellCommands(CLI::App& app) {
  CLI::App* completion = app.add_subcommand(
      "completion", "Print a script that completes command lines in bash, zsh or fish");
  completion->group("");  // hidden
  auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer("Example:\n  source <(shardfeed completion bash)\n");
  completion->callback([&app, shell] {
    const CommandDescription program = DescribeCommand(app);
    fmt::print("{}", *shell == "bash"  ? BashCompletion(program)
                     : *shell == "zsh" ? ZshCompletion(program)
                                       : FishCompletion(program));
  });
  CLI::App* man = app.add_subcommand("man", "Print the manual page");
  man->group("");
  man->footer("Example:\n  shardfeed man | man -l -\n");
  man->callback([&app] { fmt::print("{}", ManPage(DescribeCommand(app), SHARDFEED_VERSION)); });
}

}  // namespace shardfeed
