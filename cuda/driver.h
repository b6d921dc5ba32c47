// The CUDA driver, loaded on first use: one binary serves machines with and without a GPU, and
// building needs no CUDA toolkit.
//
// The types, constants and calls are those of NVIDIA's CUDA Driver API; only what is used is
// declared. Names with a version (_v2) are part of the driver's binary interface and do not change.

#ifndef SHARDFEED_CUDA_DRIVER_H_
#define SHARDFEED_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/cuda.h"

namespace shardfeed {

using CuResult = int;
using CuDevice = int;
using CuContext = struct CuContextObject*;
using CuModule = struct CuModuleObject*;
using CuFunction = struct CuFunctionObject*;

constexpr CuResult kCuSuccess = 0;
constexpr CuResult kCuErrorInvalidValue = 1;
constexpr CuResult kCuErrorOutOfMemory = 2;
constexpr CuResult kCuErrorDeinitialized = 4;
constexpr CuResult kCuErrorNoDevice = 100;
constexpr CuResult kCuErrorInvalidDevice = 101;
constexpr CuResult kCuErrorInvalidContext = 201;
constexpr CuResult kCuErrorInvalidHandle = 400;
constexpr CuResult kCuErrorNotFound = 500;
constexpr CuResult kCuErrorNotReady = 600;
constexpr CuResult kCuErrorCaptureUnsupported = 900;
constexpr CuResult kCuErrorCaptureInvalidated = 901;
constexpr CuResult kCuErrorCaptureIsolation = 905;
constexpr CuResult kCuErrorCaptureImplicit = 906;
constexpr CuResult kCuErrorCapturedEvent = 907;

constexpr unsigned kCuStreamNonBlocking = 1;
constexpr unsigned kCuEventBlockingSync = 1;
constexpr unsigned kCuEventDisableTiming = 2;
constexpr unsigned kCuMemHostRegisterPortable = 1;

// CUstreamCaptureMode: whose captures forbid calls to this thread.
constexpr int kCuCaptureModeGlobal = 0;
constexpr int kCuCaptureModeThreadLocal = 1;
constexpr int kCuCaptureModeRelaxed = 2;
// CUstreamCaptureStatus
constexpr int kCuCaptureNone = 0;
constexpr int kCuCaptureActive = 1;
constexpr int kCuCaptureOfInvalidated = 2;

// The calls, by their names without "cu" and version. Thread-safe, as CUDA's are.
struct CudaDriver {
  CuResult (*Init)(unsigned flags);
  CuResult (*DriverGetVersion)(int* version);
  CuResult (*GetErrorName)(CuResult error, const char** name);
  CuResult (*GetErrorString)(CuResult error, const char** text);

  CuResult (*DeviceGetCount)(int* count);
  CuResult (*DeviceGet)(CuDevice* device, int ordinal);
  CuResult (*DeviceGetName)(char* name, int size, CuDevice device);
  CuResult (*DeviceGetPCIBusId)(char* id, int size, CuDevice device);
  CuResult (*DevicePrimaryCtxRetain)(CuContext* context, CuDevice device);
  CuResult (*DevicePrimaryCtxRelease)(CuDevice device);
  CuResult (*CtxPushCurrent)(CuContext context);
  CuResult (*CtxPopCurrent)(CuContext* context);
  CuResult (*CtxSynchronize)();
  CuResult (*ThreadExchangeStreamCaptureMode)(int* mode);

  CuResult (*MemHostRegister)(void* memory, size_t bytes, unsigned flags);
  CuResult (*MemHostUnregister)(void* memory);
  CuResult (*MemAlloc)(CuDevicePtr* memory, size_t bytes);
  CuResult (*MemFree)(CuDevicePtr memory);
  CuResult (*MemcpyHtoDAsync)(CuDevicePtr to, const void* from, size_t bytes, CuStream stream);
  CuResult (*MemcpyDtoHAsync)(void* to, CuDevicePtr from, size_t bytes, CuStream stream);

  CuResult (*StreamCreate)(CuStream* stream, unsigned flags);
  CuResult (*StreamDestroy)(CuStream stream);
  CuResult (*StreamSynchronize)(CuStream stream);
  CuResult (*StreamWaitEvent)(CuStream stream, CuEvent event, unsigned flags);
  CuResult (*StreamGetCtx)(CuStream stream, CuContext* context);
  CuResult (*StreamIsCapturing)(CuStream stream, int* status);

  CuResult (*EventCreate)(CuEvent* event, unsigned flags);
  CuResult (*EventDestroy)(CuEvent event);
  CuResult (*EventRecord)(CuEvent event, CuStream stream);
  CuResult (*EventQuery)(CuEvent event);
  CuResult (*EventSynchronize)(CuEvent event);
  CuResult (*EventElapsedTime)(float* milliseconds, CuEvent start, CuEvent end);

  CuResult (*ModuleLoadData)(CuModule* module, const void* image);
  CuResult (*ModuleUnload)(CuModule module);
  CuResult (*ModuleGetFunction)(CuFunction* function, CuModule module, const char* name);
  CuResult (*LaunchKernel)(CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, CuStream stream, void** params, void** extra);

  std::string path;
  int version = 0;  // the newest CUDA that it supports: 13000 is 13.0

  // OK, or the error of `call`, which is a name as above with "cu": "cuMemAlloc:
  // CUDA_ERROR_OUT_OF_MEMORY (error 2: out of memory)".
  absl::Status Check(CuResult result, std::string_view call) const;

  // Loads libcuda.so.1, or the library that the environment variable SHARDFEED_CUDA_DRIVER names,
  // and initializes it. Later calls for the same library return the same driver. Thread-safe.
  // Unavailable: there is no driver or no device; the message says what was tried.
  // FailedPrecondition: this process was forked after its parent had loaded it.
  static absl::StatusOr<const CudaDriver*> Load();
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_DRIVER_H_
