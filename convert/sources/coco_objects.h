// The JSON objects of a COCO file (cocodataset.org/#format-data).

#ifndef SHARDFEED_CONVERT_SOURCES_COCO_OBJECTS_H_
#define SHARDFEED_CONVERT_SOURCES_COCO_OBJECTS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "simdjson.h"

namespace shardfeed {

struct CocoImage {
  std::string id;         // as JSON: a text in quotes, or an integer
  std::string source_id;  // the same without quotes
  std::string file_name;
  uint32_t width = 0;  // 0 if the file does not tell it
  uint32_t height = 0;
};

struct CocoCategory {
  int64_t id = 0;
  std::string name;
  std::vector<std::string> keypoints;  // their names; empty if there are none
};

struct CocoAnnotation {
  std::optional<int64_t> id;
  std::string image_id;  // as CocoImage::id
  std::optional<int64_t> category_id;
  bool has_box = false;  // if not, there is a caption
  double x = 0, y = 0, width = 0, height = 0;
  std::optional<double> area;
  std::optional<bool> crowd;
  std::vector<double> polygons;  // x and y of all points
  std::vector<int64_t> polygon_lengths;
  std::vector<int64_t> runs;  // run lengths, or
  std::string run_text;       // compressed run lengths
  int64_t mask_height = 0, mask_width = 0;
  std::vector<double> keypoints;  // x, y and visibility of each
  int64_t num_keypoints = 0;      // labeled ones
  std::optional<std::string> caption;

  // "annotation 5", for messages.
  std::string Name() const;
};

// DataLoss, with a message that begins with the name of the object ("image 5: ...") but not with
// its place: a key is missing, or has a value that cannot be what COCO says. Keys that become no
// feature are added to `others`. Objects are overwritten, and keep their memory. If an annotation
// is refused, what was read before, such as its image, is set.
absl::Status ReadCocoImage(simdjson::dom::object object, std::set<std::string>& others,
                           CocoImage* image);
absl::Status ReadCocoCategory(simdjson::dom::object object, std::set<std::string>& others,
                              CocoCategory* category);
absl::Status ReadCocoAnnotation(simdjson::dom::object object, std::set<std::string>& others,
                                CocoAnnotation* annotation);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_COCO_OBJECTS_H_
