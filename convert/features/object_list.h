// The objects in an image: their boxes, classes, outlines and keypoints, as features.
//
// Names and meanings are those of TensorFlow's object detection API where it has them. Coordinates
// are fractions of the image's width and height, so they stay right if the image is shrunk. Each
// list has one value per object, in one order:
//
//   image/object/bbox/xmin, xmax, ymin, ymax  float   the edges of the box
//   image/object/class/label                  int64
//   image/object/class/text                   bytes
//   image/object/area                         float   in pixels of the image as annotated
//   image/object/is_crowd                     int64   1: the object is a group
//   image/object/difficult, truncated         int64
//   image/object/view                         bytes   the pose
//
// except where an object has many values, whose numbers are in a list of lengths:
//
//   image/object/polygon                      float   x and y of all points of all polygons
//   image/object/polygon_lengths              int64   number of values of each polygon
//   image/object/polygon_count                int64   number of polygons of each object
//   image/object/rle                          int64   run lengths of masks, as COCO counts them
//   image/object/rle_lengths                  int64   number of runs of each object
//   image/object/rle_text                     bytes   compressed run lengths, or empty
//   image/object/rle_height, rle_width        int64   size of the mask in pixels, or 0
//   image/object/keypoint/x, y                float   all keypoints of all objects
//   image/object/keypoint/visibility          int64   0: not labeled, 1: hidden, 2: visible
//   image/object/keypoint/name                bytes
//   image/object/keypoint/num                 int64   number of labeled keypoints of each object
//   image/object/keypoint/lengths             int64   number of keypoints of each object

#ifndef SHARDFEED_CONVERT_FEATURES_OBJECT_LIST_H_
#define SHARDFEED_CONVERT_FEATURES_OBJECT_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "shard/schema/class_names.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// The features that the records of a dataset have, besides those of the boxes. A record without
// objects has them all, with empty lists.
struct ObjectColumns {
  bool classes = true;
  bool boxes = true;
  bool class_texts = false;
  bool areas = false;
  bool crowds = false;
  bool difficult = false;
  bool truncated = false;
  bool views = false;
  bool polygons = false;
  bool runs = false;
  bool run_texts = false;
  bool keypoints = false;
  bool keypoint_visibility = false;
  bool keypoint_names = false;
};

// Returns the classes of the objects, unless their names are not those that a manifest can keep.
FeatureClasses ObjectClasses(ClassNames classes);
// The note about classes for which ObjectClasses has none.
inline constexpr std::string_view kNoteOfUnnamedClasses =
    "the manifest names no classes, because two of them have the same name, or one has none";

// Reuse a list for many images: Clear keeps its memory.
struct ObjectList {
  std::vector<float> xmin, xmax, ymin, ymax, areas, polygons, keypoint_x, keypoint_y;
  std::vector<int64_t> labels, crowds, difficult, truncated;
  std::vector<int64_t> polygon_lengths, polygon_counts;
  std::vector<int64_t> runs, run_lengths, mask_heights, mask_widths;
  std::vector<int64_t> keypoint_visibility, keypoint_counts, keypoint_lengths;
  std::vector<std::string> class_texts, views, run_texts, keypoint_names;

  void Clear();
  // Adds the features of `columns`.
  void AddTo(const ObjectColumns& columns, ExampleBuilder& builder) const;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_FEATURES_OBJECT_LIST_H_
