#include "cli/commands/command_description.h"

#include <optional>
#include <string_view>

#include "absl/strings/str_split.h"
#include "cli/commands/python_commands.h"

namespace shardfeed {
namespace {

OptionDescription DescribeOption(const CLI::Option& option) {
  OptionDescription described;
  described.text = option.get_description();
  described.required = option.get_required();
  described.repeated = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  described.positional = option.get_positional();
  if (described.positional) {
    described.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  }
  if (option.get_type_size() == 0 || option.get_expected_max() == 0) return described;  // a flag
  // CLI11 gives "KIND:{none,gzip,zlib}": the placeholder of the value, then the descriptions of its
  // checks.
  const std::string type = option.get_type_name();
  described.value = type.substr(0, type.find(':'));
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open != type.npos && close != type.npos && open < close) {
    const std::string words = type.substr(open + 1, close - open - 1);
    described.choices = absl::StrSplit(words, ',');
  }
  described.default_value = option.get_default_str();
  described.value_optional = option.get_items_expected_min() == 0;
  described.takes_path = TakesPath(described);
  return described;
}

// Returns the command of the Python package with the path "shardfeed NAME", if it is one.
std::optional<PythonCommand> PythonCommandAt(std::string_view path) {
  const size_t space = path.find(' ');
  if (space == path.npos) return std::nullopt;
  return FindPythonCommand(path.substr(space + 1));
}

CommandDescription Describe(const CLI::App& app, const std::string& above) {
  CommandDescription described;
  described.name = app.get_name();
  described.path = above.empty() ? described.name : above + " " + described.name;
  described.text = app.get_description();
  described.details = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    described.options.push_back(DescribeOption(*option));
  }
  if (const auto python = PythonCommandAt(described.path)) {
    if (described.text.empty()) described.text = python->text + " (with the Python package)";
    described.details = python->details;
    described.options = python->options;
    described.of_python = true;
  }
  const auto shown = [&described](const CLI::App* command) {
    return !command->get_group().empty() ||
           PythonCommandAt(described.path + " " + command->get_name()).has_value();
  };
  for (const CLI::App* command : app.get_subcommands(shown)) {
    described.commands.push_back(Describe(*command, described.path));
  }
  return described;
}

}  // namespace

bool TakesPath(const OptionDescription& option) {
  return option.positional || option.value.find("FILE") != option.value.npos;
}

CommandDescription DescribeCommand(const CLI::App& app) { return Describe(app, ""); }

std::vector<const CommandDescription*> AllCommands(const CommandDescription& command) {
  std::vector<const CommandDescription*> all = {&command};
  for (const CommandDescription& below : command.commands) {
    for (const CommandDescription* each : AllCommands(below)) all.push_back(each);
  }
  return all;
}

}  // namespace shardfeed
