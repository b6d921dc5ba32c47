// Helpers of tests for files and Status.

#ifndef SHARDFEED_TESTS_TESTING_FILES_H_
#define SHARDFEED_TESTS_TESTING_FILES_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

#define EXPECT_OK(expression)                                                \
  do {                                                                       \
    const absl::Status status_ = ::shardfeed::testing::StatusOf(expression); \
    EXPECT_TRUE(status_.ok()) << status_.ToString();                         \
  } while (false)
#define ASSERT_OK(expression)                                                \
  do {                                                                       \
    const absl::Status status_ = ::shardfeed::testing::StatusOf(expression); \
    ASSERT_TRUE(status_.ok()) << status_.ToString();                         \
  } while (false)

// Expects that the expression fails with `code`, and that its message contains `text`.
#define EXPECT_FAILS(expression, code_, text)                                 \
  do {                                                                        \
    const absl::Status status_ = ::shardfeed::testing::StatusOf(expression);  \
    EXPECT_EQ(status_.code(), absl::StatusCode::code_) << status_.ToString(); \
    EXPECT_THAT(std::string(status_.message()), ::testing::HasSubstr(text));  \
  } while (false)

// For tests that fork beside running threads. ThreadSanitizer starts no threads in a child;
// AddressSanitizer's allocator (g++ 12) may be locked by another thread at that moment, and then
// stays locked in the child, which waits forever.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SKIP_WHERE_THREADS_HINDER_FORK() \
  GTEST_SKIP() << "no fork beside running threads under a sanitizer"
#else
#define SKIP_WHERE_THREADS_HINDER_FORK() static_cast<void>(0)
#endif

// What stands before the path of a folder in its name: empty, or, in suites that run over a store
// (in_store.cc), the bucket of a server that has the files of this machine as its objects.
inline std::string& FolderPrefix() {
  static std::string prefix;
  return prefix;
}

// The file that a path or a URL of a TestFolder names.
inline std::string OnDisk(const std::string& name) {
  return name.substr(name.starts_with(FolderPrefix()) ? FolderPrefix().size() : 0);
}

inline bool OverStore() { return !FolderPrefix().empty(); }

// For tests of what only folders have.
#define SKIP_OVER_STORE(reason) \
  if (::shardfeed::testing::OverStore()) GTEST_SKIP() << "not over a store: " << reason

// A folder of the test's own, empty at first, removed with it. Its names are paths, or URLs where
// the suite runs over a store.
class TestFolder {
 public:
  TestFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "." + info->name();
    for (char& c : name) {
      if (c == '/') c = '_';
    }
    path_ = std::filesystem::path(::testing::TempDir()) / name;
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string operator/(std::string_view name) const {
    return FolderPrefix() + (path_ / name).string();
  }
  std::string path() const { return FolderPrefix() + path_.string(); }

  std::string Write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
    return FolderPrefix() + path.string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(OnDisk(path), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string RandomBytes(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_FILES_H_
