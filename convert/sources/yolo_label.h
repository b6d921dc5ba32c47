// One line of a label file of YOLO's: a class and a box, an outline, or a box with keypoints.

#ifndef SHARDFEED_CONVERT_SOURCES_YOLO_LABEL_H_
#define SHARDFEED_CONVERT_SOURCES_YOLO_LABEL_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// Coordinates are fractions of the image's width and height.
struct YoloLabel {
  int64_t label = 0;
  double xmin = 0, ymin = 0, xmax = 0, ymax = 0;
  std::vector<double> polygon;    // x and y of each point; empty if the line has a box
  std::vector<double> keypoints;  // x, y and perhaps visibility of each
};

// Parses a line that is not blank: "CLASS X Y WIDTH HEIGHT", where X and Y are the center; with
// keypoints, these and num_keypoints times keypoint_values more values; without, also "CLASS X Y X
// Y X Y ..." with at least three points, whose box is the smallest around them.
//
// DataLoss, without the place: another number of values, a class that is not an integer of at least
// 0, a value that is not a number, or one that is further outside of [0, 1] than rounding explains.
absl::Status ParseYoloLabel(std::string_view line, uint32_t num_keypoints, uint32_t keypoint_values,
                            YoloLabel* label);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_YOLO_LABEL_H_
