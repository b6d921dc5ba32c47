// What our code and Debian's archives take of glibc and 2.28 does not have, by the version that has
// it. The linker takes it into the extension, whose symbols are hidden.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// 2.32; without it, reference counts are always atomic.
char __libc_single_threaded = 0;

// 2.30
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// 2.36
uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
    if (errno != EINTR) abort();
  }
  return value;
}

// The time by CLOCK_REALTIME at which `clock` will be at `until`, if neither is set until then.
static struct timespec realtime(clockid_t clock, const struct timespec* until) {
  struct timespec now, real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  real.tv_sec += until->tv_sec - now.tv_sec;
  real.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (real.tv_nsec < 0) {
    real.tv_nsec += 1000000000;
    --real.tv_sec;
  } else if (real.tv_nsec >= 1000000000) {
    real.tv_nsec -= 1000000000;
    ++real.tv_sec;
  }
  if (real.tv_sec < 0) real.tv_sec = 0;
  return real;
}

// 2.30, which is used where it is there.
static int (*real_wait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
static int (*real_lock)(pthread_mutex_t*, clockid_t, const struct timespec*);

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  if (real_wait != NULL) return real_wait(condition, mutex, clock, until);
  const struct timespec time = realtime(clock, until);
  return pthread_cond_timedwait(condition, mutex, &time);
}

int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  if (real_lock != NULL) return real_lock(mutex, clock, until);
  const struct timespec time = realtime(clock, until);
  return pthread_mutex_timedlock(mutex, &time);
}

// Debian's archives are made for programs, whose code has these near.
#undef stdin
#undef stdout
#undef stderr
FILE *stdin, *stdout, *stderr;

// Before the constructors of the C++ library, which uses them.
__attribute__((constructor(101))) static void find(void) {
  real_wait = dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
  real_lock = dlsym(RTLD_DEFAULT, "pthread_mutex_clocklock");
  stdin = *(FILE**)dlsym(RTLD_DEFAULT, "stdin");
  stdout = *(FILE**)dlsym(RTLD_DEFAULT, "stdout");
  stderr = *(FILE**)dlsym(RTLD_DEFAULT, "stderr");
}
