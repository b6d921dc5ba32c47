// CUDA devices. shardfeed uses a device's primary context, as PyTorch, JAX, CuPy and the CUDA
// runtime do.

#ifndef SHARDFEED_CUDA_DEVICE_H_
#define SHARDFEED_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/driver.h"

namespace shardfeed {

// Retains the device's primary context. Thread-safe; a process may have several devices.
class CudaDevice {
 public:
  // Opens device `ordinal` among those that the driver shows to this process, which respects
  // CUDA_VISIBLE_DEVICES and MIG. Unavailable: see CudaDriver::Load. InvalidArgument: there is no
  // such device; the message lists those that exist.
  static absl::StatusOr<std::shared_ptr<const CudaDevice>> Open(int ordinal);
  // The name of a device, without making a context on it. Errors: those of Open.
  static absl::StatusOr<std::string> NameOf(int ordinal);

  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  CuContext context() const { return context_; }
  const std::string& name() const { return name_; }
  // The NUMA node nearest to the device, or -1 if the machine has a single node or does not tell.
  int numa_node() const { return numa_node_; }

 private:
  CudaDevice() = default;
  absl::Status Find(int ordinal);

  const CudaDriver* driver_ = nullptr;
  int ordinal_ = 0;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  std::string name_;
  int numa_node_ = -1;
};

// Makes the device's context current in the calling thread for its lifetime, and lets the thread
// make calls that a capture of a CUDA graph would forbid (cuMemAlloc, cuEventQuery and others): a
// capture in the default mode forbids them to all threads, and one such call invalidates it. None
// of shardfeed's calls is meant to be captured. The destructor restores the previous context and
// mode.
class CudaContextScope {
 public:
  explicit CudaContextScope(const CudaDevice& device) : device_(device) {
    pushed_ = device.driver().CtxPushCurrent(device.context()) == kCuSuccess;
    exchanged_ = device.driver().ThreadExchangeStreamCaptureMode(&mode_) == kCuSuccess;
  }
  ~CudaContextScope() {
    if (exchanged_) device_.driver().ThreadExchangeStreamCaptureMode(&mode_);
    CuContext popped;
    if (pushed_) device_.driver().CtxPopCurrent(&popped);
  }
  CudaContextScope(const CudaContextScope&) = delete;
  CudaContextScope& operator=(const CudaContextScope&) = delete;

 private:
  const CudaDevice& device_;
  bool pushed_;
  bool exchanged_;
  int mode_ = kCuCaptureModeRelaxed;  // the previous mode, after the exchange
};

// Whether the stream is being captured in a CUDA graph, or (the legacy stream) cannot be queried
// because a stream that it waits for is.
bool IsCaptured(const CudaDriver& driver, CuStream stream);

// Whether work on the device's batches can be enqueued on the stream. InvalidArgument: it belongs
// to another context. FailedPrecondition: it is being captured.
absl::Status CheckStream(const CudaDevice& device, CuStream stream);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_DEVICE_H_
