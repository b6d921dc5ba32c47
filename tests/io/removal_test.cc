#include "io/removal.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

TEST(RemovalTest, RemovesFilesAndFolders) {
  const fs::path folder = fs::path(testing::TempDir()) / "removal";
  fs::create_directories(folder / "deep" / "er");
  std::vector<std::string> paths = {(folder / "deep").string(), (folder / "none").string()};
  for (int i = 0; i < 300; ++i) {
    paths.push_back((folder / std::to_string(i)).string());
    std::ofstream(paths.back()) << i;
  }
  EXPECT_EQ(RemovalThreads(1), 1);
  EXPECT_GT(RemovalThreads(paths.size()), 1);
  EXPECT_LE(RemovalThreads(1'000'000), 8);
  EXPECT_TRUE(RemoveAll(paths).ok());
  EXPECT_TRUE(fs::is_empty(folder));
  fs::remove_all(folder);
}

TEST(RemovalTest, TellsTheFirstErrorAndRemovesTheOthers) {
  const std::string file = testing::TempDir() + "/removal_of_others";
  std::ofstream(file) << 1;
  const absl::Status status = RemoveAll({"/proc/version", "/proc/uptime", file});
  EXPECT_NE(std::string(status.message()).find("/proc/version: cannot remove"), std::string::npos)
      << status;
  EXPECT_FALSE(fs::exists(file));
}

}  // namespace
}  // namespace shardfeed
