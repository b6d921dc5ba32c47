#include "cli/terminal/units.h"

#include <charconv>
#include <cmath>

#include "fmt/format.h"

namespace shardfeed {

std::optional<uint64_t> ParseSize(std::string_view text) {
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0) || std::isinf(number)) return std::nullopt;
  std::string_view unit = text.substr(rest - text.data());
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kPrefixes = "KMGT";
    const size_t power = kPrefixes.find(unit[0] == 'k' ? 'K' : unit[0]);
    if (power == std::string_view::npos) return std::nullopt;
    const std::string_view ending = unit.substr(1);
    if (ending != "" && ending != "iB" && ending != "B") return std::nullopt;
    factor = std::pow(ending == "B" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
  }
  const double bytes = number * factor;
  if (bytes >= 18446744073709551616.0) return std::nullopt;
  return static_cast<uint64_t>(bytes);
}

std::optional<uint64_t> ParseDuration(std::string_view text) {
  constexpr uint64_t kMostSeconds = uint64_t{1} << 40;  // can be subtracted from any time_t
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit(rest, end - rest);
  if (unit.empty() && number == 0) return 0;
  uint64_t seconds = 0;
  if (unit == "s") seconds = 1;
  if (unit == "m") seconds = 60;
  if (unit == "h") seconds = uint64_t{60} * 60;
  if (unit == "d") seconds = uint64_t{24} * 60 * 60;
  if (seconds == 0 || number > kMostSeconds / seconds) return std::nullopt;
  return number * seconds;
}

std::string FormatSize(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return value < 10 ? fmt::format("{:.1f} {}", value, kUnits[unit])
                    : fmt::format("{:.0f} {}", value, kUnits[unit]);
}

std::string FormatCount(uint64_t n) {
  std::string digits = fmt::format("{}", n);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string Counted(uint64_t n, std::string_view one) {
  return fmt::format("{} {}{}", FormatCount(n), one, n == 1 ? "" : "s");
}

std::string FormatDuration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<uint64_t>(std::round(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

absl::StatusOr<std::vector<Range>> ParseRanges(std::string_view text, uint64_t total,
                                               std::string_view what) {
  std::vector<Range> ranges;
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        fmt::format("'{}': expected a list of {} numbers such as 0,5,10-19 or 100-", text, what));
  };
  std::string_view rest = text;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const char* const end = part.data() + part.size();
    Range range;
    auto [at, error] = std::from_chars(part.data(), end, range.begin);
    if (error != std::errc()) return wrong();
    if (at == end) {
      range.end = range.begin + 1;
    } else if (*at == '-' && at + 1 == end) {
      range.end = total;
    } else if (*at == '-') {
      uint64_t last;
      auto [stop, last_error] = std::from_chars(at + 1, end, last);
      if (last_error != std::errc() || stop != end || last < range.begin) return wrong();
      range.end = last == UINT64_MAX ? last : last + 1;
    } else {
      return wrong();
    }
    if (range.begin >= total || range.end > total) {
      return absl::OutOfRangeError(
          fmt::format("{0} {1} does not exist: there are {2} {0}s, numbered from 0", what,
                      range.begin >= total ? range.begin : range.end - 1, total));
    }
    ranges.push_back(range);
    if (part.size() == rest.size()) return ranges;
    rest.remove_prefix(part.size() + 1);
  }
}

absl::StatusOr<SkipCeiling> ParseMaxSkipped(const std::string& text) {
  const std::optional<SkipCeiling> ceiling = ParseSkipCeiling(text);
  if (!ceiling) {
    return absl::InvalidArgumentError(
        fmt::format("--max-skipped {}: expected a number of records or a share such as 5%", text));
  }
  return *ceiling;
}

}  // namespace shardfeed
