#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "shard/spec/spec.h"
#include "shardfeed/index.h"
#include "tfrecord/example_text.h"

namespace shardfeed {
namespace {

struct CatFlags {
  std::vector<std::string> specs;
  std::string records;
  std::string format = "json";
};

int Cat(const CatFlags& flags, const CommandOptions& options) {
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.specs);
  if (!set.ok()) return ReportError(set.status());
  absl::StatusOr<std::unique_ptr<RandomAccess>> access = RandomAccess::Open(*set, options.threads);
  if (!access.ok()) return ReportError(access.status());
  const uint64_t total = (*access)->num_records();
  std::vector<Range> ranges = {{0, total}};
  if (!flags.records.empty()) {
    absl::StatusOr<std::vector<Range>> parsed = ParseRanges(flags.records, total);
    if (!parsed.ok()) return ReportError(parsed.status());
    ranges = *std::move(parsed);
  }
  uint64_t wanted = 0;
  for (const Range& range : ranges) wanted += range.end - range.begin;
  std::atomic<uint64_t> printed{0};
  // On a terminal, the records themselves show the progress.
  CommandOptions showing = options;
  showing.quiet |= ::isatty(STDOUT_FILENO) != 0;
  const ProgressDisplay display(showing, [&] {
    return Progress{.what = "printing",
                    .name = fmt::format("{}", fmt::join(flags.specs, " ")),
                    .done = printed,
                    .total = wanted};
  });
  for (const Range& range : ranges) {
    absl::Status status =
        (*access)->Read(range.begin, range.end, [&](uint64_t number, std::string_view payload) {
          absl::StatusOr<std::string> text = std::string();
          if (flags.format == "json") {
            text = ExampleToJson(payload);
          } else if (flags.format == "text") {
            text = ExampleToTextProto(payload);
          }
          if (!text.ok()) {
            return absl::DataLossError(
                fmt::format("record {}: {}; --format payload prints its bytes unchanged", number,
                            std::string(text.status().message())));
          }
          const std::string_view bytes = flags.format == "payload" ? payload : *text;
          std::fwrite(bytes.data(), 1, bytes.size(), stdout);
          if (flags.format != "payload") std::fputc('\n', stdout);
          ++printed;
          if (InterruptToken().stop_requested()) return absl::CancelledError("interrupted");
          // The reader has gone (`head` closed the pipe) or the disk is full; main reports it.
          if (std::ferror(stdout)) return absl::UnavailableError("cannot write to standard output");
          return absl::OkStatus();
        });
    if (!status.ok()) return ReportError(status);
  }
  return kExitDone;
}

}  // namespace

void AddCatCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand("cat", "Print records, by number or range");
  auto flags = std::make_shared<CatFlags>();
  command
      ->add_option("DATASET", flags->specs,
                   "stem@N, stem@*, a folder, a glob, files, or URLs of these")
      ->required();
  command->add_option(
      "-r,--records", flags->records,
      "record numbers: 5, 10-19, 100- (to the end), or several separated by commas; default: all");
  command
      ->add_option("--format", flags->format,
                   "json: a line per record; text: the text format of Protocol Buffers; payload: "
                   "the unchanged bytes")
      ->check(CLI::IsMember({"json", "text", "payload"}))
      ->capture_default_str();
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "Records are numbered from 0 across all shards. Bytes that are not text are printed as\n"
      "{\"base64\": \"...\"}.\n\n"
      "Examples:\n"
      "  shardfeed cat out/airports@4 --records 0-9\n"
      "  shardfeed cat out/train@64 -r 17 --format payload > record.bin\n");
  command->callback([flags, &options, exit] { *exit = Cat(*flags, options); });
}

}  // namespace shardfeed
