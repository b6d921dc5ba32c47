// Tests indexes and manifests when system calls fail.

#include <linux/fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include "reader/shards/shard_table.h"
#include "shard/indexing/index_build.h"
#include "shard/manifest/manifest.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"
#include "shardfeed/verify.h"
#include "tests/testing/files.h"

namespace {

// Calls fail for files whose names end with this; if empty, for none.
std::string failing_name;
int open_error = 0;
int read_error = 0;
bool reads_are_short = false;
std::atomic<int> interruptions = 0;

bool IsOfFailingName(int fd) {
  char name[4096];
  const ssize_t n = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name));
  return !failing_name.empty() && n > 0 &&
         std::string_view(name, static_cast<size_t>(n)).ends_with(failing_name);
}

ssize_t FaultyRead(int fd, void* to, size_t size, off_t at) {
  if (IsOfFailingName(fd)) {
    if (read_error != 0) {
      errno = read_error;
      return -1;
    }
    if (interruptions > 0) {
      --interruptions;
      errno = EINTR;
      return -1;
    }
    if (reads_are_short && size > 1) size = 1;
  }
  return ::syscall(SYS_pread64, fd, to, size, at);
}

int FaultyOpen(const char* path, int flags, mode_t mode) {
  if (open_error != 0 && !failing_name.empty() && std::string_view(path).ends_with(failing_name)) {
    errno = open_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

// These replace the functions of libc.
extern "C" {
ssize_t pread(int fd, void* to, size_t size, off_t at) { return FaultyRead(fd, to, size, at); }
ssize_t pread64(int fd, void* to, size_t size, off64_t at) { return FaultyRead(fd, to, size, at); }
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return FaultyOpen(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return FaultyOpen(path, flags, mode);
}
}

namespace shardfeed {
namespace {

using testing::TestFolder;

class ReadFaultsTest : public ::testing::Test {
 protected:
  ReadFaultsTest() {
    auto writer = DatasetWriter::Create(*ParseOutputSpec(folder_ / "d@2"), {});
    EXPECT_OK(writer);
    for (int i = 0; i < 100; ++i) {
      ExampleBuilder builder;
      builder.AddInt64("i", i);
      std::string bytes;
      builder.SerializeExample(&bytes);
      EXPECT_OK((*writer)->Write(bytes));
    }
    EXPECT_OK((*writer)->Finish({}));
    set_ = *ResolveSpec(folder_ / "d@2");
    index_ = IndexPath(set_.paths[0]);
    manifest_ = ManifestPath(folder_.path(), "d");
  }
  ~ReadFaultsTest() override {
    failing_name.clear();
    open_error = read_error = interruptions = 0;
    reads_are_short = false;
  }

  // The only defect that verify finds.
  Defect OnlyDefect() {
    // The tests replace the manifest.
    set_.version = DatasetVersion::Of(folder_.path(), "d");
    const auto report = Verify(set_, {});
    EXPECT_OK(report);
    EXPECT_EQ(report->num_defects(), 1);
    for (const ShardReport& shard : report->shards) {
      if (!shard.defects.empty()) return shard.defects[0];
    }
    return report->manifest_defects.empty() ? Defect() : report->manifest_defects[0];
  }
  void MakeFifo(const std::string& path) {
    std::filesystem::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  }

  TestFolder folder_;
  ShardSet set_;
  std::string index_;
  std::string manifest_;
};

TEST_F(ReadFaultsTest, IndexIsReadOnAfterInterruptionsAndShortReads) {
  failing_name = ".index";
  interruptions = 10;
  ASSERT_OK(ReadIndexSummary(index_));
  EXPECT_EQ(interruptions, 0);
  interruptions = 10;
  reads_are_short = true;
  ASSERT_OK(ReadIndexSummary(index_));
  EXPECT_EQ(ReadIndexSummary(index_)->records, 50);
  ASSERT_OK(ShardIndex::Open(index_));
  EXPECT_EQ(interruptions, 0);
}

TEST_F(ReadFaultsTest, ManifestIsReadOnAfterInterruptionsAndShortReads) {
  failing_name = ".manifest.json";
  interruptions = 10;
  reads_are_short = true;
  ASSERT_OK(ReadManifest(manifest_));
  EXPECT_EQ(interruptions, 0);
}

TEST_F(ReadFaultsTest, FailedReadsAreUnreadableAndNoDefectsOfData) {
  const struct {
    const char* name;
    const std::string& path;
  } sidecars[] = {{"d-00000-of-00002.index", index_}, {".manifest.json", manifest_}};
  for (const auto& [name, path] : sidecars) {
    failing_name = name;
    for (int error : {EIO, ENOMEM}) {
      read_error = error;
      EXPECT_EQ(OnlyDefect().kind, "unreadable");
      EXPECT_THAT(OnlyDefect().detail, ::testing::HasSubstr(path + ": cannot read at byte 0"));
      read_error = 0;
    }
    for (int error : {EACCES, EMFILE, ENFILE, EIO, ENOMEM}) {
      open_error = error;
      EXPECT_EQ(OnlyDefect().kind, "unreadable");
      EXPECT_THAT(OnlyDefect().detail, ::testing::HasSubstr(path + ": cannot open"));
      open_error = 0;
    }
  }
}

TEST_F(ReadFaultsTest, FailedReadOfAnIndexIsNoReasonToMakeItAnew) {
  failing_name = "d-00000-of-00002.index";
  read_error = EIO;
  EXPECT_FAILS(OpenOrBuildIndex(set_.paths[0], {}), kUnavailable, index_ + ": cannot read");
  EXPECT_FAILS(ShardTable::Open(set_, {}), kUnavailable, index_ + ": cannot read");
  read_error = 0;
  open_error = EMFILE;
  EXPECT_FAILS(OpenOrBuildIndex(set_.paths[0], {}), kResourceExhausted, "ulimit -n");
}

TEST_F(ReadFaultsTest, FifosAreRefusedWithoutWaiting) {
  MakeFifo(index_);
  EXPECT_FAILS(ShardIndex::Open(index_), kFailedPrecondition, index_ + ": is a FIFO, not a file");
  EXPECT_FAILS(ReadIndexSummary(index_), kFailedPrecondition, "is a FIFO, not a file");
  EXPECT_FAILS(OpenOrBuildIndex(set_.paths[0], {}), kFailedPrecondition, "is a FIFO");
  EXPECT_FAILS(ShardTable::Open(set_, {}), kFailedPrecondition, "is a FIFO");
  EXPECT_EQ(OnlyDefect().kind, "unreadable");
  EXPECT_THAT(OnlyDefect().detail, ::testing::HasSubstr(index_ + ": is a FIFO"));
}

TEST_F(ReadFaultsTest, FifoInPlaceOfTheManifestIsUnreadable) {
  MakeFifo(manifest_);
  EXPECT_FAILS(ReadManifest(manifest_), kFailedPrecondition, "is a FIFO, not a file");
  EXPECT_EQ(OnlyDefect().kind, "unreadable");
  EXPECT_THAT(OnlyDefect().detail, ::testing::HasSubstr(manifest_ + ": is a FIFO"));
}

TEST_F(ReadFaultsTest, FifoInPlaceOfAShardIsUnreadable) {
  MakeFifo(set_.paths[1]);
  const auto report = Verify(set_, {});
  ASSERT_OK(report);
  EXPECT_EQ(report->shards[1].defects[0].kind, "unreadable");
  EXPECT_THAT(report->shards[1].defects[0].detail, ::testing::HasSubstr("is a FIFO, not a file"));
  EXPECT_EQ(report->shards[0].records, 50);
}

}  // namespace
}  // namespace shardfeed
