// Libraries of image formats that are opened for the first image of the format, so that they are
// not needed without such images.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_LOADED_LIBRARY_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_LOADED_LIBRARY_H_

#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

// Stays open until the process ends. Not thread-safe.
class LoadedLibrary {
 public:
  // Opens the library `name`, whose file is `file` and which Debian has in `package`.
  // Unimplemented: it is not installed; the message names the package.
  static absl::StatusOr<LoadedLibrary> Open(const char* name, const char* file,
                                            const char* package);

  // Sets a pointer to a function, whose type is not checked.
  template <typename Function>
  void Find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(Address(name));
  }
  // Likewise, for a function that only some versions have: null if it is missing.
  template <typename Function>
  void FindIfThere(const char* name, Function* function) {
    const bool found_all = found_all_;
    Find(name, function);
    found_all_ = found_all;
  }
  // Whether every function that Find looked for exists.
  bool found_all() const { return found_all_; }

  // Discards what the code of a loaded library writes to `stderr`, for libraries that print
  // messages and cannot be told not to. `file` is the beginning of its file's name. Other code
  // still writes there. Does nothing without glibc, and on machines other than x86-64 and AArch64.
  static void Silence(std::string_view file);

 private:
  explicit LoadedLibrary(void* handle) : handle_(handle) {}
  void* Address(const char* name);

  void* const handle_;
  bool found_all_ = true;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_LOADED_LIBRARY_H_
