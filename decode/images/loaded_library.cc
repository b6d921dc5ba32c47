#include "decode/images/loaded_library.h"

#include <dlfcn.h>

#include "fmt/format.h"

namespace shardfeed {

absl::StatusOr<LoadedLibrary> LoadedLibrary::Open(const char* name, const char* file,
                                                  const char* package) {
  void* const handle = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return LoadedLibrary(handle);
  const char* const error = ::dlerror();
  return absl::UnimplementedError(
      fmt::format("{} is not installed ({}): install it (on Debian: apt-get install {}), or "
                  "convert such images to JPEG or PNG",
                  name, error != nullptr ? error : file, package));
}

void* LoadedLibrary::Address(const char* name) {
  void* const address = ::dlsym(handle_, name);
  found_all_ &= address != nullptr;
  return address;
}

}  // namespace shardfeed
