#include "shard/names/braces.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "net/open.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

constexpr size_t kMaxNames = kMaxShards;

bool IsPadded(std::string_view number) { return number.size() > 1 && number[0] == '0'; }

// The texts of the braces around `inside`; empty if they are not of a known form.
absl::StatusOr<std::vector<std::string>> TextsOf(std::string_view inside) {
  std::vector<std::string> texts;
  const size_t dots = inside.find("..");
  if (dots != inside.npos) {
    const std::string_view from = inside.substr(0, dots);
    const std::string_view to = inside.substr(dots + 2);
    const std::optional<uint64_t> first = ParseNumber(from);
    const std::optional<uint64_t> last = ParseNumber(to);
    if (first && last) {
      if (std::max(*first, *last) - std::min(*first, *last) >= kMaxNames) {
        return absl::InvalidArgumentError(
            fmt::format("{{{}}} stands for more than {} names", inside, kMaxNames));
      }
      const size_t width = IsPadded(from) || IsPadded(to) ? std::max(from.size(), to.size()) : 0;
      for (uint64_t i = *first;; i += *first < *last ? 1 : -1) {
        texts.push_back(fmt::format("{:0{}}", i, width));
        if (i == *last) return texts;
      }
    }
  }
  if (inside.find(',') == inside.npos) return texts;
  while (true) {
    const size_t comma = inside.find(',');
    texts.emplace_back(inside.substr(0, comma));
    if (comma == inside.npos) return texts;
    inside.remove_prefix(comma + 1);
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandBraces(std::string_view text) {
  std::vector<std::string> names = {""};
  const auto append = [&names](std::string_view literal) {
    for (std::string& name : names) name += literal;
  };
  const std::string_view whole = text;
  while (!text.empty()) {
    const size_t close = text.find('}');
    const size_t open = text.substr(0, close).rfind('{');
    if (close == text.npos || open == text.npos) break;
    absl::StatusOr<std::vector<std::string>> texts =
        TextsOf(text.substr(open + 1, close - open - 1));
    if (!texts.ok()) {
      return absl::Status(texts.status().code(),
                          fmt::format("{}: {}", whole, std::string(texts.status().message())));
    }
    if (texts->empty()) {
      append(text.substr(0, close + 1));
      text.remove_prefix(close + 1);
      continue;
    }
    if (names.size() * texts->size() > kMaxNames) {
      return absl::InvalidArgumentError(
          fmt::format("{}: stands for more than {} names", whole, kMaxNames));
    }
    append(text.substr(0, open));
    std::vector<std::string> next;
    next.reserve(names.size() * texts->size());
    for (const std::string& name : names) {
      for (const std::string& one : *texts) next.push_back(name + one);
    }
    names = std::move(next);
    text.remove_prefix(close + 1);
  }
  append(text);
  return names;
}

absl::StatusOr<std::vector<std::string>> NamesInBraces(const std::string& name) {
  struct stat info;
  if (name.find('{') == name.npos || (!IsRemote(name) && ::stat(name.c_str(), &info) == 0)) {
    return std::vector<std::string>();
  }
  // Each pair within another one takes a call of its own.
  constexpr int64_t kMostBraces = 100;
  if (std::count(name.begin(), name.end(), '{') > kMostBraces) {
    return absl::InvalidArgumentError(
        fmt::format("{}...: more than {} pairs of braces", name.substr(0, 40), kMostBraces));
  }
  absl::StatusOr<std::vector<std::string>> names = ExpandBraces(name);
  if (names.ok() && names->size() == 1 && names->front() == name) names->clear();
  return names;
}

}  // namespace shardfeed
