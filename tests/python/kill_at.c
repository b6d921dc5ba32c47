// Preloaded into shardfeed: ends it as kill -9 would, right before the nth call that changes files
// (KILL_AT=n). Without KILL_AT, the number of such calls is written to COUNT_TO at the end.

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

__attribute__((destructor)) static void Tell(void) {
  const char* path = getenv("COUNT_TO");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%d", calls);
  fclose(file);
}

#define WRAP(type, name, parameters, arguments)                  \
  type name parameters {                                         \
    static type(*next) parameters = NULL;                        \
    if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name);  \
    Step();                                                      \
    return next arguments;                                       \
  }

WRAP(int, rename, (const char* from, const char* to), (from, to))
WRAP(int, unlink, (const char* path), (path))
WRAP(int, remove, (const char* path), (path))
WRAP(int, mkdir, (const char* path, mode_t mode), (path, mode))
WRAP(int, fsync, (int fd), (fd))
WRAP(ssize_t, pwrite, (int fd, const void* bytes, size_t n, off_t at), (fd, bytes, n, at))
WRAP(ssize_t, pwrite64, (int fd, const void* bytes, size_t n, off_t at), (fd, bytes, n, at))
