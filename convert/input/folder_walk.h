// Walks the files below a folder in a fixed order.

#ifndef SHARDFEED_CONVERT_INPUT_FOLDER_WALK_H_
#define SHARDFEED_CONVERT_INPUT_FOLDER_WALK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// What a name in a folder refers to, after following links.
enum class EntryKind : uint8_t {
  kFile,
  kFolder,
  kBrokenLink,  // target does not exist, or links form a cycle
  kOther,       // a pipe, a socket or a device
};

// The names in one folder, sorted by their bytes, except those that start with a dot. Takes about
// 30 bytes per name plus the name, so a folder may have millions.
class FolderListing {
 public:
  // Sizes cost a system call per file. NotFound, FailedPrecondition (not a folder) and others: see
  // ErrnoStatus.
  static absl::StatusOr<FolderListing> Read(const std::string& folder, bool with_sizes);

  // A listing of a single file that was named directly.
  static FolderListing OfFile(std::string_view name, uint64_t size, uint64_t time);

  size_t size() const { return entries_.size(); }
  // Valid as long as the listing.
  std::string_view name(size_t i) const { return names_.data() + entries_[i].name; }
  EntryKind kind(size_t i) const { return entries_[i].kind; }
  // Size in bytes; 0 if sizes were not requested or the entry is not a file.
  uint64_t file_size(size_t i) const { return entries_[i].size; }
  // Modification time in nanoseconds; 0 if sizes were not requested.
  uint64_t file_time(size_t i) const { return entries_[i].time; }

 private:
  struct Entry {
    size_t name;  // offset of the name, which ends with a NUL
    uint64_t size;
    uint64_t time;
    EntryKind kind;
  };

  std::string names_;
  std::vector<Entry> entries_;
};

struct WalkedFile {
  std::string_view path;  // path below the root; valid until the callback returns
  EntryKind kind;         // never kFolder
  uint64_t size;          // as in FolderListing
  uint64_t time;
};

// Calls `visit` with each file below `root`/`folder`, at any depth. The names in a folder are
// sorted by their bytes, files and folders together; names that start with a dot are skipped. Links
// are followed, but a folder is not entered from inside itself: `loop` gets the path that leads
// back. Memory holds the names of one folder and of those that enclose it.
//
// Stops at the first error of `visit`, or if a folder cannot be read.
absl::Status WalkFolder(const std::string& root, std::string_view folder, bool with_sizes,
                        const std::function<absl::Status(const WalkedFile&)>& visit,
                        const std::function<void(std::string_view path)>& loop);

// Calls `visit` with `root` and each folder below it, at any depth, with the path below `root`
// (empty for `root`, otherwise with a slash at its end) and the names in it. A folder comes before
// its subfolders. Loops, memory and errors are as for WalkFolder.
absl::Status WalkFolders(
    const std::string& root, bool with_sizes,
    const std::function<absl::Status(std::string_view path, const FolderListing&)>& visit,
    const std::function<void(std::string_view path)>& loop);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_FOLDER_WALK_H_
