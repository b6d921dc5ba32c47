// The objects of the stand-in driver: contexts, streams and their threads, events, memory, and the
// order in which work on it must happen (by vector clocks).
//
// All of it is guarded by driver_mutex, through D(), by which everything is found.
// Misuses are noted, as stand_in_driver.h lists them, and the work is done anyway if possible.

#ifndef SHARDFEED_TESTS_CUDA_STAND_IN_STREAMS_H_
#define SHARDFEED_TESTS_CUDA_STAND_IN_STREAMS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "cuda/driver.h"

namespace shardfeed::stand_in {

using Clock = std::chrono::steady_clock;

// How much of each stream's work is known to have happened.
using VectorClock = std::map<int, uint64_t>;

// A piece of work that was enqueued.
struct Work {
  std::function<void()> run;  // may be empty
  std::vector<std::shared_ptr<Work>> after;
  VectorClock clock;
  std::vector<const void*> touches;  // blocks of memory
  bool done = false;
  Clock::time_point time;
};

struct Context {
  int device = 0;
  int retained = 0;
  Mutex copying;  // one copy at a time
};

struct Stream {
  Context* context = nullptr;
  int id = 0;
  bool blocking = false;  // ordered with the legacy stream
  VectorClock clock;
  std::deque<std::shared_ptr<Work>> queue;
  std::shared_ptr<Work> last;
  bool closing = false;
  std::thread thread;
  int capture = kCuCaptureNone;
  int capture_mode = kCuCaptureModeGlobal;
  std::thread::id capturing_thread;
};

struct Event {
  Context* context = nullptr;
  bool timing = true;
  bool captured = false;  // last recorded in a capture
  std::shared_ptr<Work> recorded;
};

struct Access {
  uint64_t begin;
  uint64_t end;
  int stream;
  uint64_t number;
  bool write;
};

struct Memory {
  size_t size = 0;
  Context* context = nullptr;
  int under_way = 0;
  std::vector<Access> accesses;
};

struct Pinned {
  size_t size = 0;
  Context* context = nullptr;  // null if pinned for all contexts
  int under_way = 0;
};

struct Function {
  std::string name;
};
struct Module {
  Context* context = nullptr;
  std::string ptx;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

struct Driver {
  CondVar changed;
  bool initialized = false;
  double copy_bytes_per_second = 10e9;
  double kernel_seconds = 1e-4;
  bool work = true;
  std::string misuses;
  std::vector<std::unique_ptr<Context>> contexts;  // one for each device
  std::set<Stream*> streams;
  std::map<Context*, Stream*> legacy;
  std::map<std::pair<Context*, std::thread::id>, Stream*> per_thread;
  std::set<Event*> events;
  std::set<Module*> modules;
  std::map<uint64_t, Memory> memory;
  std::map<const char*, Pinned> pinned;
  VectorClock host;
  int num_streams = 0;
};

extern Mutex driver_mutex;
// The process that initialized the driver, or 0.
extern std::atomic<int> process;

// The driver of this process, which outlives everything: threads may run until the process ends.
Driver& D() ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

// The contexts that are current on this thread, the last one first. Needs no mutex.
extern thread_local std::vector<Context*> current;

// This thread's capture mode, as set by cuThreadExchangeStreamCaptureMode.
extern thread_local int thread_capture_mode;

// The mutex, for `call` to lock. Ends a process that was forked from the one that initialized the
// driver, where the mutex may be locked forever.
Mutex& MutexFor(const char* call) ABSL_LOCK_RETURNED(driver_mutex);
// Whether `call` may be made during the current captures; if not, it is a misuse that invalidates
// them.
bool IsSafe(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);
// Invalidates the captures of the context's streams. Returns false if there are none.
bool InvalidateCaptures(Context* context, const char* call)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

// Notes a misuse and returns `result`.
CuResult Misuse(CuResult result, const std::string& what)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

// The object of a handle, or null if it was destroyed.
template <typename T, typename Handle>
T* From(const std::set<T*>& known, Handle handle) {
  T* object = reinterpret_cast<T*>(handle);
  return known.contains(object) ? object : nullptr;
}

// The current context, or null, which is a misuse of `call`.
Context* Current(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

// Makes a stream with its thread. `blocking`: whether it is ordered with the legacy stream.
Stream* NewStream(Context* context, bool blocking) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);
// The stream of a handle, or null, which is a misuse of `call`.
Stream* StreamOf(CuStream handle, const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

// Adds to `clock` everything that `from` knows to have happened.
void Join(VectorClock* clock, const VectorClock& from);
// Appends work to a stream, whose thread does it without the mutex.
std::shared_ptr<Work> Enqueue(Stream* stream, std::shared_ptr<Work> work)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);
// Notes that `work`, which is about to be enqueued on `stream`, reads or writes device memory.
// Returns false if it is not device memory.
bool Touch(Stream* stream, Work* work, uint64_t begin, size_t size, bool write, const char* call)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);
// Waits for work, if there is any. Releases the mutex meanwhile.
void Await(MutexLock& lock, const std::shared_ptr<Work>& work)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

// The block of pinned memory that contains the whole range, or the end.
std::map<const char*, Pinned>::iterator FindPinned(const char* data, size_t size)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex);

}  // namespace shardfeed::stand_in

#endif  // SHARDFEED_TESTS_CUDA_STAND_IN_STREAMS_H_
