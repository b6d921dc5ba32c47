#include "convert/features/object_list.h"

#include <string_view>

namespace shardfeed {
namespace {

void AddTexts(std::string_view name, const std::vector<std::string>& texts,
              ExampleBuilder& builder) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  builder.AddBytesList(name, views);
}

}  // namespace

FeatureClasses ObjectClasses(ClassNames classes) {
  FeatureClasses of_features;
  if (AreClassNames(classes)) of_features.emplace(kObjectLabel, std::move(classes));
  return of_features;
}

void ObjectList::Clear() {
  for (auto* list : {&xmin, &xmax, &ymin, &ymax, &areas, &polygons, &keypoint_x, &keypoint_y}) {
    list->clear();
  }
  for (auto* list : {&labels, &crowds, &difficult, &truncated, &polygon_lengths, &polygon_counts,
                     &runs, &run_lengths, &mask_heights, &mask_widths, &keypoint_visibility,
                     &keypoint_counts, &keypoint_lengths}) {
    list->clear();
  }
  for (auto* list : {&class_texts, &views, &run_texts, &keypoint_names}) list->clear();
}

void ObjectList::AddTo(const ObjectColumns& columns, ExampleBuilder& builder) const {
  // Features are added in the order of their names, which is their order in the record.
  if (columns.areas) builder.AddFloatList("image/object/area", areas);
  if (columns.boxes) {
    builder.AddFloatList("image/object/bbox/xmax", xmax);
    builder.AddFloatList("image/object/bbox/xmin", xmin);
    builder.AddFloatList("image/object/bbox/ymax", ymax);
    builder.AddFloatList("image/object/bbox/ymin", ymin);
  }
  if (columns.classes) builder.AddInt64List(kObjectLabel, labels);
  if (columns.class_texts) AddTexts("image/object/class/text", class_texts, builder);
  if (columns.difficult) builder.AddInt64List("image/object/difficult", difficult);
  if (columns.crowds) builder.AddInt64List("image/object/is_crowd", crowds);
  if (columns.keypoints) {
    builder.AddInt64List("image/object/keypoint/lengths", keypoint_lengths);
    if (columns.keypoint_names) AddTexts("image/object/keypoint/name", keypoint_names, builder);
    builder.AddInt64List("image/object/keypoint/num", keypoint_counts);
    if (columns.keypoint_visibility) {
      builder.AddInt64List("image/object/keypoint/visibility", keypoint_visibility);
    }
    builder.AddFloatList("image/object/keypoint/x", keypoint_x);
    builder.AddFloatList("image/object/keypoint/y", keypoint_y);
  }
  if (columns.polygons) {
    builder.AddFloatList("image/object/polygon", polygons);
    builder.AddInt64List("image/object/polygon_count", polygon_counts);
    builder.AddInt64List("image/object/polygon_lengths", polygon_lengths);
  }
  if (columns.runs) {
    builder.AddInt64List("image/object/rle", runs);
    builder.AddInt64List("image/object/rle_lengths", run_lengths);
  }
  if (columns.runs || columns.run_texts) {
    builder.AddInt64List("image/object/rle_height", mask_heights);
    builder.AddInt64List("image/object/rle_width", mask_widths);
  }
  if (columns.run_texts) AddTexts("image/object/rle_text", run_texts, builder);
  if (columns.truncated) builder.AddInt64List("image/object/truncated", truncated);
  if (columns.views) AddTexts("image/object/view", views, builder);
}

}  // namespace shardfeed
