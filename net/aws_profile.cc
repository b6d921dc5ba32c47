#include "net/aws_profile.h"

#include "base/environment.h"
#include "fmt/format.h"
#include "io/file.h"
#include "net/secret_text.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxFileBytes = 1 << 20;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

absl::StatusOr<std::string> PathOf(const char* variable, const char* name) {
  absl::StatusOr<std::string> path = PathIn(variable);
  if (path.ok() && path->empty()) return fmt::format("{}/.aws/{}", Env("HOME"), name);
  return path;
}

}  // namespace

std::map<std::string, std::string> ParseProfile(std::string_view text, std::string_view profile) {
  std::map<std::string, std::string> settings;
  bool inside = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view raw = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    const std::string_view line = Trim(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      std::string_view name = Trim(line.substr(1, line.find(']') - 1));
      if (name.starts_with("profile ") || name.starts_with("profile\t"))
        name = Trim(name.substr(8));
      inside = name == profile;
      continue;
    }
    // An indented line belongs to the previous setting.
    if (!inside || raw.front() == ' ' || raw.front() == '\t') continue;
    const size_t equals = line.find('=');
    if (equals == line.npos) continue;
    settings[std::string(Trim(line.substr(0, equals)))] =
        std::string(Trim(line.substr(equals + 1)));
  }
  return settings;
}

absl::StatusOr<std::map<std::string, std::string>> ReadProfile() {
  std::string profile = Env("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  const absl::StatusOr<std::string> credentials =
      PathOf("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  if (!credentials.ok()) return credentials.status();
  const absl::StatusOr<std::string> config = PathOf("AWS_CONFIG_FILE", "config");
  if (!config.ok()) return config.status();
  std::map<std::string, std::string> settings;
  for (const std::string& path : {*credentials, *config}) {
    const absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
    if (absl::IsNotFound(text.status()) || absl::IsPermissionDenied(text.status())) continue;
    if (!text.ok()) return text.status();
    for (auto& [name, value] : ParseProfile(*text, profile)) settings.try_emplace(name, value);
  }
  if (settings.empty() && profile != "default") {
    return absl::FailedPreconditionError(
        fmt::format("AWS_PROFILE is '{}', but neither {} nor {} has such a profile", profile,
                    *credentials, *config));
  }
  return settings;
}

}  // namespace shardfeed
