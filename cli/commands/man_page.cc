#include "cli/commands/man_page.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using Options = std::vector<OptionDescription>;

bool Contains(const Options& options, const OptionDescription& option) {
  return std::ranges::find(options, option) != options.end();
}

// Escapes one line of text, so that roff does not take any of it for a request or an escape.
std::string Roff(std::string_view text) {
  std::string escaped = absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                                            {{"\\", "\\e"}, {"-", "\\-"}});
  if (escaped.starts_with('.') || escaped.starts_with('\'')) escaped.insert(0, "\\&");
  return escaped;
}

// Returns lines that roff does not fill.
std::string Verbatim(std::string_view text) {
  std::string lines = ".nf\n";
  for (const auto line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    lines += Roff(std::string_view(line.data(), line.size())) + "\n";
  }
  while (lines.ends_with("\n\n")) lines.pop_back();
  return lines + ".fi\n";
}

// Returns the options that all commands below `command` have, at any depth: those that the Python
// package has, or the others.
Options CommonOptions(const CommandDescription& command, bool of_python) {
  std::optional<Options> common;
  for (const CommandDescription* each : AllCommands(command)) {
    if (!each->commands.empty() || each->of_python != of_python) continue;
    if (!common) common = each->options;
    std::erase_if(*common, [&](const OptionDescription& o) { return !Contains(each->options, o); });
  }
  return std::move(common).value_or(Options());
}

std::string DescribeOption(const OptionDescription& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(fmt::format("\\fB{}\\fR", Roff(name)));
  }
  std::string heading = absl::StrJoin(names, ", ");
  if (!option.value.empty() && !option.positional) {
    const std::string value = fmt::format("\\fI{}\\fR", Roff(option.value));
    heading += option.value_optional ? " [" + value + "]" : " " + value;
  }
  std::string text = Roff(option.text);
  if (!option.choices.empty()) {
    text += fmt::format("\n.br\nValues: {}.", Roff(absl::StrJoin(option.choices, ", ")));
  }
  return fmt::format(".TP\n{}\n{}\n", heading, text);
}

std::string DescribeOptions(const Options& options, const Options& described_above) {
  std::string text;
  for (const OptionDescription& option : options) {
    if (!Contains(described_above, option)) text += DescribeOption(option);
  }
  return text;
}

std::string Synopsis(const CommandDescription& command) {
  std::string line = fmt::format("\\fB{}\\fR [\\fIoptions\\fR]", Roff(command.path));
  for (const OptionDescription& option : command.options) {
    if (!option.positional) continue;
    line += fmt::format(" \\fI{}\\fR{}", Roff(option.names[0]), option.repeated ? " ..." : "");
  }
  return line;
}

std::string DescribeCommands(const CommandDescription& command, const Options& described) {
  std::string text;
  for (const CommandDescription& below : command.commands) {
    text += fmt::format(".SS {}\n{}.\n", Roff(below.path), Roff(below.text));
    if (below.commands.empty()) {
      text += ".PP\n" + Synopsis(below) + "\n" + DescribeOptions(below.options, described);
      if (!below.details.empty()) text += ".PP\n" + Verbatim(below.details);
      continue;
    }
    const Options of_python = CommonOptions(below, /*of_python=*/true);
    const Options of_others = CommonOptions(below, /*of_python=*/false);
    const bool has_both = !of_python.empty() && !of_others.empty();
    const auto share = [&](std::string_view whose, const Options& common) {
      const std::string shared = DescribeOptions(common, described);
      if (!shared.empty()) text += fmt::format(".PP\nOptions of {}:\n{}", whose, shared);
    };
    share(has_both ? "all its commands without the Python package" : "all its commands", of_others);
    share("all its commands with the Python package", of_python);
    if (!below.details.empty()) text += ".PP\n" + Verbatim(below.details);
    const auto describe = [&](bool python, const Options& common) {
      CommandDescription part = below;
      std::erase_if(part.commands,
                    [&](const CommandDescription& each) { return each.of_python != python; });
      Options above = common;
      above.insert(above.end(), described.begin(), described.end());
      text += DescribeCommands(part, above);
    };
    describe(/*python=*/false, of_others);
    describe(/*python=*/true, of_python);
  }
  return text;
}

}  // namespace

std::string ManPage(const CommandDescription& program, std::string_view version) {
  std::string page = fmt::format(
      ".\\\" Made by 'shardfeed man' from the definitions of the commands.\n"
      ".TH SHARDFEED 1 \"\" \"shardfeed {}\" \"User Commands\"\n"
      ".SH NAME\n"
      "shardfeed \\- write, index, verify and read sharded TFRecord datasets\n"
      ".SH SYNOPSIS\n"
      "\\fBshardfeed\\fR \\fIcommand\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n"
      ".SH DESCRIPTION\n{}\n",
      version, Roff(program.text));
  const Options common = CommonOptions(program, /*of_python=*/false);
  page +=
      ".SH COMMON OPTIONS\n"
      "Every command below has these options. Where its section describes one again, that is\n"
      "what it means there. They may also precede the command; \\fB\\-\\-help\\fR then\n"
      "describes all of them.\n" +
      DescribeOptions(common, {});
  page += ".TP\n\\fB\\-\\-version\\fR\nPrint the version and exit; given without a command.\n";
  page += ".SH COMMANDS\n" + DescribeCommands(program, common);
  page += ".SH EXIT STATUS\nThe statuses mean the same for every command.\n";
  for (const ExitStatus& exit : kExitStatuses) {
    page += fmt::format(".TP\n{}\n{}\n", exit.status, Roff(exit.meaning));
  }
  page +=
      ".SH ENVIRONMENT\n"
      ".TP\nSHARDFEED_IO\nHow files are read, as with \\fB\\-\\-io\\fR: uring, threads or mmap.\n"
      ".TP\nTMPDIR\nThe folder for temporary files.\n"
      ".SH NOTES AND EXAMPLES\n" +
      Verbatim(program.details);
  return page;
}

}  // namespace shardfeed
