#include "cli/terminal/console.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "base/utf8.h"
#include "cli/terminal/color.h"
#include "cli/terminal/terminal.h"
#include "fmt/format.h"
#include "io/remedy.h"
#include "io/thread.h"

namespace shardfeed {
namespace {

std::stop_source& InterruptSource() {
  static std::stop_source* source = new std::stop_source();
  return *source;
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (BeginsWithC1Control(text.substr(i))) {
      line += fmt::format("\\u00{:02x}", static_cast<unsigned char>(text[++i]));
    } else if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += fmt::format("\\x{:02x}", c);
    } else {
      line += c;
    }
  }
  return line;
}

std::string SpellFlag(std::string_view option, std::string_view value) {
  std::string flag = fmt::format("--{}", option);
  std::ranges::replace(flag, '_', '-');
  if (value.empty()) return flag;
  const bool safe = std::ranges::all_of(value, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || std::strchr(",./-_", c) != nullptr;
  });
  const char quote = value.find('\'') == value.npos ? '\'' : '"';
  return safe ? fmt::format("{} {}", flag, value)
              : fmt::format("{0} {1}{2}{1}", flag, quote, value);
}

std::string DescribeError(const absl::Status& status) {
  std::string text(status.message());
  if (const std::optional<Remedy> remedy = RemedyOf(status)) {
    text +=
        fmt::format("; pass {} to {}", SpellFlag(remedy->option, remedy->value), remedy->purpose);
  }
  return text;
}

void Say(std::string_view text) { PrintMessage(fmt::format("shardfeed: {}", OneLine(text))); }

void PrintNote(std::string_view text) {
  fmt::print("{} {}\n", Painted(Paint::kNote, "note:", STDOUT_FILENO), OneLine(text));
}

void PrintNotes(const std::vector<std::string>& notes, std::string_view rest) {
  constexpr size_t kShown = 20;
  // One more is not worth a line that says so.
  const size_t shown = notes.size() <= kShown + 1 ? notes.size() : kShown;
  for (size_t i = 0; i < shown; ++i) PrintNote(notes[i]);
  if (shown < notes.size()) PrintNote(fmt::format("{} more notes; {}", notes.size() - shown, rest));
}

int ReportError(const absl::Status& status) {
  PrintMessage(fmt::format("{} {}", Painted(Paint::kError, "shardfeed:", STDERR_FILENO),
                           OneLine(DescribeError(status))));
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitDone;
    case absl::StatusCode::kCancelled:
      return kExitInterrupted;
    case absl::StatusCode::kDataLoss:
      return kExitDefects;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return kExitUsage;
    default:
      return kExitIo;
  }
}

void StartInterruptHandler() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // All threads inherit the mask. One thread waits for the signals, since a signal handler could do
  // hardly anything.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGXFSZ, SIG_IGN);  // beyond the file size limit, write fails
  absl::StatusOr<std::thread> thread = StartThread([signals] {
    int signal_number;
    sigwait(&signals, &signal_number);
    InterruptSource().request_stop();
    sigwait(&signals, &signal_number);
    RemoveStatusLine();
    _exit(kExitInterrupted);
  });
  if (thread.ok()) {
    thread->detach();
  } else {
    // Without a thread that waits for them, the signals end the process as usual.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

std::stop_token InterruptToken() { return InterruptSource().get_token(); }

uint64_t PeakResidentBytes() {
  // The peak that getrusage reports includes that of the process that started this one.
  uint64_t kib = 0;
  if (std::FILE* status = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof(line), status) != nullptr) {
      if (std::strncmp(line, "VmHWM:", 6) == 0) kib = std::strtoull(line + 6, nullptr, 10);
    }
    std::fclose(status);
  }
  return kib * 1024;
}

}  // namespace shardfeed
