#include "convert/input/path_kind.h"

#include <sys/stat.h>

namespace shardfeed {
namespace {

// 0, which is not a kind, if it cannot be looked up.
mode_t ModeOf(const std::string& path) {
  struct stat stat;
  return ::stat(path.c_str(), &stat) == 0 ? stat.st_mode : 0;
}

}  // namespace

bool IsFile(const std::string& path) { return S_ISREG(ModeOf(path)); }
bool IsFolder(const std::string& path) { return S_ISDIR(ModeOf(path)); }
bool IsPipe(const std::string& path) { return S_ISFIFO(ModeOf(path)); }

}  // namespace shardfeed
