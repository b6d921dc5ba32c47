#include "convert/sources/files.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/file_tree.h"
#include "convert/input/name_list.h"
#include "convert/input/whole_file.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

class FilesSource : public Source {
 public:
  explicit FilesSource(std::vector<std::string> paths) : tree_(std::move(paths)) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override;
  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return num_bytes_; }
  std::vector<std::string> notes() const override;
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;
  std::string InputFingerprint() const override { return fingerprint_.Hex(); }

 private:
  FileTree tree_;
  uint64_t num_records_ = 0;
  uint64_t num_bytes_ = 0;
  Fingerprint fingerprint_;
  NameList not_files_;
  NameList loops_;
};

absl::Status FilesSource::Scan(std::stop_token stop,
                               const std::function<void(uint64_t bytes)>& progress) {
  num_records_ = num_bytes_ = 0;
  not_files_ = loops_ = NameList();
  fingerprint_ = {};
  absl::Status status = tree_.ForEachFolder(
      /*with_sizes=*/true,
      [&](const FileTree::Folder& folder) -> absl::Status {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          if (folder.listing.kind(i) == EntryKind::kFolder) continue;
          const auto path = [&] {
            return tree_.PathOf(folder.root,
                                fmt::format("{}{}", folder.path, folder.listing.name(i)));
          };
          if (folder.listing.kind(i) == EntryKind::kBrokenLink) {
            absl::Status defect = absl::NotFoundError(
                fmt::format("{}: the target of the link does not exist", path()));
            if (!LeaveOut(defect)) return defect;
            continue;
          }
          if (folder.listing.kind(i) != EntryKind::kFile) {
            not_files_.Add(path());
            continue;
          }
          FileTree::AddTo(fingerprint_, folder, i);
          ++num_records_;
          num_bytes_ += folder.listing.file_size(i);
        }
        if (progress) progress(num_bytes_);
        return stop.stop_requested() ? absl::CancelledError("interrupted") : absl::OkStatus();
      },
      [&](std::string_view path) { loops_.Add(path); });
  if (!status.ok()) return status;
  if (num_records_ == 0) {
    return absl::DataLossError(
        fmt::format("{}: no files (hidden files, named .NAME, are skipped)", tree_.PathOf(0, "")));
  }
  return absl::OkStatus();
}

std::vector<std::string> FilesSource::notes() const {
  std::vector<std::string> notes;
  not_files_.AppendNote("skipped", "pipe, socket or device", "pipes, sockets or devices",
                        "among the files", &notes);
  loops_.AppendNote("skipped", "link", "links", "to a folder that contains the link", &notes);
  return notes;
}

absl::Status FilesSource::ForEach(const std::function<absl::Status(const Item&)>& sink) const {
  std::string path;
  return tree_.ForEachFolder(
      /*with_sizes=*/false,
      [&](const FileTree::Folder& folder) -> absl::Status {
        for (size_t i = 0; i < folder.listing.size(); ++i) {
          if (folder.listing.kind(i) != EntryKind::kFile) continue;
          path.assign(folder.path);
          path += folder.listing.name(i);
          Item item;
          item.bytes = path;
          item.file = folder.root;
          if (absl::Status status = sink(item); !status.ok()) return status;
        }
        return absl::OkStatus();
      },
      [](std::string_view) {});
}

absl::Status FilesSource::Build(const Item& item, ExampleBuilder& builder) const {
  thread_local WholeFile file;
  absl::StatusOr<std::string_view> bytes = file.Read(tree_.PathOf(item.file, item.bytes));
  if (!bytes.ok()) return bytes.status();
  builder.AddBorrowedBytes("bytes", *bytes);
  builder.AddBytes("name", item.bytes);
  return absl::OkStatus();
}

absl::Status FilesSource::VisitContent(
    const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
  return VisitFile(tree_.PathOf(item.file, item.bytes), visit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeFilesSource(std::vector<std::string> paths) {
  if (paths.empty()) return absl::InvalidArgumentError("expected files or folders, got none");
  return std::make_unique<FilesSource>(std::move(paths));
}

}  // namespace shardfeed
