#include "convert/sources/metadata_images.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "base/excerpt.h"
#include "convert/input/file_tree.h"
#include "convert/input/folder_walk.h"
#include "convert/input/json_document.h"
#include "convert/input/name_list.h"
#include "convert/input/path_kind.h"
#include "convert/input/text_reader.h"
#include "convert/sources/annotated_images.h"
#include "convert/sources/csv.h"
#include "convert/sources/json.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {
namespace {

constexpr std::string_view kNameColumn = "file_name";
constexpr std::array<const char*, 2> kTables = {"metadata.csv", "metadata.jsonl"};
// In quotes, as keys of JSON.
constexpr std::array<std::string_view, 5> kOwnFeatures = {
    R"("image/encoded")", R"("image/filename")", R"("image/format")", R"("image/height")",
    R"("image/width")"};

std::string_view WithoutQuotes(std::string_view quoted) {
  return quoted.substr(1, quoted.size() - 2);
}

std::string FolderOfFile(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

class MetadataImages : public AnnotatedImages {
 public:
  MetadataImages(std::string path, StoredImageOptions options, std::unique_ptr<Source> table)
      : AnnotatedImages(options),
        path_(std::move(path)),
        folder_(FolderOfFile(path_)),
        is_json_(path_.ends_with(".jsonl")),
        table_(std::move(table)) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  FeatureTypes types() const override { return table_->types(); }
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;

 protected:
  absl::Status AddFeatures(uint64_t /*number*/, const Item& row, const ImageHeader& /*header*/,
                           ExampleBuilder& builder) const override {
    return table_->Build(row, builder);
  }

 private:
  absl::Status CheckHeader() const;
  // Returns the name of the row's image, or why it has none.
  absl::StatusOr<std::string> NameOfRow(const Item& row) const;
  absl::Status ScanRow(const Item& row);
  absl::Status FindOthers();

  const std::string path_;
  const std::string folder_;
  const bool is_json_;
  const std::unique_ptr<Source> table_;
  NameList without_row_, other_files_;
};

absl::Status Conflict(std::string_view name) {
  return absl::DataLossError(fmt::format(
      "the column {} has the name of a feature that the image makes; rename it", Excerpt(name)));
}

// The names of a table's columns are in its first line. That of a file of JSON lines is checked
// with each row.
absl::Status MetadataImages::CheckHeader() const {
  TextReaderOptions options;
  options.encoding = std::nullopt;
  absl::StatusOr<std::unique_ptr<TextReader>> reader = TextReader::Open(path_, options);
  if (!reader.ok()) return reader.status();
  TextReader::Line line;
  if (!(*reader)->NextLine(&line)) return (*reader)->status();
  for (const std::string_view quoted : kOwnFeatures) {
    const std::string_view name = WithoutQuotes(quoted);
    if (line.text.find(name) == line.text.npos) continue;
    return WithMessage(Conflict(name),
                       fmt::format("{}:1: {}", path_, std::string(Conflict(name).message())));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MetadataImages::NameOfRow(const Item& row) const {
  std::string key;
  if (absl::Status status = table_->AppendKey(row, &key); !status.ok()) return status;
  if (is_json_) {
    for (const std::string_view quoted : kOwnFeatures) {
      if (row.bytes.find(quoted) != row.bytes.npos) return Conflict(WithoutQuotes(quoted));
    }
    if (!key.empty() && key.front() != '"') {
      return absl::DataLossError(
          fmt::format("{} must be a text, got {}", kNameColumn, Excerpt(key)));
    }
    const size_t size = key.size();
    key.append(kJsonPadding, '\0');
    simdjson::dom::element root;
    std::string_view text;
    if (size > 0 && (ParseJson(std::string_view(key).substr(0, size), &root) != simdjson::SUCCESS ||
                     root.get(text) != simdjson::SUCCESS)) {
      return absl::InternalError("a key that was read cannot be read again");
    }
    key = std::string(text);
  }
  if (key.empty()) {
    return absl::DataLossError(fmt::format("no {}, which names the image of the row", kNameColumn));
  }
  return key;
}

absl::Status MetadataImages::ScanRow(const Item& row) {
  const uint64_t number = num_images();
  absl::StatusOr<std::string> name = NameOfRow(row);
  absl::Status status = name.status();
  // A row without a name has its number, too.
  if (absl::Status added = AddFile(0, name.ok() ? *name : ""); status.ok()) status = added;
  if (status.ok()) return status;
  status =
      WithMessage(status, fmt::format("{}:{}: {}", path_, row.line, std::string(status.message())));
  if (!LeaveOut(status)) return status;
  Drop(number);
  return absl::OkStatus();
}

absl::Status MetadataImages::FindOthers() {
  std::unordered_set<std::string_view> names;
  for (uint64_t number = 0; number < num_images(); ++number) {
    std::string_view name = NameOf(number);
    while (name.starts_with("./")) name.remove_prefix(2);
    names.insert(name);
  }
  const FileTree tree({folder_});
  return tree.ForEachFolder(
      /*with_sizes=*/false,
      [&](const FileTree::Folder& folder) {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          const std::string name = fmt::format("{}{}", folder.path, folder.listing.name(i));
          if (folder.listing.kind(i) == EntryKind::kFolder || names.contains(name) ||
              name == kTables[0] || name == kTables[1]) {
            continue;
          }
          (IsImageName(name) ? without_row_ : other_files_).Add(tree.PathOf(folder.root, name));
        }
        return absl::OkStatus();
      },
      [](std::string_view) {});
}

absl::Status MetadataImages::Scan(std::stop_token stop,
                                  const std::function<void(uint64_t bytes)>& progress) {
  ClearImages();
  without_row_ = other_files_ = NameList();
  AddFolder(folder_);
  if (absl::Status status = AddAnnotationFile(path_); !status.ok()) return status;
  if (skips_defects()) {
    table_->SkipDefects(
        [this](const absl::Status& defect, uint64_t records) { LeaveOut(defect, records); });
  }
  if (!is_json_) {
    if (absl::Status status = CheckHeader(); !status.ok()) return status;
  }
  if (absl::Status status = table_->Scan(stop, progress); absl::IsInvalidArgument(status)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}; rename the file if it does not describe images", std::string(status.message())));
  } else if (!status.ok()) {
    // Images have none of the options of tables, which may be attached.
    return absl::Status(status.code(), status.message());
  }
  absl::Status status = table_->ForEach([&](const Item& row) {
    if (num_images() % 1024 == 0 && stop.stop_requested()) {
      return absl::CancelledError("interrupted");
    }
    return ScanRow(row);
  });
  if (!status.ok()) return status;
  if (num_records() == 0) {
    return absl::DataLossError(fmt::format("{}: no records: every row is broken", path_));
  }
  return FindOthers();
}

std::vector<std::string> MetadataImages::notes() const {
  std::vector<std::string> notes = {fmt::format(
      "took features and the order of the images from {}; folders are not classes", path_)};
  for (std::string& note : table_->notes()) notes.push_back(std::move(note));
  without_row_.AppendNote("skipped", "image", "images", "without a row", &notes);
  other_files_.AppendNote("skipped", "file", "files", "not named like an image", &notes);
  return notes;
}

absl::Status MetadataImages::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::string bytes;
  uint64_t number = 0;
  return table_->ForEach([&](const Item& row) {
    if (number == num_images()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: changed while it was being read; run again once it is complete", path_));
    }
    const uint64_t own = number++;
    return is_dropped(own) ? absl::OkStatus() : sink(MakeItem(own, row, bytes));
  });
}

}  // namespace

absl::StatusOr<std::string> FindMetadata(const std::vector<std::string>& sources) {
  std::string found;
  for (const std::string& source : sources) {
    for (const char* name : kTables) {
      std::string path = fmt::format("{}{}{}", source, source.ends_with('/') ? "" : "/", name);
      if (!IsFile(path)) continue;
      if (!found.empty()) {
        return absl::InvalidArgumentError(fmt::format(
            "{} and {} both describe images; remove one, or convert each folder on its own", found,
            path));
      }
      found = std::move(path);
    }
    if (!found.empty()) {
      if (sources.size() == 1) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{} describes the images of one folder; convert each folder on its own", found));
    }
    absl::StatusOr<FolderListing> listing = FolderListing::Read(source, /*with_sizes=*/false);
    if (!listing.ok()) continue;  // a file, or the source tells the error
    NameList splits;
    for (size_t i = 0; i < listing->size(); ++i) {
      if (listing->kind(i) != EntryKind::kFolder) continue;
      const std::string folder =
          fmt::format("{}{}{}", source, source.ends_with('/') ? "" : "/", listing->name(i));
      if (IsFile(fmt::format("{}/{}", folder, kTables[0])) ||
          IsFile(fmt::format("{}/{}", folder, kTables[1]))) {
        splits.Add(folder);
      }
    }
    if (splits.count() == 0) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: its folders have a table of their images each; convert each on its own, "
                    "or rename the tables if they describe something else: {}",
                    source, splits.names()));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<Source>> MakeMetadataImagesSource(std::string path,
                                                                 StoredImageOptions options,
                                                                 ChosenKinds kinds) {
  for (const std::string_view quoted : kOwnFeatures)
    kinds.erase(std::string(WithoutQuotes(quoted)));
  absl::StatusOr<std::unique_ptr<Source>> table;
  if (path.ends_with(".jsonl")) {
    JsonOptions json;
    json.key = kNameColumn;
    json.choice.kinds = std::move(kinds);
    table = MakeJsonSource({path}, JsonLayout::kLines, std::move(json));
  } else {
    CsvOptions csv;
    csv.header = true;
    csv.names_options = false;
    csv.key_column = kNameColumn;
    csv.choice.kinds = std::move(kinds);
    table = MakeCsvSource({path}, std::move(csv));
  }
  if (!table.ok()) return table.status();
  return std::make_unique<MetadataImages>(std::move(path), options, *std::move(table));
}

}  // namespace shardfeed
