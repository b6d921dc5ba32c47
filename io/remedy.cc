#include "io/remedy.h"

#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr char kUrl[] = "shardfeed/remedy";

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status WithRemedy(absl::Status status, const Remedy& remedy) {
  status.SetPayload(
      kUrl, absl::Cord(fmt::format("{}\n{}\n{}", remedy.option, remedy.value, remedy.purpose)));
  return status;
}

std::optional<Remedy> RemedyOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kUrl);
  if (!payload) return std::nullopt;
  std::vector<std::string> parts = absl::StrSplit(std::string(*payload), '\n');
  if (parts.size() != 3) return std::nullopt;
  return Remedy{std::move(parts[0]), std::move(parts[1]), std::move(parts[2])};
}

absl::Status WithMessage(const absl::Status& status, std::string_view message) {
  absl::Status result(status.code(), ToAbsl(message));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    // Copying the Cord itself would need an Abseil library that is not linked.
    result.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return result;
}

}  // namespace shardfeed
