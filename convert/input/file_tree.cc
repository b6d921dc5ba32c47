#include "convert/input/file_tree.h"

#include <sys/stat.h>

#include <utility>

#include "fmt/format.h"

namespace shardfeed {

FileTree::FileTree(std::vector<std::string> roots) {
  for (std::string& root : roots) {
    while (root.size() > 1 && root.ends_with('/')) root.pop_back();
    struct stat stat;
    const bool is_file = ::stat(root.c_str(), &stat) == 0 && S_ISREG(stat.st_mode);
    Root& added = roots_.emplace_back();
    added.path = std::move(root);
    added.is_file = is_file;
    if (is_file) {
      added.size = stat.st_size;
      added.time =
          static_cast<uint64_t>(stat.st_mtim.tv_sec) * 1'000'000'000 + stat.st_mtim.tv_nsec;
    }
  }
}

void FileTree::AddTo(Fingerprint& fingerprint, const Folder& folder, size_t i) {
  fingerprint.Add(folder.root);
  fingerprint.Add(folder.path);
  fingerprint.Add(folder.listing.name(i));
  fingerprint.Add(folder.listing.file_size(i));
  fingerprint.Add(folder.listing.file_time(i));
}

std::string FileTree::PathOf(uint32_t root, std::string_view path) const {
  if (roots_[root].is_file || path.empty()) return roots_[root].path;
  return fmt::format("{}/{}", roots_[root].path == "/" ? "" : roots_[root].path, path);
}

absl::Status FileTree::ForEachFolder(bool with_sizes,
                                     const std::function<absl::Status(const Folder&)>& visit,
                                     const std::function<void(std::string_view path)>& loop) const {
  for (uint32_t root = 0; root < roots_.size(); ++root) {
    if (roots_[root].is_file) {
      const FolderListing listing =
          FolderListing::OfFile(roots_[root].path, roots_[root].size, roots_[root].time);
      if (absl::Status status = visit({root, "", listing}); !status.ok()) return status;
      continue;
    }
    absl::Status status = WalkFolders(
        roots_[root].path, with_sizes,
        [&](std::string_view path, const FolderListing& listing) {
          return visit({root, path, listing});
        },
        [&](std::string_view path) { loop(PathOf(root, path)); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
