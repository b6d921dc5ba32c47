// The description of a dataset of YOLO's layout (data.yaml), in the few forms of YAML that tools
// write it in.

#ifndef SHARDFEED_CONVERT_SOURCES_YOLO_CONFIG_H_
#define SHARDFEED_CONVERT_SOURCES_YOLO_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

struct YoloConfig {
  std::string root;  // the key path; empty if there is none
  // The folders of images of "train", "val" and "test", as written.
  std::map<std::string, std::vector<std::string>, std::less<>> subsets;
  std::vector<std::string> names;  // names of the classes 0, 1 and so on; empty if there are none
  // For labels with keypoints, the key kpt_shape: how many, and 2 or 3 values each. 0: none.
  uint32_t num_keypoints = 0;
  uint32_t keypoint_values = 0;
};

// Reads the keys path, train, val, test, names, nc and kpt_shape, and ignores all others with what
// is indented below them. Values are scalars (plain or quoted), flow or block lists of these and,
// for names, maps with the keys 0, 1 and so on. `path` is for messages.
//
// DataLoss, with "FILE:LINE: ...": one of the keys is in another form, appears twice, or is
// contradicted.
absl::StatusOr<YoloConfig> ParseYoloConfig(std::string_view text, const std::string& path);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_YOLO_CONFIG_H_
