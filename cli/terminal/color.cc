#include "cli/terminal/color.h"

#include <unistd.h>

#include <cstdlib>

#include "fmt/format.h"

namespace shardfeed {
namespace {

UseColor use_color = UseColor::kAuto;

std::string_view Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool HasColors(int stream) {
  if (use_color != UseColor::kAuto) return use_color == UseColor::kAlways;
  if (!Environment("NO_COLOR").empty() || Environment("CLICOLOR") == "0") return false;
  const std::string_view force = Environment("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  const std::string_view terminal = Environment("TERM");
  return ::isatty(stream) != 0 && !terminal.empty() && terminal != "dumb";
}

// Returns the parameters of the escape sequence that selects the color. All colors are readable on
// light and on dark backgrounds.
std::string_view CodeOf(Paint paint) {
  switch (paint) {
    case Paint::kError:
    case Paint::kBad:
      return "1;31";  // bold, red
    case Paint::kNote:
      return "1;36";  // bold, cyan
    case Paint::kGood:
      return "1;32";  // bold, green
  }
  return "";
}

}  // namespace

void SetUseColor(UseColor use) { use_color = use; }

std::string Painted(Paint paint, std::string_view text, int stream) {
  if (!HasColors(stream)) return std::string(text);
  return fmt::format("\033[{}m{}\033[0m", CodeOf(paint), text);
}

}  // namespace shardfeed
