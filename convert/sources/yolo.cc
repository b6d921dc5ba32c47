#include "convert/sources/yolo.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "convert/features/class_map.h"
#include "convert/features/object_list.h"
#include "convert/input/file_tree.h"
#include "convert/input/path_kind.h"
#include "convert/input/text_reader.h"
#include "convert/input/whole_file.h"
#include "convert/sources/annotated_images.h"
#include "convert/sources/yolo_config.h"
#include "convert/sources/yolo_label.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/file.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

constexpr uint64_t kMaxConfigBytes = 16 << 20;
// Boxes may leave the image by this fraction without a note, which rounding explains.
constexpr double kRounding = 1e-4;

std::string Joined(const std::string& folder, const std::string& name) {
  if (name.starts_with('/')) return name;
  if (name.empty()) return folder;
  return folder.empty() ? name : fmt::format("{}/{}", folder == "/" ? "" : folder, name);
}

// The path with "labels" in place of its last folder "images".
std::string InLabels(std::string path) {
  const std::string around = fmt::format("/{}/", path);
  const size_t at = around.rfind("/images/");
  if (at != std::string::npos) path.replace(at, 6, "labels");
  return path;
}

class YoloSource : public AnnotatedImages {
 public:
  YoloSource(std::string path, YoloOptions options)
      : AnnotatedImages(options.images), path_(std::move(path)), options_(std::move(options)) {
    while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  }

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  FeatureClasses classes() const override { return ObjectClasses(ClassesInOrder(names_)); }
  std::vector<std::string> notes() const override;

 protected:
  absl::Status AddFeatures(uint64_t number, const Item& row, const ImageHeader& header,
                           ExampleBuilder& builder) const override;

 private:
  void Clear();
  // Finds the folders of images and the names of classes.
  absl::Status FindFolders();
  absl::Status FindByConfig(const std::string& path);
  absl::Status FindWithoutConfig();
  absl::Status NoSubset(const std::string& path, const std::string& names) const;
  absl::Status ScanImage(uint32_t folder, std::string_view name);
  absl::Status ScanLabels(const std::string& path);
  absl::Status NoteUnusedLabels();
  std::string LabelPathOf(uint64_t number) const {
    const std::string path = InLabels(PathOf(number));
    return path.substr(0, path.rfind('.')) + ".txt";
  }
  // Calls `visit` with each line of a label file that is not blank.
  absl::Status ForEachLabel(const std::string& path, std::string_view text, YoloLabel* label,
                            const std::function<void(const YoloLabel&, size_t line)>& visit) const;

  std::string path_;
  const YoloOptions options_;
  std::vector<std::string> folders_;
  std::vector<std::string> names_;
  uint32_t num_keypoints_ = 0;
  uint32_t keypoint_values_ = 0;
  ObjectColumns columns_;
  std::vector<std::string> found_notes_;  // notes on where folders were found
  YoloLabel label_;                       // for Scan
  WholeFile file_;
  std::unordered_set<std::string> used_;  // the label files of images
  NameList bare_, without_file_, outside_, empty_, outlined_, unused_, not_images_, loops_;
};

void YoloSource::Clear() {
  ClearImages();
  folders_.clear();
  names_.clear();
  num_keypoints_ = keypoint_values_ = 0;
  columns_ = {};
  found_notes_.clear();
  used_.clear();
  bare_ = without_file_ = outside_ = empty_ = outlined_ = unused_ = NameList();
  not_images_ = loops_ = NameList();
}

absl::Status YoloSource::NoSubset(const std::string& path, const std::string& names) const {
  const std::string what =
      options_.subset.empty()
          ? fmt::format("{}: several subsets: {}", path, names)
          : fmt::format("{}: no subset {}, but {}", path, Excerpt(options_.subset), names);
  return WithRemedy(absl::InvalidArgumentError(what), {"subset", "NAME", "choose one"});
}

absl::Status YoloSource::FindByConfig(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  if (absl::Status status = AddAnnotationFile(path); !status.ok()) return status;
  absl::StatusOr<YoloConfig> config = ParseYoloConfig(*text, path);
  if (!config.ok()) return config.status();
  names_ = config->names;
  num_keypoints_ = config->num_keypoints;
  keypoint_values_ = config->keypoint_values;
  std::vector<std::string> subsets;
  for (const auto& [name, folders] : config->subsets) subsets.push_back(name);
  if (subsets.empty()) {
    return absl::DataLossError(
        fmt::format("{}: none of the keys train, val and test names a folder of images", path));
  }
  const std::string chosen =
      options_.subset.empty() && subsets.size() == 1 ? subsets[0] : options_.subset;
  const auto subset = config->subsets.find(chosen);
  if (subset == config->subsets.end()) {
    return NoSubset(path, fmt::format("{}", fmt::join(subsets, ", ")));
  }
  const size_t slash = path.rfind('/');
  const std::string own = slash == std::string::npos ? "." : path.substr(0, slash);
  for (const std::string& given : subset->second) {
    // The first is what the file says. Tools write the others, and mean what is there.
    std::vector<std::string> candidates = {Joined(Joined(own, config->root), given)};
    if (!config->root.empty()) candidates.push_back(Joined(own, given));
    if (given.starts_with("../")) candidates.push_back(Joined(own, given.substr(3)));
    const auto found = std::find_if(candidates.begin(), candidates.end(), IsFolder);
    if (found == candidates.end()) {
      if (IsFile(candidates[0])) {
        return absl::DataLossError(
            fmt::format("{}: {} is a file; lists of images are not read, so name a folder", path,
                        candidates[0]));
      }
      return absl::NotFoundError(
          fmt::format("{}: the folder {} of {} does not exist", path, candidates[0], chosen));
    }
    if (found != candidates.begin()) {
      found_notes_.push_back(fmt::format("{}: took {} for {}, since {} does not exist", path,
                                         *found, chosen, candidates[0]));
    }
    folders_.push_back(*found);
  }
  return absl::OkStatus();
}

absl::Status YoloSource::FindWithoutConfig() {
  for (const std::string& path : {path_ + "/classes.txt", path_ + "/labels/classes.txt"}) {
    if (!IsFile(path)) continue;
    absl::StatusOr<ClassMap> map = ClassMap::Read(path);
    if (!map.ok()) return map.status();
    names_ = NamesInOrder(map->classes());
    if (absl::Status status = AddAnnotationFile(path); !status.ok()) return status;
    break;
  }
  const std::string images = path_ + "/images";
  if (!options_.subset.empty()) {
    for (std::string folder : {fmt::format("{}/{}", images, options_.subset),
                               fmt::format("{}/{}/images", path_, options_.subset)}) {
      if (!IsFolder(folder)) continue;
      folders_.push_back(std::move(folder));
      return absl::OkStatus();
    }
    return absl::NotFoundError(
        fmt::format("{0}: neither images/{1} nor {1}/images is a folder", path_, options_.subset));
  }
  absl::StatusOr<FolderListing> listing = FolderListing::Read(images, /*with_sizes=*/false);
  if (!listing.ok()) {
    return absl::NotFoundError(
        fmt::format("{}: expected a file data.yaml, or the folders images and labels", path_));
  }
  NameList subsets;
  for (size_t i = 0; i < listing->size(); ++i) {
    if (listing->kind(i) == EntryKind::kFolder) subsets.Add(listing->name(i));
  }
  if (subsets.count() > 1) return NoSubset(images, subsets.names());
  folders_.push_back(images);
  return absl::OkStatus();
}

absl::Status YoloSource::FindFolders() {
  if (!IsFolder(path_)) return FindByConfig(path_);
  for (const char* name : {"data.yaml", "data.yml"}) {
    const std::string path = fmt::format("{}/{}", path_, name);
    if (IsFile(path)) return FindByConfig(path);
  }
  return FindWithoutConfig();
}

absl::Status YoloSource::ForEachLabel(
    const std::string& path, std::string_view text, YoloLabel* label,
    const std::function<void(const YoloLabel&, size_t line)>& visit) const {
  text = WithoutByteOrderMark(text);
  for (size_t line = 1; !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.find_first_not_of(" \t\r") == one.npos) continue;
    absl::Status status = ParseYoloLabel(one, num_keypoints_, keypoint_values_, label);
    if (status.ok() && !names_.empty() && label->label >= static_cast<int64_t>(names_.size())) {
      status = absl::DataLossError(fmt::format("the class {} has no name; there are {}, from 0 on",
                                               label->label, names_.size()));
    }
    if (!status.ok()) {
      return absl::DataLossError(
          fmt::format("{}:{}: {}", path, line, std::string(status.message())));
    }
    visit(*label, line);
  }
  return absl::OkStatus();
}

absl::Status YoloSource::ScanLabels(const std::string& path) {
  if (!IsFile(path)) {
    without_file_.Add(path);
    return absl::OkStatus();
  }
  if (absl::Status status = AddAnnotationFile(path); !status.ok()) return status;
  used_.insert(path);
  absl::StatusOr<std::string_view> text = file_.Read(path);
  if (!text.ok()) return text.status();
  ObjectColumns columns = columns_;
  NameList outside = outside_, empty = empty_, outlined = outlined_;
  uint64_t objects = 0;
  absl::Status status =
      ForEachLabel(path, *text, &label_, [&](const YoloLabel& label, size_t line) {
        ++objects;
        const auto place = [&] { return fmt::format("{}:{}", path, line); };
        columns.keypoints |= num_keypoints_ > 0;
        columns.keypoint_visibility |= keypoint_values_ == 3;
        if (!label.polygon.empty()) {
          columns.polygons = true;
          outlined.AddBy(place);
        }
        if (label.xmin < -kRounding || label.ymin < -kRounding || label.xmax > 1 + kRounding ||
            label.ymax > 1 + kRounding) {
          outside.AddBy(place);
        }
        if (label.xmin >= label.xmax || label.ymin >= label.ymax) empty.AddBy(place);
      });
  if (!status.ok()) return status;
  if (objects == 0) bare_.Add(path);
  columns_ = columns;
  outside_ = std::move(outside);
  empty_ = std::move(empty);
  outlined_ = std::move(outlined);
  return absl::OkStatus();
}

absl::Status YoloSource::ScanImage(uint32_t folder, std::string_view name) {
  const uint64_t number = num_images();
  absl::Status status = AddFile(folder, name);
  if (status.ok()) status = ScanLabels(LabelPathOf(number));
  if (status.ok() || !LeaveOut(status)) return status;
  Drop(number);
  return absl::OkStatus();
}

absl::Status YoloSource::NoteUnusedLabels() {
  std::vector<std::string> labels;
  std::set<std::string> seen;
  for (const std::string& folder : folders_) {
    std::string path = InLabels(folder);
    if (IsFolder(path) && seen.insert(path).second) labels.push_back(std::move(path));
  }
  const FileTree tree(std::move(labels));
  absl::Status status = tree.ForEachFolder(
      /*with_sizes=*/false,
      [&](const FileTree::Folder& folder) {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          const std::string_view name = folder.listing.name(i);
          if (folder.listing.kind(i) != EntryKind::kFile || !name.ends_with(".txt") ||
              name == "classes.txt") {
            continue;
          }
          const std::string path = tree.PathOf(folder.root, fmt::format("{}{}", folder.path, name));
          if (!used_.contains(path)) unused_.Add(path);
        }
        return absl::OkStatus();
      },
      [](std::string_view) {});
  used_.clear();
  return status;
}

absl::Status YoloSource::Scan(std::stop_token stop,
                              const std::function<void(uint64_t bytes)>& progress) {
  Clear();
  if (absl::Status status = FindFolders(); !status.ok()) return status;
  columns_.class_texts = !names_.empty();
  for (const std::string& folder : folders_) AddFolder(folder);
  const FileTree tree(folders_);
  absl::Status status = tree.ForEachFolder(
      /*with_sizes=*/false,
      [&](const FileTree::Folder& folder) -> absl::Status {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          const EntryKind kind = folder.listing.kind(i);
          if (kind == EntryKind::kFolder) continue;
          const std::string name = fmt::format("{}{}", folder.path, folder.listing.name(i));
          if (!IsImageName(name)) {
            if (!name.ends_with(".txt")) not_images_.Add(tree.PathOf(folder.root, name));
            continue;
          }
          if (absl::Status s = ScanImage(folder.root, name); !s.ok()) return s;
          if (i % 256 == 0 && stop.stop_requested()) return absl::CancelledError("interrupted");
        }
        if (progress) progress(num_bytes());
        return absl::OkStatus();
      },
      [&](std::string_view path) { loops_.Add(path); });
  if (!status.ok()) return status;
  if (num_images() == 0) {
    return absl::DataLossError(
        fmt::format("{}: no images (files named {})", folders_[0], ImageSuffixes()));
  }
  if (without_file_.count() == num_images()) {
    return absl::DataLossError(fmt::format("{}: no image has a label file; expected {} and so on",
                                           folders_[0], without_file_.names()));
  }
  return NoteUnusedLabels();
}

std::vector<std::string> YoloSource::notes() const {
  std::vector<std::string> notes = found_notes_;
  if (names_.empty()) {
    notes.push_back(fmt::format(
        "{}: no names of classes (data.yaml or classes.txt), so records have only their numbers",
        path_));
  } else if (classes().empty()) {
    notes.push_back(fmt::format("{}: {}", path_, kNoteOfUnnamedClasses));
  }
  bare_.AppendNote("kept the images of", "label file", "label files", "without a line", &notes);
  without_file_.AppendNote("kept", "image", "images", "without a label file, as without objects",
                           &notes);
  if (outlined_.count() > 0) {
    notes.push_back(fmt::format("took the smallest box around each outline, {} in all: {}",
                                outlined_.count(), outlined_.names()));
  }
  outside_.AppendNote("kept", "box", "boxes", "not inside the image", &notes);
  empty_.AppendNote("kept", "box", "boxes", "without an area", &notes);
  unused_.AppendNote("skipped", "label file", "label files", "without an image", &notes);
  not_images_.AppendNote("skipped", "file", "files", "not named like an image", &notes);
  loops_.AppendNote("skipped", "link", "links", "to a folder that contains the link", &notes);
  return notes;
}

absl::Status YoloSource::AddFeatures(uint64_t number, const Item& /*row*/,
                                     const ImageHeader& /*header*/, ExampleBuilder& builder) const {
  thread_local WholeFile file;
  thread_local ObjectList list;
  thread_local YoloLabel label;
  list.Clear();
  const std::string path = LabelPathOf(number);
  std::string_view text;
  if (IsFile(path)) {
    absl::StatusOr<std::string_view> read = file.Read(path);
    if (!read.ok()) return read.status();
    text = *read;
  }
  absl::Status status = ForEachLabel(path, text, &label, [&](const YoloLabel& object, size_t) {
    list.xmin.push_back(static_cast<float>(object.xmin));
    list.xmax.push_back(static_cast<float>(object.xmax));
    list.ymin.push_back(static_cast<float>(object.ymin));
    list.ymax.push_back(static_cast<float>(object.ymax));
    list.labels.push_back(object.label);
    if (!names_.empty()) list.class_texts.push_back(names_[object.label]);
    list.polygons.insert(list.polygons.end(), object.polygon.begin(), object.polygon.end());
    if (!object.polygon.empty()) {
      list.polygon_lengths.push_back(static_cast<int64_t>(object.polygon.size()));
    }
    list.polygon_counts.push_back(object.polygon.empty() ? 0 : 1);
    int64_t visible = 0;
    for (size_t i = 0; i < object.keypoints.size(); i += keypoint_values_) {
      list.keypoint_x.push_back(static_cast<float>(object.keypoints[i]));
      list.keypoint_y.push_back(static_cast<float>(object.keypoints[i + 1]));
      const double visibility = keypoint_values_ == 3 ? object.keypoints[i + 2] : 2;
      list.keypoint_visibility.push_back(static_cast<int64_t>(visibility));
      visible += visibility > 0;
    }
    list.keypoint_counts.push_back(visible);
    list.keypoint_lengths.push_back(num_keypoints_);
  });
  if (status.ok()) list.AddTo(columns_, builder);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeYoloSource(std::vector<std::string> paths,
                                                       YoloOptions options) {
  if (paths.size() != 1) {
    return absl::InvalidArgumentError(fmt::format(
        "expected one data.yaml or folder, got {}; convert each to a dataset of its own",
        paths.size()));
  }
  return std::make_unique<YoloSource>(std::move(paths[0]), std::move(options));
}

}  // namespace shardfeed
