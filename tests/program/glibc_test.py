"""What wheels bring of later versions of glibc: third_party/glibc/compat.c."""

import subprocess
import sys

from harness import REPOSITORY

# As in a process of glibc 2.28.
LIBRARY = r"""
#include <assert.h>
#include <dlfcn.h>
#include <string.h>
static void* of_2_28(void* handle, const char* name) {
  return strncmp(name, "pthread_", 8) == 0 ? NULL : dlsym(handle, name);
}
#define dlsym of_2_28
#include "third_party/glibc/compat.c"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static struct timespec after(long milliseconds) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_nsec += milliseconds * 1000000;
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

static void* signals(void* unused) {
  pthread_mutex_lock(&mutex);
  pthread_cond_signal(&condition);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void* locks(void* unused) {
  const struct timespec until = after(300);
  assert(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  const struct timespec end = after(0);
  assert(end.tv_sec > until.tv_sec || (end.tv_sec == until.tv_sec && end.tv_nsec >= until.tv_nsec - 50000000));
  return unused;
}

int check(void) {
  pthread_t thread;
  struct timespec until = after(300);
  pthread_mutex_lock(&mutex);
  while (pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT) {
  }
  const struct timespec end = after(0);
  assert(end.tv_sec > until.tv_sec || (end.tv_sec == until.tv_sec && end.tv_nsec >= until.tv_nsec - 50000000));
  until = after(-5000);
  assert(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
  pthread_create(&thread, NULL, locks, NULL);
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, signals, NULL);
  until = after(60000);
  assert(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &until) == 0);
  pthread_join(thread, NULL);
  pthread_mutex_unlock(&mutex);
  assert(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until) == 0);

  assert(gettid() == getpid());
  assert(arc4random() != arc4random() || arc4random() != arc4random());
  fprintf(stdout, "out\n");
  fprintf(stderr, "err\n");
  return getc(stdin) != 'i';
}
"""


def test_later_functions_are_replaced(tmp_path):
    library = tmp_path / "library.so"
    hidden = tmp_path / "hidden.lds"
    hidden.write_text("{ global: check; local: *; };")
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE=", "-Wall", "-Wextra", "-I", REPOSITORY, "-x", "c", "-",
                    f"-Wl,--version-script={hidden}", "-o", library], input=LIBRARY, text=True, check=True)
    code = f"import ctypes, os; done = ctypes.CDLL({str(library)!r}).check(); ctypes.CDLL(None).fflush(None); os._exit(done)"
    done = subprocess.run([sys.executable, "-c", code], input="in", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "err\n")
