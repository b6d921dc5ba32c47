#include "io/page_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "io/file.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

TEST(PageCache, KnowsWhatIsCached) {
  TestFolder folder;
  const std::string bytes(1 << 20, 'x');
  const auto file = *File::Open(folder.Write("f", bytes));
  std::string read(bytes.size(), '\0');
  ASSERT_OK(file->ReadExactlyAt(0, absl::MakeSpan(read)));
  const auto cached = CachedBytes(*file, 0, bytes.size());
  ASSERT_OK(cached);
  EXPECT_EQ(*cached, 1 << 20);
  EXPECT_EQ(*CachedBytes(*file, 8192, 16384), 8192);
  EXPECT_EQ(*CachedBytes(*file, (1 << 20) - 4096, 1 << 21), 4096);
  EXPECT_EQ(*CachedBytes(*file, 1 << 20, 1 << 21), 0);
  DropFromCache(*file);
  EXPECT_LE(*CachedBytes(*file, 0, bytes.size()), 1 << 20);
  const auto empty = *File::Open(folder.Write("e", ""));
  EXPECT_EQ(*CachedBytes(*empty, 0, 0), 0);
  EXPECT_GT(FreeMemoryBytes(), 0);
}

}  // namespace
}  // namespace shardfeed
