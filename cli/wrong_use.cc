#include "cli/wrong_use.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// Returns the option that the message begins with, and the text after its name; nullptr if there is
// no such option.
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

// Returns what the option expects: "expected a number, as in --share 0.5".
std::string Wanted(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::string name = option.get_name();
  if (type.starts_with("UINT")) {
    return fmt::format("expected an integer of at least 0, as in {} 7", name);
  }
  if (type.starts_with("INT")) return fmt::format("expected an integer, as in {} 7", name);
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
    // The word may be the next argument rather than a value: `bench --shuffle out/train@4`.
    if (option->get_items_expected_min() == 0) {
      said += fmt::format("; if '{}' is not its value, place it before {}", given.substr(3),
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
    if (rest.empty()) return fmt::format("expected a command: {}", NamesOf(command));
    return fmt::format("there is no command '{}'; expected one of {}", rest, NamesOf(command));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string rest = message.substr(std::min(message.size(), message.find(": ") + 2));
    if (!rest.empty() && rest[0] == '-') return fmt::format("there is no option {}", rest);
    return fmt::format("unexpected argument '{}'", rest);
  }
  return message;
}

}  // namespace

std::string ExplainWrongUse(const CLI::App& app, const CLI::Error& error) {
  // Find the command that was given, which may be nested: `convert csv`.
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().back();
    name += " " + command->get_name();
  }
  return fmt::format("{}: {}\nRun '{} --help' for usage.\n",
                     command == &app ? name : "shardfeed: " + command->get_name(),
                     Message(*command, error), name);
}

}  // namespace shardfeed
