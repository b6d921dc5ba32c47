// The program of the Python package, shardfeed/bin/shardfeed: calls the command line, which is in
// the extension, so that the package does not have the library twice. Uses only the C library.

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  char path[PATH_MAX + 100] = {};  // path of this program, then of the extension
  if (readlink("/proc/self/exe", path, PATH_MAX) < 0) std::perror("shardfeed: /proc/self/exe");
  char* const name = std::strrchr(path, '/');
  std::strcpy(name != nullptr ? name : path, "/../" SHARDFEED_EXTENSION);
  // What the extension needs from an interpreter stays null; the command line does not use it.
  void* const extension = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const program = extension != nullptr ? dlsym(extension, "shardfeed_program") : nullptr;
  if (program == nullptr) {
    std::fprintf(stderr, "shardfeed: %s; reinstall the Python package\n", dlerror());
    return 3;  // the system failed: cli/terminal/console.h
  }
  return reinterpret_cast<int (*)(int, char**)>(program)(argc, argv);
}
