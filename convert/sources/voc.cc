#include "convert/sources/voc.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/features/object_list.h"
#include "convert/input/folder_walk.h"
#include "convert/input/path_kind.h"
#include "convert/input/text_reader.h"
#include "convert/input/whole_file.h"
#include "convert/sources/annotated_images.h"
#include "convert/sources/voc_annotation.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

constexpr std::string_view kSuffix = ".xml";

std::string_view StemOf(std::string_view name) { return name.substr(0, name.rfind('.')); }

class VocSource : public AnnotatedImages {
 public:
  VocSource(std::vector<std::string> folders, VocOptions options)
      : AnnotatedImages(options.images), options_(std::move(options)) {
    for (std::string& path : folders) {
      while (path.size() > 1 && path.ends_with('/')) path.pop_back();
      Root& root = roots_.emplace_back();
      root.flat = !IsFolder(path + "/Annotations");
      root.annotations = root.flat ? path : path + "/Annotations";
      root.images = root.flat ? path : path + "/JPEGImages";
      root.path = std::move(path);
    }
  }

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  FeatureClasses classes() const override {
    if (options_.classes) return ObjectClasses(options_.classes->classes());
    ClassNames names;
    for (const auto& [name, label] : labels_) names.emplace(label, name);
    return ObjectClasses(std::move(names));
  }
  std::vector<std::string> notes() const override;

 protected:
  absl::Status AddFeatures(uint64_t number, const Item& row, const ImageHeader& header,
                           ExampleBuilder& builder) const override;

 private:
  struct Root {
    std::string path;
    std::string annotations;
    std::string images;
    bool flat = false;
  };
  struct Size {
    uint32_t width;
    uint32_t height;
  };
  // Names without suffix, and whether they were found.
  using Names = std::map<std::string, bool, std::less<>>;

  void Clear();
  absl::StatusOr<Names> ReadSubset(const Root& root) const;
  absl::Status ScanRoot(uint32_t number, std::stop_token stop,
                        const std::function<void(uint64_t bytes)>& progress);
  absl::Status ScanAnnotation(uint32_t root, const std::string& path, bool wanted,
                              const std::map<std::string_view, std::string_view>& images);
  absl::Status CheckClasses(const std::string& path);
  void Learn(const std::string& path, const Size& size);
  int64_t LabelOf(const std::string& name) const {
    return options_.classes ? *options_.classes->NumberOf(name) : labels_.at(name);
  }

  const VocOptions options_;
  std::vector<Root> roots_;
  std::vector<Size> sizes_;
  std::map<std::string, int64_t, std::less<>> labels_;
  ObjectColumns columns_;
  VocAnnotation annotation_;  // for Scan
  WholeFile file_;
  NameList bare_, outside_, without_area_, renamed_, unannotated_, without_flag_;
  std::set<std::string> others_;
};

void VocSource::Clear() {
  ClearImages();
  sizes_.clear();
  labels_.clear();
  columns_ = {.class_texts = true};
  bare_ = outside_ = without_area_ = renamed_ = unannotated_ = without_flag_ = NameList();
  others_.clear();
}

absl::StatusOr<VocSource::Names> VocSource::ReadSubset(const Root& root) const {
  const std::string path = fmt::format("{}/ImageSets/Main/{}.txt", root.path, options_.subset);
  absl::StatusOr<std::unique_ptr<TextReader>> reader = TextReader::Open(path, {});
  if (!reader.ok()) return reader.status();
  Names names;
  TextReader::Line line;
  while ((*reader)->NextLine(&line)) {
    std::string_view name = line.text;
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name.empty()) continue;
    if (name.find(' ') != name.npos || name.find('/') != name.npos) {
      return absl::DataLossError(
          fmt::format("{}:{}: expected the name of an image without its suffix, got {}; lists of "
                      "one class, whose lines have a second column, name images of others, too",
                      path, line.number, Excerpt(name)));
    }
    if (!names.emplace(name, false).second) {
      return absl::DataLossError(
          fmt::format("{}:{}: {} appears twice", path, line.number, Excerpt(name)));
    }
  }
  if (!(*reader)->status().ok()) return (*reader)->status();
  if (names.empty()) return absl::DataLossError(fmt::format("{}: the list is empty", path));
  return names;
}

absl::Status VocSource::CheckClasses(const std::string& path) {
  for (size_t i = 0; i < annotation_.objects.size(); ++i) {
    const std::string& name = annotation_.objects[i].name;
    if (!options_.classes) {
      labels_.emplace(name, 0);
    } else if (!options_.classes->NumberOf(name)) {
      return absl::DataLossError(fmt::format("{}: object {}: the class {} is not in {}", path,
                                             i + 1, Excerpt(name), options_.classes->path()));
    }
  }
  return absl::OkStatus();
}

void VocSource::Learn(const std::string& path, const Size& size) {
  // The first column or row.
  const double first = options_.zero_based ? 0 : 1;
  bool outside = false;
  bool empty = false;
  bool flags = true;
  for (const VocObject& object : annotation_.objects) {
    columns_.difficult |= object.difficult.has_value();
    columns_.truncated |= object.truncated.has_value();
    columns_.views |= object.pose.has_value();
    flags = flags && object.difficult && object.truncated && object.pose;
    outside = outside || object.xmin < first || object.ymin < first || object.xmax > size.width ||
              object.ymax > size.height;
    empty =
        empty || object.xmax - object.xmin + first <= 0 || object.ymax - object.ymin + first <= 0;
  }
  if (annotation_.objects.empty()) bare_.Add(path);
  if (outside) outside_.Add(path);
  if (empty) without_area_.Add(path);
  if (!flags) without_flag_.Add(path);
}

absl::Status VocSource::ScanAnnotation(uint32_t root, const std::string& path, bool wanted,
                                       const std::map<std::string_view, std::string_view>& images) {
  absl::StatusOr<std::string_view> xml = file_.Read(path);
  if (!xml.ok()) return xml.status();
  absl::Status status = ReadVocAnnotation(*xml, path, others_, &annotation_);
  if (status.ok()) status = CheckClasses(path);
  if (!status.ok() || !wanted) return status;
  const std::string_view stem = StemOf(std::string_view(path).substr(path.rfind('/') + 1));
  const auto image = images.find(stem);
  if (image == images.end()) {
    return absl::DataLossError(fmt::format("{}: no image {}/{}.* (suffixes {})", path,
                                           roots_[root].images, stem, ImageSuffixes()));
  }
  if (image->second.empty()) {
    return absl::DataLossError(
        fmt::format("{}: several images are named {}/{}.*; rename all but one", path,
                    roots_[root].images, stem));
  }
  const uint64_t number = num_images();
  status = AddFile(root, image->second);
  Size& size = sizes_.emplace_back(Size{annotation_.width, annotation_.height});
  if (status.ok()) status = AddAnnotationFile(path);
  if (status.ok() && (size.width == 0 || size.height == 0)) {
    absl::StatusOr<ImageHeader> header = ReadHeader(number);
    status = header.status();
    if (header.ok()) size = {header->width, header->height};
  }
  if (!status.ok()) {
    Drop(number);
    return status;
  }
  if (!annotation_.filename.empty() && StemOf(annotation_.filename) != stem) renamed_.Add(path);
  Learn(path, size);
  return absl::OkStatus();
}

absl::Status VocSource::ScanRoot(uint32_t number, std::stop_token stop,
                                 const std::function<void(uint64_t bytes)>& progress) {
  const Root& root = roots_[number];
  AddFolder(root.images);
  absl::StatusOr<FolderListing> annotations =
      FolderListing::Read(root.annotations, /*with_sizes=*/false);
  if (!annotations.ok()) return annotations.status();
  absl::StatusOr<FolderListing> listing = FolderListing::Read(root.images, /*with_sizes=*/false);
  if (!listing.ok()) return listing.status();
  // By their names without suffix; no name if there are two.
  std::map<std::string_view, std::string_view> images;
  for (size_t i = 0; i < listing->size(); ++i) {
    const std::string_view name = listing->name(i);
    if (listing->kind(i) != EntryKind::kFile || !IsImageName(name)) continue;
    const auto [it, fresh] = images.emplace(StemOf(name), name);
    if (!fresh) it->second = {};
  }
  Names names;
  if (!options_.subset.empty()) {
    absl::StatusOr<Names> read = ReadSubset(root);
    if (!read.ok()) return read.status();
    names = *std::move(read);
  }
  uint64_t found = 0;
  for (size_t i = 0; i < annotations->size(); ++i) {
    const std::string_view name = annotations->name(i);
    if (annotations->kind(i) != EntryKind::kFile || !name.ends_with(kSuffix)) continue;
    if (++found % 256 == 0) {
      if (stop.stop_requested()) return absl::CancelledError("interrupted");
      if (progress) progress(num_bytes());
    }
    const auto wanted = names.find(StemOf(name));
    if (wanted != names.end()) wanted->second = true;
    const bool is_wanted = names.empty() || wanted != names.end();
    // The others count for the classes.
    if (!is_wanted && options_.classes) continue;
    absl::Status status =
        ScanAnnotation(number, fmt::format("{}/{}", root.annotations, name), is_wanted, images);
    if (!status.ok() && !LeaveOut(status)) return status;
    images.erase(StemOf(name));
  }
  for (const auto& [name, is_found] : names) {
    if (is_found) continue;
    absl::Status status = absl::DataLossError(
        fmt::format("{}/{}.xml does not exist, but ImageSets/Main/{}.txt lists {}",
                    root.annotations, name, options_.subset, Excerpt(name)));
    if (!LeaveOut(status)) return status;
  }
  if (found == 0) {
    return absl::DataLossError(
        fmt::format("{}: no annotations; expected {}/Annotations/*.xml and {}/JPEGImages",
                    root.annotations, root.path, root.path));
  }
  if (!names.empty()) return absl::OkStatus();
  for (const auto& [stem, name] : images) {
    unannotated_.Add(fmt::format("{}/{}", root.images, name.empty() ? stem : name));
  }
  return absl::OkStatus();
}

absl::Status VocSource::Scan(std::stop_token stop,
                             const std::function<void(uint64_t bytes)>& progress) {
  Clear();
  for (uint32_t root = 0; root < roots_.size(); ++root) {
    if (absl::Status status = ScanRoot(root, stop, progress); !status.ok()) return status;
  }
  if (num_records() == 0) {
    return absl::DataLossError(
        fmt::format("{}: no records: every annotation is broken", roots_[0].annotations));
  }
  int64_t number = 0;
  for (auto& [name, label] : labels_) label = number++;
  return absl::OkStatus();
}

std::vector<std::string> VocSource::notes() const {
  std::vector<std::string> notes;
  for (const Root& root : roots_) {
    if (!root.flat) continue;
    notes.push_back(fmt::format(
        "{}: took images and annotations from this folder, since it has no folder Annotations",
        root.path));
  }
  if (!labels_.empty()) {
    NameList names;
    for (const auto& [name, label] : labels_) names.Add(name);
    notes.push_back(fmt::format("numbered {} {} from 0 in the order of the names: {}",
                                names.count(), names.count() == 1 ? "class" : "classes",
                                names.names()));
  }
  const auto add = [&notes](std::string_view what, const NameList& names) {
    if (names.count() == 0) return;
    notes.push_back(fmt::format("{} in {} {}: {}", what, names.count(),
                                names.count() == 1 ? "file" : "files", names.names()));
  };
  add("kept images without objects", bare_);
  add(options_.zero_based ? "kept boxes that leave the image"
                          : "kept boxes that leave the image, whose first pixel is 1,",
      outside_);
  add("kept boxes without an area", without_area_);
  if (columns_.difficult || columns_.truncated || columns_.views) {
    add("took 0, or an empty pose, for objects without difficult, truncated or pose",
        without_flag_);
  }
  add("took the image of the same name in spite of another <filename>", renamed_);
  unannotated_.AppendNote("skipped", "image", "images", "without annotations", &notes);
  if (!others_.empty()) {
    notes.push_back(
        fmt::format("no features for these elements of objects: {}", fmt::join(others_, ", ")));
  }
  return notes;
}

absl::Status VocSource::AddFeatures(uint64_t number, const Item& /*row*/, const ImageHeader& header,
                                    ExampleBuilder& builder) const {
  thread_local WholeFile file;
  thread_local VocAnnotation annotation;
  thread_local ObjectList list;
  const std::string path =
      fmt::format("{}/{}{}", roots_[FolderOf(number)].annotations, StemOf(NameOf(number)), kSuffix);
  const double width = sizes_[number].width;
  const double height = sizes_[number].height;
  absl::Status status =
      CheckSize(number, header, sizes_[number].width, sizes_[number].height, path);
  if (!status.ok()) return status;
  absl::StatusOr<std::string_view> xml = file.Read(path);
  if (!xml.ok()) return xml.status();
  std::set<std::string> others;
  status = ReadVocAnnotation(*xml, path, others, &annotation);
  list.Clear();
  const double first = options_.zero_based ? 0 : 1;
  for (const VocObject& object : annotation.objects) {
    const bool known = options_.classes ? options_.classes->NumberOf(object.name).has_value()
                                        : labels_.contains(object.name);
    if (!status.ok() || !known) {
      return absl::FailedPreconditionError(
          fmt::format("{}: changed while it was being read; run again once it is complete", path));
    }
    list.xmin.push_back(static_cast<float>((object.xmin - first) / width));
    list.xmax.push_back(static_cast<float>(object.xmax / width));
    list.ymin.push_back(static_cast<float>((object.ymin - first) / height));
    list.ymax.push_back(static_cast<float>(object.ymax / height));
    list.labels.push_back(LabelOf(object.name));
    list.class_texts.push_back(object.name);
    list.difficult.push_back(object.difficult.value_or(false) ? 1 : 0);
    list.truncated.push_back(object.truncated.value_or(false) ? 1 : 0);
    list.views.push_back(object.pose.value_or(""));
  }
  if (!status.ok()) return status;
  list.AddTo(columns_, builder);
  builder.AddBytes("image/source_id", NameOf(number));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeVocSource(std::vector<std::string> folders,
                                                      VocOptions options) {
  if (folders.empty()) return absl::InvalidArgumentError("expected folders, got none");
  return std::make_unique<VocSource>(std::move(folders), std::move(options));
}

}  // namespace shardfeed
