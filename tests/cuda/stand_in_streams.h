// What the stand-in driver knows: contexts, streams and their threads, events, memory, and in which
// order work on it is bound to happen (by vector clocks).
//
// All of it belongs to Driver::mutex, which callers hold, but for what a comment says otherwise.
// Misuses are noted, as stand_in_driver.h lists them, and the work is done all the same where it
// can be.

#ifndef SHARDFEED_TESTS_CUDA_STAND_IN_STREAMS_H_
#define SHARDFEED_TESTS_CUDA_STAND_IN_STREAMS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver.h"

namespace shardfeed::stand_in {

using Clock = std::chrono::steady_clock;
using Lock = std::unique_lock<std::mutex>;

// What is known to have happened: of each stream, how much of its work.
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
  std::mutex copying;  // one copy at a time
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
  bool captured = false;  // recorded in a graph last
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
  Context* context = nullptr;  // null: pinned for all
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
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  bool initialised = false;
  int process = 0;
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

// The driver of this process, which outlives everything: threads may run until the process ends.
Driver& D();

// Contexts that are current on this thread, the last one first. Needs no mutex.
extern thread_local std::vector<Context*> current;

// What captures forbid to this thread, as cuThreadExchangeStreamCaptureMode has it.
extern thread_local int thread_capture_mode;

// Ends a process that was forked from the one that initialised the driver. Takes the mutex, which
// in such a process may be locked for ever, for the other functions.
Lock LockDriver(const char* call);
// Whether `call` may be made beside the captures under way; if not, a misuse that invalidates them.
bool IsSafe(const char* call);
// Invalidates the captures of the context's streams. False: there are none.
bool InvalidateCaptures(Context* context, const char* call);

// Notes a misuse and returns `result`.
CuResult Misuse(CuResult result, const std::string& what);

// The object that a handle stands for, or null where it is gone.
template <typename T, typename Handle>
T* From(const std::set<T*>& known, Handle handle) {
  T* object = reinterpret_cast<T*>(handle);
  return known.contains(object) ? object : nullptr;
}

// The context that is current, or null, which is a misuse of `call`.
Context* Current(const char* call);

// A stream with its thread. `blocking`: it is ordered with the legacy stream.
Stream* NewStream(Context* context, bool blocking);
// The stream that a handle stands for, or null, which is a misuse of `call`.
Stream* StreamOf(CuStream handle, const char* call);

// To `clock` comes all that `from` knows to have happened.
void Join(VectorClock* clock, const VectorClock& from);
// Puts work behind what its stream has; the stream's thread does it without the mutex.
std::shared_ptr<Work> Enqueue(Stream* stream, std::shared_ptr<Work> work);
// Says that `work`, which is about to be enqueued on `stream`, reads or writes device memory.
// False: it is no such memory.
bool Touch(Stream* stream, Work* work, uint64_t begin, size_t size, bool write, const char* call);
// Waits for work, if there is any. Lets go of the mutex, which `lock` holds, meanwhile.
void Await(Lock& lock, const std::shared_ptr<Work>& work);

// The block of pinned memory that holds all of it, or the end.
std::map<const char*, Pinned>::iterator FindPinned(const char* data, size_t size);

}  // namespace shardfeed::stand_in

#endif  // SHARDFEED_TESTS_CUDA_STAND_IN_STREAMS_H_
