#include "cli/commands/python_commands.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace shardfeed {
namespace {

// A command's JSON is parsed when it is asked for, since each start of the program passes here.
struct CommandJson {
  std::string_view name;
  std::string_view json;
};
constexpr CommandJson kCommands[] = {
#include "cli/commands/python_options.inc"
};

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

// Adds the command of the package called `full_name`, such as "convert parquet". The help lists it
// if `description` is not empty.
void AddCommandOfPython(CLI::App& parent, const std::string& name, const std::string& description,
                        std::string_view full_name, int* exit) {
  CLI::App* command = parent.add_subcommand(name, description)->prefix_command();
  if (description.empty()) command->group("");
  command->set_help_flag();
  command->callback([full_name, exit] {
    *exit = ReportError(absl::InvalidArgumentError(
        fmt::format("{0} comes with the Python package: pip install {1}, then python -m "
                    "shardfeed {0}",
                    full_name, FindPythonCommand(full_name)->package)));
  });
}

}  // namespace

std::optional<PythonCommand> FindPythonCommand(std::string_view name) {
  const auto* const found = std::ranges::find(kCommands, name, &CommandJson::name);
  if (found == std::end(kCommands)) return std::nullopt;
  const auto json = nlohmann::json::parse(found->json);
  PythonCommand command = {
      std::string(name), json.at("package"), json.at("text"), json.at("details"), {}};
  for (const nlohmann::json& option : json.at("options")) {
    command.options.push_back(OptionFromJson(option));
  }
  return command;
}

void AddViewCommands(CLI::App& app, int* exit) {
  AddCommandOfPython(app, "view", "Show datasets in a browser (with the Python package)", "view",
                     exit);
  AddCommandOfPython(app, "report",
                     "Write a dataset's schema, statistics and some records as one HTML file "
                     "(with the Python package)",
                     "report", exit);
}

void AddPythonKinds(CLI::App& convert, int* exit) {
  constexpr std::string_view kConvert = "convert ";
  for (const CommandJson& command : kCommands) {
    if (!command.name.starts_with(kConvert)) continue;
    AddCommandOfPython(convert, std::string(command.name.substr(kConvert.size())), "", command.name,
                       exit);
  }
}

}  // namespace shardfeed
