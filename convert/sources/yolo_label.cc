#include "convert/sources/yolo_label.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/excerpt.h"
#include "convert/features/column.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// How far tools write coordinates beyond the image.
constexpr double kTolerance = 0.01;

bool IsFraction(double value) { return value >= -kTolerance && value <= 1 + kTolerance; }

// Removes the first word of `text`.
std::string_view TakeWord(std::string_view* text) {
  constexpr std::string_view kBlanks = " \t\r";
  text->remove_prefix(std::min(text->find_first_not_of(kBlanks), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kBlanks));
  text->remove_prefix(word.size());
  return word;
}

}  // namespace

absl::Status ParseYoloLabel(std::string_view line, uint32_t num_keypoints, uint32_t keypoint_values,
                            YoloLabel* label) {
  thread_local std::vector<double> numbers;
  numbers.clear();
  label->polygon.clear();
  label->keypoints.clear();
  std::string_view rest = line;
  const std::string_view name = TakeWord(&rest);
  const std::optional<int64_t> number = ParseInt64(name);
  if (!number || *number < 0) {
    return absl::DataLossError(
        fmt::format("the line must begin with the number of a class, got {}", Excerpt(name)));
  }
  label->label = *number;
  for (std::string_view word = TakeWord(&rest); !word.empty(); word = TakeWord(&rest)) {
    double& value = numbers.emplace_back();
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size() ||
        !std::isfinite(value)) {
      return absl::DataLossError(fmt::format("expected a number, got {}", Excerpt(word)));
    }
  }
  const size_t keypoints = size_t{num_keypoints} * keypoint_values;
  const bool is_polygon = keypoints == 0 && numbers.size() >= 6 && numbers.size() % 2 == 0;
  if (numbers.size() != 4 + keypoints && !is_polygon) {
    return absl::DataLossError(
        keypoints > 0
            ? fmt::format("expected 4 values of a box and {} of keypoints after the class, got {}",
                          keypoints, numbers.size())
            : fmt::format("expected 4 values of a box, or x and y of at least 3 points, after the "
                          "class, got {} values",
                          numbers.size()));
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double value = numbers[i];
    const bool is_visibility = i >= 4 && keypoints > 0 && keypoint_values == 3 && (i - 4) % 3 == 2;
    if (is_visibility ? value == 0 || value == 1 || value == 2 : IsFraction(value)) continue;
    return absl::DataLossError(
        is_visibility
            ? fmt::format("the visibility of a keypoint must be 0, 1 or 2, got {}", value)
            : fmt::format("{} is not between 0 and 1; coordinates are fractions of the image's "
                          "width and height, so divide pixels by these",
                          value));
  }
  if (is_polygon) {
    label->xmin = label->xmax = numbers[0];
    label->ymin = label->ymax = numbers[1];
    for (size_t i = 2; i < numbers.size(); i += 2) {
      label->xmin = std::min(label->xmin, numbers[i]);
      label->xmax = std::max(label->xmax, numbers[i]);
      label->ymin = std::min(label->ymin, numbers[i + 1]);
      label->ymax = std::max(label->ymax, numbers[i + 1]);
    }
    label->polygon = numbers;
    return absl::OkStatus();
  }
  if (numbers[2] < 0 || numbers[3] < 0) {
    return absl::DataLossError(
        fmt::format("the box has a negative size, {} x {}", numbers[2], numbers[3]));
  }
  label->xmin = numbers[0] - numbers[2] / 2;
  label->xmax = numbers[0] + numbers[2] / 2;
  label->ymin = numbers[1] - numbers[3] / 2;
  label->ymax = numbers[1] + numbers[3] / 2;
  label->keypoints.assign(numbers.begin() + 4, numbers.end());
  return absl::OkStatus();
}

}  // namespace shardfeed
