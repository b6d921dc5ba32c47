#include "tests/cuda/stand_in_streams.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "fmt/format.h"

namespace shardfeed::stand_in {
namespace {

// The body of a stream's thread.
void Run(Stream* stream) {
  MutexLock lock(driver_mutex);
  Driver& d = D();
  while (true) {
    d.changed.Wait(lock, [&] { return !stream->queue.empty() || stream->closing; });
    if (stream->queue.empty()) return;
    const std::shared_ptr<Work> work = stream->queue.front();
    d.changed.Wait(lock, [&] {
      return std::all_of(work->after.begin(), work->after.end(),
                         [](const auto& w) { return w->done; });
    });
    if (work->run) {
      lock.Unlock();
      work->run();
      lock.Lock();
    }
    work->after.clear();
    work->run = nullptr;
    work->done = true;
    work->time = Clock::now();
    for (const void* block : work->touches) {
      if (auto it = d.memory.find(reinterpret_cast<uint64_t>(block)); it != d.memory.end()) {
        --it->second.under_way;
      }
      if (auto it = d.pinned.find(static_cast<const char*>(block)); it != d.pinned.end()) {
        --it->second.under_way;
      }
    }
    stream->queue.pop_front();
    d.changed.NotifyAll();
  }
}

}  // namespace

void Join(VectorClock* clock, const VectorClock& from) {
  for (const auto& [stream, count] : from) {
    uint64_t& own = (*clock)[stream];
    own = std::max(own, count);
  }
}

Mutex driver_mutex;
std::atomic<int> process = 0;

Driver& D() {
  static auto* const driver = new Driver();
  return *driver;
}

thread_local std::vector<Context*> current;
thread_local int thread_capture_mode = kCuCaptureModeGlobal;

Mutex& MutexFor(const char* call) {
  if (process != 0 && process != getpid()) {
    std::fprintf(stderr, "%s: called in a child after fork\n", call);
    std::abort();
  }
  return driver_mutex;
}

// "Prohibited from potentially unsafe API calls", in the words of CUDA's documentation.
bool IsSafe(const char* call) {
  bool safe = true;
  if (thread_capture_mode == kCuCaptureModeRelaxed) return safe;
  for (Stream* stream : D().streams) {
    if (stream->capture != kCuCaptureActive) continue;
    const bool own = stream->capturing_thread == std::this_thread::get_id();
    if (own ? stream->capture_mode == kCuCaptureModeRelaxed
            : stream->capture_mode != kCuCaptureModeGlobal ||
                  thread_capture_mode == kCuCaptureModeThreadLocal) {
      continue;
    }
    stream->capture = kCuCaptureOfInvalidated;
    safe = false;
  }
  if (!safe) Misuse(0, fmt::format("{}: invalidates a capture that is under way", call));
  return safe;
}

bool InvalidateCaptures(Context* context, const char* call) {
  bool found = false;
  for (Stream* stream : D().streams) {
    if (stream->context != context || stream->capture != kCuCaptureActive) continue;
    stream->capture = kCuCaptureOfInvalidated;
    found = true;
  }
  if (found) Misuse(0, fmt::format("{}: invalidates a capture that is under way", call));
  return found;
}

CuResult Misuse(CuResult result, const std::string& what) {
  D().misuses += what + "\n";
  return result;
}

Context* Current(const char* call) {
  if (!current.empty()) return current.back();
  Misuse(0, fmt::format("{}: no context is current", call));
  return nullptr;
}

Stream* NewStream(Context* context, bool blocking) {
  Driver& d = D();
  auto* stream = new Stream();
  stream->context = context;
  stream->id = ++d.num_streams;
  stream->blocking = blocking;
  stream->thread = std::thread([stream] { Run(stream); });
  d.streams.insert(stream);
  return stream;
}

Stream* StreamOf(CuStream handle, const char* call) {
  Driver& d = D();
  Context* context = Current(call);
  if (context == nullptr) return nullptr;
  if (handle == nullptr || handle == CuStreamLegacy()) {
    Stream*& legacy = d.legacy[context];
    if (legacy == nullptr) legacy = NewStream(context, false);
    return legacy;
  }
  if (handle == CuStreamPerThread()) {
    Stream*& own = d.per_thread[{context, std::this_thread::get_id()}];
    if (own == nullptr) own = NewStream(context, true);
    return own;
  }
  Stream* stream = From(d.streams, handle);
  if (stream == nullptr) Misuse(0, fmt::format("{}: the stream is gone", call));
  return stream;
}

std::shared_ptr<Work> Enqueue(Stream* stream, std::shared_ptr<Work> work) {
  Driver& d = D();
  // Captured work is not run.
  if (stream->capture != kCuCaptureNone) {
    work->done = true;
    return work;
  }
  // The legacy stream and blocking streams wait for each other.
  Stream* const legacy = d.legacy.contains(stream->context) ? d.legacy[stream->context] : nullptr;
  for (Stream* other : d.streams) {
    if (other == stream || other->context != stream->context || other->last == nullptr) continue;
    if ((stream == legacy && other->blocking) || (other == legacy && stream->blocking)) {
      work->after.push_back(other->last);
    }
  }
  for (const auto& before : work->after) Join(&stream->clock, before->clock);
  Join(&stream->clock, d.host);
  ++stream->clock[stream->id];
  work->clock = stream->clock;
  stream->queue.push_back(work);
  stream->last = work;
  d.changed.NotifyAll();
  return work;
}

bool Touch(Stream* stream, Work* work, uint64_t begin, size_t size, bool write, const char* call) {
  Driver& d = D();
  if (size == 0 || stream->capture != kCuCaptureNone) return true;
  auto it = d.memory.upper_bound(begin);
  if (it == d.memory.begin() || begin + size > (--it)->first + it->second.size) {
    Misuse(0, fmt::format("{}: {} bytes at {:x} are not device memory", call, size, begin));
    return false;
  }
  Memory& memory = it->second;
  if (memory.context != stream->context) {
    Misuse(0, fmt::format("{}: memory of device {} on a stream of device {}", call,
                          memory.context->device, stream->context->device));
    return false;
  }
  // The clock that Enqueue will set.
  VectorClock clock = stream->clock;
  Join(&clock, d.host);
  Stream* const legacy = d.legacy.contains(stream->context) ? d.legacy[stream->context] : nullptr;
  for (Stream* other : d.streams) {
    if (other->context != stream->context || other->last == nullptr) continue;
    if ((stream == legacy && other->blocking) || (other == legacy && stream->blocking)) {
      Join(&clock, other->last->clock);
    }
  }
  const Access now = {begin, begin + size, stream->id, clock[stream->id] + 1, write};
  bool told = false;
  const auto superseded = [&](const Access& was) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_mutex) {
    if (was.end <= now.begin || now.end <= was.begin) return false;
    const bool ordered = was.stream == stream->id || clock[was.stream] >= was.number;
    if (!ordered && (was.write || write) && !std::exchange(told, true)) {
      Misuse(0, fmt::format("{}: stream {} {} what stream {} {}, in no order", call, stream->id,
                            write ? "overwrites" : "reads", was.stream,
                            was.write ? "writes" : "reads"));
    }
    const bool covered = now.begin <= was.begin && was.end <= now.end;
    return ordered && covered && (write || !was.write);
  };
  std::erase_if(memory.accesses, superseded);
  memory.accesses.push_back(now);
  ++memory.under_way;
  work->touches.push_back(reinterpret_cast<const void*>(it->first));
  return true;
}

std::map<const char*, Pinned>::iterator FindPinned(const char* data, size_t size) {
  Driver& d = D();
  auto it = d.pinned.upper_bound(data);
  if (it == d.pinned.begin()) return d.pinned.end();
  --it;
  return data + size <= it->first + it->second.size ? it : d.pinned.end();
}

void Await(MutexLock& lock, const std::shared_ptr<Work>& work) {
  Driver& d = D();
  if (work == nullptr) return;
  d.changed.Wait(lock, [&] { return work->done; });
  Join(&d.host, work->clock);
}

}  // namespace shardfeed::stand_in
