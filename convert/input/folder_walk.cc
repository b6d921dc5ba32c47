#include "convert/input/folder_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// Identifies a folder regardless of its path.
struct Identity {
  dev_t device;
  ino_t inode;
  bool operator==(const Identity&) const = default;
};

EntryKind KindOfMode(mode_t mode) {
  return S_ISREG(mode) ? EntryKind::kFile : S_ISDIR(mode) ? EntryKind::kFolder : EntryKind::kOther;
}

uint64_t TimeOf(const struct stat& stat) {
  return static_cast<uint64_t>(stat.st_mtim.tv_sec) * 1'000'000'000 + stat.st_mtim.tv_nsec;
}

class Walker {
 public:
  // Either function may be empty.
  Walker(const std::string& root, bool with_sizes,
         std::function<absl::Status(const WalkedFile&)> visit_file,
         std::function<absl::Status(std::string_view, const FolderListing&)> visit_folder,
         const std::function<void(std::string_view path)>& loop)
      : root_(root),
        with_sizes_(with_sizes),
        visit_file_(std::move(visit_file)),
        visit_folder_(std::move(visit_folder)),
        loop_(loop) {}

  absl::Status WalkRoot() { return WalkPath(); }

  absl::Status WalkFolderOfRoot(std::string_view folder) {
    // Treat the root as entered: a link to it would bring in the other classes.
    absl::StatusOr<Identity> root = IdentityOf(root_);
    if (!root.ok()) return root.status();
    entered_.push_back(*root);
    path_ = folder;
    return WalkPath();
  }

 private:
  static absl::StatusOr<Identity> IdentityOf(const std::string& folder) {
    struct stat stat;
    if (::stat(folder.c_str(), &stat) != 0) return ErrnoStatus(errno, folder, "open the folder");
    return Identity{stat.st_dev, stat.st_ino};
  }

  // Walks the folder at path_. Recursion is as deep as the folders, whose depth the length of a
  // path bounds.
  absl::Status WalkPath() {
    const std::string folder = path_.empty() ? root_ : fmt::format("{}/{}", root_, path_);
    absl::StatusOr<Identity> identity = IdentityOf(folder);
    if (!identity.ok()) return identity.status();
    if (std::find(entered_.begin(), entered_.end(), *identity) != entered_.end()) {
      loop_(path_);
      return absl::OkStatus();
    }
    absl::StatusOr<FolderListing> listing = FolderListing::Read(folder, with_sizes_);
    if (!listing.ok()) return listing.status();
    entered_.push_back(*identity);
    const size_t parent_size = path_.size();
    if (!path_.empty()) path_ += '/';
    const size_t prefix_size = path_.size();
    if (visit_folder_) {
      if (absl::Status status = visit_folder_(path_, *listing); !status.ok()) return status;
    }
    for (size_t i = 0; i < listing->size(); ++i) {
      const bool is_folder = listing->kind(i) == EntryKind::kFolder;
      if (!is_folder && !visit_file_) continue;
      path_.resize(prefix_size);
      path_ += listing->name(i);
      absl::Status status =
          is_folder ? WalkPath()
                    : visit_file_(WalkedFile{path_, listing->kind(i), listing->file_size(i),
                                             listing->file_time(i)});
      if (!status.ok()) return status;
    }
    path_.resize(parent_size);
    entered_.pop_back();
    return absl::OkStatus();
  }

  const std::string& root_;
  const bool with_sizes_;
  const std::function<absl::Status(const WalkedFile&)> visit_file_;
  const std::function<absl::Status(std::string_view, const FolderListing&)> visit_folder_;
  const std::function<void(std::string_view path)>& loop_;
  std::string path_;
  std::vector<Identity> entered_;  // the folders that enclose path_
};

}  // namespace

FolderListing FolderListing::OfFile(std::string_view name, uint64_t size, uint64_t time) {
  FolderListing listing;
  listing.names_ = name;
  listing.names_ += '\0';
  listing.entries_.push_back({0, size, time, EntryKind::kFile});
  return listing;
}

absl::StatusOr<FolderListing> FolderListing::Read(const std::string& folder, bool with_sizes) {
  const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
  if (open == nullptr) return ErrnoStatus(errno, folder, "open the folder");
  const int fd = ::dirfd(open.get());
  FolderListing listing;
  while (true) {
    errno = 0;
    // Thread-safe, since no other thread uses this DIR (POSIX.1-2024).
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) {
      if (errno != 0) return ErrnoStatus(errno, folder, "list the folder");
      break;
    }
    if (entry->d_name[0] == '.') continue;
    Entry added{listing.names_.size(), 0, 0, EntryKind::kOther};
    // Links, and all names if the file system does not report types, need a stat.
    const bool is_file = entry->d_type == DT_REG;
    const bool is_folder = entry->d_type == DT_DIR;
    if (is_folder || (is_file && !with_sizes)) {
      added.kind = is_folder ? EntryKind::kFolder : EntryKind::kFile;
    } else {
      struct stat stat;
      if (::fstatat(fd, entry->d_name, &stat, 0) == 0) {
        added.kind = KindOfMode(stat.st_mode);
        if (added.kind == EntryKind::kFile) {
          added.size = stat.st_size;
          added.time = TimeOf(stat);
        }
      } else if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) {
        added.kind = EntryKind::kBrokenLink;
      } else {
        return ErrnoStatus(errno, fmt::format("{}/{}", folder, entry->d_name), "read the size");
      }
    }
    listing.names_.append(entry->d_name, std::strlen(entry->d_name) + 1);
    listing.entries_.push_back(added);
  }
  const char* const names = listing.names_.data();
  std::sort(listing.entries_.begin(), listing.entries_.end(),
            [names](const Entry& a, const Entry& b) {
              return std::strcmp(names + a.name, names + b.name) < 0;
            });
  return listing;
}

absl::Status WalkFolder(const std::string& root, std::string_view folder, bool with_sizes,
                        const std::function<absl::Status(const WalkedFile&)>& visit,
                        const std::function<void(std::string_view path)>& loop) {
  return Walker(root, with_sizes, visit, nullptr, loop).WalkFolderOfRoot(folder);
}

absl::Status WalkFolders(
    const std::string& root, bool with_sizes,
    const std::function<absl::Status(std::string_view path, const FolderListing&)>& visit,
    const std::function<void(std::string_view path)>& loop) {
  return Walker(root, with_sizes, nullptr, visit, loop).WalkRoot();
}

}  // namespace shardfeed
