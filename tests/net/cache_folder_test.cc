#include "net/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "base/environment.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "net/block_file.h"
#include "tests/testing/files.h"
#include "tests/testing/waiting_child.h"

namespace shardfeed::testing {
namespace {

// A block of `bytes` of an object that is no longer.
BlockKey Key(uint64_t bytes) {
  return {CachedVersion{"http://a/o", "s3://b/o", "\"1\""}.Text(), bytes, 0};
}

class BlockFileTest : public ::testing::Test {
 protected:
  std::string Write(const BlockKey& key, std::string_view bytes) {
    const std::string path = folder_ / "block";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    EXPECT_OK(WriteBlock(fd, path, key, bytes));
    ::close(fd);
    return path;
  }

  TestFolder folder_;
};

TEST_F(BlockFileTest, AnyPartIsRead) {
  const std::string bytes = RandomBytes(100'001, 3);
  const BlockKey key = Key(bytes.size());
  const std::string path = Write(key, bytes);
  const auto block = BlockFile::Open(path, key);
  ASSERT_OK(block);
  std::minstd_rand random(1);
  for (int i = 0; i < 300; ++i) {
    const uint64_t offset = random() % (bytes.size() + 1);
    std::string into(random() % (bytes.size() - offset + 1), '\0');
    ASSERT_OK((*block)->ReadAt(offset, absl::MakeSpan(into)));
    EXPECT_TRUE(into == bytes.substr(offset, into.size()));
  }
  std::string more(2, '\0');
  EXPECT_FAILS((*block)->ReadAt(bytes.size() - 1, absl::MakeSpan(more)), kOutOfRange, "100001");
  const auto found = ReadBlockKey(path);
  ASSERT_OK(found);
  EXPECT_EQ(*found, key);
}

TEST_F(BlockFileTest, TheLastBlockOfAnObjectIsShort) {
  const BlockKey key = {"k", kCacheBlockBytes + 5, 1};
  EXPECT_EQ(key.bytes(), 5);
  EXPECT_EQ(BlockKey::NumBlocks(key.object_size), 2);
  EXPECT_OK(BlockFile::Open(Write(key, "12345"), key));
}

TEST_F(BlockFileTest, WhatIsDamagedIsNotBelieved) {
  const std::string bytes = RandomBytes(50'000, 3);
  const BlockKey key = Key(bytes.size());
  const std::string path = Write(key, bytes);
  const std::string file = ReadBytes(path);
  std::string into(bytes.size(), '\0');
  const auto read = [&](const std::string& content) -> absl::Status {
    folder_.Write("block", content);
    const auto block = BlockFile::Open(path, key);
    return block.ok() ? (*block)->ReadAt(0, absl::MakeSpan(into)) : block.status();
  };
  ASSERT_OK(read(file));
  for (size_t at = 0; at < file.size(); at += at < kBlockHeaderBytes ? 7 : 977) {
    std::string damaged = file;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_EQ(read(damaged).code(), absl::StatusCode::kDataLoss) << at;
  }
  for (const size_t size : {size_t{0}, size_t{100}, size_t{4096}, file.size() - 1}) {
    EXPECT_EQ(read(file.substr(0, size)).code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_FAILS(read(file + "x"), kDataLoss, "according to its header");
  EXPECT_FAILS(read(std::string(file.size(), '\0')), kDataLoss, "not a block of a cache");
  // After a power failure a file may have its size and no bytes.
  EXPECT_FAILS(read(file.substr(0, 4096) + std::string(bytes.size(), '\0')), kDataLoss, "CRC");
}

TEST_F(BlockFileTest, ABlockOfSomethingElseIsNotTaken) {
  const BlockKey key = Key(10);
  const std::string path = Write(key, "0123456789");
  BlockKey other = key;
  other.text += "x";
  EXPECT_FAILS(BlockFile::Open(path, other).status(), kDataLoss, "of something else");
  other = key;
  other.object_size = 11;
  EXPECT_FAILS(BlockFile::Open(path, other).status(), kDataLoss, "of something else");
  EXPECT_FAILS(BlockFile::Open(folder_ / "none", key).status(), kNotFound, "none");
}

TEST(CachedVersion, TextsAndDatasets) {
  const CachedVersion of = {"https://h/b/k", "s3://b/k", "\"e\""};
  const CachedVersion parsed = CachedVersion::Parse(of.Text());
  EXPECT_EQ(parsed.address, of.address);
  EXPECT_EQ(parsed.path, of.path);
  EXPECT_EQ(parsed.version, of.version);
  EXPECT_EQ(CachedVersion::Parse("").path, "");
  EXPECT_EQ(CachedDatasetOf("s3://b/f/train-00003-of-00064"), "s3://b/f/train");
  EXPECT_EQ(CachedDatasetOf("s3://b/f/train-00003-of-00064.tfrecord.gz"), "s3://b/f/train");
  EXPECT_EQ(CachedDatasetOf("s3://b/f/.shardfeed/train-00003-of-00064.index"), "s3://b/f/train");
  EXPECT_EQ(CachedDatasetOf("s3://b/f/any.tfrecord"), "s3://b/f");
  EXPECT_EQ(CachedDatasetOf("s3://b/f/x-of-3"), "s3://b/f");
}

class CacheFolderTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 100'000;
  static constexpr uint64_t kFile = kBlockHeaderBytes + kBytes;

  CacheFolderTest() { opened_ = *OpenCacheFolder(folder_ / "cache", /*create=*/true); }
  ~CacheFolderTest() override { ::close(opened_.fd); }

  static BlockName Name(uint64_t dataset, uint64_t object, uint64_t version = 1) {
    return {dataset, object, version, 0};
  }
  // False: there is no room.
  bool Add(CacheFolder& folder, const BlockName& name, uint64_t limit) {
    const auto fd = folder.Reserve(name, kFile, limit);
    EXPECT_OK(fd);
    if (!fd.ok() || !*fd) return false;
    EXPECT_OK(WriteBlock(**fd, "block", Key(kBytes), std::string(kBytes, 'x')));
    EXPECT_OK(folder.Keep(name, **fd, kFile));
    return true;
  }
  static bool Has(const CacheFolder& folder, const BlockName& name) {
    return ::access(folder.PathOf(name).c_str(), F_OK) == 0;
  }
  static uint64_t Bytes(const CacheFolder& folder) {
    const auto listing = folder.List();
    EXPECT_OK(listing);
    return listing->bytes;
  }
  // Datasets are let go in the order of these.
  static void SetUsed(const CacheFolder& folder, uint64_t dataset, std::time_t time) {
    const std::timespec times[2] = {{time, 0}, {time, 0}};
    const std::string path = folder.PathOf(Name(dataset, 1));
    ASSERT_EQ(::utimensat(AT_FDCWD, path.substr(0, path.rfind('/')).c_str(), times, 0), 0);
  }
  // Another process, which does `work` and then waits until it is killed.
  template <typename Work>
  pid_t Other(Work work) {
    return StartWaitingChild([&] {
      auto* const folder = new CacheFolder(opened_);  // never destroyed, which keeps its locks
      work(*folder);
    });
  }

  TestFolder folder_;
  OpenedCacheFolder opened_;
};

TEST_F(CacheFolderTest, WhatIsNoCacheIsRefused) {
  const auto open = [&](const std::string& path, bool create = true) {
    return OpenCacheFolder(path, create).status();
  };
  EXPECT_FAILS(open(""), kInvalidArgument, "a cache is a folder of this machine");
  EXPECT_FAILS(open("s3://bucket/cache"), kInvalidArgument, "a folder of this machine");
  EXPECT_FAILS(open("s3:/bucket/cache"), kInvalidArgument, "two slashes after its scheme");
  EXPECT_FAILS(open(folder_.Write("file", "x")), kInvalidArgument, "a folder, not a file");
  folder_.Write("full/x", "x");
  EXPECT_FAILS(open(folder_ / "full"), kInvalidArgument, "not empty; name a new folder");
  EXPECT_FAILS(open(folder_ / "full", false), kNotFound, "not a cache of shardfeed");
  EXPECT_FAILS(open(folder_ / "none", false), kNotFound, "none");
  folder_.Write("later/shardfeed-cache", "SFCACHE9");
  EXPECT_FAILS(open(folder_ / "later"), kInvalidArgument, "this version of shardfeed knows");
  if (::geteuid() != 0) {
    EXPECT_FAILS(open("/"), kPermissionDenied, "belongs to another user");
  }
  EXPECT_OK(open(folder_ / "a/b/c"));
  struct stat info;
  ASSERT_EQ(::stat((folder_ / "a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700);
}

TEST_F(CacheFolderTest, AFileSystemKeepsItsReserve) {
  OpenedCacheFolder opened = opened_;
  opened.reserve = UINT64_MAX;
  CacheFolder full(opened);
  EXPECT_FAILS(full.Reserve(Name(1, 1), kFile, UINT64_MAX).status(), kResourceExhausted,
               "of which a cache leaves 18446744073709551615; free some");
  const auto again = full.Reserve(Name(1, 1), kFile, UINT64_MAX);  // it does not look again yet
  ASSERT_OK(again);
  EXPECT_FALSE(again->has_value());
  opened.reserve = 0;
  CacheFolder folder(opened);
  EXPECT_TRUE(Add(folder, Name(1, 1), UINT64_MAX));
}

TEST(OpenCacheFolder, TheReserveIsOfTheEnvironment) {
  const TestFolder folder;
  const auto open = [&](const char* reserve) {
    const std::string before = Env("SHARDFEED_CACHE_RESERVE");
    setenv("SHARDFEED_CACHE_RESERVE", reserve, 1);
    auto opened = OpenCacheFolder(folder / "cache", /*create=*/true);
    setenv("SHARDFEED_CACHE_RESERVE", before.c_str(), 1);
    return opened;
  };
  const auto opened = open("12345678901234");
  ASSERT_OK(opened);
  EXPECT_EQ(opened->reserve, 12345678901234);
  ::close(opened->fd);
  for (const char* text : {"-1", "5%", "10GiB", " 1", "99999999999999999999"}) {
    EXPECT_FAILS(
        open(text).status(), kInvalidArgument,
        fmt::format("SHARDFEED_CACHE_RESERVE: expected a number of bytes, got '{}'", text));
  }
}

TEST_F(CacheFolderTest, NoMoreThanTheLimitIsKept) {
  CacheFolder folder(opened_);
  folder.Use(1, 1, 1);
  EXPECT_TRUE(Add(folder, Name(1, 1), 2 * kFile));
  EXPECT_TRUE(Add(folder, Name(1, 2), 2 * kFile));
  EXPECT_FALSE(Add(folder, Name(1, 3), 2 * kFile));
  EXPECT_TRUE(Has(folder, Name(1, 1)));
  EXPECT_EQ(Bytes(folder), 2 * kFile);
  EXPECT_OK(folder.Remove(Name(1, 1)));
  EXPECT_OK(folder.Remove(Name(1, 1)));
  EXPECT_TRUE(Add(folder, Name(1, 3), 2 * kFile));
  EXPECT_FALSE(Add(folder, Name(1, 4), kFile / 2));
}

TEST_F(CacheFolderTest, DatasetsThatAreNotReadGoOldestFirst) {
  CacheFolder folder(opened_);
  for (uint64_t dataset = 1; dataset <= 3; ++dataset) {
    EXPECT_TRUE(Add(folder, Name(dataset, dataset), 3 * kFile));
  }
  SetUsed(folder, 1, 2000);
  SetUsed(folder, 2, 1000);
  SetUsed(folder, 3, 3000);
  folder.Use(4, 4, 1);
  EXPECT_TRUE(Add(folder, Name(4, 4), 3 * kFile));
  EXPECT_FALSE(Has(folder, Name(2, 2)));
  EXPECT_TRUE(Has(folder, Name(1, 1)));
  folder.Use(1, 1, 1);
  EXPECT_TRUE(Add(folder, Name(4, 5), 3 * kFile));
  EXPECT_TRUE(Has(folder, Name(1, 1)));
  EXPECT_FALSE(Has(folder, Name(3, 3)));
  EXPECT_FALSE(Add(folder, Name(4, 6), 3 * kFile));
  folder.Release(1, 1, 1);
  EXPECT_TRUE(Add(folder, Name(4, 6), 3 * kFile));
  EXPECT_FALSE(Has(folder, Name(1, 1)));
}

TEST_F(CacheFolderTest, WhatOtherProcessesReadStaysUntilTheyEnd) {
  CacheFolder folder(opened_);
  EXPECT_TRUE(Add(folder, Name(1, 1), kFile));
  const pid_t other = Other([](CacheFolder& theirs) { theirs.Use(1, 1, 1); });
  EXPECT_FALSE(Add(folder, Name(2, 2), kFile));
  const auto listing = folder.List();
  ASSERT_OK(listing);
  ASSERT_EQ(listing->entries.size(), 1);
  EXPECT_TRUE(listing->entries[0].in_use);
  KillChild(other);
  CacheFolder again(opened_);  // one that has not just found no room
  EXPECT_TRUE(Add(again, Name(2, 2), kFile));
}

TEST_F(CacheFolderTest, LocksEndWithTheirProcess) {
  CacheFolder folder(opened_);
  const BlockName name = Name(1, 1);
  const pid_t other = Other([&](CacheFolder& theirs) {
    if (!theirs.TryLock(name)) ::_exit(1);
  });
  EXPECT_FALSE(folder.TryLock(name));
  EXPECT_TRUE(folder.TryLock(Name(1, 2)));
  KillChild(other);
  EXPECT_TRUE(folder.TryLock(name));
}

TEST_F(CacheFolderTest, WhatAKilledProcessBeganIsRemoved) {
  CacheFolder folder(opened_);
  const BlockName name = Name(1, 1);
  const pid_t other = Other([&](CacheFolder& theirs) {
    if (!theirs.TryLock(name) || !theirs.Reserve(name, kFile, 2 * kFile).ok()) ::_exit(1);
  });
  EXPECT_EQ(Bytes(folder), kFile);
  folder.Use(2, 2, 1);
  EXPECT_TRUE(Add(folder, Name(2, 2), 2 * kFile));
  EXPECT_FALSE(Add(folder, Name(2, 3), 2 * kFile));  // it lives
  KillChild(other);
  CacheFolder again(opened_);
  again.Use(2, 2, 1);
  EXPECT_TRUE(Add(again, Name(2, 3), 2 * kFile));
  EXPECT_EQ(Bytes(again), 2 * kFile);
  // And whoever fetches the block next takes the place of what was begun.
  const pid_t third = Other([&](CacheFolder& theirs) {
    if (!theirs.TryLock(name) || !theirs.Reserve(name, kFile, 9 * kFile).ok()) ::_exit(1);
  });
  KillChild(third);
  EXPECT_TRUE(Add(again, name, 9 * kFile));
}

TEST_F(CacheFolderTest, WhatIsUsedIsCountedAnewWhereTheNumberLies) {
  CacheFolder folder(opened_);
  EXPECT_TRUE(Add(folder, Name(1, 1), 4 * kFile));
  folder.Use(1, 1, 1);
  const std::string state = CacheStatePath(opened_.path);
  // Garbage; a number that is too large, as after a kill; nothing.
  for (int i = 0; i < 3; ++i) {
    std::string bytes = ReadBytes(state);
    ASSERT_EQ(bytes.size(), 24);
    if (i == 0) bytes[9] = 'x';
    if (i == 1) {
      for (int b = 0; b < 8; ++b) {
        bytes[8 + b] = static_cast<char>(b < 6 ? 0xff : 0);
        bytes[16 + b] = static_cast<char>(~bytes[8 + b]);
      }
    }
    const int fd = ::open(state.c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), 0), 24);
    if (i == 2) {
      ASSERT_EQ(::ftruncate(fd, 8), 0);
    }
    ::close(fd);
    // Closing drops the locks of this process; only a test opens the folder twice.
    EXPECT_TRUE(Add(folder, Name(1, 2 + i), 4 * kFile)) << i;
  }
  EXPECT_FALSE(Add(folder, Name(1, 9), 4 * kFile));
  EXPECT_EQ(Bytes(folder), 4 * kFile);
}

TEST_F(CacheFolderTest, ReplacedObjectsGoFirst) {
  CacheFolder folder(opened_);
  EXPECT_TRUE(Add(folder, Name(1, 1, 1), 2 * kFile));
  EXPECT_TRUE(Add(folder, Name(1, 2, 1), 2 * kFile));
  folder.Use(1, 1, 2);
  folder.Use(1, 2, 1);
  EXPECT_TRUE(Add(folder, Name(1, 1, 2), 2 * kFile));
  EXPECT_FALSE(Has(folder, Name(1, 1, 1)));
  EXPECT_TRUE(Has(folder, Name(1, 2, 1)));
}

TEST_F(CacheFolderTest, TrimAndClear) {
  CacheFolder folder(opened_);
  for (uint64_t dataset = 1; dataset <= 3; ++dataset) {
    EXPECT_TRUE(Add(folder, Name(dataset, dataset), 9 * kFile));
    SetUsed(folder, dataset, static_cast<std::time_t>(dataset));
  }
  const std::string foreign = folder_.Write("cache/notes/mine.txt", "x");
  folder.Use(1, 1, 1);
  EXPECT_EQ(folder.Trim(2 * kFile).value_or(0), 2 * kFile);
  EXPECT_TRUE(Has(folder, Name(1, 1)));
  EXPECT_FALSE(Has(folder, Name(2, 2)));
  EXPECT_EQ(folder.Trim(0).value_or(0), kFile);  // in use
  EXPECT_TRUE(Has(folder, Name(1, 1)));
  EXPECT_EQ(folder.Clear().value_or(0), kFile);
  EXPECT_FALSE(Has(folder, Name(1, 1)));
  EXPECT_EQ(Bytes(folder), 0);
  EXPECT_EQ(ReadBytes(foreign), "x");
  EXPECT_TRUE(Add(folder, Name(1, 1), kFile));
}

TEST_F(CacheFolderTest, ShrinksWhatNobodyReads) {
  CacheFolder folder(opened_);
  for (uint64_t dataset = 1; dataset <= 3; ++dataset) {
    EXPECT_TRUE(Add(folder, Name(dataset, dataset), 9 * kFile));
    SetUsed(folder, dataset, static_cast<std::time_t>(dataset));
  }
  folder.Use(1, 1, 1);
  EXPECT_OK(folder.Shrink(3 * kFile));
  EXPECT_EQ(Bytes(folder), 3 * kFile);
  EXPECT_OK(folder.Shrink(kFile - 1));
  EXPECT_EQ(Bytes(folder), kFile);
  EXPECT_TRUE(Has(folder, Name(1, 1)));
}

TEST_F(CacheFolderTest, WhatIsNoBlockIsRemovedUnlessItHasSomethingInIt) {
  CacheFolder folder(opened_);
  EXPECT_TRUE(Add(folder, Name(1, 1), 9 * kFile));
  EXPECT_EQ(::mkfifo(folder.PathOf(Name(1, 2)).c_str(), 0600), 0);
  EXPECT_EQ(::symlink("/dev/null", folder.PathOf(Name(1, 3)).c_str()), 0);
  std::filesystem::create_directory(folder.PathOf(Name(1, 4)));
  for (uint64_t number = 2; number <= 4; ++number) {
    EXPECT_OK(folder.Remove(Name(1, number)));
    EXPECT_FALSE(Has(folder, Name(1, number)));
  }
  EXPECT_EQ(Bytes(folder), kFile);
  std::filesystem::create_directories(folder.PathOf(Name(1, 5)) + "/mine");
  EXPECT_FAILS(folder.Remove(Name(1, 5)), kUnavailable, "cannot remove");
}

TEST_F(CacheFolderTest, ListingsTellDatasetsAndDamage) {
  CacheFolder folder(opened_);
  EXPECT_TRUE(Add(folder, Name(1, 1), 9 * kFile));
  EXPECT_TRUE(Add(folder, Name(1, 2), 9 * kFile));
  const std::string path = folder.PathOf(Name(1, 2));
  ASSERT_EQ(::truncate(path.c_str(), 17), 0);
  const auto listing = folder.List();
  ASSERT_OK(listing);
  ASSERT_EQ(listing->entries.size(), 1);
  const CacheEntry& entry = listing->entries[0];
  EXPECT_EQ(entry.dataset, "s3://b");
  EXPECT_EQ(entry.path, "s3://b/o");
  EXPECT_EQ(entry.version, "\"1\"");
  EXPECT_EQ(entry.blocks, 1);
  EXPECT_EQ(entry.object_bytes, kBytes);
  EXPECT_FALSE(entry.in_use);
  EXPECT_EQ(listing->damaged_files, 1);
  EXPECT_EQ(listing->bytes, kFile + 17);
}

TEST_F(CacheFolderTest, AFolderThatVanishesIsAnError) {
  CacheFolder folder(opened_);
  std::filesystem::remove_all(opened_.path);
  EXPECT_FAILS(folder.Reserve(Name(1, 1), kFile, 9 * kFile).status(), kNotFound, "/cache: cannot");
}

}  // namespace
}  // namespace shardfeed::testing
