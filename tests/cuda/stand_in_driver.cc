#include "tests/cuda/stand_in_driver.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "fmt/format.h"
#include "tests/cuda/stand_in_kernels.h"
#include "tests/cuda/stand_in_streams.h"

namespace {

using namespace shardfeed;
using namespace shardfeed::stand_in;

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

uint64_t Sum(const char* data, size_t size) {
  uint64_t sum = 0;
  for (size_t i = 0; i < size; ++i) sum = sum * 31 + static_cast<unsigned char>(data[i]);
  return sum;
}

}  // namespace

extern "C" {

void StandInSetSpeed(double copy_bytes_per_second, double kernel_seconds) {
  MutexLock lock(driver_mutex);
  Driver& d = D();
  d.copy_bytes_per_second = copy_bytes_per_second;
  d.kernel_seconds = kernel_seconds;
}

void StandInSetWork(int work) {
  MutexLock lock(driver_mutex);
  Driver& d = D();
  d.work = work != 0;
}

const char* StandInTakeMisuses() {
  static std::string taken;
  MutexLock lock(driver_mutex);
  Driver& d = D();
  taken = std::exchange(d.misuses, "");
  return taken.c_str();
}

CuResult cuInit(unsigned) {
  MutexLock lock(MutexFor("cuInit"));
  Driver& d = D();
  const char* devices = std::getenv("STAND_IN_DEVICES");
  const int count = devices == nullptr ? 2 : std::atoi(devices);
  if (count == 0) return kCuErrorNoDevice;
  process = getpid();
  for (int i = 0; !d.initialized && i < count; ++i) {
    d.contexts.push_back(std::make_unique<Context>());
    d.contexts.back()->device = i;
  }
  d.initialized = true;
  return kCuSuccess;
}
CuResult cuDriverGetVersion(int* version) {
  *version = 12000;
  return kCuSuccess;
}
CuResult cuGetErrorName(CuResult error, const char** name) {
  *name = error == kCuErrorOutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == kCuErrorNoDevice       ? "CUDA_ERROR_NO_DEVICE"
          : error == kCuErrorInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
                                            : "CUDA_ERROR";
  return kCuSuccess;
}
CuResult cuGetErrorString(CuResult, const char** text) {
  *text = "the stand-in driver says so";
  return kCuSuccess;
}

CuResult cuDeviceGetCount(int* count) {
  MutexLock lock(MutexFor("cuDeviceGetCount"));
  Driver& d = D();
  *count = static_cast<int>(d.contexts.size());
  return kCuSuccess;
}
CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  MutexLock lock(MutexFor("cuDeviceGet"));
  Driver& d = D();
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= d.contexts.size()) {
    return kCuErrorInvalidDevice;
  }
  *device = ordinal;
  return kCuSuccess;
}
CuResult cuDeviceGetName(char* name, int size, CuDevice device) {
  std::snprintf(name, size, "stand-in %d", device);
  return kCuSuccess;
}
CuResult cuDeviceGetPCIBusId(char* id, int size, CuDevice device) {
  std::snprintf(id, size, "FFFF:%02X:00.0", device);
  return kCuSuccess;
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  MutexLock lock(MutexFor("cuDevicePrimaryCtxRetain"));
  Driver& d = D();
  ++d.contexts.at(device)->retained;
  *context = reinterpret_cast<CuContext>(d.contexts[device].get());
  return kCuSuccess;
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice device) {
  MutexLock lock(MutexFor("cuDevicePrimaryCtxRelease"));
  Driver& d = D();
  Context* const context = d.contexts.at(device).get();
  if (--context->retained > 0) return kCuSuccess;
  const auto of = [&](const auto& objects) {
    return std::count_if(objects.begin(), objects.end(),
                         [&](const auto* object) { return object->context == context; });
  };
  std::vector<Stream*> own;  // streams of the context
  if (d.legacy.contains(context)) own.push_back(d.legacy[context]);
  for (const auto& [key, stream] : d.per_thread) {
    if (key.first == context) own.push_back(stream);
  }
  const auto memory = std::count_if(d.memory.begin(), d.memory.end(), [&](const auto& entry) {
    return entry.second.context == context;
  });
  const auto streams = of(d.streams) - static_cast<std::ptrdiff_t>(own.size());
  const auto events = of(d.events);
  const auto modules = of(d.modules);
  if (streams + events + modules + memory > 0) {
    Misuse(0, fmt::format("device {}: left over: {} streams, {} events, {} modules, {} blocks",
                          device, streams, events, modules, memory));
  }
  return kCuSuccess;
}
CuResult cuCtxPushCurrent_v2(CuContext context) {
  MutexLock lock(MutexFor("cuCtxPushCurrent"));
  Driver& d = D();
  auto* pushed = reinterpret_cast<Context*>(context);
  for (const auto& known : d.contexts) {
    if (known.get() != pushed) continue;
    if (pushed->retained == 0) break;
    current.push_back(pushed);
    return kCuSuccess;
  }
  return Misuse(kCuErrorInvalidContext, "cuCtxPushCurrent: the context is gone");
}
CuResult cuCtxPopCurrent_v2(CuContext* context) {
  MutexLock lock(MutexFor("cuCtxPopCurrent"));
  if (current.empty()) return Misuse(kCuErrorInvalidContext, "cuCtxPopCurrent: there is none");
  *context = reinterpret_cast<CuContext>(current.back());
  current.pop_back();
  return kCuSuccess;
}

CuResult cuCtxSynchronize() {
  MutexLock lock(MutexFor("cuCtxSynchronize"));
  Driver& d = D();
  Context* context = Current("cuCtxSynchronize");
  if (context == nullptr) return kCuErrorInvalidContext;
  if (InvalidateCaptures(context, "cuCtxSynchronize")) return kCuErrorCaptureUnsupported;
  std::vector<std::shared_ptr<Work>> last;
  for (Stream* stream : d.streams) {
    if (stream->context == context) last.push_back(stream->last);
  }
  for (const std::shared_ptr<Work>& work : last) Await(lock, work);
  return kCuSuccess;
}
CuResult cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, thread_capture_mode);
  return kCuSuccess;
}

CuResult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned flags) {
  MutexLock lock(MutexFor("cuMemHostRegister"));
  Driver& d = D();
  Context* context = Current("cuMemHostRegister");
  if (context == nullptr) return kCuErrorInvalidContext;
  if (!IsSafe("cuMemHostRegister")) return kCuErrorCaptureUnsupported;
  const char* limit = std::getenv("STAND_IN_PINNED_LIMIT");
  if (limit != nullptr && bytes > std::strtoull(limit, nullptr, 10)) return kCuErrorOutOfMemory;
  const bool portable = (flags & kCuMemHostRegisterPortable) != 0;
  d.pinned[static_cast<char*>(memory)] = {.size = bytes, .context = portable ? nullptr : context};
  return kCuSuccess;
}
CuResult cuMemHostUnregister(void* memory) {
  MutexLock lock(MutexFor("cuMemHostUnregister"));
  Driver& d = D();
  if (!IsSafe("cuMemHostUnregister")) return kCuErrorCaptureUnsupported;
  const auto it = d.pinned.find(static_cast<char*>(memory));
  if (it == d.pinned.end()) {
    return Misuse(kCuErrorInvalidValue, "cuMemHostUnregister: memory is not pinned");
  }
  if (it->second.under_way > 0) Misuse(0, "cuMemHostUnregister: a copy from it is under way");
  d.pinned.erase(it);
  return kCuSuccess;
}
CuResult cuMemAlloc_v2(CuDevicePtr* memory, size_t bytes) {
  MutexLock lock(MutexFor("cuMemAlloc"));
  Driver& d = D();
  Context* context = Current("cuMemAlloc");
  if (context == nullptr) return kCuErrorInvalidContext;
  if (!IsSafe("cuMemAlloc")) return kCuErrorCaptureUnsupported;
  const char* limit = std::getenv("STAND_IN_MEMORY_LIMIT");
  if (bytes == 0) return kCuErrorInvalidValue;
  if (limit != nullptr && bytes > std::strtoull(limit, nullptr, 10)) return kCuErrorOutOfMemory;
  *memory = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  d.memory[*memory] = {.size = bytes, .context = context};
  return kCuSuccess;
}
CuResult cuMemFree_v2(CuDevicePtr memory) {
  MutexLock lock(MutexFor("cuMemFree"));
  Driver& d = D();
  const auto it = d.memory.find(memory);
  if (it == d.memory.end()) {
    return Misuse(kCuErrorInvalidValue, "cuMemFree: no such memory; freed twice?");
  }
  if (Current("cuMemFree") == nullptr) return kCuErrorInvalidContext;
  if (!IsSafe("cuMemFree")) return kCuErrorCaptureUnsupported;
  if (it->second.under_way > 0) {
    Misuse(0, "cuMemFree: work on it is under way");
    d.changed.Wait(lock, [&] { return it->second.under_way == 0; });
  }
  d.memory.erase(it);
  std::free(reinterpret_cast<void*>(memory));
  return kCuSuccess;
}
CuResult cuMemcpyHtoDAsync_v2(CuDevicePtr to, const void* from, size_t bytes, CuStream handle) {
  MutexLock lock(MutexFor("cuMemcpyHtoDAsync"));
  Driver& d = D();
  Stream* stream = StreamOf(handle, "cuMemcpyHtoDAsync");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  auto work = std::make_shared<Work>();
  const char* source = static_cast<const char*>(from);
  const auto block = FindPinned(source, bytes);
  if (block == d.pinned.end()) {
    return Misuse(kCuErrorInvalidValue, "cuMemcpyHtoDAsync: the source is not pinned");
  }
  if (block->second.context != nullptr && block->second.context != stream->context) {
    Misuse(0, fmt::format("cuMemcpyHtoDAsync: the source is pinned for device {}, not for {}",
                          block->second.context->device, stream->context->device));
  }
  if (!Touch(stream, work.get(), to, bytes, true, "cuMemcpyHtoDAsync")) return kCuErrorInvalidValue;
  ++block->second.under_way;
  work->touches.push_back(block->first);
  const bool moves = d.work;
  const uint64_t sum = moves ? Sum(source, bytes) : 0;
  const double seconds = static_cast<double>(bytes) / d.copy_bytes_per_second;
  work->run = [=, context = stream->context] {
    MutexLock one(context->copying);
    Sleep(seconds);
    if (!moves) return;
    std::memcpy(reinterpret_cast<void*>(to), source, bytes);
    if (Sum(reinterpret_cast<const char*>(to), bytes) != sum) {
      MutexLock inner(driver_mutex);
      Misuse(0, "cuMemcpyHtoDAsync: the source changed before it was copied");
    }
  };
  Enqueue(stream, std::move(work));
  return kCuSuccess;
}
CuResult cuMemcpyDtoHAsync_v2(void* to, CuDevicePtr from, size_t bytes, CuStream handle) {
  MutexLock lock(MutexFor("cuMemcpyDtoHAsync"));
  Driver& d = D();
  Stream* stream = StreamOf(handle, "cuMemcpyDtoHAsync");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  auto work = std::make_shared<Work>();
  if (!Touch(stream, work.get(), from, bytes, false, "cuMemcpyDtoHAsync")) {
    return kCuErrorInvalidValue;
  }
  const double seconds = static_cast<double>(bytes) / d.copy_bytes_per_second;
  work->run = [=] {
    Sleep(seconds);
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  };
  Enqueue(stream, std::move(work));
  return kCuSuccess;
}

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  MutexLock lock(MutexFor("cuStreamCreate"));
  Context* context = Current("cuStreamCreate");
  if (context == nullptr) return kCuErrorInvalidContext;
  *stream = reinterpret_cast<CuStream>(NewStream(context, flags != kCuStreamNonBlocking));
  return kCuSuccess;
}
CuResult cuStreamDestroy_v2(CuStream handle) {
  MutexLock lock(MutexFor("cuStreamDestroy"));
  Driver& d = D();
  Stream* stream = From(d.streams, handle);
  if (stream == nullptr) return Misuse(kCuErrorInvalidHandle, "cuStreamDestroy: it is gone");
  d.streams.erase(stream);
  stream->closing = true;
  d.changed.NotifyAll();
  lock.Unlock();
  stream->thread.join();
  delete stream;
  return kCuSuccess;
}
CuResult cuStreamSynchronize(CuStream handle) {
  MutexLock lock(MutexFor("cuStreamSynchronize"));
  Stream* stream = StreamOf(handle, "cuStreamSynchronize");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  if (stream->capture != kCuCaptureNone) {
    stream->capture = kCuCaptureOfInvalidated;
    return Misuse(kCuErrorCaptureUnsupported, "cuStreamSynchronize: the stream is being captured");
  }
  if (!IsSafe("cuStreamSynchronize")) return kCuErrorCaptureUnsupported;
  Await(lock, stream->last);
  return kCuSuccess;
}
CuResult cuStreamWaitEvent(CuStream handle, CuEvent event_handle, unsigned) {
  MutexLock lock(MutexFor("cuStreamWaitEvent"));
  Driver& d = D();
  Stream* stream = StreamOf(handle, "cuStreamWaitEvent");
  Event* event = From(d.events, event_handle);
  if (stream == nullptr) return kCuErrorInvalidHandle;
  if (event == nullptr) return Misuse(kCuErrorInvalidHandle, "cuStreamWaitEvent: no such event");
  if (stream->capture != kCuCaptureNone || event->captured) {
    stream->capture = kCuCaptureOfInvalidated;
    return Misuse(kCuErrorCaptureIsolation,
                  "cuStreamWaitEvent: what is captured waits for what is not, or the other way");
  }
  if (event->recorded == nullptr) return kCuSuccess;
  auto work = std::make_shared<Work>();
  work->after.push_back(event->recorded);
  Enqueue(stream, std::move(work));
  return kCuSuccess;
}
CuResult cuStreamGetCtx(CuStream handle, CuContext* context) {
  MutexLock lock(MutexFor("cuStreamGetCtx"));
  Stream* stream = StreamOf(handle, "cuStreamGetCtx");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  *context = reinterpret_cast<CuContext>(stream->context);
  return kCuSuccess;
}

CuResult cuStreamIsCapturing(CuStream handle, int* status) {
  MutexLock lock(MutexFor("cuStreamIsCapturing"));
  Driver& d = D();
  Stream* stream = StreamOf(handle, "cuStreamIsCapturing");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  *status = stream->capture;
  // The legacy stream would wait for blocking streams.
  const auto legacy = d.legacy.find(stream->context);
  if (legacy == d.legacy.end() || legacy->second != stream) return kCuSuccess;
  const bool waits = std::any_of(d.streams.begin(), d.streams.end(), [&](const Stream* other) {
    return other->context == stream->context && other->blocking && other->capture != kCuCaptureNone;
  });
  return waits ? kCuErrorCaptureImplicit : kCuSuccess;
}
CuResult cuStreamBeginCapture_v2(CuStream handle, int mode) {
  MutexLock lock(MutexFor("cuStreamBeginCapture"));
  Stream* stream = StreamOf(handle, "cuStreamBeginCapture");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  stream->capture = kCuCaptureActive;
  stream->capture_mode = mode;
  stream->capturing_thread = std::this_thread::get_id();
  return kCuSuccess;
}
// No graph is made: `graph` is set to null.
CuResult cuStreamEndCapture(CuStream handle, void** graph) {
  MutexLock lock(MutexFor("cuStreamEndCapture"));
  *graph = nullptr;
  Stream* stream = StreamOf(handle, "cuStreamEndCapture");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  return std::exchange(stream->capture, kCuCaptureNone) == kCuCaptureActive
             ? kCuSuccess
             : kCuErrorCaptureInvalidated;
}

CuResult cuEventCreate(CuEvent* event, unsigned flags) {
  MutexLock lock(MutexFor("cuEventCreate"));
  Driver& d = D();
  Context* context = Current("cuEventCreate");
  if (context == nullptr) return kCuErrorInvalidContext;
  auto* made = new Event();
  made->context = context;
  made->timing = (flags & kCuEventDisableTiming) == 0;
  d.events.insert(made);
  *event = reinterpret_cast<CuEvent>(made);
  return kCuSuccess;
}
CuResult cuEventDestroy_v2(CuEvent handle) {
  MutexLock lock(MutexFor("cuEventDestroy"));
  Driver& d = D();
  Event* event = From(d.events, handle);
  if (event == nullptr) return Misuse(kCuErrorInvalidHandle, "cuEventDestroy: it is gone");
  d.events.erase(event);
  delete event;
  return kCuSuccess;
}
CuResult cuEventRecord(CuEvent handle, CuStream stream_handle) {
  MutexLock lock(MutexFor("cuEventRecord"));
  Driver& d = D();
  Stream* stream = StreamOf(stream_handle, "cuEventRecord");
  Event* event = From(d.events, handle);
  if (stream == nullptr) return kCuErrorInvalidHandle;
  if (event == nullptr) return Misuse(kCuErrorInvalidHandle, "cuEventRecord: no such event");
  if (event->context != stream->context) {
    return Misuse(kCuErrorInvalidHandle, "cuEventRecord: event and stream of different contexts");
  }
  event->captured = stream->capture != kCuCaptureNone;
  event->recorded = Enqueue(stream, std::make_shared<Work>());
  return kCuSuccess;
}
CuResult cuEventQuery(CuEvent handle) {
  MutexLock lock(MutexFor("cuEventQuery"));
  Driver& d = D();
  Event* event = From(d.events, handle);
  if (event == nullptr) return Misuse(kCuErrorInvalidHandle, "cuEventQuery: no such event");
  if (event->captured) return Misuse(kCuErrorCapturedEvent, "cuEventQuery: it was captured");
  if (!IsSafe("cuEventQuery")) return kCuErrorCaptureUnsupported;
  if (event->recorded == nullptr) return kCuSuccess;
  if (!event->recorded->done) return kCuErrorNotReady;
  Join(&d.host, event->recorded->clock);
  return kCuSuccess;
}
CuResult cuEventSynchronize(CuEvent handle) {
  MutexLock lock(MutexFor("cuEventSynchronize"));
  Driver& d = D();
  Event* event = From(d.events, handle);
  if (event == nullptr) return Misuse(kCuErrorInvalidHandle, "cuEventSynchronize: no such event");
  if (event->captured) return Misuse(kCuErrorCapturedEvent, "cuEventSynchronize: it was captured");
  if (!IsSafe("cuEventSynchronize")) return kCuErrorCaptureUnsupported;
  Await(lock, event->recorded);
  return kCuSuccess;
}
CuResult cuEventElapsedTime(float* milliseconds, CuEvent start_handle, CuEvent end_handle) {
  MutexLock lock(MutexFor("cuEventElapsedTime"));
  Driver& d = D();
  Event* start = From(d.events, start_handle);
  Event* end = From(d.events, end_handle);
  if (start == nullptr || end == nullptr || !start->timing || !end->timing ||
      start->recorded == nullptr || end->recorded == nullptr) {
    return Misuse(kCuErrorInvalidHandle, "cuEventElapsedTime: not two events that were timed");
  }
  if (!start->recorded->done || !end->recorded->done) return kCuErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->recorded->time - start->recorded->time).count();
  return kCuSuccess;
}

CuResult cuModuleLoadData(CuModule* module, const void* image) {
  MutexLock lock(MutexFor("cuModuleLoadData"));
  Driver& d = D();
  Context* context = Current("cuModuleLoadData");
  if (context == nullptr) return kCuErrorInvalidContext;
  auto* made = new Module();
  made->context = context;
  made->ptx = static_cast<const char*>(image);
  d.modules.insert(made);
  *module = reinterpret_cast<CuModule>(made);
  return kCuSuccess;
}
CuResult cuModuleUnload(CuModule handle) {
  MutexLock lock(MutexFor("cuModuleUnload"));
  Driver& d = D();
  Module* module = From(d.modules, handle);
  if (module == nullptr) return Misuse(kCuErrorInvalidHandle, "cuModuleUnload: it is gone");
  d.modules.erase(module);
  delete module;
  return kCuSuccess;
}
CuResult cuModuleGetFunction(CuFunction* function, CuModule handle, const char* name) {
  MutexLock lock(MutexFor("cuModuleGetFunction"));
  Driver& d = D();
  Module* module = From(d.modules, handle);
  if (module == nullptr) return Misuse(kCuErrorInvalidHandle, "cuModuleGetFunction: no module");
  if (module->ptx.find(fmt::format(".entry {}(", name)) == std::string::npos) {
    return kCuErrorNotFound;
  }
  std::unique_ptr<Function>& found = module->functions[name];
  if (found == nullptr) found = std::make_unique<Function>(Function{name});
  *function = reinterpret_cast<CuFunction>(found.get());
  return kCuSuccess;
}
CuResult cuLaunchKernel(CuFunction handle, unsigned grid_x, unsigned grid_y, unsigned,
                        unsigned block_x, unsigned, unsigned, unsigned, CuStream stream_handle,
                        void** params, void**) {
  MutexLock lock(MutexFor("cuLaunchKernel"));
  Driver& d = D();
  Stream* stream = StreamOf(stream_handle, "cuLaunchKernel");
  if (stream == nullptr) return kCuErrorInvalidHandle;
  const std::string& name = reinterpret_cast<Function*>(handle)->name;
  auto work = std::make_shared<Work>();
  if (name == "spin") {
    const double seconds = static_cast<double>(*static_cast<uint64_t*>(params[0])) * 1e-9;
    work->run = [=] { Sleep(seconds); };
    Enqueue(stream, std::move(work));
    return kCuSuccess;
  }
  const NormalizeKernel kernel = FindNormalizeKernel(name);
  if (kernel == nullptr) return Misuse(kCuErrorNotFound, "cuLaunchKernel: unknown: " + name);
  const auto args = *static_cast<NormalizeArgs*>(params[0]);
  const size_t values = size_t{args.images} * args.height * args.width * args.channels;
  const size_t size = name.find("float32") != std::string::npos ? 4 : 2;
  const auto at = [](const void* p) { return reinterpret_cast<uint64_t>(p); };
  const char* call = "cuLaunchKernel";
  if (!Touch(stream, work.get(), at(args.in), values, false, call) ||
      !Touch(stream, work.get(), at(args.flip), args.flip == nullptr ? 0 : args.images, false,
             call) ||
      !Touch(stream, work.get(), at(args.out), values * size, true, call)) {
    return kCuErrorInvalidValue;
  }
  const bool works = d.work;
  const double seconds = d.kernel_seconds;
  work->run = [=] {
    Sleep(seconds);
    if (works) RunKernel(kernel, args, grid_x, grid_y, block_x);
  };
  Enqueue(stream, std::move(work));
  return kCuSuccess;
}

}  // extern "C"
