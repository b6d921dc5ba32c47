// One annotation file of Pascal VOC (host.robots.ox.ac.uk/pascal/VOC, "VOC2012 development kit").

#ifndef SHARDFEED_CONVERT_SOURCES_VOC_ANNOTATION_H_
#define SHARDFEED_CONVERT_SOURCES_VOC_ANNOTATION_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

struct VocObject {
  std::string name;  // name of its class
  std::optional<std::string> pose;
  std::optional<bool> truncated;
  std::optional<bool> difficult;
  // Pixels as written: the first and the last column and row, counted from 1 in VOC's own files.
  double xmin = 0, ymin = 0, xmax = 0, ymax = 0;
};

struct VocAnnotation {
  std::string filename;  // name of the image; empty if the file lacks it
  uint32_t width = 0;    // 0 if the file does not tell it
  uint32_t height = 0;
  std::vector<VocObject> objects;
};

// Parses the content of the file at `path`. Elements of objects that become no feature are added to
// `others`. Document types and entities that they define are ignored.
//
// DataLoss, with "FILE:LINE: ...": not XML, not an annotation, or values that cannot be what VOC
// says.
absl::Status ReadVocAnnotation(std::string_view xml, std::string_view path,
                               std::set<std::string>& others, VocAnnotation* annotation);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_VOC_ANNOTATION_H_
