// Another process of a test, which waits to be killed.

#ifndef SHARDFEED_TESTS_TESTING_WAITING_CHILD_H_
#define SHARDFEED_TESTS_TESTING_WAITING_CHILD_H_

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gtest/gtest.h"

namespace shardfeed {

// Forks a process, which does `work` and then waits until it is killed. Returns once the work is
// done. Other threads may have held locks at the fork.
template <typename Work>
pid_t StartWaitingChild(Work work) {
  int done[2];
  EXPECT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    (void)!::write(done[1], "x", 1);
    while (true) ::pause();
  }
  ::close(done[1]);
  char byte;
  EXPECT_EQ(::read(done[0], &byte, 1), 1);  // 0 if the child has ended
  ::close(done[0]);
  return child;
}

inline void KillChild(pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace shardfeed

#endif  // SHARDFEED_TESTS_TESTING_WAITING_CHILD_H_
