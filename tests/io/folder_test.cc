#include "io/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

TEST(FolderTest, ListsNames) {
  const fs::path folder = fs::path(testing::TempDir()) / "listed";
  fs::create_directories(folder / "inner" / "most");
  std::ofstream(folder / ".hidden") << 1;
  absl::StatusOr<std::vector<std::string>> names = NamesIn(folder.string());
  ASSERT_TRUE(names.ok()) << names.status();
  std::sort(names->begin(), names->end());
  EXPECT_EQ(*names, (std::vector<std::string>{".hidden", "inner"}));

  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  for (int i = 0; i < 2; ++i) {  // the position of the descriptor stays
    names = NamesIn(fd, "it");
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_EQ(names->size(), 2);
  }
  ::close(fd);
  fs::remove_all(folder);
}

TEST(FolderTest, NamesTheFolderInErrors) {
  const std::string file = testing::TempDir() + "/not_a_folder";
  std::ofstream(file) << 1;
  for (const std::string& path : {file, testing::TempDir() + "/no_folder"}) {
    const absl::Status status = NamesIn(path).status();
    EXPECT_TRUE(std::string(status.message()).starts_with(path + ": cannot list the folder: "))
        << status;
  }
  const int fd = ::open(file.c_str(), O_RDONLY);
  EXPECT_TRUE(std::string(NamesIn(fd, "it").status().message())
                  .starts_with("it: cannot list the folder: "));
  ::close(fd);
}

}  // namespace
}  // namespace shardfeed
