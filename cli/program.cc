#include "cli/program.h"

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "base/work_stop.h"
#include "cli/commands/commands.h"
#include "cli/commands/python_commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/color.h"
#include "cli/terminal/console.h"
#include "cli/terminal/units.h"
#include "cli/wrong_use.h"
#include "fmt/format.h"
#include "shardfeed/version.h"
#include "tfrecord/record_stream.h"

namespace shardfeed {

namespace {

std::string ExitStatusHelp() {
  std::string text = "Exit statuses:\n";
  for (const ExitStatus& exit : kExitStatuses) {
    text += fmt::format("  {}: {}\n", exit.status, exit.meaning);
  }
  return text;
}

// Returns the place of the command among the arguments, which options may precede; 0 if there is
// none.
int PlaceOfCommand(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') return i;
  }
  return 0;
}

int Run(int argc, char** argv) {
  CLI::App app(
      "Turns raw data into sharded TFRecord datasets, and indexes, verifies and reads them.",
      "shardfeed");
  app.footer(
      "Examples:\n"
      "  shardfeed convert imagefolder photos/ out/train@64\n"
      "  shardfeed verify out/train@64\n"
      "  shardfeed repair old/train@64 new/train\n"
      "  shardfeed index 'old/train-*'\n"
      "  shardfeed inspect out/train@64 --records 3\n"
      "  shardfeed cat out/train@64 --records 0,10-19\n"
      "  shardfeed reshard out/train@64 out/few@8\n"
      "  shardfeed plan out/train@64 --shuffle 1 --world 8 --batch 256\n"
      "  shardfeed bench out/train@64 --shuffle 1\n"
      "\n"
      "Each command has its own --help. -q, --json, -j, --color and --max-record-bytes may precede "
      "it.\n\n" +
      ExitStatusHelp());
#ifdef NDEBUG
  const std::string build;
#else
  const std::string build = " (debug build)";  // benchmarks refuse it
#endif
  app.set_version_flag("--version", std::string("shardfeed " SHARDFEED_VERSION) + build);
  app.require_subcommand(1);
  app.failure_message(
      [](const CLI::App* all, const CLI::Error& error) { return ExplainWrongUse(*all, error); });
  CommandOptions options;
  AddCommonOptions(app, options);
  int exit = kExitDone;
  AddConvertCommand(app, options, &exit);
  AddVerifyCommand(app, options, &exit);
  AddRepairCommand(app, options, &exit);
  AddIndexCommand(app, options, &exit);
  AddInspectCommand(app, options, &exit);
  AddDiffCommand(app, options, &exit);
  AddViewCommands(app, &exit);
  AddCatCommand(app, options, &exit);
  AddReshardCommands(app, options, &exit);
  AddBenchCommand(app, options, &exit);
  AddPlanCommand(app, options, &exit);
  AddReplayCommand(app, options, &exit);
  AddTopCommand(app, options, &exit);
  AddCommitCommand(app, options, &exit);
  AddCleanCommand(app, options, &exit);
  AddCacheCommand(app, options, &exit);
  AddShellCommands(app);
  // The previous release called this command `read`.
  std::string bench = "bench";
  if (const int place = PlaceOfCommand(argc, argv);
      place > 0 && std::string_view(argv[place]) == "read") {
    Say("'read' is now called 'bench'; the next release drops 'read'");
    argv[place] = bench.data();
  }
  StartInterruptHandler();
  const WorkStop interrupted(InterruptToken());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    return status == 0 ? kExitDone : kExitUsage;
  }
  NoteCache(options);
  return exit;
}

int RunAndCatch(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    // There may be no memory for Say either.
    std::fputs("shardfeed: out of memory; fewer --jobs need less memory\n", stderr);
  } catch (const std::exception& e) {
    Say(fmt::format("unexpected error: {}", e.what()));
  }
  return kExitIo;
}

}  // namespace

int RunProgram(int argc, char** argv) {
  const int status = RunAndCatch(argc, argv);
  std::fflush(stdout);
  // The last output may have failed to be written, for example to a full disk.
  if (std::ferror(stdout) && status == kExitDone) {
    Say("cannot write to standard output");
    return kExitIo;
  }
  return status;
}

}  // namespace shardfeed
