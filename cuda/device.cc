#include "cuda/device.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// The NUMA node of the device as the kernel reports it, or -1.
int NumaNode(const CudaDriver& driver, CuDevice device) {
  char id[32] = {};
  if (driver.DeviceGetPCIBusId(id, sizeof(id), device) != kCuSuccess) return -1;
  std::string lower;
  for (const char* c = id; *c != '\0'; ++c) {
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  std::ifstream file(fmt::format("/sys/bus/pci/devices/{}/numa_node", lower));
  int node = -1;
  return file >> node ? node : -1;
}

std::string Name(const CudaDriver& driver, CuDevice device) {
  char name[256] = {};
  return driver.DeviceGetName(name, sizeof(name), device) == kCuSuccess ? name : "unknown";
}

}  // namespace

// Sets everything but the context.
absl::Status CudaDevice::Find(int ordinal) {
  absl::StatusOr<const CudaDriver*> loaded = CudaDriver::Load();
  if (!loaded.ok()) return loaded.status();
  const CudaDriver& driver = **loaded;
  int count = 0;
  absl::Status status = driver.Check(driver.DeviceGetCount(&count), "cuDeviceGetCount");
  if (!status.ok()) return status;
  if (ordinal < 0 || ordinal >= count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
      CuDevice device;
      if (driver.DeviceGet(&device, i) != kCuSuccess) continue;
      all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", i, Name(driver, device));
    }
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return absl::InvalidArgumentError(
        fmt::format("there is no CUDA device {}; the driver {} lets this process see {} ({}); "
                    "CUDA_VISIBLE_DEVICES {}",
                    ordinal, driver.path, count, count == 0 ? "none" : all,
                    visible == nullptr ? "is not set" : fmt::format("is '{}'", visible)));
  }
  ordinal_ = ordinal;
  status = driver.Check(driver.DeviceGet(&device_, ordinal), "cuDeviceGet");
  if (!status.ok()) return status;
  driver_ = &driver;
  name_ = Name(driver, device_);
  numa_node_ = NumaNode(driver, device_);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const CudaDevice>> CudaDevice::Open(int ordinal) {
  std::shared_ptr<CudaDevice> device(new CudaDevice());
  if (absl::Status status = device->Find(ordinal); !status.ok()) return status;
  const CudaDriver& driver = device->driver();
  CuContext context = nullptr;
  absl::Status status = driver.Check(driver.DevicePrimaryCtxRetain(&context, device->device_),
                                     "cuDevicePrimaryCtxRetain");
  if (!status.ok()) {
    return absl::Status(status.code(),
                        fmt::format("device {} ({}) cannot be used: {}; another process may use it "
                                    "exclusively, or hold all of its memory",
                                    ordinal, device->name_, std::string(status.message())));
  }
  device->context_ = context;
  return device;
}

absl::StatusOr<std::string> CudaDevice::NameOf(int ordinal) {
  CudaDevice device;
  if (absl::Status status = device.Find(ordinal); !status.ok()) return status;
  return device.name_;
}

bool IsCaptured(const CudaDriver& driver, CuStream stream) {
  int capture = kCuCaptureNone;
  const CuResult result = driver.StreamIsCapturing(stream, &capture);
  return capture != kCuCaptureNone || result == kCuErrorCaptureImplicit;
}

absl::Status CheckStream(const CudaDevice& device, CuStream stream) {
  const CudaContextScope scope(device);
  const CudaDriver& driver = device.driver();
  CuContext context = nullptr;
  absl::Status status = driver.Check(driver.StreamGetCtx(stream, &context), "cuStreamGetCtx");
  if (!status.ok()) return status;
  if (context != device.context()) {
    return absl::InvalidArgumentError(
        fmt::format("the stream does not belong to the primary context of device {} ({}), which "
                    "holds the batch; "
                    "create one there, or start an iterator for the stream's device",
                    device.ordinal(), device.name()));
  }
  // A graph would not record that the wait depends on the copy, which is outside of it.
  if (IsCaptured(driver, stream)) {
    return absl::FailedPreconditionError(
        "the stream is being captured in a CUDA graph, and a batch cannot be waited for in one: "
        "take the batch before the capture begins, and copy each batch to the addresses that the "
        "graph reads");
  }
  return absl::OkStatus();
}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr) driver_->DevicePrimaryCtxRelease(device_);
}

}  // namespace shardfeed
