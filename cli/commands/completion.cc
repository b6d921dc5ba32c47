#include "cli/commands/completion.h"

#include <string_view>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Returns `text` as one word of a shell script, in single quotes.
std::string Quoted(std::string_view text) {
  return "'" + absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"'", "'\\''"}}) +
         "'";
}

std::vector<std::string> NamesOfCommands(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CommandDescription& below : command.commands) names.push_back(below.name);
  return names;
}

std::vector<std::string> NamesOfOptions(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options) {
    if (option.positional) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// Returns the name of a command's shell function, such as "_shardfeed_convert_csv".
std::string FunctionName(const CommandDescription& command) {
  return "_" + absl::StrReplaceAll(command.path, {{" ", "_"}, {"-", "_"}});
}

// Returns the patterns of a bash `case` on "PATH OPTION".
std::string OptionPatterns(const CommandDescription& command, const OptionDescription& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : option.names) {
    patterns.push_back(fmt::format("'{} {}'", command.path, name));
  }
  return absl::StrJoin(patterns, " | ");
}

// Escapes brackets, which would end a description in zsh's _arguments.
std::string ZshText(std::string_view text) {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                             {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}});
}

// Returns the specification of an option for _arguments, one word for each of its names.
std::string ZshOption(const OptionDescription& option) {
  std::string action;
  if (!option.value.empty()) {
    action = fmt::format("{}{}:{}", option.value_optional ? "::" : ":",
                         absl::StrReplaceAll(option.value, {{":", "\\:"}}),
                         !option.choices.empty()
                             ? fmt::format("({})", absl::StrJoin(option.choices, " "))
                             : (option.takes_path ? "_files" : " "));
  }
  const std::string others = fmt::format("({})", absl::StrJoin(option.names, " "));
  std::string words;
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    const std::string_view ending = option.value.empty() ? "" : (is_long ? "=" : "+");
    words += fmt::format(" \\\n    {}",
                         Quoted(fmt::format("{}{}{}[{}]{}", option.names.size() > 1 ? others : "",
                                            name, ending, ZshText(option.text), action)));
  }
  return words;
}

}  // namespace

std::string BashCompletion(const CommandDescription& program) {
  std::string paths;   // patterns that match the subcommands
  std::string values;  // cases of options that take a value
  std::string words;   // cases that list the subcommands and options
  for (const CommandDescription* command : AllCommands(program)) {
    if (command != &program)
      paths += fmt::format("{}'{}'", paths.empty() ? "" : " | ", command->path);
    for (const OptionDescription& option : command->options) {
      if (option.positional || option.value.empty() || option.value_optional) continue;
      const std::string reply =
          option.takes_path ? "_shardfeed_reply -f"
          : option.choices.empty()
              ? "compopt +o default 2>/dev/null"
              : fmt::format("_shardfeed_reply -W {}", Quoted(absl::StrJoin(option.choices, " ")));
      values += fmt::format("    {})\n      {}\n      return\n      ;;\n",
                            OptionPatterns(*command, option), reply);
    }
    words += fmt::format("    '{}')\n      commands={}\n      options={}\n      ;;\n",
                         command->path, Quoted(absl::StrJoin(NamesOfCommands(*command), " ")),
                         Quoted(absl::StrJoin(NamesOfOptions(*command), " ")));
  }
  return fmt::format(R"(# Completion of shardfeed for bash; made by 'shardfeed completion bash'.
# To load it: source <(shardfeed completion bash)

_shardfeed_reply() {{
  local IFS=$'\n'
  COMPREPLY=($(IFS=$' \n'; compgen "$@" -- "$word"))
}}

_shardfeed() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before='' command=shardfeed commands='' options='' i
  COMPREPLY=()
  ((COMP_CWORD > 0)) && before=${{COMP_WORDS[COMP_CWORD - 1]}}
  # Bash splits --option=value at the equals sign.
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $before == '=' ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${{COMP_WORDS[i]}}" in
      {})
        command+=" ${{COMP_WORDS[i]}}"
        ;;
    esac
  done
  case "$command $before" in
{}  esac
  case "$command" in
{}  esac
  if [[ $word == -* ]]; then
    _shardfeed_reply -W "$options"
  elif [[ -n $commands ]]; then
    _shardfeed_reply -W "$commands"
  else
    _shardfeed_reply -f
  fi
}}

complete -o default -o filenames -F _shardfeed shardfeed
)",
                     paths, values, words);
}

std::string ZshCompletion(const CommandDescription& program) {
  std::string functions;
  for (const CommandDescription* command : AllCommands(program)) {
    std::string arguments;
    std::string positionals;
    for (const OptionDescription& option : command->options) {
      if (option.positional) {
        positionals = fmt::format(" \\\n    {}", Quoted("*:" + option.names[0] + ":_files"));
      } else {
        arguments += ZshOption(option);
      }
    }
    if (command->commands.empty()) {
      functions += fmt::format("{}() {{\n  _arguments -s{}{}\n}}\n\n", FunctionName(*command),
                               arguments, positionals);
      continue;
    }
    std::string described;
    std::string calls;
    for (const CommandDescription& below : command->commands) {
      described += fmt::format("        {}\n", Quoted(below.name + ":" + below.text));
      calls += fmt::format("        {}) {} ;;\n", below.name, FunctionName(below));
    }
    functions += fmt::format(R"({}() {{
  local state line
  local -a commands
  _arguments -C{} \
    '1: :->command' \
    '*:: :->rest'
  case $state in
    command)
      commands=(
{}      )
      _describe command commands
      ;;
    rest)
      case $line[1] in
{}      esac
      ;;
  esac
}}

)",
                             FunctionName(*command), arguments, described, calls);
  }
  return fmt::format(R"(#compdef shardfeed
# Completion of shardfeed for zsh; made by 'shardfeed completion zsh'.
# To load it, write it to a file named _shardfeed in a folder of $fpath.

{}if [[ $funcstack[1] == _shardfeed ]]; then
  _shardfeed "$@"
else
  compdef _shardfeed shardfeed
fi
)",
                     functions);
}

std::string FishCompletion(const CommandDescription& program) {
  std::string paths;
  std::string lines;
  for (const CommandDescription* command : AllCommands(program)) {
    if (command != &program) paths += " " + Quoted(command->path);
    const std::string start =
        fmt::format("complete -c shardfeed -n {}",
                    Quoted(fmt::format("test (__shardfeed_command) = \"{}\"", command->path)));
    for (const CommandDescription& below : command->commands) {
      lines += fmt::format("{} -f -a {} -d {}\n", start, below.name, Quoted(below.text));
    }
    for (const OptionDescription& option : command->options) {
      if (option.positional) continue;
      lines += start;
      for (const std::string& name : option.names) {
        lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.value.empty() && !option.value_optional) {
        if (!option.choices.empty()) {
          lines += " -x -a " + Quoted(absl::StrJoin(option.choices, " "));
        } else {
          lines += option.takes_path ? " -r -F" : " -x";
        }
      }
      lines += " -d " + Quoted(absl::StrReplaceAll(option.text, {{"\\", "\\\\"}})) + "\n";
    }
  }
  return fmt::format(R"(# Completion of shardfeed for fish; made by 'shardfeed completion fish'.
# To load it: shardfeed completion fish | source

function __shardfeed_command
  set -l command shardfeed
  for word in (commandline -opc)[2..-1]
    if contains -- "$command $word"{}
      set command "$command $word"
    end
  end
  echo $command
end

{})",
                     paths, lines);
}

}  // namespace shardfeed
