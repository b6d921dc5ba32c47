#include "net/block_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/buffer.h"
#include "net/open.h"
#include "net/remote_engine.h"
#include "net/remote_file.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"
#include "tests/testing/waiting_child.h"

namespace shardfeed::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kFile = kBlockHeaderBytes + kCacheBlockBytes;

class BlockCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("SHARDFEED_NET_SECONDS", "20", 1);
    setenv("SHARDFEED_NET_HEDGED_PERCENT", "0", 1);  // the tests count requests
    server_.Put("/object", bytes_);
  }
  std::shared_ptr<BlockCache> Cache(std::optional<uint64_t> max_bytes = std::nullopt) {
    auto cache = BlockCache::Open(folder_ / "cache", max_bytes);
    EXPECT_OK(cache);
    serving_ = BlockCache::Serve(*cache, {});
    return *cache;
  }
  std::shared_ptr<File> Open(const std::string& name = "/object") {
    absl::StatusOr<std::shared_ptr<File>> file = OpenFile(server_.url() + name);
    EXPECT_OK(file);
    server_.ForgetRequests();
    return *file;
  }
  static absl::StatusOr<std::string> TryRead(const File& file, uint64_t offset, size_t size) {
    std::string into(size, '\0');
    const absl::StatusOr<size_t> n = file.ReadAt(offset, absl::MakeSpan(into));
    if (!n.ok()) return n.status();
    into.resize(*n);
    return into;
  }
  static std::string ReadAt(const File& file, uint64_t offset, size_t size) {
    const auto read = TryRead(file, offset, size);
    EXPECT_OK(read);
    return read.value_or("");
  }
  // All of the file by ranges of `length`, in an order of `seed`, `depth` at once.
  static std::string ReadByEngine(const std::shared_ptr<const File>& file, uint64_t length,
                                  unsigned seed, int depth = 8) {
    const auto engine = MakeRemoteEngine(depth, nullptr);
    std::vector<ReadRequest> requests;
    for (uint64_t at = 0; at < file->size(); at += length) {
      requests.push_back({file, at, std::min(length, file->size() - at), requests.size()});
    }
    if (seed > 0) std::shuffle(requests.begin(), requests.end(), std::minstd_rand(seed));
    engine->Submit(requests);
    std::string all(file->size(), '\0');
    std::vector<ReadResult> results;
    while (engine->outstanding() > 0) {
      results.clear();
      engine->Wait(1, &results);
      for (const ReadResult& result : results) {
        EXPECT_OK(result.status);
        std::copy(result.data.begin(), result.data.end(), all.begin() + result.tag * length);
      }
    }
    return all;
  }
  // The bytes that were asked for.
  uint64_t Moved() const {
    uint64_t bytes = 0;
    for (const SeenRequest& request : server_.requests()) {
      const auto it = request.headers.find("range");
      if (it == request.headers.end()) continue;
      unsigned long long first = 0;
      unsigned long long last = 0;
      EXPECT_EQ(std::sscanf(it->second.c_str(), "bytes=%llu-%llu", &first, &last), 2);
      bytes += last - first + 1;
    }
    return bytes;
  }
  std::vector<std::string> Blocks() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "cache")) {
      const std::string name = entry.path().filename();
      if (entry.is_regular_file() && name != "shardfeed-cache") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  // A process that has locked all blocks.
  pid_t Hog() {
    const std::string state = CacheStatePath(folder_ / "cache");
    return StartWaitingChild([&] {  // nothing but system calls, for other threads may have locks
      struct flock lock = {};
      lock.l_type = F_WRLCK;
      lock.l_start = 1;
      lock.l_len = int64_t{1} << 61;
      const int fd = ::open(state.c_str(), O_RDWR);
      if (::fcntl(fd, F_SETLK, &lock) != 0) ::_exit(1);
    });
  }

  TestFolder folder_;
  FaultServer server_;
  const std::string bytes_ = RandomBytes(20'000'000, 7);  // 3 blocks
  std::shared_ptr<const void> serving_;
};

TEST_F(BlockCacheTest, WhatWasReadIsNotAskedForAgain) {
  Cache();
  {
    const std::shared_ptr<File> file = Open();
    std::string read;
    while (read.size() < bytes_.size()) read += ReadAt(*file, read.size(), 100'000);
    EXPECT_TRUE(read == bytes_);
    EXPECT_EQ(server_.requests().size(), 3);
    EXPECT_EQ(Moved(), bytes_.size());
  }
  EXPECT_EQ(Blocks().size(), 3);
  const std::shared_ptr<File> file = Open();
  EXPECT_EQ(ReadAt(*file, 12'000'000, 100), bytes_.substr(12'000'000, 100));
  EXPECT_TRUE(ReadAt(*file, 0, bytes_.size() + 9) == bytes_);
  for (const uint64_t length : {100'000, 1'000'003, 8'388'608, 20'000'000}) {
    for (unsigned seed = 0; seed < 3; ++seed) {
      EXPECT_TRUE(ReadByEngine(file, length, seed) == bytes_) << length;
    }
  }
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(BlockCacheTest, AnEngineFetchesEachBlockOnce) {
  for (const uint64_t length : {100'000, 1'000'003, 20'000'000}) {
    for (unsigned seed = 0; seed < 2; ++seed) {
      const std::string name = fmt::format("/object{}-{}", length, seed);
      server_.Put(name, bytes_);
      Cache();
      EXPECT_TRUE(ReadByEngine(Open(name), length, seed, 4) == bytes_) << length;
      EXPECT_EQ(server_.requests().size(), 3);
      EXPECT_EQ(Moved(), bytes_.size());
    }
  }
}

TEST_F(BlockCacheTest, ManyThreadsFetchEachBlockOnce) {
  Cache();
  const std::shared_ptr<File> file = Open();
  server_.SetFaults([](const SeenRequest&) {
    return Fault{.kind = Fault::kDelay, .wait = std::chrono::milliseconds(50)};
  });
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      EXPECT_TRUE(ReadByEngine(file, 1'000'000, seed) == bytes_);
      EXPECT_TRUE(ReadAt(*file, seed, bytes_.size()) == bytes_.substr(seed));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_.requests().size(), 3);
}

TEST_F(BlockCacheTest, AReplacedObjectIsNotServedFromTheOldOne) {
  Cache();
  EXPECT_EQ(ReadAt(*Open(), 0, 100'000), bytes_.substr(0, 100'000));
  const std::string other = RandomBytes(20'000'000, 8);
  server_.Put("/object", other);
  EXPECT_EQ(ReadAt(*Open(), 50, 100'000), other.substr(50, 100'000));
  // The blocks of an open file that are in the cache stay readable; the store does not have the
  // others any more.
  const std::shared_ptr<File> file = Open();
  server_.Put("/object", bytes_);
  EXPECT_EQ(ReadAt(*file, 0, 100'000), other.substr(0, 100'000));
  EXPECT_FAILS(TryRead(*file, 19'000'000, 100'000).status(), kAborted, "was replaced");
}

TEST_F(BlockCacheTest, ObjectsWithoutAVersionAreNotKept) {
  server_.SetFaults([](const SeenRequest&) { return Fault{.kind = Fault::kNoTag}; });
  Cache();
  const std::shared_ptr<File> file = Open();
  EXPECT_EQ(static_cast<const RemoteFile&>(*file).cached(), nullptr);
  EXPECT_TRUE(ReadByEngine(file, 5'000'000, 0) == bytes_);
  EXPECT_TRUE(Blocks().empty());
}

TEST_F(BlockCacheTest, ErrorsOfTheStoreAreThoseOfReading) {
  Cache();
  const std::shared_ptr<File> file = Open();
  server_.SetFaults(
      [](const SeenRequest&) { return Fault{.kind = Fault::kStatus, .status = 403}; });
  EXPECT_FAILS(TryRead(*file, 0, 100).status(), kPermissionDenied, "does not allow");
  const auto engine = MakeRemoteEngine(2, nullptr);
  engine->Submit(std::vector<ReadRequest>{{file, 5, 10, 1}});
  std::vector<ReadResult> results;
  engine->Wait(1, &results);
  ASSERT_EQ(results.size(), 1);
  EXPECT_FAILS(results[0].status, kPermissionDenied, "does not allow");
  EXPECT_TRUE(Blocks().empty());
  server_.SetFaults(nullptr);
  EXPECT_EQ(ReadAt(*file, 0, 100), bytes_.substr(0, 100));
}

TEST_F(BlockCacheTest, AnEngineReadsInWaitUntilSeveralBlocksWereMissing) {
  const auto cache = Cache();
  const std::shared_ptr<File> file = Open();
  const auto engine = MakeRemoteEngine(4, nullptr, {.cached = true});
  const auto read = [&](uint64_t offset) {
    engine->Submit(std::vector<ReadRequest>{{file, offset, 10, 1}});
    std::vector<ReadResult> results;
    engine->Wait(1, &results);
    ASSERT_EQ(results.size(), 1);
    ASSERT_OK(results[0].status);
    EXPECT_EQ(results[0].data, bytes_.substr(offset, 10));
  };
  EXPECT_FALSE(MakeRemoteEngine(4, nullptr)->reads_in_wait());
  for (int round = 0; round < 4; ++round) {
    EXPECT_TRUE(engine->reads_in_wait());
    read(5);
    read(5);
    for (const std::string& block : Blocks()) std::filesystem::remove(block);
  }
  EXPECT_FALSE(engine->reads_in_wait());
  read(5);
}

TEST_F(BlockCacheTest, ASmallReadFetchesNoBlockUnlessItFollows) {
  Cache();
  const std::shared_ptr<File> file = Open();
  EXPECT_EQ(ReadAt(*file, 12'000'000, 100), bytes_.substr(12'000'000, 100));
  EXPECT_TRUE(Blocks().empty());
  EXPECT_EQ(ReadAt(*file, 12'000'100, 100), bytes_.substr(12'000'100, 100));
  EXPECT_EQ(Blocks().size(), 1);
  server_.ForgetRequests();
  EXPECT_EQ(ReadAt(*file, 9'000'000, 100), bytes_.substr(9'000'000, 100));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(BlockCacheTest, StoresOfOtherEndpointsHaveBlocksOfTheirOwn) {
  const auto cache = Cache();
  const auto name = [&](const char* endpoint, const std::string& path, const char* version) {
    setenv("AWS_ENDPOINT_URL", endpoint, 1);
    const auto store = Store::Of(path);
    EXPECT_OK(store);
    const auto object = cache->Object({.path = path, .size = 10, .version = version}, **store);
    EXPECT_NE(object, nullptr);
    return std::pair(object->NameOf(0), object->KeyOf(0).text);
  };
  setenv("AWS_NO_SIGN_REQUEST", "1", 1);
  const auto first = name("http://127.0.0.1:1", "s3://b/train-00000-of-00001", "\"1\"");
  EXPECT_EQ(name("http://127.0.0.1:1", "s3://b/train-00000-of-00001", "\"1\""), first);
  const auto other = name("http://127.0.0.1:2", "s3://b/train-00000-of-00001", "\"1\"");
  EXPECT_NE(other.first.dataset, first.first.dataset);
  EXPECT_NE(other.first.object, first.first.object);
  EXPECT_NE(other.second, first.second);
  const auto newer = name("http://127.0.0.1:1", "s3://b/train-00000-of-00001", "\"2\"");
  EXPECT_EQ(newer.first.object, first.first.object);
  EXPECT_NE(newer.first.version, first.first.version);
  // What a URL's query tells is nobody else's business: it may be a secret.
  const auto secret = name("http://127.0.0.1:1", "http://h/o?key=hush", "\"1\"");
  EXPECT_EQ(secret.second.find("hush"), std::string::npos);
  EXPECT_NE(name("http://127.0.0.1:1", "http://h/o?key=other", "\"1\""), secret);
  unsetenv("AWS_ENDPOINT_URL");
}

TEST_F(BlockCacheTest, DamagedBlocksAreFetchedAnew) {
  Cache();
  ReadAt(*Open(), 0, bytes_.size());
  const std::vector<std::string> blocks = Blocks();
  ASSERT_EQ(blocks.size(), 3);
  const auto damage = [&] {
    const auto flip = [](const std::string& path, uint64_t at) {
      std::string content = ReadBytes(path);
      content[at] = static_cast<char>(content[at] ^ 1);
      std::ofstream(path, std::ios::binary).write(content.data(), content.size());
    };
    flip(blocks[0], 5'000'000);
    flip(blocks[1], 100);
    ASSERT_EQ(::truncate(blocks[2].c_str(), 0), 0);
    server_.ForgetRequests();
  };
  const uint64_t damaged = GetBlockCacheStats().damaged;
  damage();
  EXPECT_TRUE(ReadAt(*Open(), 0, bytes_.size()) == bytes_);
  EXPECT_GE(GetBlockCacheStats().damaged, damaged + 3);
  EXPECT_EQ(Blocks().size(), 3);
  damage();
  EXPECT_TRUE(ReadByEngine(Open(), 1'000'000, 1) == bytes_);
  EXPECT_TRUE(ReadByEngine(Open(), 1'000'000, 2) == bytes_);
  server_.ForgetRequests();
  const std::shared_ptr<File> file = Open();
  EXPECT_TRUE(ReadByEngine(file, 1'000'000, 3) == bytes_);
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(BlockCacheTest, OneThatIsOpenedSmallerShrinks) {
  Cache();
  ReadAt(*Open(), 0, bytes_.size());
  EXPECT_EQ(Blocks().size(), 3);
  // A block that is only just there may still be in use, and then stays for now.
  Cache(2 * kFile);
  for (int i = 0; i < 1000 && Blocks().size() > 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    Cache(2 * kFile);
  }
  EXPECT_EQ(Blocks().size(), 2);
}

// Bytes that the caller compares with checksums of its own are not compared twice, and the caller
// learns it.
TEST_F(BlockCacheTest, BytesWithChecksumsAreNotCompared) {
  Cache();
  const std::shared_ptr<File> file = Open();
  ReadAt(*file, 0, bytes_.size());
  const std::string block = Blocks()[0];
  std::string content = ReadBytes(block);
  content[kBlockHeaderBytes + 1000] = static_cast<char>(content[kBlockHeaderBytes + 1000] ^ 1);
  std::ofstream(block, std::ios::binary).write(content.data(), content.size());
  const std::string whole = content.substr(kBlockHeaderBytes);
  const auto read = [&](bool has_checksums) {
    const auto engine = MakeRemoteEngine(1, nullptr);
    ReadRequest request = {file, 0, whole.size()};
    // Hashes determine which of the three blocks it is.
    while (request.offset < bytes_.size() &&
           bytes_.compare(request.offset + 2000, 100, whole, 2000, 100) != 0) {
      request.offset += kCacheBlockBytes;
    }
    request.has_checksums = has_checksums;
    engine->Submit({&request, 1});
    std::vector<ReadResult> results;
    engine->Wait(1, &results);
    EXPECT_OK(results[0].status);
    EXPECT_EQ(results[0].unverified, has_checksums);
    EXPECT_TRUE(results[0].data ==
                (has_checksums ? whole : bytes_.substr(request.offset, whole.size())));
  };
  read(true);
  EXPECT_EQ(Blocks().size(), 3);
  read(false);
  EXPECT_EQ(Blocks().size(), 2);
}

// The share of the data that is in the cache is saved in each further epoch, in any order.
TEST_F(BlockCacheTest, AShareOfTheDataSavesThatShareOfEachEpoch) {
  const std::string large = RandomBytes(8 * kCacheBlockBytes, 9);
  folder_.Write("served/large", large);
  server_.ServeFolder(folder_ / "served");
  Cache(4 * kFile);
  const std::shared_ptr<File> file = Open("/large");
  EXPECT_TRUE(ReadByEngine(file, 1 << 20, 1) == large);
  for (unsigned epoch = 2; epoch < 5; ++epoch) {
    server_.ForgetRequests();
    EXPECT_TRUE(ReadByEngine(file, 1 << 20, epoch) == large);
    EXPECT_EQ(Moved(), 4 * kCacheBlockBytes);
    EXPECT_EQ(Blocks().size(), 4);
  }
  server_.ForgetRequests();
  EXPECT_TRUE(ReadAt(*file, 0, large.size()) == large);
  EXPECT_EQ(Moved(), 4 * kCacheBlockBytes);
  EXPECT_GT(GetBlockCacheStats().refused, 0);
}

TEST_F(BlockCacheTest, BlocksOfOtherProcessesAreAwaited) {
  Cache();
  const std::shared_ptr<File> file = Open();
  const pid_t other = Hog();
  const uint64_t waits = GetBlockCacheStats().waits;
  std::thread killer([other, waits] {
    while (GetBlockCacheStats().waits == waits) std::this_thread::yield();
    KillChild(other);
  });
  EXPECT_TRUE(ReadAt(*file, 0, 100'000) == bytes_.substr(0, 100'000));
  killer.join();
  // That process held the locks to its end; the block is in the cache now.
  server_.ForgetRequests();
  EXPECT_EQ(ReadAt(*file, 5000, 1000), bytes_.substr(5000, 1000));
  EXPECT_TRUE(std::none_of(server_.requests().begin(), server_.requests().end(), [](const auto& r) {
    return r.headers.at("range").starts_with("bytes=0-");
  }));
}

TEST_F(BlockCacheTest, AProcessThatDoesNotComeForwardIsPassedBy) {
  setenv("SHARDFEED_NET_SECONDS", "1", 1);
  Cache();
  const std::shared_ptr<File> file = Open();
  const pid_t other = Hog();
  const auto engine = MakeRemoteEngine(2, nullptr);
  engine->Submit(std::vector<ReadRequest>{{file, 100, 1000, 1}});
  std::vector<ReadResult> results;
  engine->Wait(1, &results);
  ASSERT_EQ(results.size(), 1);
  ASSERT_OK(results[0].status);
  EXPECT_EQ(results[0].data, bytes_.substr(100, 1000));
  EXPECT_EQ(Moved(), 1000);
  EXPECT_TRUE(Blocks().empty());
  KillChild(other);
}

// Stands for a full disk. Comes before other errors: the first is told for the whole process.
TEST_F(BlockCacheTest, WhatCannotBeWrittenIsReadFromTheStore) {
  ::signal(SIGXFSZ, SIG_IGN);
  Cache();
  const std::shared_ptr<File> file = Open();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_TRUE(ReadByEngine(file, 1'000'000, 0) == bytes_);
  EXPECT_TRUE(ReadAt(*file, 0, bytes_.size()) == bytes_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(GetBlockCacheStats().trouble, HasSubstr(".tmp: cannot"));
  EXPECT_TRUE(Blocks().empty());
}

// Beside the block that such a thing keeps away, all are kept as ever.
TEST_F(BlockCacheTest, WhatIsNoFileIsRemovedOrPassedBy) {
  Cache();
  ReadAt(*Open(), 0, bytes_.size());
  const std::vector<std::string> blocks = Blocks();
  ASSERT_EQ(blocks.size(), 3);
  for (const std::string& block : blocks) std::filesystem::remove(block);
  ASSERT_EQ(::mkfifo(blocks[0].c_str(), 0600), 0);
  std::filesystem::create_directory(blocks[1]);
  std::filesystem::create_directories(blocks[2] + "/mine");
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_TRUE(ReadByEngine(Open(), 1'000'000, epoch) == bytes_);
    EXPECT_TRUE(ReadAt(*Open(), 0, bytes_.size()) == bytes_);
  }
  EXPECT_TRUE(std::filesystem::is_regular_file(blocks[0]));
  EXPECT_TRUE(std::filesystem::is_regular_file(blocks[1]));
  EXPECT_TRUE(std::filesystem::is_directory(blocks[2] + "/mine"));
  std::filesystem::remove(blocks[2] + "/mine");
  EXPECT_TRUE(ReadAt(*Open(), 0, bytes_.size()) == bytes_);
  EXPECT_EQ(Blocks().size(), 3);
}

TEST_F(BlockCacheTest, OnlyDatasetsThatAreServedGoThroughIt) {
  const auto cache = BlockCache::Open(folder_ / "cache", std::nullopt);
  ASSERT_OK(cache);
  EXPECT_EQ(BlockCache::For("s3://b/train-00000-of-00002"), nullptr);
  const auto serving = BlockCache::Serve(*cache, {"s3://b/train-00000-of-00002"});
  EXPECT_EQ(BlockCache::For("s3://b/train-00001-of-00002"), *cache);
  EXPECT_EQ(BlockCache::For("s3://b/.shardfeed/train-00001-of-00002.index"), *cache);
  EXPECT_EQ(BlockCache::For("s3://b/val-00001-of-00002"), nullptr);
  // A second one of the same folder is the same, and has its limit.
  const auto again = BlockCache::Open(folder_ / "cache", 3 * kFile);
  ASSERT_OK(again);
  EXPECT_EQ(*again, *cache);
  EXPECT_EQ((*cache)->max_bytes(), 3 * kFile);
  EXPECT_FAILS(BlockCache::Open(folder_ / "cache", kFile - 1).status(), kInvalidArgument,
               "has no room for a block");
}

}  // namespace
}  // namespace shardfeed::testing
