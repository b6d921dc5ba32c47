#include "cli/commands/python_commands.h"

#include <string>

#include "absl/status/status.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace shardfeed {

void AddCommandOfPython(CLI::App& parent, const std::string& name, const std::string& description,
                        const std::string& package, int* exit) {
  CLI::App* command = parent.add_subcommand(name, description)->prefix_command();
  if (description.empty()) command->group("");
  command->set_help_flag();
  // The program itself has no parent and a name that is not typed.
  const std::string full = parent.get_parent() == nullptr ? name : parent.get_name() + " " + name;
  command->callback([full, package, exit] {
    *exit = ReportError(absl::InvalidArgumentError(
        fmt::format("{0} comes with the Python package: pip install {1}, then python -m "
                    "shardfeed {0}",
                    full, package)));
  });
}

void AddViewCommands(CLI::App& app, int* exit) {
  AddCommandOfPython(app, "view", "Show datasets in a browser (with the Python package)",
                     "shardfeed", exit);
  AddCommandOfPython(app, "report",
                     "Write a dataset's schema, statistics and some records as one HTML file "
                     "(with the Python package)",
                     "shardfeed", exit);
}

}  // namespace shardfeed
