#include "net/secret_text.h"

#include <algorithm>

#include "base/environment.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxBytes = 64 << 10;

bool IsSound(std::string_view text, bool blanks) {
  const char least = blanks ? ' ' : '!';
  return text.size() <= kMaxBytes &&
         std::all_of(text.begin(), text.end(), [=](char c) { return c >= least && c < 0x7f; });
}

}  // namespace

bool IsSoundSecret(std::string_view text) { return IsSound(text, /*blanks=*/false); }

absl::Status CheckSecret(std::string_view name, std::string_view text, bool blanks) {
  if (IsSound(text, blanks)) return absl::OkStatus();
  if (text.ends_with('\n') || text.ends_with('\r')) {
    return absl::InvalidArgumentError(fmt::format("{} ends with a line break; remove it", name));
  }
  return absl::InvalidArgumentError(
      fmt::format("{} has {}characters that must not be in it", name,
                  blanks ? "line breaks or other " : "blanks, line breaks or other "));
}

absl::StatusOr<std::string> PathIn(const char* variable) {
  const std::string path = Env(variable);
  // JSON, a JSON Web Token, a key in PEM, or a file of several lines.
  if (path.starts_with('{') || path.starts_with("eyJ") || path.starts_with("-----BEGIN") ||
      path.find_first_of("\r\n") != path.npos) {
    return absl::InvalidArgumentError(fmt::format(
        "{} must hold the path of a file, but seems to hold what the file contains", variable));
  }
  return path;
}

}  // namespace shardfeed
