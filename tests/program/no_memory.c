// A library to preload into shardfeed, whose memory runs out.
//
//   FAIL_AT=n      the nth allocation fails
//   FAIL_COUNT=n   and those after it, n in all; by default 1
//   COUNT_TO=FILE  writes the number of allocations to FILE at the end

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// What glibc's malloc exports for those that replace it.
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* memory, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);

static long allocations = 0;
static long first = 0;
static long count = 1;

__attribute__((constructor)) static void ReadEnvironment(void) {
  if (getenv("FAIL_AT") != NULL) first = atol(getenv("FAIL_AT"));
  if (getenv("FAIL_COUNT") != NULL) count = atol(getenv("FAIL_COUNT"));
}

__attribute__((destructor)) static void WriteCount(void) {
  const char* path = getenv("COUNT_TO");
  FILE* file = path != NULL ? fopen(path, "w") : NULL;
  if (file == NULL) return;
  fprintf(file, "%ld\n", allocations);
  fclose(file);
}

static int Fails(void) {
  const long number = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  if (first == 0 || number < first || number - first >= count) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) { return Fails() ? NULL : __libc_malloc(size); }

void* calloc(size_t n, size_t size) { return Fails() ? NULL : __libc_calloc(n, size); }

void* realloc(void* memory, size_t size) {
  return Fails() ? NULL : __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) {
  return Fails() ? NULL : __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const allocated = memalign(alignment, size);
  if (allocated == NULL) return ENOMEM;
  *memory = allocated;
  return 0;
}
