#include "cli/commands/python_commands.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

constexpr char kPythonCommands[] =
#include "cli/commands/python_options.inc"
    ;

OptionDescription OptionFromJson(const nlohmann::json& json) {
  OptionDescription option;
  option.names = json.at("names").get<std::vector<std::string>>();
  option.text = json.at("text").get<std::string>();
  option.value = json.value("value", "");
  option.choices = json.value("choices", std::vector<std::string>());
  option.positional = option.required = json.value("positional", false);
  option.repeated = json.value("repeated", false);
  option.takes_path = TakesPath(option);
  return option;
}

// The command is listed by the help if `description` is not empty.
void AddCommandOfPython(CLI::App& parent, const std::string& name, const std::string& description,
                        const PythonCommand& python, int* exit) {
  CLI::App* command = parent.add_subcommand(name, description)->prefix_command();
  if (description.empty()) command->group("");
  command->set_help_flag();
  command->callback([&python, exit] {
    *exit = ReportError(absl::InvalidArgumentError(
        fmt::format("{0} comes with the Python package: pip install {1}, then python -m "
                    "shardfeed {0}",
                    python.name, python.package)));
  });
}

}  // namespace

const std::vector<PythonCommand>& PythonCommands() {
  static const auto* const kCommands = [] {
    auto* const commands = new std::vector<PythonCommand>();
    for (const nlohmann::json& json : nlohmann::json::parse(kPythonCommands)) {
      PythonCommand command = {
          json.at("name"), json.at("package"), json.at("text"), json.at("details"), {}};
      for (const nlohmann::json& option : json.at("options")) {
        command.options.push_back(OptionFromJson(option));
      }
      commands->push_back(std::move(command));
    }
    return commands;
  }();
  return *kCommands;
}

const PythonCommand* FindPythonCommand(std::string_view name) {
  const auto& commands = PythonCommands();
  const auto found = std::ranges::find(commands, name, &PythonCommand::name);
  return found == commands.end() ? nullptr : &*found;
}

void AddViewCommands(CLI::App& app, int* exit) {
  AddCommandOfPython(app, "view", "Show datasets in a browser (with the Python package)",
                     *FindPythonCommand("view"), exit);
  AddCommandOfPython(app, "report",
                     "Write a dataset's schema, statistics and some records as one HTML file "
                     "(with the Python package)",
                     *FindPythonCommand("report"), exit);
}

void AddPythonKinds(CLI::App& convert, int* exit) {
  constexpr std::string_view kConvert = "convert ";
  for (const PythonCommand& command : PythonCommands()) {
    if (!command.name.starts_with(kConvert)) continue;
    AddCommandOfPython(convert, command.name.substr(kConvert.size()), "", command, exit);
  }
}

}  // namespace shardfeed
