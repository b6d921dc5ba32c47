// Destructors of thread-local objects.
//
// glibc ends the process if it has no memory to note one ("failed to register TLS destructor"). So
// the program notes them itself, in memory that each thread has from its start, and reports that
// memory ran out when the object allocates some. The C++ ABI defines the function, which libstdc++
// would otherwise provide:
// https://itanium-cxx-abi.github.io/cxx-abi/abi.html#dso-dtor-runtime-api

#include <pthread.h>

namespace {

struct Noted {
  void (*destroy)(void*);
  void* object;
};

// More than the thread-local objects of the whole program. Those beyond would not be destroyed.
constexpr int kMost = 256;
constinit thread_local Noted noted[kMost] = {};
constinit thread_local int count = 0;

void DestroyNoted(void* /*noted*/) {
  while (count > 0) {
    const Noted last = noted[--count];
    last.destroy(last.object);
  }
}

pthread_key_t MakeKey() {
  pthread_key_t key = 0;
  ::pthread_key_create(&key, DestroyNoted);
  return key;
}

}  // namespace

// The main thread's objects are not destroyed: it ends with the process, and all they have is
// memory.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the ABI's name.
extern "C" [[gnu::visibility("hidden")]] int __cxa_thread_atexit(void (*destroy)(void*),
                                                                 void* object, void* /*dso*/) {
  static const pthread_key_t key = MakeKey();
  if (count == kMost) return 0;
  noted[count++] = {destroy, object};
  // Without memory it may fail, and then this thread's objects are not destroyed.
  static_cast<void>(::pthread_setspecific(key, noted));
  return 0;
}
