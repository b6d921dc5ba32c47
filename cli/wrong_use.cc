#include "cli/wrong_use.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// The option that the message begins with, and what follows its name; nullptr if none does.
std::pair<const CLI::Option*, std::string_view> OptionIn(std::string_view message,
                                                         const CLI::App& command) {
  const CLI::Option* found = nullptr;
  size_t length = 0;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (name.size() > length && message.starts_with(name)) {
      found = option;
      length = name.size();
    }
  }
  return {found, message.substr(length)};
}

// "expected a number, as in --share 0.5"
std::string Wanted(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string name = option.get_name();
  if (type.starts_with("UINT")) {
    return fmt::format("expected a whole number from 0 on, as in {} 7", name);
  }
  if (type.starts_with("INT")) return fmt::format("expected a whole number, as in {} 7", name);
  if (type.starts_with("FLOAT")) return fmt::format("expected a number, as in {} 0.5", name);
  return fmt::format("expected a value: {}", option.get_description());
}

std::string NamesOf(const CLI::App& command) {
  std::string names;
  const auto shown = [](const CLI::App* sub) { return !sub->get_group().empty(); };
  for (const CLI::App* sub : command.get_subcommands(shown)) {
    names += (names.empty() ? "" : ", ") + sub->get_name();
  }
  return names;
}

std::string Message(const CLI::App& command, const CLI::Error& error) {
  const std::string message = error.what();
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    const std::string_view start = "Could not convert: ";
    if (!message.starts_with(start)) return message;
    const auto [option, given] = OptionIn(std::string_view(message).substr(start.size()), command);
    if (option == nullptr || !given.starts_with(" = ")) return message;
    std::string said =
        fmt::format("{} '{}': {}", option->get_name(), given.substr(3), Wanted(*option));
    // It may be what comes next: `read --shuffle out/train@4`.
    if (option->get_items_expected_min() == 0) {
      said += fmt::format("; if '{}' is no value of it, name it before {}", given.substr(3),
                          option->get_name());
    }
    return said;
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const auto [option, what] = OptionIn(message, command);
    if (option == nullptr || what.find("missing") == what.npos) return message;
    return fmt::format("{}: {}", option->get_name(), Wanted(*option));
  }
  const bool wants_command = command.get_require_subcommand_min() > 0;
  if (wants_command && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::string rest = CLI::detail::join(command.remaining(), " ");
    if (rest.empty()) return fmt::format("which one? There are: {}", NamesOf(command));
    return fmt::format("there is no '{}'; there are: {}", rest, NamesOf(command));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string rest = message.substr(std::min(message.size(), message.find(": ") + 2));
    if (!rest.empty() && rest[0] == '-') return fmt::format("there is no {}", rest);
    return fmt::format("'{}' is too much", rest);
  }
  return message;
}

}  // namespace

std::string ExplainWrongUse(const CLI::App& app, const CLI::Error& error) {
  // The command that was given, `convert csv` as well as `read`.
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    name += " " + command->get_name();
  }
  return fmt::format("{}: {}\nRun '{} --help' for what there is.\n",
                     command == &app ? name : "shardfeed: " + command->get_name(),
                     Message(*command, error), name);
}

}  // namespace shardfeed
