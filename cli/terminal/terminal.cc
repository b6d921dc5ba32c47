#include "cli/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

struct CodePoints {
  uint32_t first;
  uint32_t last;
};

// The C library's wcwidth knows all of these, but only in a locale that the program does not set.
constexpr CodePoints kWide[] = {
    {0x1100, 0x115f},    // Hangul that begins a syllable
    {0x231a, 0x231b},    // watch, hourglass
    {0x23e9, 0x23ec},    // buttons of players
    {0x25fd, 0x25fe},    // small squares
    {0x2614, 0x2615},    // umbrella, cup
    {0x2648, 0x2653},    // zodiac
    {0x26aa, 0x26ab},    // circles
    {0x26bd, 0x26be},    // balls
    {0x2705, 0x2705},    // check mark
    {0x270a, 0x270b},    // hands
    {0x274c, 0x274c},    // cross mark
    {0x2753, 0x2755},    // question marks
    {0x2e80, 0x303e},    // radicals, punctuation
    {0x3041, 0xa4cf},    // kana, ideographs, Yi
    {0xa960, 0xa97c},    // Hangul
    {0xac00, 0xd7a3},    // Hangul syllables
    {0xf900, 0xfaff},    // ideographs
    {0xfe30, 0xfe6f},    // vertical and small forms
    {0xff00, 0xff60},    // fullwidth forms
    {0xffe0, 0xffe6},    // fullwidth signs
    {0x16fe0, 0x18cff},  // Tangut, Khitan
    {0x1b000, 0x1b2ff},  // kana
    {0x1f18e, 0x1f19a},  // squared words
    {0x1f200, 0x1f64f},  // emoji
    {0x1f680, 0x1f6ff},  // emoji of transport
    {0x1f7e0, 0x1f7eb},  // colored circles and squares
    {0x1f900, 0x1f9ff},  // emoji
    {0x1fa70, 0x1faff},  // emoji
    {0x20000, 0x3fffd},  // ideographs
};

constexpr CodePoints kWithoutWidth[] = {
    {0x0300, 0x036f},    // combining marks
    {0x0483, 0x0489},    // Cyrillic marks
    {0x0591, 0x05bd},    // Hebrew marks
    {0x0610, 0x061a},    // Arabic marks
    {0x064b, 0x065f},    // Arabic marks
    {0x0e31, 0x0e31},    // Thai marks
    {0x0e34, 0x0e3a},    // Thai marks
    {0x0e47, 0x0e4e},    // Thai marks
    {0x1160, 0x11ff},    // Hangul that continues a syllable
    {0x200b, 0x200f},    // zero width space, joiners, directions
    {0x202a, 0x202e},    // directions
    {0x2060, 0x2064},    // word joiner
    {0x20d0, 0x20f0},    // marks for symbols
    {0x3099, 0x309a},    // kana marks
    {0xfe00, 0xfe0f},    // variation selectors
    {0xfe20, 0xfe2f},    // half marks
    {0xfeff, 0xfeff},    // byte order mark
    {0x1f3fb, 0x1f3ff},  // skin tones
    {0xe0100, 0xe01ef},  // variation selectors
};

template <size_t n>
bool IsIn(const CodePoints (&ranges)[n], uint32_t point) {
  const CodePoints* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), point,
                       [](uint32_t p, const CodePoints& range) { return p < range.first; });
  return after != std::begin(ranges) && point <= std::prev(after)->last;
}

struct Character {
  size_t bytes;
  size_t columns;
};

// Returns the character that `text`, which is not empty, begins with.
Character FirstCharacter(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
  uint32_t point = size == 1 ? lead : lead & (0xff >> (size + 1));
  if (size > text.size()) return {1, 1};
  for (size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80) return {1, 1};
    point = point << 6 | (byte & 0x3f);
  }
  if (IsIn(kWithoutWidth, point)) return {size, 0};
  return {size, size_t{IsIn(kWide, point) ? 2u : 1u}};
}

std::vector<Character> CharactersOf(std::string_view text) {
  std::vector<Character> all;
  for (; !text.empty(); text.remove_prefix(all.back().bytes)) all.push_back(FirstCharacter(text));
  return all;
}

constexpr std::string_view kCut = "...";
// Moves to the beginning of the line and erases it.
constexpr const char* kToLineStart = "\r\033[K";

struct StatusLine {
  Mutex mutex;
  std::string line ABSL_GUARDED_BY(mutex);  // empty if none is shown
};

// Never destroyed: threads may print until the process ends.
StatusLine& TheStatusLine() {
  static auto* status = new StatusLine();
  return *status;
}

// Each call writes once, so that other processes' output on the terminal does not split it.
void Write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

size_t ColumnsOf(std::string_view text) {
  size_t columns = 0;
  for (const Character& character : CharactersOf(text)) columns += character.columns;
  return columns;
}

std::string CutEnd(std::string_view text, size_t columns) {
  if (ColumnsOf(text) <= columns) return std::string(text);
  if (columns < kCut.size()) return std::string(columns, '.');
  size_t bytes = 0;
  size_t used = kCut.size();
  for (const Character& character : CharactersOf(text)) {
    used += character.columns;
    if (used > columns) break;
    bytes += character.bytes;
  }
  return std::string(text.substr(0, bytes)) + std::string(kCut);
}

std::string CutBeginning(std::string_view text, size_t columns) {
  size_t left = ColumnsOf(text);
  if (left <= columns) return std::string(text);
  if (columns < kCut.size()) return std::string(columns, '.');
  size_t bytes = 0;
  for (const Character& character : CharactersOf(text)) {
    // Marks belong to the character before them.
    if (left + kCut.size() <= columns && character.columns > 0) break;
    left -= character.columns;
    bytes += character.bytes;
  }
  return std::string(kCut) + std::string(text.substr(bytes));
}

bool StderrIsTerminal() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && kind != nullptr && std::string_view(kind) != "dumb";
}

size_t TerminalColumns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void PrintMessage(std::string_view line) {
  StatusLine& status = TheStatusLine();
  MutexLock lock(status.mutex);
  if (status.line.empty()) {
    Write(fmt::format("{}\n", line));
  } else {
    Write(fmt::format("{}{}\n{}", kToLineStart, line, status.line));
  }
}

void ShowStatusLine(std::string line) {
  StatusLine& status = TheStatusLine();
  MutexLock lock(status.mutex);
  if (line == status.line) return;
  Write(kToLineStart + line);
  status.line = std::move(line);
}

void RemoveStatusLine() {
  StatusLine& status = TheStatusLine();
  MutexLock lock(status.mutex);
  if (status.line.empty()) return;
  Write(kToLineStart);
  status.line.clear();
}

}  // namespace shardfeed
