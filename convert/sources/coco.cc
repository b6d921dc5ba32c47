#include "convert/sources/coco.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/excerpt.h"
#include "convert/features/object_list.h"
#include "convert/input/codec.h"
#include "convert/input/json_array.h"
#include "convert/input/json_document.h"
#include "convert/input/json_object.h"
#include "convert/input/text_inputs.h"
#include "convert/sources/annotated_images.h"
#include "convert/sources/coco_objects.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/file.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

// Edges are rounded: a box may leave the image by this many pixels without a note.
constexpr double kRoundingPixels = 0.01;

class CocoSource : public AnnotatedImages {
 public:
  CocoSource(std::string path, CocoOptions options)
      : AnnotatedImages(options.images),
        json_({std::move(path)}, options.max_object_bytes),
        folder_(std::move(options.images_folder)) {
    if (!folder_.empty()) return;
    const size_t slash = json_.path(0).rfind('/');
    folder_ = slash == std::string::npos ? "." : json_.path(0).substr(0, slash + 1);
  }

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  FeatureClasses classes() const override {
    ClassNames names;
    for (const CocoCategory& category : categories_) names.emplace(category.id, category.name);
    return ObjectClasses(std::move(names));
  }
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;

 protected:
  absl::Status AddFeatures(uint64_t number, const Item& row, const ImageHeader& header,
                           ExampleBuilder& builder) const override;

 private:
  struct Size {
    uint32_t width;
    uint32_t height;
  };
  // An annotation's text in the file.
  struct Position {
    uint64_t offset;
    uint32_t size;
    uint32_t image;
  };
  struct Id {
    int64_t id;
    uint64_t line;
    uint32_t image;
    bool operator<(const Id& other) const { return id < other.id; }
  };
  using Visit = std::function<absl::Status(const JsonArray::Element&, uint64_t offset)>;

  void Clear();
  // Calls `visit` with the objects of the array at `key`, and likewise for `second_key`.
  absl::Status ForEachObject(TextReader& reader, std::string_view key, const Visit& visit,
                             std::string_view second_key, const Visit& second_visit,
                             std::stop_token stop);
  absl::StatusOr<simdjson::dom::object> Parse(const JsonArray::Element& element) const;
  absl::Status At(uint64_t line, const absl::Status& status) const;
  absl::Status CheckPlain() const;
  absl::Status ScanImage(const JsonArray::Element& element);
  absl::Status ScanCategory(const JsonArray::Element& element);
  absl::Status ScanAnnotation(const JsonArray::Element& element, uint64_t offset);
  absl::Status CheckAnnotation(const CocoAnnotation& annotation) const;
  absl::Status CheckIds();
  void Learn(const CocoAnnotation& annotation, const Size& size);
  // Files the annotations under their images.
  void SortPositions();
  void Append(const CocoAnnotation& annotation, const Size& size, ObjectList* objects) const;

  TextFiles json_;
  std::string folder_;
  std::shared_ptr<File> file_;
  std::vector<Size> sizes_;
  std::vector<std::string> source_ids_;
  std::unordered_map<std::string, uint32_t> image_of_id_;
  std::vector<CocoCategory> categories_;
  std::unordered_map<int64_t, uint32_t> category_of_id_;
  std::vector<Position> positions_;
  std::vector<uint64_t>
      first_;  // where the positions of each image begin, and where the last ones end
  std::vector<Id> annotation_ids_;
  ObjectColumns columns_;
  bool captions_ = false;
  CocoAnnotation annotation_;  // for Scan
  uint64_t num_boxes_ = 0;
  NameList outside_, empty_, short_polygons_, without_area_, without_crowd_;
  std::set<std::string> other_image_keys_, other_category_keys_, other_annotation_keys_;
};

void CocoSource::Clear() {
  ClearImages();
  sizes_.clear();
  source_ids_.clear();
  image_of_id_.clear();
  categories_.clear();
  category_of_id_.clear();
  positions_.clear();
  first_.clear();
  annotation_ids_.clear();
  columns_ = {};
  captions_ = false;
  num_boxes_ = 0;
  outside_ = empty_ = short_polygons_ = without_area_ = without_crowd_ = NameList();
  other_image_keys_.clear();
  other_category_keys_.clear();
  other_annotation_keys_.clear();
}

absl::Status CocoSource::At(uint64_t line, const absl::Status& status) const {
  return WithMessage(status,
                     fmt::format("{}:{}: {}", json_.path(0), line, std::string(status.message())));
}

absl::StatusOr<simdjson::dom::object> CocoSource::Parse(const JsonArray::Element& element) const {
  return ParseJsonObject(element.text, json_.path(0), element.line,
                         "each element of the array must be an object");
}

absl::Status CocoSource::ForEachObject(TextReader& reader, std::string_view key, const Visit& visit,
                                       std::string_view second_key, const Visit& second_visit,
                                       std::stop_token stop) {
  JsonObject members(&reader, json_.path(0));
  uint64_t n = 0;
  while (members.Next()) {
    const bool second = members.key() == second_key;
    if (members.key() != key && !second) {
      if (!members.SkipValue()) break;
      continue;
    }
    JsonArray array(&reader, json_.path(0), members.key());
    JsonArray::Element element;
    while (array.Next(&element)) {
      if (++n % 1024 == 0 && stop.stop_requested()) return absl::CancelledError("interrupted");
      absl::Status status =
          (second ? second_visit : visit)(element, reader.offset() - element.text.size());
      if (!status.ok()) return status;
    }
    if (!array.status().ok()) return array.status();
  }
  return members.status();
}

absl::Status CocoSource::ScanImage(const JsonArray::Element& element) {
  absl::StatusOr<simdjson::dom::object> object = Parse(element);
  CocoImage image;
  absl::Status status = object.status();
  if (status.ok()) {
    status = ReadCocoImage(*object, other_image_keys_, &image);
    if (!status.ok()) status = At(element.line, status);
  }
  if (status.ok() && !image_of_id_.emplace(image.id, num_images()).second) {
    status = At(element.line,
                absl::DataLossError(fmt::format(
                    "image {}: another image has the same id; give each its own", image.id)));
  }
  if (!status.ok()) return LeaveOut(status) ? absl::OkStatus() : status;
  const uint64_t number = num_images();
  status = AddFile(0, image.file_name);
  source_ids_.push_back(image.source_id);
  Size& size = sizes_.emplace_back(Size{image.width, image.height});
  if (status.ok() && (size.width == 0 || size.height == 0)) {
    absl::StatusOr<ImageHeader> header = ReadHeader(number);
    status = header.status();
    if (header.ok()) size = {header->width, header->height};
  }
  if (status.ok()) return status;
  status =
      At(element.line,
         WithMessage(status, fmt::format("image {}: {}", image.id, std::string(status.message()))));
  if (absl::IsNotFound(status)) {
    status = WithRemedy(status, {"images", "FOLDER", "name the folder that file names begin in"});
  }
  if (!LeaveOut(status)) return status;
  Drop(number);
  return absl::OkStatus();
}

absl::Status CocoSource::ScanCategory(const JsonArray::Element& element) {
  absl::StatusOr<simdjson::dom::object> object = Parse(element);
  if (!object.ok()) return object.status();
  CocoCategory category;
  absl::Status status = ReadCocoCategory(*object, other_category_keys_, &category);
  if (!status.ok()) return At(element.line, status);
  if (!category_of_id_.emplace(category.id, categories_.size()).second) {
    return At(element.line, absl::DataLossError(fmt::format(
                                "category {}: another category has the same id; give each its own",
                                category.id)));
  }
  columns_.keypoint_names |= !category.keypoints.empty();
  categories_.push_back(std::move(category));
  return absl::OkStatus();
}

absl::Status CocoSource::CheckAnnotation(const CocoAnnotation& annotation) const {
  if (!annotation.category_id) return absl::OkStatus();
  const auto found = category_of_id_.find(*annotation.category_id);
  if (found == category_of_id_.end()) {
    return absl::DataLossError(fmt::format("{}: its category {} is not among the categories",
                                           annotation.Name(), *annotation.category_id));
  }
  const CocoCategory& category = categories_[found->second];
  if (annotation.keypoints.empty() || category.keypoints.empty() ||
      annotation.keypoints.size() == 3 * category.keypoints.size()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(fmt::format("{}: it has {} keypoints, but its category {} names {}",
                                         annotation.Name(), annotation.keypoints.size() / 3,
                                         Excerpt(category.name), category.keypoints.size()));
}

void CocoSource::Learn(const CocoAnnotation& annotation, const Size& size) {
  const auto name = [&annotation] { return annotation.Name(); };
  captions_ |= annotation.caption.has_value();
  if (!annotation.has_box) return;
  ++num_boxes_;
  columns_.areas |= annotation.area.has_value();
  columns_.crowds |= annotation.crowd.has_value();
  columns_.polygons |= !annotation.polygon_lengths.empty();
  columns_.runs |= !annotation.runs.empty();
  columns_.run_texts |= !annotation.run_text.empty();
  columns_.keypoints |= !annotation.keypoints.empty();
  columns_.keypoint_visibility = columns_.keypoints;
  if (!annotation.area) without_area_.AddBy(name);
  if (!annotation.crowd) without_crowd_.AddBy(name);
  if (annotation.width == 0 || annotation.height == 0) empty_.AddBy(name);
  if (annotation.x < -kRoundingPixels || annotation.y < -kRoundingPixels ||
      annotation.x + annotation.width > size.width + kRoundingPixels ||
      annotation.y + annotation.height > size.height + kRoundingPixels) {
    outside_.AddBy(name);
  }
  const auto& lengths = annotation.polygon_lengths;
  if (std::any_of(lengths.begin(), lengths.end(), [](int64_t n) { return n < 6; })) {
    short_polygons_.AddBy(name);
  }
}

absl::Status CocoSource::ScanAnnotation(const JsonArray::Element& element, uint64_t offset) {
  absl::StatusOr<simdjson::dom::object> object = Parse(element);
  if (!object.ok()) return LeaveOut(object.status()) ? absl::OkStatus() : object.status();
  absl::Status status = ReadCocoAnnotation(*object, other_annotation_keys_, &annotation_);
  const auto image = image_of_id_.find(annotation_.image_id);
  if (image == image_of_id_.end()) {
    if (status.ok()) {
      status = absl::DataLossError(fmt::format("{}: its image {} is not among the images",
                                               annotation_.Name(), annotation_.image_id));
    }
    status = At(element.line, status);
    return LeaveOut(status) ? absl::OkStatus() : status;
  }
  if (is_dropped(image->second)) return absl::OkStatus();
  if (status.ok()) status = CheckAnnotation(annotation_);
  if (!status.ok()) {
    status = At(element.line, status);
    if (!LeaveOut(status)) return status;
    Drop(image->second);
    return absl::OkStatus();
  }
  if (annotation_.id) annotation_ids_.push_back({*annotation_.id, element.line, image->second});
  Learn(annotation_, sizes_[image->second]);
  positions_.push_back({offset, static_cast<uint32_t>(element.text.size()), image->second});
  return absl::OkStatus();
}

absl::Status CocoSource::CheckIds() {
  std::stable_sort(annotation_ids_.begin(), annotation_ids_.end());
  for (size_t i = 1; i < annotation_ids_.size(); ++i) {
    const Id& id = annotation_ids_[i];
    if (id.id != annotation_ids_[i - 1].id || is_dropped(id.image)) continue;
    absl::Status status =
        At(id.line, absl::DataLossError(fmt::format(
                        "annotation {}: another annotation, in line {}, has the same id; give each "
                        "its own, or remove one if they are copies",
                        id.id, annotation_ids_[i - 1].line)));
    if (!LeaveOut(status)) return status;
    Drop(id.image);
  }
  annotation_ids_ = {};
  return absl::OkStatus();
}

void CocoSource::SortPositions() {
  std::stable_sort(positions_.begin(), positions_.end(),
                   [](const Position& a, const Position& b) { return a.image < b.image; });
  first_.assign(num_images() + 1, positions_.size());
  for (size_t i = positions_.size(); i-- > 0;) first_[positions_[i].image] = i;
  for (size_t image = num_images(); image-- > 0;) {
    first_[image] = std::min(first_[image], first_[image + 1]);
  }
}

// Annotations are read again, in the order of the images, where they lie in the file.
absl::Status CocoSource::CheckPlain() const {
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(json_.path(0));
  if (!file.ok()) return file.status();
  char start[kCodecMagicBytes];
  const absl::StatusOr<size_t> n = (*file)->ReadAt(0, start);
  if (!n.ok()) return n.status();
  const Codec codec = CodecOf({start, *n});
  if (codec == Codec::kNone) return absl::OkStatus();
  return json_.Error(0, fmt::format("is compressed with {}, but annotations are read in place; "
                                    "decompress it first ({} -d)",
                                    CodecName(codec), CodecProgram(codec)));
}

absl::Status CocoSource::Scan(std::stop_token stop,
                              const std::function<void(uint64_t bytes)>& progress) {
  Clear();
  if (absl::Status status = json_.Stat(); !status.ok()) return status;
  if (absl::Status status = CheckPlain(); !status.ok()) return status;
  if (absl::Status status = AddAnnotationFile(json_.path(0)); !status.ok()) return status;
  AddFolder(folder_);
  absl::StatusOr<std::unique_ptr<TextReader>> reader =
      json_.OpenFirst(0, /*check_text=*/true, stop, progress);
  if (!reader.ok()) return reader.status();
  // COCO's own files have their categories after the annotations, so these are read last.
  absl::Status status = ForEachObject(
      **reader, "images", [this](const auto& element, uint64_t) { return ScanImage(element); },
      "categories", [this](const auto& element, uint64_t) { return ScanCategory(element); }, stop);
  if (!status.ok()) return status;
  if (num_images() == 0) {
    return json_.Error(0,
                       "no images; expected an object with the keys images, annotations and "
                       "categories, as COCO's files of instances have them");
  }
  reader = json_.OpenAgain(0);
  if (!reader.ok()) return reader.status();
  const Visit annotation = [&](const JsonArray::Element& element, uint64_t offset) {
    if (progress && positions_.size() % 1024 == 0) progress(json_.num_bytes() + offset);
    return ScanAnnotation(element, offset);
  };
  status = ForEachObject(**reader, "annotations", annotation, "annotations", annotation, stop);
  if (!status.ok()) return status;
  if (status = CheckIds(); !status.ok()) return status;
  if (num_records() == 0) {
    return json_.Error(0, "no records: every image is broken");
  }
  columns_.boxes = columns_.classes = num_boxes_ > 0 || !captions_;
  columns_.class_texts = columns_.classes;
  columns_.keypoint_names &= columns_.keypoints;
  SortPositions();
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(json_.path(0));
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  return json_.CheckUnchanged(0);
}

std::vector<std::string> CocoSource::notes() const {
  std::vector<std::string> notes;
  const std::string& path = json_.path(0);
  NameList bare;
  for (uint64_t image = 0; image < num_images(); ++image) {
    if (!is_dropped(image) && first_[image] == first_[image + 1]) bare.Add(NameOf(image));
  }
  const std::string kept = path + ": kept";
  if (!categories_.empty() && classes().empty()) {
    notes.push_back(fmt::format("{}: {}", path, kNoteOfUnnamedClasses));
  }
  bare.AppendNote(kept, "image", "images", "without annotations", &notes);
  outside_.AppendNote(kept, "box", "boxes", "not inside the image", &notes);
  empty_.AppendNote(kept, "box", "boxes", "without an area", &notes);
  short_polygons_.AppendNote(kept, "object", "objects", "with a polygon of less than 3 points",
                             &notes);
  if (columns_.areas) {
    without_area_.AppendNote(path + ": took the area of the box for", "object", "objects",
                             "without an area", &notes);
  }
  if (columns_.crowds) {
    without_crowd_.AppendNote(path + ": took 0 for", "object", "objects", "without iscrowd",
                              &notes);
  }
  const auto others = [&](std::string_view of, const std::set<std::string>& keys) {
    if (keys.empty()) return;
    notes.push_back(
        fmt::format("{}: no features for these keys of {}: {}", path, of, fmt::join(keys, ", ")));
  };
  others("images", other_image_keys_);
  others("categories", other_category_keys_);
  others("annotations", other_annotation_keys_);
  return notes;
}

absl::Status CocoSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  absl::Status status = AnnotatedImages::ForEach(sink);
  return status.ok() ? json_.CheckUnchanged(0) : status;
}

void CocoSource::Append(const CocoAnnotation& annotation, const Size& size,
                        ObjectList* objects) const {
  const double width = size.width;
  const double height = size.height;
  ObjectList& list = *objects;
  list.xmin.push_back(static_cast<float>(annotation.x / width));
  list.xmax.push_back(static_cast<float>((annotation.x + annotation.width) / width));
  list.ymin.push_back(static_cast<float>(annotation.y / height));
  list.ymax.push_back(static_cast<float>((annotation.y + annotation.height) / height));
  const CocoCategory& category = categories_[category_of_id_.at(*annotation.category_id)];
  list.labels.push_back(category.id);
  list.class_texts.push_back(category.name);
  list.areas.push_back(
      static_cast<float>(annotation.area.value_or(annotation.width * annotation.height)));
  list.crowds.push_back(annotation.crowd.value_or(false) ? 1 : 0);
  for (size_t i = 0; i < annotation.polygons.size(); ++i) {
    list.polygons.push_back(
        static_cast<float>(annotation.polygons[i] / (i % 2 == 0 ? width : height)));
  }
  list.polygon_lengths.insert(list.polygon_lengths.end(), annotation.polygon_lengths.begin(),
                              annotation.polygon_lengths.end());
  list.polygon_counts.push_back(static_cast<int64_t>(annotation.polygon_lengths.size()));
  list.runs.insert(list.runs.end(), annotation.runs.begin(), annotation.runs.end());
  list.run_lengths.push_back(static_cast<int64_t>(annotation.runs.size()));
  list.run_texts.push_back(annotation.run_text);
  list.mask_heights.push_back(annotation.mask_height);
  list.mask_widths.push_back(annotation.mask_width);
  for (size_t i = 0; i < annotation.keypoints.size(); i += 3) {
    list.keypoint_x.push_back(static_cast<float>(annotation.keypoints[i] / width));
    list.keypoint_y.push_back(static_cast<float>(annotation.keypoints[i + 1] / height));
    list.keypoint_visibility.push_back(static_cast<int64_t>(annotation.keypoints[i + 2]));
    list.keypoint_names.push_back(category.keypoints.empty() ? "" : category.keypoints[i / 3]);
  }
  list.keypoint_counts.push_back(annotation.num_keypoints);
  list.keypoint_lengths.push_back(static_cast<int64_t>(annotation.keypoints.size() / 3));
}

absl::Status CocoSource::AddFeatures(uint64_t number, const Item& /*row*/,
                                     const ImageHeader& header, ExampleBuilder& builder) const {
  thread_local ObjectList objects;
  thread_local CocoAnnotation annotation;
  thread_local std::string text;
  thread_local std::set<std::string> others;
  thread_local std::vector<std::string> captions;
  const Size& size = sizes_[number];
  absl::Status status = CheckSize(number, header, size.width, size.height, json_.path(0));
  if (!status.ok()) return status;
  objects.Clear();
  captions.clear();
  for (uint64_t i = first_[number]; i < first_[number + 1]; ++i) {
    const Position& position = positions_[i];
    text.resize(position.size + kJsonPadding);
    status = file_->ReadExactlyAt(position.offset, absl::MakeSpan(text.data(), position.size));
    simdjson::dom::element root;
    simdjson::dom::object object;
    others.clear();
    if (!status.ok() ||
        ParseJson(std::string_view(text).substr(0, position.size), &root) != simdjson::SUCCESS ||
        root.get(object) != simdjson::SUCCESS ||
        !ReadCocoAnnotation(object, others, &annotation).ok() ||
        !CheckAnnotation(annotation).ok()) {
      return json_.Changed(0);
    }
    if (annotation.has_box) Append(annotation, size, &objects);
    if (annotation.caption) captions.push_back(*annotation.caption);
  }
  if (captions_) {
    const std::vector<std::string_view> views(captions.begin(), captions.end());
    builder.AddBytesList("image/caption", views);
  }
  objects.AddTo(columns_, builder);
  builder.AddBytes("image/source_id", source_ids_[number]);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeCocoSource(std::vector<std::string> paths,
                                                       CocoOptions options) {
  if (paths.size() != 1) {
    return absl::InvalidArgumentError(
        fmt::format("expected one annotation file, got {}; convert each to a dataset of its own",
                    paths.size()));
  }
  return std::make_unique<CocoSource>(std::move(paths[0]), std::move(options));
}

}  // namespace shardfeed
