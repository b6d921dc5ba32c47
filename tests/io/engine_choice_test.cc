#include "io/engine_choice.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "io/engine.h"
#include "io/file.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::RandomBytes;
using testing::TestFolder;

TEST(EngineChoice, EnvironmentDecidesForAuto) {
  EngineOptions options;
  for (const char* name : {"threads", "mmap"}) {
    ::setenv("SHARDFEED_IO", name, 1);
    const auto engine = MakeEngine(options);
    ASSERT_OK(engine);
    EXPECT_EQ((*engine)->stats().mode, name);
    EXPECT_EQ((*engine)->stats().reason, std::string("SHARDFEED_IO=") + name);
  }
  options.kind = EngineKind::kMmap;
  ::setenv("SHARDFEED_IO", "threads", 1);
  EXPECT_EQ((*MakeEngine(options))->stats().mode, "mmap");
  options.kind = EngineKind::kAuto;
  ::setenv("SHARDFEED_IO", "floppy", 1);
  EXPECT_FAILS(MakeEngine(options), kInvalidArgument,
               "SHARDFEED_IO: expected the engine auto, uring, threads or mmap, got 'floppy'");
  ::unsetenv("SHARDFEED_IO");
}

// Numbers of system calls, on every architecture.
constexpr uint32_t kUringSetup = 425;
constexpr uint32_t kUringEnter = 426;

// Makes a system call fail with `error` in this thread and threads that it starts, as a container's
// filter does.
bool Forbid(uint32_t call, uint32_t error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {4, filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(EngineChoice, WithoutUringThreadsRead) {
  TestFolder folder;
  const auto file = *File::Open(folder.Write("f", "0123456789"));
  for (const auto& [error, text] :
       {std::pair<uint32_t, std::string>(EPERM, "io_uring is forbidden"),
        {ENOSYS, "this kernel has no io_uring"}}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (!Forbid(kUringSetup, error)) std::_Exit(77);
      const auto engine = MakeEngine(EngineOptions());
      if (!engine.ok()) std::_Exit(1);
      if ((*engine)->stats().mode != "threads") std::_Exit(2);
      if ((*engine)->stats().reason.find(text) == std::string::npos) std::_Exit(3);
      EngineOptions forced;
      forced.kind = EngineKind::kUring;
      if (!absl::IsUnavailable(MakeEngine(forced).status())) std::_Exit(4);
      std::_Exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

// A ring that was set up, but that the kernel later refuses to enter.
TEST(EngineChoice, RingThatBreaksIsReplacedByThreads) {
  TestFolder folder;
  const std::string bytes = RandomBytes(3'000'000, 1);
  const auto file = *File::Open(folder.Write("f", bytes));
  for (bool direct : {false, true}) {
    for (int before : {0, 3, 40}) {
      std::string skipped;
      // A filter belongs to its thread, and cannot be removed.
      std::thread([&] {
        EngineOptions options;
        options.kind = EngineKind::kUring;
        options.direct = direct;
        options.depth = 8;
        auto engine = MakeEngine(options);
        if (!engine.ok()) {
          skipped = "io_uring may not be used here";
          return;
        }
        std::vector<ReadRequest> requests;
        std::shared_ptr<Buffer> into = Buffer::Allocate(100 * 30'000);
        for (uint64_t i = 0; i < 100; ++i) {
          requests.push_back({file, 20'000 * i + i, 30'000 - i, i});
          if (i % 2 == 0) {
            requests.back().into = into;
            requests.back().into_offset = i * 30'000;
          }
        }
        std::vector<ReadResult> results;
        (*engine)->Submit(absl::MakeSpan(requests).first(before));
        if (before > 8) (*engine)->Wait(1, &results);
        if (!Forbid(kUringEnter, EPERM)) {
          skipped = "no seccomp filters here";
          return;
        }
        (*engine)->Submit(absl::MakeSpan(requests).subspan(before));
        while ((*engine)->outstanding() > 0) {
          (*engine)->Wake();
          (*engine)->Wait(5, &results);
        }
        EXPECT_EQ(results.size(), 100);
        for (const ReadResult& result : results) {
          ASSERT_OK(result.status);
          const ReadRequest& request = requests[result.tag];
          EXPECT_EQ(result.data, bytes.substr(request.offset, request.length));
        }
        EXPECT_EQ((*engine)->stats().mode, direct ? "threads, direct" : "threads");
        EXPECT_NE((*engine)->stats().reason.find("forbidden"), std::string::npos);
        EXPECT_NE((*engine)->stats().reason.find("continuing with pread"), std::string::npos);
        EXPECT_EQ((*engine)->stats().requests, 100);
      }).join();
      if (!skipped.empty()) GTEST_SKIP() << skipped;
    }
  }
}

}  // namespace
}  // namespace shardfeed
