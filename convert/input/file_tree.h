// The files that a list of folders and files stands for.

#ifndef SHARDFEED_CONVERT_INPUT_FILE_TREE_H_
#define SHARDFEED_CONVERT_INPUT_FILE_TREE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "convert/input/fingerprint.h"
#include "convert/input/folder_walk.h"

namespace shardfeed {

// Each root is a folder, which stands for the files in it at any depth, or a file. Thread-safe.
class FileTree {
 public:
  explicit FileTree(std::vector<std::string> roots);

  struct Folder {
    uint32_t root;
    // Path below the root; empty, or with a slash at its end. A file's path is this and its name,
    // which is valid as long as the listing.
    std::string_view path;
    const FolderListing& listing;
  };

  // Calls `visit` with each folder, root by root, and with a folder before its subfolders; a root
  // that is a file is passed as a folder with a single name. Calls `loop` with folders that are
  // links to an enclosing folder, which are not entered.
  //
  // Stops at the first error of `visit`. NotFound and the like: a root cannot be read.
  absl::Status ForEachFolder(bool with_sizes,
                             const std::function<absl::Status(const Folder&)>& visit,
                             const std::function<void(std::string_view path)>& loop) const;

  size_t num_roots() const { return roots_.size(); }
  // Adds the name, size and time of file `i` of `folder`, from a pass with sizes, to a Source's
  // fingerprint.
  static void AddTo(Fingerprint& fingerprint, const Folder& folder, size_t i);
  // Returns the path of the root, or of a file or folder below it.
  std::string PathOf(uint32_t root, std::string_view path) const;

 private:
  struct Root {
    std::string path;
    bool is_file = false;
    uint64_t size = 0;
    uint64_t time = 0;
  };
  std::vector<Root> roots_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_FILE_TREE_H_
