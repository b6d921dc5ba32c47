#include "cli/wrong_use.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/suggestion.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

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

// Returns the names of the commands below `command` that its help shows, or of the others.
std::vector<std::string> CommandsOf(const CLI::App& command, bool shown = true) {
  std::vector<std::string> names;
  const auto wanted = [shown](const CLI::App* sub) { return sub->get_group().empty() != shown; };
  for (const CLI::App* sub : command.get_subcommands(wanted)) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> OptionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Returns the message for a word that is none of the commands below `command`.
std::string NoSuchCommand(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names = CommandsOf(command);
  const std::string expected = fmt::format("expected one of {}", fmt::join(names, ", "));
  // What follows `convert` is a kind of data to users, though CLI11 calls it a command.
  if (command.get_name() != "convert") {
    return fmt::format("there is no command '{}'; {}{}", word, expected, DidYouMean(word, names));
  }
  const std::vector<std::string> of_python = CommandsOf(command, /*shown=*/false);
  names.insert(names.end(), of_python.begin(), of_python.end());
  return fmt::format("there is no kind of source '{}'; {}, or with the Python package {}{}", word,
                     expected, fmt::join(of_python, ", "), DidYouMean(word, names));
}

// Returns the message for an option that `command` does not have. `below` is the command that was
// given after it, if any.
std::string NoSuchOption(const CLI::App& command, const CLI::App* below, std::string word) {
  word = word.substr(0, word.find('='));
  std::string message = fmt::format("there is no option {}", word);
  if (below != nullptr && below->get_option_no_throw(word) != nullptr) {
    return message + fmt::format(" before '{0}'; place it after '{0}'", below->get_name());
  }
  return message + DidYouMean(word, OptionsOf(command));
}

// Returns "; did you mean 'gzip'?" for a message such as "--compression: gzp not in {none,gzip}".
std::string ValueMeant(std::string_view message) {
  const size_t end = message.find(" not in {");
  if (end == message.npos || !message.ends_with('}')) return "";
  const size_t colon = message.substr(0, end).rfind(": ");
  if (colon == message.npos) return "";
  const size_t open = end + std::string_view(" not in {").size();
  const std::string words(message.substr(open, message.size() - open - 1));
  return DidYouMean(message.substr(colon + 2, end - colon - 2), CLI::detail::split(words, ','));
}

std::string Message(const CLI::App& command, const CLI::Error& error) {
  std::string message = error.what();
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
    const std::vector<std::string> rest = command.remaining();
    if (rest.empty()) {
      return fmt::format("expected a {}: {}",
                         command.get_name() == "convert" ? "kind of source" : "command",
                         fmt::join(CommandsOf(command), ", "));
    }
    return rest[0].starts_with('-') ? NoSuchOption(command, nullptr, rest[0])
                                    : NoSuchCommand(command, rest[0]);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
      const std::vector<std::string> rest = app->remaining();
      if (rest.empty()) continue;
      const CLI::App* below = app->get_subcommands().empty() ? nullptr : &command;
      if (rest[0].starts_with('-')) return NoSuchOption(*app, below, rest[0]);
      if (below != nullptr) return NoSuchCommand(*app, rest[0]);
      return fmt::format("unexpected argument '{}'", rest[0]);
    }
  }
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    return message + ValueMeant(message);
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
