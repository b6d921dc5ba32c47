#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <latch>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/work_stop.h"
#include "io/buffer.h"
#include "io/errno_status.h"
#include "io/file.h"
#include "io/output_file.h"
#include "io/parallel.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::ReadBytes;
using testing::TestFolder;

TEST(ErrnoStatus, NamesPathActionReasonAndRemedy) {
  EXPECT_FAILS(ErrnoStatus(ENOSPC, "a/b", "write"), kResourceExhausted,
               "a/b: cannot write: No space left on device; free some space");
  EXPECT_FAILS(ErrnoStatus(ENOENT, "x", "open"), kNotFound, "x: cannot open");
  EXPECT_FAILS(ErrnoStatus(EACCES, "x", "open"), kPermissionDenied, "Permission denied");
  EXPECT_FAILS(ErrnoStatus(EFBIG, "x", "write"), kResourceExhausted, "ulimit -f");
  EXPECT_FAILS(ErrnoStatus(EIO, "x", "read"), kUnavailable, "Input/output error");
}

TEST(File, ReadsAtAnyPosition) {
  TestFolder folder;
  auto file = File::Open(folder.Write("f", "0123456789"));
  ASSERT_OK(file);
  EXPECT_EQ((*file)->size(), 10);
  std::string bytes(4, ' ');
  EXPECT_EQ(*(*file)->ReadAt(3, absl::MakeSpan(bytes)), 4);
  EXPECT_EQ(bytes, "3456");
}

TEST(File, ReadAtTheEndIsShort) {
  TestFolder folder;
  auto file = File::Open(folder.Write("f", "0123456789"));
  std::string bytes(4, ' ');
  EXPECT_EQ(*(*file)->ReadAt(8, absl::MakeSpan(bytes)), 2);
  EXPECT_EQ(*(*file)->ReadAt(20, absl::MakeSpan(bytes)), 0);
}

TEST(File, ReadExactlyPastTheEndIsDataLoss) {
  TestFolder folder;
  auto file = File::Open(folder.Write("f", "0123456789"));
  std::string bytes(4, ' ');
  EXPECT_FAILS((*file)->ReadExactlyAt(8, absl::MakeSpan(bytes)), kDataLoss,
               "file ends at byte 10, expected data up to byte 12");
}

// A FIFO without a reader, where an ordinary open would wait forever.
std::string Fifo(const TestFolder& folder) {
  const std::string path = folder / "fifo";
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  return path;
}

TEST(File, SpecialFilesAreRefusedByTheirKind) {
  TestFolder folder;
  EXPECT_FAILS(File::Open(Fifo(folder)), kFailedPrecondition,
               "fifo: is a FIFO, not a file; replace it with a file");
  EXPECT_FAILS(ReadFile(folder / "fifo", 100), kFailedPrecondition, "is a FIFO, not a file");
  EXPECT_FAILS(File::Open("/dev/null"), kFailedPrecondition,
               "/dev/null: is a character device, not a file");
  EXPECT_FAILS(File::Open(folder.path()), kFailedPrecondition, "Is a directory");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = "shardfeed-io-test.socket"};
  ::unlink(address.sun_path);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_FAILS(File::Open(address.sun_path), kFailedPrecondition, "is a socket, not a file");
  ::close(socket);
  ::unlink(address.sun_path);
}

TEST(File, DescriptorWaitsForTheDisk) {
  TestFolder folder;
  auto file = File::Open(folder.Write("f", "0123456789"));
  ASSERT_OK(file);
  EXPECT_EQ(::fcntl((*file)->fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(OutputFile, SpecialFilesAreRefusedByTheirKind) {
  TestFolder folder;
  const std::string fifo = Fifo(folder);
  EXPECT_FAILS(OutputFile::Create(fifo), kFailedPrecondition, "fifo: is a FIFO, not a file");
  // With a reader at its other end, it would accept the writes.
  auto reader = std::unique_ptr<std::FILE, int (*)(std::FILE*)>(
      ::fdopen(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK), "r"), std::fclose);
  EXPECT_FAILS(OutputFile::Create(fifo), kFailedPrecondition, "fifo: is a FIFO, not a file");
  EXPECT_FAILS(OutputFile::Create("/dev/null"), kFailedPrecondition,
               "/dev/null: is a character device, not a file");
  EXPECT_FAILS(OutputFile::Create(folder.path()), kFailedPrecondition, "Is a directory");
}

TEST(File, MissingFileIsNotFound) {
  TestFolder folder;
  EXPECT_FAILS(File::Open(folder / "none"), kNotFound, "none: cannot open: No such file");
}

TEST(File, FolderIsNotAFile) {
  TestFolder folder;
  EXPECT_FAILS(File::Open(folder.path()), kFailedPrecondition, "Is a directory");
}

TEST(FileSource, DeliversAPart) {
  TestFolder folder;
  auto file = File::Open(folder.Write("f", "0123456789"));
  FileSource source(*file, 2, 7);
  std::string bytes(3, ' ');
  EXPECT_EQ(*source.Read(absl::MakeSpan(bytes)), 3);
  EXPECT_EQ(bytes, "234");
  EXPECT_EQ(*source.Read(absl::MakeSpan(bytes)), 2);
  EXPECT_EQ(*source.Read(absl::MakeSpan(bytes)), 0);
}

TEST(ReadFile, RefusesMoreThanExpected) {
  TestFolder folder;
  const std::string path = folder.Write("f", "0123456789");
  EXPECT_EQ(*ReadFile(path, 10), "0123456789");
  EXPECT_FAILS(ReadFile(path, 9), kResourceExhausted, "expected at most 9 bytes, got 10");
}

TEST(OutputFile, AppendsAndOverwrites) {
  TestFolder folder;
  auto file = OutputFile::Create(folder / "f");
  ASSERT_OK(file);
  EXPECT_OK((*file)->Append("hello "));
  EXPECT_OK((*file)->Append("world"));
  EXPECT_OK((*file)->WriteAt(0, "J"));
  EXPECT_EQ((*file)->size(), 11);
  EXPECT_OK((*file)->Sync());
  EXPECT_OK((*file)->Close());
  EXPECT_EQ(ReadBytes(folder / "f"), "Jello world");
}

TEST(OutputFile, FileSizeLimitIsResourceExhausted) {
  TestFolder folder;
  signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {4096, old.rlim_max};
  auto file = OutputFile::Create(folder / "f");
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status status = (*file)->Append(std::string(10000, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_FAILS(status, kResourceExhausted, "cannot write at byte 4096: File too large");
}

TEST(MoveFile, ReplacesWhatIsThere) {
  TestFolder folder;
  folder.Write("a", "new");
  folder.Write("b", "old");
  EXPECT_OK(MoveFile(folder / "a", folder / "b"));
  EXPECT_EQ(ReadBytes(folder / "b"), "new");
  EXPECT_FAILS(MoveFile(folder / "a", folder / "b"), kNotFound,
               "b: cannot move the finished file into place");
}

TEST(ReplaceFile, LeavesTheOldFileOrTheNewOneAndNothingElse) {
  TestFolder folder;
  for (const bool sync : {false, true}) {
    EXPECT_OK(ReplaceFile(folder / "a", "old", sync));
    EXPECT_OK(ReplaceFile(folder / "a", "new", sync));
    EXPECT_EQ(ReadBytes(folder / "a"), "new");
  }
  std::filesystem::create_directory(folder / "taken");
  EXPECT_FAILS(ReplaceFile(folder / "taken", "x", false), kFailedPrecondition,
               "taken: cannot move the finished file into place: Is a directory");
  EXPECT_FAILS(ReplaceFile(folder / "no/a", "x", false), kNotFound, "a.tmp: cannot create");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(SyncDirectory, MissingFolderIsNotFound) {
  TestFolder folder;
  EXPECT_OK(SyncDirectory(folder.path()));
  EXPECT_FAILS(SyncDirectory(folder / "no"), kNotFound, "cannot open the folder");
}

TEST(CreateFolders, WhatOthersRemoveMeanwhileIsCreatedAgain) {
  TestFolder folder;
  const std::string path = folder / "a/b/c";
  std::atomic<bool> done = false;
  // How many folders may still be removed: each may cost an attempt, of which there are a hundred.
  std::atomic<int> allowed = 0;
  std::thread removing([&] {
    while (!done) {
      for (const char* name : {"a/b/c", "a/b", "a"}) {
        if (allowed > 0 && ::rmdir((folder / name).c_str()) == 0) --allowed;
      }
    }
  });
  for (int i = 0; i < 500; ++i) {
    allowed = 50;
    EXPECT_OK(CreateFolders(path));
  }
  done = true;
  removing.join();
  folder.Write("file", "");
  EXPECT_FAILS(CreateFolders(folder / "file/a"), kFailedPrecondition, "Not a directory");
}

TEST(Buffer, IsAlignedAndRoundedUp) {
  for (size_t size : {0, 1, 4096, 5000}) {
    auto buffer = Buffer::Allocate(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Buffer::kAlignment, 0);
    EXPECT_GE(buffer->size(), std::max<size_t>(size, 1));
    EXPECT_EQ(buffer->size() % Buffer::kAlignment, 0);
  }
}

TEST(ParallelFor, RunsEachIndexOnce) {
  std::vector<std::atomic<int>> runs(1000);
  EXPECT_OK(ParallelFor(runs.size(), 8, {}, [&](size_t i) {
    ++runs[i];
    return absl::OkStatus();
  }));
  for (const auto& n : runs) EXPECT_EQ(n, 1);
}

TEST(ParallelFor, ReturnsTheFailureWithTheLowestIndex) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_FAILS(ParallelFor(100, 8, {},
                             [](size_t i) {
                               return i % 2 == 1 ? absl::DataLossError(std::to_string(i))
                                                 : absl::OkStatus();
                             }),
                 kDataLoss, "1");
  }
}

TEST(ParallelFor, ExceptionsAreFailures) {
  EXPECT_FAILS(ParallelFor(100, 4, {}, [](size_t) -> absl::Status { throw std::bad_alloc(); }),
               kResourceExhausted, "out of memory");
  EXPECT_FAILS(ParallelFor(100, 4, {},
                           [](size_t i) -> absl::Status {
                             if (i == 7) throw std::runtime_error("seven");
                             return absl::OkStatus();
                           }),
               kInternal, "unexpected error: seven");
}

TEST(ParallelFor, StopsWhenAskedTo) {
  std::stop_source stop;
  std::atomic<int> runs = 0;
  const absl::Status status = ParallelFor(1000000, 4, stop.get_token(), [&](size_t) {
    if (++runs == 10) stop.request_stop();
    return absl::OkStatus();
  });
  EXPECT_FAILS(status, kCancelled, "interrupted");
  EXPECT_LT(runs, 1000);
}

TEST(ParallelFor, ItsThreadsKnowThatTheCallersWorkIsNotNeeded) {
  std::stop_source stop;
  const WorkStop wanted(stop.get_token());
  std::latch both(2);
  const absl::Status status = ParallelFor(2, 2, {}, [&](size_t) {
    both.arrive_and_wait();
    stop.request_stop();
    while (!WorkStop::Requested()) std::this_thread::yield();
    return absl::CancelledError("it is not needed");
  });
  EXPECT_FAILS(status, kCancelled, "it is not needed");
}

TEST(ParallelFor, OthersNeedNotWaitForWhatOneWasCancelledAt) {
  std::latch both(2);
  std::stop_source stop;
  const absl::Status status = ParallelFor(2, 2, stop.get_token(), [&](size_t i) {
    both.arrive_and_wait();
    while (i == 1 && !WorkStop::Requested()) std::this_thread::yield();
    return absl::CancelledError(std::to_string(i));
  });
  EXPECT_FAILS(status, kCancelled, "0");
}

TEST(ParallelFor, TheCallerLooksForInterruptsWhileItWaits) {
  static const std::thread::id caller = std::this_thread::get_id();
  WorkStop::SetInterruptCheck([] { return std::this_thread::get_id() == caller; });
  std::latch both(2);
  const absl::Status status = ParallelFor(2, 2, {}, [&](size_t) -> absl::Status {
    both.arrive_and_wait();
    if (std::this_thread::get_id() == caller) return absl::OkStatus();
    while (!WorkStop::Requested()) std::this_thread::yield();
    return absl::CancelledError("interrupted");
  });
  WorkStop::SetInterruptCheck(nullptr);
  EXPECT_FAILS(status, kCancelled, "interrupted");
}

}  // namespace
}  // namespace shardfeed
