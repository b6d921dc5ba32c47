#include "convert/sources/coco_objects.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/excerpt.h"
#include "convert/features/column.h"
#include "convert/input/json_document.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

// Keys beyond this number are data rather than keys.
constexpr size_t kMaxOthers = 20;

absl::Status Bad(std::string_view key, std::string_view wanted, element value) {
  return absl::DataLossError(
      fmt::format("{} must be {}, got {}", Excerpt(key), wanted, Excerpt(JsonText(value))));
}

absl::Status Missing(std::string_view key) {
  return absl::DataLossError(fmt::format("the key {} is missing", Excerpt(key)));
}

absl::Status In(std::string_view name, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::DataLossError(fmt::format("{}: {}", name, std::string(status.message())));
}

void AddOther(std::string_view key, std::set<std::string>& others) {
  if (others.size() < kMaxOthers) others.insert(Excerpt(key, 30));
}

absl::Status ReadInteger(std::string_view key, element value, int64_t* number) {
  if (value.get(*number) == simdjson::SUCCESS) return absl::OkStatus();
  return Bad(key, "an integer", value);
}

// Images are identified by integers or by texts; 5 and "5" differ.
absl::Status ReadId(std::string_view key, element value, std::string* id) {
  if (value.type() != element_type::INT64 && value.type() != element_type::STRING) {
    return Bad(key, "an integer or a text", value);
  }
  *id = JsonText(value);
  return absl::OkStatus();
}

absl::Status ReadText(std::string_view key, element value, std::string* text) {
  std::string_view view;
  if (value.get(view) != simdjson::SUCCESS) return Bad(key, "a text", value);
  text->assign(view);
  return absl::OkStatus();
}

// A number that float32 can hold.
bool ToNumber(element value, double* number) {
  if (value.type() == element_type::DOUBLE) {
    *number = JsonDouble(value);
  } else if (value.get(*number) != simdjson::SUCCESS) {
    return false;
  }
  return std::isfinite(*number) && ToFloat(*number).has_value();
}

// Appends the numbers of a list.
bool AppendNumbers(element value, std::vector<double>* numbers) {
  array list;
  if (value.get(list) != simdjson::SUCCESS) return false;
  for (element one : list) {
    if (!ToNumber(one, &numbers->emplace_back())) return false;
  }
  return true;
}

// A number of pixels, or 0 for null and 0.
absl::Status ReadPixels(std::string_view key, element value, uint32_t* pixels) {
  double number = 0;
  if (value.is_null()) return absl::OkStatus();
  if (!ToNumber(value, &number) || number < 0 || number != std::floor(number) ||
      number > std::numeric_limits<int32_t>::max()) {
    return Bad(key, "a number of pixels", value);
  }
  *pixels = static_cast<uint32_t>(number);
  return absl::OkStatus();
}

absl::Status ReadBox(element value, CocoAnnotation* annotation) {
  std::vector<double> numbers;
  if (!AppendNumbers(value, &numbers) || numbers.size() != 4 || numbers[2] < 0 || numbers[3] < 0) {
    return Bad("bbox", "[x, y, width, height], with a width and height of at least 0", value);
  }
  annotation->has_box = true;
  annotation->x = numbers[0];
  annotation->y = numbers[1];
  annotation->width = numbers[2];
  annotation->height = numbers[3];
  return absl::OkStatus();
}

absl::Status ReadCrowd(element value, CocoAnnotation* annotation) {
  int64_t number = 0;
  bool flag = false;
  if (value.get(number) == simdjson::SUCCESS && (number == 0 || number == 1)) {
    flag = number == 1;
  } else if (value.get(flag) != simdjson::SUCCESS) {
    return Bad("iscrowd", "0 or 1", value);
  }
  annotation->crowd = flag;
  return absl::OkStatus();
}

absl::Status ReadMask(object mask, element value, CocoAnnotation* annotation) {
  constexpr std::string_view kWanted =
      "polygons, or {\"counts\": run lengths, \"size\": [height, width]}";
  array size;
  if (mask["size"].get(size) != simdjson::SUCCESS || size.size() != 2 ||
      size.at(0).get(annotation->mask_height) != simdjson::SUCCESS ||
      size.at(1).get(annotation->mask_width) != simdjson::SUCCESS || annotation->mask_height <= 0 ||
      annotation->mask_width <= 0) {
    return Bad("segmentation", kWanted, value);
  }
  element counts;
  array runs;
  std::string_view text;
  if (mask["counts"].get(counts) != simdjson::SUCCESS) return Bad("segmentation", kWanted, value);
  if (counts.get(text) == simdjson::SUCCESS) {
    annotation->run_text = text;
    return absl::OkStatus();
  }
  if (counts.get(runs) != simdjson::SUCCESS) return Bad("segmentation", kWanted, value);
  for (element run : runs) {
    int64_t& number = annotation->runs.emplace_back();
    if (run.get(number) != simdjson::SUCCESS || number < 0) {
      return Bad("segmentation", kWanted, value);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadSegmentation(element value, CocoAnnotation* annotation) {
  object mask;
  if (value.get(mask) == simdjson::SUCCESS) return ReadMask(mask, value, annotation);
  array polygons;
  if (value.get(polygons) != simdjson::SUCCESS) {
    return Bad("segmentation", "a list of polygons or a mask", value);
  }
  for (element polygon : polygons) {
    const size_t before = annotation->polygons.size();
    if (!AppendNumbers(polygon, &annotation->polygons) ||
        (annotation->polygons.size() - before) % 2 != 0) {
      return Bad("segmentation", "a list of polygons [[x, y, x, y, ...], ...]", value);
    }
    annotation->polygon_lengths.push_back(
        static_cast<int64_t>(annotation->polygons.size() - before));
  }
  return absl::OkStatus();
}

absl::Status ReadKeypoints(element value, CocoAnnotation* annotation) {
  std::vector<double>& numbers = annotation->keypoints;
  bool sound = AppendNumbers(value, &numbers) && numbers.size() % 3 == 0;
  for (size_t i = 2; sound && i < numbers.size(); i += 3) {
    sound = numbers[i] == 0 || numbers[i] == 1 || numbers[i] == 2;
    annotation->num_keypoints += numbers[i] > 0;
  }
  if (sound) return absl::OkStatus();
  return Bad("keypoints", "[x, y, visibility, ...], with a visibility of 0, 1 or 2", value);
}

absl::Status ReadMember(std::string_view key, element value, std::set<std::string>& others,
                        CocoAnnotation* annotation) {
  if (key == "bbox") return ReadBox(value, annotation);
  if (key == "iscrowd") return ReadCrowd(value, annotation);
  if (key == "segmentation") return ReadSegmentation(value, annotation);
  if (key == "keypoints") return ReadKeypoints(value, annotation);
  if (key == "caption") return ReadText(key, value, &annotation->caption.emplace());
  if (key == "category_id") return ReadInteger(key, value, &annotation->category_id.emplace());
  if (key == "area") {
    return ToNumber(value, &annotation->area.emplace()) ? absl::OkStatus()
                                                        : Bad(key, "a number", value);
  }
  // The number of keypoints is counted, so that it cannot contradict them.
  if (key != "id" && key != "image_id" && key != "num_keypoints") AddOther(key, others);
  return absl::OkStatus();
}

}  // namespace

std::string CocoAnnotation::Name() const {
  return id ? fmt::format("annotation {}", *id) : "an annotation";
}

absl::Status ReadCocoImage(object object, std::set<std::string>& others, CocoImage* image) {
  *image = {};
  element value;
  if (object["id"].get(value) != simdjson::SUCCESS) return In("an image", Missing("id"));
  if (absl::Status status = ReadId("id", value, &image->id); !status.ok()) {
    return In("an image", status);
  }
  std::string_view text;
  image->source_id = value.get(text) == simdjson::SUCCESS ? std::string(text) : image->id;
  const std::string name = fmt::format("image {}", image->id);
  for (const auto& [key, member] : object) {
    absl::Status status;
    if (key == "file_name") {
      status = ReadText(key, member, &image->file_name);
    } else if (key == "width") {
      status = ReadPixels(key, member, &image->width);
    } else if (key == "height") {
      status = ReadPixels(key, member, &image->height);
    } else if (key != "id") {
      AddOther(key, others);
    }
    if (!status.ok()) return In(name, status);
  }
  return image->file_name.empty() ? In(name, Missing("file_name")) : absl::OkStatus();
}

absl::Status ReadCocoCategory(object object, std::set<std::string>& others,
                              CocoCategory* category) {
  *category = {};
  element value;
  if (object["id"].get(value) != simdjson::SUCCESS) return In("a category", Missing("id"));
  if (absl::Status status = ReadInteger("id", value, &category->id); !status.ok()) {
    return In("a category", status);
  }
  const std::string name = fmt::format("category {}", category->id);
  for (const auto& [key, member] : object) {
    array names;
    if (key == "name") {
      absl::Status status = ReadText(key, member, &category->name);
      if (!status.ok()) return In(name, status);
    } else if (key == "keypoints") {
      if (member.get(names) != simdjson::SUCCESS) {
        return In(name, Bad(key, "a list of names", member));
      }
      for (element one : names) {
        absl::Status status = ReadText(key, one, &category->keypoints.emplace_back());
        if (!status.ok()) return In(name, status);
      }
    } else if (key != "id") {
      AddOther(key, others);
    }
  }
  return category->name.empty() ? In(name, Missing("name")) : absl::OkStatus();
}

absl::Status ReadCocoAnnotation(object object, std::set<std::string>& others,
                                CocoAnnotation* annotation) {
  CocoAnnotation& a = *annotation;
  a.id.reset();
  a.category_id.reset();
  a.area.reset();
  a.crowd.reset();
  a.caption.reset();
  a.image_id.clear();
  a.run_text.clear();
  a.has_box = false;
  a.num_keypoints = a.mask_height = a.mask_width = 0;
  a.polygons.clear();
  a.polygon_lengths.clear();
  a.runs.clear();
  a.keypoints.clear();
  element value;
  // The names of the annotation and of its image are read first, since messages need them.
  if (object["id"].get(value) == simdjson::SUCCESS && value.type() == element_type::INT64) {
    a.id = value.get_int64().value_unsafe();
  }
  if (object["image_id"].get(value) != simdjson::SUCCESS) return In(a.Name(), Missing("image_id"));
  if (absl::Status status = ReadId("image_id", value, &a.image_id); !status.ok()) {
    return In(a.Name(), status);
  }
  for (const auto& [key, member] : object) {
    if (member.is_null()) continue;  // as if the key was missing
    absl::Status status = ReadMember(key, member, others, annotation);
    if (!status.ok()) return In(a.Name(), status);
  }
  if (a.has_box && !a.category_id) return In(a.Name(), Missing("category_id"));
  if (a.has_box || a.caption) return absl::OkStatus();
  if (object["segments_info"].error() == simdjson::SUCCESS) {
    return In(a.Name(), absl::DataLossError("the segments of a panoptic file, which are in PNG "
                                            "files, are not read; take the file of instances"));
  }
  return In(a.Name(), Missing("bbox"));
}

}  // namespace shardfeed
