#include "convert/file_tree.h"

#include <sys/stat.h>

#include <utility>

#include "fmt/format.h"

namespace shardfeed {

FileTree::FileTree(std::vector<std::string> roots) {
  for (std::string& root : roots) {
    while (root.size() > 1 && root.ends_with('/')) root.pop_back();
    struct stat stat;
    const bool is_file = ::stat(root.c_str(), &stat) == 0 && S_ISREG(stat.st_mode);
    roots_.push_back({std::move(root), is_file, is_file ? static_cast<uint64_t>(stat.st_size) : 0});
  }
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
      const FolderListing listing = FolderListing::OfFile(roots_[root].path, roots_[root].size);
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
