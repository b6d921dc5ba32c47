// Libraries of image formats that are opened when the first such image comes, so that nobody needs
// them who has none.

#ifndef SHARDFEED_DECODE_IMAGES_LOADED_LIBRARY_H_
#define SHARDFEED_DECODE_IMAGES_LOADED_LIBRARY_H_

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
  // Whether every function that was looked for is there.
  bool found_all() const { return found_all_; }

 private:
  explicit LoadedLibrary(void* handle) : handle_(handle) {}
  void* Address(const char* name);

  void* const handle_;
  bool found_all_ = true;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_LOADED_LIBRARY_H_
