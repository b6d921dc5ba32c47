// The files below a folder, in a fixed order.

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

// What a name in a folder stands for, links followed.
enum class EntryKind : uint8_t {
  kFile,
  kFolder,
  kBrokenLink,  // leads nowhere, or round in a circle
  kOther,       // a pipe, a socket or a device
};

// The names in one folder, sorted by their bytes, without those that start with a dot. About 30
// bytes a name and the name itself, so that millions can stand in one folder.
class FolderListing {
 public:
  // Sizes cost a system call a file. NotFound, FailedPrecondition (not a folder) ...: see
  // ErrnoStatus.
  static absl::StatusOr<FolderListing> Read(const std::string& folder, bool with_sizes);

  // The one name of a file that was named itself.
  static FolderListing OfFile(std::string_view name, uint64_t size, uint64_t time);

  size_t size() const { return entries_.size(); }
  // Lives as long as the listing.
  std::string_view name(size_t i) const { return names_.data() + entries_[i].name; }
  EntryKind kind(size_t i) const { return entries_[i].kind; }
  // In bytes; 0 where sizes were not asked for and for what is not a file.
  uint64_t file_size(size_t i) const { return entries_[i].size; }
  // When the file was last written, in nanoseconds; 0 where sizes were not asked for.
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
  std::string_view path;  // below the root; lives until the callback that got it returns
  EntryKind kind;         // never kFolder
  uint64_t size;          // size as in FolderListing
  uint64_t time;
};

// Calls `visit` with each file below `root`/`folder`, at any depth. The names of a folder come
// sorted by their bytes, files and folders together; those that start with a dot are passed over.
// Links are followed, but a folder is not entered from inside itself: `loop` is told the path that
// leads back. Holds the names of one folder and of those that it stands in.
//
// Ends with the first failure of `visit`, or when a folder cannot be read.
absl::Status WalkFolder(const std::string& root, std::string_view folder, bool with_sizes,
                        const std::function<absl::Status(const WalkedFile&)>& visit,
                        const std::function<void(std::string_view path)>& loop);

// Calls `visit` with `root` itself and each folder below it, at any depth: with the path below
// `root` (empty for `root`, otherwise with a slash at its end) and the names in it. A folder comes
// before those in it. Loops, memory and errors as WalkFolder has them.
absl::Status WalkFolders(
    const std::string& root, bool with_sizes,
    const std::function<absl::Status(std::string_view path, const FolderListing&)>& visit,
    const std::function<void(std::string_view path)>& loop);

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_FOLDER_WALK_H_
