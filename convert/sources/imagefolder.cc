#include "convert/sources/imagefolder.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "base/utf8.h"
#include "convert/features/image_file.h"
#include "convert/input/fingerprint.h"
#include "convert/input/folder_walk.h"
#include "convert/input/name_list.h"
#include "convert/input/whole_file.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

class ImageFolderSource : public Source {
 public:
  ImageFolderSource(std::vector<std::string> folders, ImageFolderOptions options)
      : roots_(std::move(folders)), options_(std::move(options)), images_(options_.images) {
    for (std::string& root : roots_) {
      while (root.size() > 1 && root.ends_with('/')) root.pop_back();
    }
  }

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return num_bytes_; }
  uint64_t mean_record_bytes() const override {
    return num_records_ == 0 || images_.resizes() ? 0
                                                  : num_bytes_ / num_records_ + kOtherFeatureBytes;
  }
  FeatureClasses classes() const override {
    return {{std::string(kClassLabel),
             options_.classes ? options_.classes->classes() : ClassesInOrder(classes_)}};
  }
  std::vector<std::string> notes() const override;
  std::vector<std::string> built_notes() const override { return images_.notes(); }
  void ForgetBuilt() override { images_.Reset(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;
  std::string InputFingerprint() const override { return fingerprint_.Hex(); }
  absl::Status AppendKey(const Item& item, std::string* key) const override {
    key->append(item.bytes.substr(sizeof(ItemPrefix)));
    return absl::OkStatus();
  }

 private:
  // The folder of a class in one of the roots. Folders are kept in the order of reading.
  struct ClassFolder {
    uint32_t root = 0;
    uint32_t label = 0;
    uint64_t num_images = 0;
  };
  // The prefix of the path in an item's bytes.
  struct ItemPrefix {
    uint32_t root;
    uint32_t label;
  };

  std::string PathOf(const Item& item) const;
  absl::Status FindClasses();
  absl::Status ScanClass(ClassFolder& folder, std::stop_token stop,
                         const std::function<void(uint64_t bytes)>& progress);
  std::string PathOf(const ClassFolder& folder) const {
    return fmt::format("{}/{}", roots_[folder.root], classes_[folder.label]);
  }

  std::vector<std::string> roots_;
  const ImageFolderOptions options_;
  ImageRewriter images_;
  std::vector<std::string> classes_;
  std::vector<int64_t> labels_;  // label of each class
  std::vector<ClassFolder> class_folders_;
  uint64_t num_records_ = 0;
  uint64_t num_bytes_ = 0;
  Fingerprint fingerprint_;
  uint64_t num_in_class_folders_ = 0;  // images directly in a class folder
  NameList not_images_;
  NameList outside_classes_;
  NameList loops_;
};

absl::Status ImageFolderSource::FindClasses() {
  std::map<std::string, std::vector<uint32_t>, std::less<>> roots_of_class;
  for (uint32_t root = 0; root < roots_.size(); ++root) {
    const std::string& path = roots_[root];
    const std::string wanted =
        fmt::format("expected one folder per class, as in {}/cat/1.jpg", path == "/" ? "" : path);
    absl::StatusOr<FolderListing> listing = FolderListing::Read(path, /*with_sizes=*/false);
    if (!listing.ok()) {
      if (absl::IsFailedPrecondition(listing.status())) {
        return absl::FailedPreconditionError(fmt::format("{}: not a folder; {}", path, wanted));
      }
      return listing.status();
    }
    bool has_classes = false;
    NameList images;
    for (size_t i = 0; i < listing->size(); ++i) {
      const std::string_view name = listing->name(i);
      if (listing->kind(i) != EntryKind::kFolder) {
        const bool is_image = listing->kind(i) == EntryKind::kFile && IsImageName(name);
        if (is_image) images.Add(name);
        (is_image ? outside_classes_ : not_images_).Add(fmt::format("{}/{}", path, name));
        continue;
      }
      has_classes = true;
      if (!IsUtf8(name)) {
        return absl::DataLossError(fmt::format(
            "{}: the name of the folder {} is not UTF-8; rename it", path, Excerpt(name)));
      }
      roots_of_class[std::string(name)].push_back(root);
    }
    if (has_classes) continue;
    if (images.count() > 0) {
      return absl::DataLossError(fmt::format(
          "{}: {}; {}", path, images.Text("image", "images", "in no class folder"), wanted));
    }
    return absl::DataLossError(fmt::format(
        "{}: {}; {}", path,
        listing->size() == 0 ? "the folder is empty" : "the folder contains no folders", wanted));
  }
  for (const auto& [name, roots] : roots_of_class) {
    const auto label = static_cast<uint32_t>(classes_.size());
    std::optional<int64_t> number = label;
    if (options_.classes) number = options_.classes->NumberOf(name);
    if (!number) {
      return absl::DataLossError(
          fmt::format("{}/{}: {}", roots_[roots[0]], name, options_.classes->Lacks("this class")));
    }
    labels_.push_back(*number);
    classes_.push_back(name);
    for (uint32_t root : roots) class_folders_.push_back({root, label, 0});
  }
  return absl::OkStatus();
}

absl::Status ImageFolderSource::ScanClass(ClassFolder& folder, std::stop_token stop,
                                          const std::function<void(uint64_t bytes)>& progress) {
  const std::string& root = roots_[folder.root];
  const std::string& name = classes_[folder.label];
  uint64_t num_files = 0;
  absl::Status status = WalkFolder(
      root, name, /*with_sizes=*/true,
      [&](const WalkedFile& file) -> absl::Status {
        if (++num_files % 1024 == 0) {
          if (stop.stop_requested()) return absl::CancelledError("interrupted");
          if (progress) progress(num_bytes_);
        }
        const bool named_image = IsImageName(file.path);
        if (named_image && file.kind == EntryKind::kBrokenLink) {
          const absl::Status defect = absl::NotFoundError(
              fmt::format("{}/{}: the target of the link does not exist", root, file.path));
          return LeaveOut(defect) ? absl::OkStatus() : defect;
        }
        if (!named_image || file.kind != EntryKind::kFile) {
          not_images_.Add(fmt::format("{}/{}", root, file.path));
          return absl::OkStatus();
        }
        if (file.size == 0 && !skips_defects()) {
          return absl::DataLossError(fmt::format(
              "{}/{}: the file is empty; remove it, or get the image again", root, file.path));
        }
        fingerprint_.Add(root);
        fingerprint_.Add(file.path);
        fingerprint_.Add(file.size);
        fingerprint_.Add(file.time);
        ++folder.num_images;
        num_bytes_ += file.size;
        if (file.path.find('/', name.size() + 1) == std::string_view::npos) {
          ++num_in_class_folders_;
        }
        return absl::OkStatus();
      },
      [&](std::string_view path) { loops_.Add(fmt::format("{}/{}", root, path)); });
  if (!status.ok()) return status;
  if (folder.num_images == 0) {
    return absl::DataLossError(
        fmt::format("{}: the folder of this class has no images (files named {}); remove it, or "
                    "add some",
                    PathOf(folder), ImageSuffixes()));
  }
  num_records_ += folder.num_images;
  return absl::OkStatus();
}

absl::Status ImageFolderSource::Scan(std::stop_token stop,
                                     const std::function<void(uint64_t bytes)>& progress) {
  classes_.clear();
  labels_.clear();
  class_folders_.clear();
  num_records_ = num_bytes_ = num_in_class_folders_ = 0;
  not_images_ = outside_classes_ = loops_ = NameList();
  fingerprint_ = {};
  if (absl::Status status = FindClasses(); !status.ok()) return status;
  for (ClassFolder& folder : class_folders_) {
    if (stop.stop_requested()) return absl::CancelledError("interrupted");
    if (absl::Status status = ScanClass(folder, stop, progress); !status.ok()) return status;
    if (progress) progress(num_bytes_);
  }
  return absl::OkStatus();
}

std::vector<std::string> ImageFolderSource::notes() const {
  std::vector<std::string> notes;
  not_images_.AppendNote("skipped", "file", "files", "not named like an image", &notes);
  outside_classes_.AppendNote("skipped", "image", "images", "outside the class folders", &notes);
  loops_.AppendNote("skipped", "link", "links", "to a folder that contains the link", &notes);
  if (options_.classes) {
    const std::string unused = options_.classes->NoteOfUnused({labels_.begin(), labels_.end()});
    if (!unused.empty()) notes.push_back(unused);
  }
  if (num_in_class_folders_ == 0 && num_records_ > 0) {
    notes.push_back(fmt::format(
        "the folders taken for classes ({}{}) contain only folders and no images; if their "
        "subfolders are the classes, convert each of them separately",
        fmt::join(classes_.begin(), classes_.begin() + std::min<size_t>(3, classes_.size()), ", "),
        classes_.size() > 3 ? ", ..." : ""));
  }
  return notes;
}

absl::Status ImageFolderSource::ForEach(
    const std::function<absl::Status(const Item&)>& sink) const {
  std::string bytes;
  for (const ClassFolder& folder : class_folders_) {
    const ItemPrefix prefix{folder.root, folder.label};
    bytes.assign(reinterpret_cast<const char*>(&prefix), sizeof(prefix));
    uint64_t num_images = 0;
    const auto visit = [&](const WalkedFile& file) -> absl::Status {
      if (!IsImageName(file.path) || file.kind != EntryKind::kFile) return absl::OkStatus();
      ++num_images;
      bytes.resize(sizeof(prefix));
      bytes += file.path;
      Item item;
      item.bytes = bytes;
      item.file = folder.root;
      return sink(item);
    };
    absl::Status status = WalkFolder(roots_[folder.root], classes_[folder.label],
                                     /*with_sizes=*/false, visit, [](std::string_view) {});
    if (!status.ok()) return status;
    if (num_images != folder.num_images) {
      return absl::FailedPreconditionError(
          fmt::format("{}: changed while it was being read: {} images at first, then {}; run "
                      "again once it is complete",
                      PathOf(folder), folder.num_images, num_images));
    }
  }
  return absl::OkStatus();
}

absl::Status ImageFolderSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local WholeFile file;
  thread_local std::string path;
  ItemPrefix prefix;
  std::memcpy(&prefix, item.bytes.data(), sizeof(prefix));
  const std::string_view name = item.bytes.substr(sizeof(prefix));
  path.assign(roots_[prefix.root]);
  path += '/';
  path += name;
  absl::StatusOr<std::string_view> bytes = file.Read(path);
  if (!bytes.ok()) return bytes.status();
  // Features are added in the order of their names, which is their order in the record.
  builder.AddInt64("image/class/label", labels_[prefix.label]);
  builder.AddBytes("image/class/text", classes_[prefix.label]);
  return AddImage(path, name, *bytes, images_, builder);
}

std::string ImageFolderSource::PathOf(const Item& item) const {
  ItemPrefix prefix;
  std::memcpy(&prefix, item.bytes.data(), sizeof(prefix));
  return fmt::format("{}/{}", roots_[prefix.root], item.bytes.substr(sizeof(prefix)));
}

absl::Status ImageFolderSource::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  return VisitFile(PathOf(item), visit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeImageFolderSource(std::vector<std::string> folders,
                                                              ImageFolderOptions options) {
  if (folders.empty()) return absl::InvalidArgumentError("expected folders of images, got none");
  return std::make_unique<ImageFolderSource>(std::move(folders), std::move(options));
}

}  // namespace shardfeed
