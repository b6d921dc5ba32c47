#include "io/removal.h"

#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>
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

TEST(RemovalTest, RemovesLinksAndNotWhatTheyLeadTo) {
  const fs::path folder = fs::path(testing::TempDir()) / "removal_of_links";
  fs::create_directories(folder / "kept");
  fs::create_directories(folder / "removed");
  std::ofstream(folder / "kept" / "file") << 1;
  fs::create_symlink(folder / "kept", folder / "removed" / "link");
  fs::create_symlink(folder / "kept", folder / "link");
  EXPECT_TRUE(RemoveTree((folder / "removed").string()).ok());
  EXPECT_TRUE(RemoveTree((folder / "link").string()).ok());
  EXPECT_FALSE(fs::exists(folder / "removed"));
  EXPECT_FALSE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::exists(folder / "kept" / "file"));
  EXPECT_TRUE(RemoveTree((folder / "kept" / "file" / "below").string()).ok());
  EXPECT_TRUE(fs::exists(folder / "kept" / "file"));
  fs::remove_all(folder);
}

TEST(RemovalTest, RemovesWhatOthersCreateMeanwhile) {
  const fs::path folder = fs::path(testing::TempDir()) / "removal_meanwhile";
  fs::create_directories(folder);
  std::jthread creates([&folder](std::stop_token stop) {
    for (int i = 0; i < 200 && !stop.stop_requested(); ++i) {
      std::ofstream(folder / std::to_string(i)) << i;
    }
  });
  const absl::Status status = RemoveTree(folder.string());
  EXPECT_TRUE(status.ok()) << status;
  creates.join();
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace shardfeed
