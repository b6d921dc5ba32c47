#include "cuda/device.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "fmt/format.h"

namespace shardfeed {
namespace {

// What the kernel knows of the device's place.
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

absl::StatusOr<std::shared_ptr<const CudaDevice>> CudaDevice::Open(int ordinal) {
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
  std::shared_ptr<CudaDevice> device(new CudaDevice());
  device->ordinal_ = ordinal;
  status = driver.Check(driver.DeviceGet(&device->device_, ordinal), "cuDeviceGet");
  if (!status.ok()) return status;
  status = driver.Check(driver.DevicePrimaryCtxRetain(&device->context_, device->device_),
                        "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  device->driver_ = &driver;
  device->name_ = Name(driver, device->device_);
  device->numa_node_ = NumaNode(driver, device->device_);
  return device;
}

CudaDevice::~CudaDevice() {
  if (driver_ != nullptr) driver_->DevicePrimaryCtxRelease(device_);
}

}  // namespace shardfeed
