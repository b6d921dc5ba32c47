// Preloaded into shardfeed, stands in for what goes wrong outside it:
//   KILL_AT=n          ends the process as kill -9 would, before its nth call that changes files
//   COUNT_TO=FILE      writes the number of such calls to FILE at the end
//   SLOW_WRITES_MS=n   a slow disk: each write takes n milliseconds longer

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static int calls = 0;

static void Step(void) {
  const char* at = getenv("KILL_AT");
  const int n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (at != NULL && n == atoi(at)) {
    kill(getpid(), SIGKILL);
    pause();
  }
}

static void StepOfWrite(void) {
  const char* ms = getenv("SLOW_WRITES_MS");
  if (ms != NULL) usleep(1000 * atoi(ms));
  Step();
}

__attribute__((destructor)) static void Tell(void) {
  const char* path = getenv("COUNT_TO");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%d", calls);
  fclose(file);
}

#define WRAP(type, name, parameters, arguments, step)            \
  type name parameters {                                         \
    static type(*next) parameters = NULL;                        \
    if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name);  \
    step();                                                      \
    return next arguments;                                       \
  }

WRAP(int, rename, (const char* from, const char* to), (from, to), Step)
WRAP(int, unlink, (const char* path), (path), Step)
WRAP(int, remove, (const char* path), (path), Step)
WRAP(int, mkdir, (const char* path, mode_t mode), (path, mode), Step)
WRAP(int, fsync, (int fd), (fd), Step)
WRAP(ssize_t, copy_file_range, (int from, off_t* at, int to, off_t* to_at, size_t n, unsigned flags), (from, at, to, to_at, n, flags), StepOfWrite)
WRAP(ssize_t, pwrite, (int fd, const void* bytes, size_t n, off_t at), (fd, bytes, n, at), StepOfWrite)
WRAP(ssize_t, pwrite64, (int fd, const void* bytes, size_t n, off_t at), (fd, bytes, n, at), StepOfWrite)
