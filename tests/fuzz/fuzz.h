// Helpers of fuzz targets.

#ifndef SHARDFEED_TESTS_FUZZ_FUZZ_H_
#define SHARDFEED_TESTS_FUZZ_FUZZ_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

// Ends the process, so that the fuzzer keeps the input.
#define FUZZ_EXPECT(condition)                                                      \
  do {                                                                              \
    if (!(condition)) {                                                             \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                 \
    }                                                                               \
  } while (false)

namespace shardfeed::testing {

inline std::string_view View(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file of this process with the given content; removed with the object.
class FuzzFile {
 public:
  FuzzFile(std::string_view name, std::string_view bytes) {
    const char* temporary = std::getenv("TEST_TMPDIR");
    folder_ = std::filesystem::path(temporary != nullptr ? temporary : "/dev/shm") /
              ("shardfeed-fuzz-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / name).string();
    std::ofstream(path_, std::ios::binary).write(bytes.data(), bytes.size());
  }
  ~FuzzFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  FuzzFile(const FuzzFile&) = delete;
  FuzzFile& operator=(const FuzzFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_FUZZ_FUZZ_H_
