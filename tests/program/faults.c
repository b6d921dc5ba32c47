// A library to preload into shardfeed (or Python), which simulates failures outside it.
//
//   FAULTS_UNDER=DIR[:DIR]  counts only calls on files below these folders; by default all files
//   FAULTS_CALLS=changes    counts calls that change files; all: also those that read them
//   COUNT_TO=FILE           writes the name of each counted call to FILE at the end, one per line
//   KILL_AT=n               ends the process as kill -9 would, before its nth call
//   KILL_ALSO=PID           and before it that process
//   STOP_AT=n               stops the process before its nth call, until it gets SIGCONT
//   FAIL_AT=n, FAIL_WITH=e  makes the nth call fail with errno e (a number); FAIL_WITH=short: it
//                           reads or writes half of the requested bytes
//   FAIL_CALL=name          limits FAIL_AT to a call of this name
//   SLOW_WRITES_MS=n        a slow disk: each write takes n milliseconds longer
//   THREADS=n               at most n threads can be started
//
// The variables are read at each call, so a process may set them for a part of its work: after
// FaultsReset() its next call is the first, FaultsCalls() says how many there were, and FaultsName(i)
// which.

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#define MAX_CALLS 1000000
#define MAX_FDS 65536

static int calls = 0;
static const char* names[MAX_CALLS];
// Whether a descriptor belongs to a file whose calls are counted.
static unsigned char watched[MAX_FDS];

void FaultsReset(void) { __atomic_store_n(&calls, 0, __ATOMIC_SEQ_CST); }

int FaultsCalls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }

const char* FaultsName(int i) { return i >= 0 && i < MAX_CALLS && names[i] != NULL ? names[i] : ""; }

static int Under(const char* path) {
  const char* folders = getenv("FAULTS_UNDER");
  if (folders == NULL) return 1;
  if (path == NULL) return 0;
  while (*folders != '\0') {
    const size_t size = strcspn(folders, ":");
    if (size > 0 && strncmp(path, folders, size) == 0) return 1;
    folders += size + (folders[size] == ':');
  }
  return 0;
}

static int UnderAt(int dir, const char* path) {
  if (getenv("FAULTS_UNDER") == NULL || (path != NULL && path[0] == '/')) return Under(path);
  return dir >= 0 && dir < MAX_FDS && watched[dir];
}

static int Watched(int fd) {
  if (getenv("FAULTS_UNDER") == NULL) return 1;
  return fd >= 0 && fd < MAX_FDS && watched[fd];
}

static void Watch(int fd, int counts) {
  if (fd >= 0 && fd < MAX_FDS) watched[fd] = counts;
}

static int All(void) {
  const char* which = getenv("FAULTS_CALLS");
  return which != NULL && strcmp(which, "all") == 0;
}

enum Fault { kNone, kError, kShort };

// Counts a call, and decides what happens to it; sets errno for kError.
static enum Fault Step(const char* name) {
  const char* kill_at = getenv("KILL_AT");
  const char* fail_at = getenv("FAIL_AT");
  const char* with = getenv("FAIL_WITH");
  const int n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (n <= MAX_CALLS) names[n - 1] = name;
  if (kill_at != NULL && n == atoi(kill_at)) {
    const char* also = getenv("KILL_ALSO");
    if (also != NULL && atoi(also) > 1) kill(atoi(also), SIGKILL);
    kill(getpid(), SIGKILL);
    pause();
  }
  const char* stop_at = getenv("STOP_AT");
  if (stop_at != NULL && n == atoi(stop_at)) raise(SIGSTOP);
  if (fail_at == NULL || with == NULL || n != atoi(fail_at)) return kNone;
  // Threads do not always interleave in the same way, so an error that this call cannot have is
  // dropped.
  const char* call = getenv("FAIL_CALL");
  if (call != NULL && strcmp(call, name) != 0) return kNone;
  if (strcmp(with, "short") == 0) return kShort;
  errno = atoi(with);
  return kError;
}

static void SlowDown(void) {
  const char* ms = getenv("SLOW_WRITES_MS");
  if (ms != NULL) usleep(1000 * atoi(ms));
}

__attribute__((destructor)) static void Tell(void) {
  const char* path = getenv("COUNT_TO");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  for (int i = 0; i < calls && i < MAX_CALLS; ++i) fprintf(file, "%s\n", names[i]);
  fclose(file);
}

#define NEXT(type, name, parameters)          \
  static type(*next) parameters = NULL;       \
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name)

// A call that succeeds or fails, on a path or a descriptor that `counts` checks.
#define WRAP(type, name, parameters, arguments, counts, failed)             \
  type name parameters {                                                    \
    NEXT(type, name, parameters);                                           \
    if ((counts) && Step(#name) == kError) return failed;                   \
    return next arguments;                                                  \
  }

// A call that transfers `n` bytes.
#define WRAP_BYTES(name, parameters, arguments, counts, before)             \
  ssize_t name parameters {                                                 \
    NEXT(ssize_t, name, parameters);                                        \
    if (counts) {                                                           \
      before;                                                               \
      const enum Fault fault = Step(#name);                                 \
      if (fault == kError) return -1;                                       \
      if (fault == kShort && n > 1) n /= 2;                                 \
    }                                                                       \
    return next arguments;                                                  \
  }

WRAP(int, rename, (const char* from, const char* to), (from, to), Under(from), -1)
WRAP(int, link, (const char* from, const char* to), (from, to), Under(to), -1)
WRAP(int, unlink, (const char* path), (path), Under(path), -1)
WRAP(int, unlinkat, (int dir, const char* path, int flags), (dir, path, flags), UnderAt(dir, path), -1)
WRAP(int, remove, (const char* path), (path), Under(path), -1)
WRAP(int, rmdir, (const char* path), (path), Under(path), -1)
WRAP(int, mkdir, (const char* path, mode_t mode), (path, mode), Under(path), -1)
WRAP(int, fsync, (int fd), (fd), Watched(fd), -1)
WRAP(int, ftruncate, (int fd, off_t size), (fd, size), Watched(fd), -1)
WRAP_BYTES(copy_file_range,
           (int from, off_t* at, int to, off_t* to_at, size_t n, unsigned flags),
           (from, at, to, to_at, n, flags), Watched(to), SlowDown())
WRAP_BYTES(pwrite, (int fd, const void* bytes, size_t n, off_t at), (fd, bytes, n, at), Watched(fd), SlowDown())
WRAP_BYTES(pwrite64, (int fd, const void* bytes, size_t n, off_t at), (fd, bytes, n, at), Watched(fd), SlowDown())
WRAP_BYTES(pread, (int fd, void* bytes, size_t n, off_t at), (fd, bytes, n, at), All() && Watched(fd), )
WRAP_BYTES(pread64, (int fd, void* bytes, size_t n, off_t at), (fd, bytes, n, at), All() && Watched(fd), )
WRAP(DIR*, opendir, (const char* path), (path), All() && Under(path), NULL)
WRAP(void*, mmap, (void* at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset), fd >= 0 && All() && Watched(fd), MAP_FAILED)
WRAP(void*, mmap64, (void* at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset), fd >= 0 && All() && Watched(fd), MAP_FAILED)

// After a failed close, the file is closed on Linux.
int close(int fd) {
  NEXT(int, close, (int fd));
  const int counts = getenv("FAULTS_UNDER") != NULL && All() && Watched(fd);
  const enum Fault fault = counts ? Step("close") : kNone;
  const int error = errno;
  Watch(fd, 0);
  const int result = next(fd);
  if (fault != kError) return result;
  errno = error;
  return -1;
}

#define WRAP_OPEN(name)                                                     \
  int name(const char* path, int flags, ...) {                              \
    NEXT(int, name, (const char* path, int flags, ...));                    \
    va_list list;                                                           \
    va_start(list, flags);                                                  \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                           \
    const int under = getenv("FAULTS_UNDER") != NULL && Under(path);        \
    if (under && All() && Step(#name) == kError) return -1;                 \
    const int fd = next(path, flags, mode);                                 \
    Watch(fd, under);                                                       \
    return fd;                                                              \
  }
WRAP_OPEN(open)
WRAP_OPEN(open64)

#define WRAP_OPENAT(name)                                                   \
  int name(int dir, const char* path, int flags, ...) {                     \
    NEXT(int, name, (int dir, const char* path, int flags, ...));           \
    va_list list;                                                           \
    va_start(list, flags);                                                  \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; \
    va_end(list);                                                           \
    const int under = getenv("FAULTS_UNDER") != NULL && UnderAt(dir, path); \
    if (under && All() && Step(#name) == kError) return -1;                 \
    const int fd = next(dir, path, flags, mode);                            \
    Watch(fd, under);                                                       \
    return fd;                                                              \
  }
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  static int started = 0;
  static int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = NULL;
  const char* most = getenv("THREADS");
  if (most != NULL && __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST) >= atoi(most)) {
    return EAGAIN;
  }
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "pthread_create");
  return next(thread, attributes, run, argument);
}
