#include "cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "base/fork_count.h"
#include "base/mutex.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr const char* kPathVariable = "SHARDFEED_CUDA_DRIVER";

template <typename Function>
void Find(void* library, const char* name, Function* function, std::string* missing) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) *missing += fmt::format("{}{}", missing->empty() ? "" : ", ", name);
}

std::string FindAll(void* library, CudaDriver* d) {
  std::string missing;
  const auto find = [&](const char* name, auto* function) {
    Find(library, name, function, &missing);
  };
  find("cuInit", &d->Init);
  find("cuDriverGetVersion", &d->DriverGetVersion);
  find("cuGetErrorName", &d->GetErrorName);
  find("cuGetErrorString", &d->GetErrorString);
  find("cuDeviceGetCount", &d->DeviceGetCount);
  find("cuDeviceGet", &d->DeviceGet);
  find("cuDeviceGetName", &d->DeviceGetName);
  find("cuDeviceGetPCIBusId", &d->DeviceGetPCIBusId);
  find("cuDevicePrimaryCtxRetain", &d->DevicePrimaryCtxRetain);
  find("cuDevicePrimaryCtxRelease_v2", &d->DevicePrimaryCtxRelease);
  find("cuCtxPushCurrent_v2", &d->CtxPushCurrent);
  find("cuCtxPopCurrent_v2", &d->CtxPopCurrent);
  find("cuCtxSynchronize", &d->CtxSynchronize);
  find("cuThreadExchangeStreamCaptureMode", &d->ThreadExchangeStreamCaptureMode);
  find("cuMemHostRegister_v2", &d->MemHostRegister);
  find("cuMemHostUnregister", &d->MemHostUnregister);
  find("cuMemAlloc_v2", &d->MemAlloc);
  find("cuMemFree_v2", &d->MemFree);
  find("cuMemcpyHtoDAsync_v2", &d->MemcpyHtoDAsync);
  find("cuMemcpyDtoHAsync_v2", &d->MemcpyDtoHAsync);
  find("cuStreamCreate", &d->StreamCreate);
  find("cuStreamDestroy_v2", &d->StreamDestroy);
  find("cuStreamSynchronize", &d->StreamSynchronize);
  find("cuStreamWaitEvent", &d->StreamWaitEvent);
  find("cuStreamGetCtx", &d->StreamGetCtx);
  find("cuStreamIsCapturing", &d->StreamIsCapturing);
  find("cuEventCreate", &d->EventCreate);
  find("cuEventDestroy_v2", &d->EventDestroy);
  find("cuEventRecord", &d->EventRecord);
  find("cuEventQuery", &d->EventQuery);
  find("cuEventSynchronize", &d->EventSynchronize);
  find("cuEventElapsedTime", &d->EventElapsedTime);
  find("cuModuleLoadData", &d->ModuleLoadData);
  find("cuModuleUnload", &d->ModuleUnload);
  find("cuModuleGetFunction", &d->ModuleGetFunction);
  find("cuLaunchKernel", &d->LaunchKernel);
  return missing;
}

std::string Visible() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? "CUDA_VISIBLE_DEVICES is not set"
                            : fmt::format("CUDA_VISIBLE_DEVICES is '{}'", visible);
}

absl::StatusOr<std::unique_ptr<CudaDriver>> Open(const std::string& path, bool named) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = dlerror();
    return absl::UnavailableError(
        named ? fmt::format("no CUDA driver: {} names '{}', which cannot be loaded: {}",
                            kPathVariable, path, why)
              : fmt::format("no CUDA driver: cannot load {}, which NVIDIA's driver installs: {}; "
                            "if it is elsewhere, set {} to its path",
                            path, why, kPathVariable));
  }
  auto driver = std::make_unique<CudaDriver>();
  driver->path = path;
  if (const std::string missing = FindAll(library, driver.get()); !missing.empty()) {
    return absl::UnavailableError(fmt::format(
        "the CUDA driver {} lacks {}; install a driver of CUDA 10.1 or newer", path, missing));
  }
  if (const CuResult result = driver->Init(0); result != kCuSuccess) {
    const absl::Status status = driver->Check(result, "cuInit");
    std::error_code ignored;
    return absl::UnavailableError(
        fmt::format("no CUDA device: {} was loaded, but {}; {}, and /dev/nvidiactl {}", path,
                    std::string(status.message()), Visible(),
                    std::filesystem::exists("/dev/nvidiactl", ignored) ? "exists" : "is missing"));
  }
  if (absl::Status status =
          driver->Check(driver->DriverGetVersion(&driver->version), "cuDriverGetVersion");
      !status.ok()) {
    return status;
  }
  return driver;
}

}  // namespace

absl::Status CudaDriver::Check(CuResult result, std::string_view call) const {
  if (result == kCuSuccess) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  if (GetErrorName(result, &name) != kCuSuccess || name == nullptr) name = "an unknown error";
  if (GetErrorString(result, &text) != kCuSuccess || text == nullptr) text = "no description";
  const std::string message = fmt::format("{}: {} (error {}: {})", call, name, result, text);
  switch (result) {
    case kCuErrorInvalidValue:
      return absl::InvalidArgumentError(message);
    case kCuErrorOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case kCuErrorNoDevice:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<const CudaDriver*> CudaDriver::Load() {
  struct Loaded {
    Mutex mutex;
    struct Driver {
      std::unique_ptr<CudaDriver> driver;
      uint64_t forks = 0;  // ForkCount() when it was opened
    };
    std::map<std::string, Driver> drivers ABSL_GUARDED_BY(mutex);  // keyed by path
  };
  // Drivers stay loaded: their threads may run until the process ends.
  static auto* const loaded = new Loaded();
  const char* named = std::getenv(kPathVariable);
  const std::string path = named != nullptr && *named != '\0' ? named : kLibrary;
  MutexLock lock(loaded->mutex);
  Loaded::Driver& known = loaded->drivers[path];
  if (known.driver == nullptr) {
    absl::StatusOr<std::unique_ptr<CudaDriver>> opened = Open(path, path != kLibrary);
    if (!opened.ok()) return opened.status();
    known = {*std::move(opened), ForkCount()};
  }
  if (known.forks != ForkCount()) {
    return absl::FailedPreconditionError(
        "this process was forked after its parent had used CUDA, which does not work in the child; "
        "fork before the parent uses CUDA, or start the process by spawn instead of fork");
  }
  return known.driver.get();
}

}  // namespace shardfeed
