#include "convert/sources/images.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/features/column.h"
#include "convert/features/image_file.h"
#include "convert/input/file_tree.h"
#include "convert/input/name_list.h"
#include "convert/input/whole_file.h"
#include "convert/items/split_names.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

class ImagesSource : public Source {
 public:
  ImagesSource(std::vector<std::string> paths, ImagesOptions options)
      : tree_(std::move(paths)), options_(std::move(options)), images_(options_.images) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return num_bytes_; }
  uint64_t mean_record_bytes() const override {
    return num_records_ == 0 || images_.resizes() ? 0
                                                  : num_bytes_ / num_records_ + kOtherFeatureBytes;
  }
  FeatureClasses classes() const override;
  std::vector<std::string> notes() const override;
  std::vector<std::string> built_notes() const override { return images_.notes(); }
  void ForgetBuilt() override { images_.Reset(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  bool names_splits() const override { return has_splits(); }
  std::vector<SplitCount> splits() const override { return splits_.splits(); }
  absl::StatusOr<size_t> SplitOf(const Item& item) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;
  std::string InputFingerprint() const override { return fingerprint_.Hex(); }

 private:
  struct Class {
    int64_t number;
    std::string_view name;  // empty if unknown
  };
  using Labels = LabelFile::Labels;

  absl::Status ScanFile(const FileTree::Folder& folder, size_t i);
  bool has_splits() const { return options_.labels && options_.labels->has_splits(); }
  std::optional<size_t> FindSplit(std::string_view name) const;
  absl::Status CheckClasses() const;
  absl::Status NoLabel(uint32_t root, std::string_view name) const;
  // The class in a row of the file of labels, whose image is `name`.
  absl::StatusOr<Class> ClassOf(size_t row, uint32_t root, std::string_view name) const;
  std::set<int64_t> NumbersOfLabels() const;

  FileTree tree_;
  const ImagesOptions options_;
  ImageRewriter images_;
  uint64_t num_records_ = 0;
  uint64_t num_bytes_ = 0;
  Fingerprint fingerprint_;
  SplitNames splits_{""};
  uint64_t num_at_top_ = 0;                     // images at the top level of a source
  std::set<std::string, std::less<>> folders_;  // top-level folders of the other images
  NameList not_images_;
  NameList loops_;
};

absl::Status ImagesSource::ScanFile(const FileTree::Folder& folder, size_t i) {
  const EntryKind kind = folder.listing.kind(i);
  if (kind == EntryKind::kFolder) return absl::OkStatus();
  const std::string name = fmt::format("{}{}", folder.path, folder.listing.name(i));
  const std::string path = tree_.PathOf(folder.root, name);
  const bool named_image = IsImageName(name);
  if (named_image && kind == EntryKind::kBrokenLink) {
    const absl::Status defect =
        absl::NotFoundError(fmt::format("{}: the target of the link does not exist", path));
    return LeaveOut(defect) ? absl::OkStatus() : defect;
  }
  if (!named_image || kind != EntryKind::kFile) {
    not_images_.Add(path);
    return absl::OkStatus();
  }
  // If broken records are left out, Build reports them.
  if (folder.listing.file_size(i) == 0 && !skips_defects()) {
    return absl::DataLossError(
        fmt::format("{}: the file is empty; remove it, or get the image again", path));
  }
  if (options_.labels) {
    const std::optional<size_t> row = options_.labels->Find(name);
    if (!row && (!skips_defects() || has_splits())) {
      const absl::Status defect = NoLabel(folder.root, name);
      return LeaveOut(defect) ? absl::OkStatus() : defect;
    }
    if (has_splits()) {
      if (absl::Status status = splits_.Add(options_.labels->SplitOf(*row)); !status.ok()) {
        const absl::Status defect = absl::DataLossError(
            fmt::format("{}: {}", options_.labels->PlaceOf(*row), std::string(status.message())));
        return LeaveOut(defect) ? absl::OkStatus() : defect;
      }
    }
  }
  FileTree::AddTo(fingerprint_, folder, i);
  ++num_records_;
  num_bytes_ += folder.listing.file_size(i);
  if (folder.path.empty()) {
    ++num_at_top_;
  } else if (folders_.size() < 4) {
    folders_.emplace(folder.path.substr(0, folder.path.find('/')));
  }
  return absl::OkStatus();
}

absl::Status ImagesSource::NoLabel(uint32_t root, std::string_view name) const {
  return absl::DataLossError(fmt::format(
      "{}: {} has no label for {}{}", tree_.PathOf(root, name), options_.labels->path(),
      Excerpt(name),
      options_.labels->HeaderNames(name)
          ? "; its first row, which must name the columns, names this image: add a header such as "
            "name,label"
          : ""));
}

absl::Status ImagesSource::CheckClasses() const {
  if (!options_.labels || !options_.classes) return absl::OkStatus();
  if (options_.labels->labels() == Labels::kValues) {
    return absl::DataLossError(fmt::format(
        "{}: labels are numbers with fractions, which {} cannot name; leave the class map out",
        options_.labels->path(), options_.classes->path()));
  }
  for (std::string_view name : options_.labels->class_names()) {
    if (options_.classes->NumberOf(name)) continue;
    return absl::DataLossError(fmt::format("{}: {}", options_.labels->path(),
                                           options_.classes->Lacks("the class " + Excerpt(name))));
  }
  return absl::OkStatus();
}

FeatureClasses ImagesSource::classes() const {
  ClassNames classes;
  if (options_.classes) {
    classes = options_.classes->classes();
  } else if (options_.labels && options_.labels->labels() == Labels::kNames) {
    const std::vector<std::string_view>& names = options_.labels->class_names();
    classes = ClassesInOrder({names.begin(), names.end()});
  }
  if (classes.empty()) return {};
  return {{std::string(kClassLabel), std::move(classes)}};
}

// The numbers of the classes that the file of labels has.
std::set<int64_t> ImagesSource::NumbersOfLabels() const {
  std::set<int64_t> numbers;
  for (std::string_view name : options_.labels->class_names()) {
    numbers.insert(options_.classes->NumberOf(name).value_or(-1));
  }
  if (options_.labels->labels() == Labels::kNumbers) {
    for (size_t row = 0; row < options_.labels->size(); ++row) {
      if (!options_.labels->CheckLabel(row).ok()) continue;
      numbers.insert(*ParseInt64(options_.labels->LabelOf(row)));
    }
  }
  return numbers;
}

absl::Status ImagesSource::Scan(std::stop_token stop,
                                const std::function<void(uint64_t bytes)>& progress) {
  num_records_ = num_bytes_ = num_at_top_ = 0;
  folders_.clear();
  not_images_ = loops_ = NameList();
  splits_ = SplitNames(options_.labels ? options_.labels->split_name() : "");
  fingerprint_ = {};
  if (options_.labels && !skips_defects()) {
    if (absl::Status status = options_.labels->CheckLabels(); !status.ok()) return status;
  }
  if (absl::Status status = CheckClasses(); !status.ok()) return status;
  absl::Status status = tree_.ForEachFolder(
      /*with_sizes=*/true,
      [&](const FileTree::Folder& folder) -> absl::Status {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          if (absl::Status s = ScanFile(folder, i); !s.ok()) return s;
          if (i % 1024 == 0 && stop.stop_requested()) return absl::CancelledError("interrupted");
        }
        if (progress) progress(num_bytes_);
        return absl::OkStatus();
      },
      [&](std::string_view path) { loops_.Add(path); });
  if (!status.ok()) return status;
  if (num_records_ == 0) {
    return absl::DataLossError(
        fmt::format("{}: no images (files named {})", tree_.PathOf(0, ""), ImageSuffixes()));
  }
  return absl::OkStatus();
}

std::vector<std::string> ImagesSource::notes() const {
  std::vector<std::string> notes;
  not_images_.AppendNote("skipped", "file", "files", "not named like an image", &notes);
  loops_.AppendNote("skipped", "link", "links", "to a folder that contains the link", &notes);
  if (options_.labels && options_.labels->size() > num_records_) {
    notes.push_back(fmt::format("{}: {} of {} labels have no image", options_.labels->path(),
                                options_.labels->size() - num_records_, options_.labels->size()));
  }
  if (options_.labels) {
    for (std::string& note : options_.labels->notes()) notes.push_back(std::move(note));
  }
  if (options_.classes) {
    const std::string unused = options_.classes->NoteOfUnused(NumbersOfLabels());
    if (!unused.empty()) notes.push_back(unused);
  }
  if (!options_.labels && num_at_top_ == 0 && folders_.size() > 1) {
    NameList names;
    for (const std::string& name : folders_) names.Add(name);
    notes.push_back(fmt::format(
        "all images are in folders ({}); if the folders are classes, the kind imagefolder labels "
        "the images",
        names.names()));
  }
  return notes;
}

absl::Status ImagesSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::string path;
  return tree_.ForEachFolder(
      /*with_sizes=*/false,
      [&](const FileTree::Folder& folder) -> absl::Status {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          if (folder.listing.kind(i) != EntryKind::kFile) continue;
          if (!IsImageName(folder.listing.name(i))) continue;
          path.assign(folder.path);
          path += folder.listing.name(i);
          // Scan left out the images without a split.
          if (has_splits() && !FindSplit(path)) continue;
          Item item;
          item.bytes = path;
          item.file = folder.root;
          if (absl::Status status = sink(item); !status.ok()) return status;
        }
        return absl::OkStatus();
      },
      [](std::string_view) {});
}

std::optional<size_t> ImagesSource::FindSplit(std::string_view name) const {
  const std::optional<size_t> row = options_.labels->Find(name);
  if (!row) return std::nullopt;
  return splits_.Find(options_.labels->SplitOf(*row));
}

absl::StatusOr<size_t> ImagesSource::SplitOf(const Item& item) const {
  if (const std::optional<size_t> split = FindSplit(item.bytes)) return *split;
  return NoLabel(item.file, item.bytes);
}

absl::StatusOr<ImagesSource::Class> ImagesSource::ClassOf(size_t row, uint32_t root,
                                                          std::string_view name) const {
  const LabelFile& labels = *options_.labels;
  const std::string_view label = labels.LabelOf(row);
  if (labels.labels() == Labels::kNumbers) {
    const int64_t number = *ParseInt64(label);
    if (!options_.classes) return Class{number, {}};
    const std::optional<std::string_view> text = options_.classes->NameOf(number);
    if (text) return Class{number, *text};
    return absl::DataLossError(
        fmt::format("{}: {}", tree_.PathOf(root, name),
                    options_.classes->Lacks(fmt::format("its label {}", number))));
  }
  if (options_.classes) return Class{*options_.classes->NumberOf(label), label};
  const auto& names = labels.class_names();
  return Class{std::lower_bound(names.begin(), names.end(), label) - names.begin(), label};
}

absl::Status ImagesSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local WholeFile file;
  const std::string path = tree_.PathOf(item.file, item.bytes);
  if (options_.labels) {
    const std::optional<size_t> row = options_.labels->Find(item.bytes);
    if (!row) return NoLabel(item.file, item.bytes);
    if (absl::Status status = options_.labels->CheckLabel(*row); !status.ok()) return status;
    if (options_.labels->labels() != Labels::kValues) {
      absl::StatusOr<Class> found = ClassOf(*row, item.file, item.bytes);
      if (!found.ok()) return found.status();
      builder.AddInt64("image/class/label", found->number);
      if (!found->name.empty()) builder.AddBytes("image/class/text", found->name);
    }
    options_.labels->AddColumns(*row, builder);
  }
  absl::StatusOr<std::string_view> bytes = file.Read(path);
  if (!bytes.ok()) return bytes.status();
  return AddImage(path, item.bytes, *bytes, images_, builder);
}

absl::Status ImagesSource::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  return VisitFile(tree_.PathOf(item.file, item.bytes), visit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeImagesSource(std::vector<std::string> paths,
                                                         ImagesOptions options) {
  if (paths.empty()) return absl::InvalidArgumentError("expected images or folders, got none");
  if (options.classes && !options.labels) {
    return absl::InvalidArgumentError("a class map requires labels; add a label file");
  }
  return std::make_unique<ImagesSource>(std::move(paths), std::move(options));
}

}  // namespace shardfeed
