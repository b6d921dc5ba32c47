// A device and its primary context, which PyTorch, JAX, CuPy and the CUDA runtime use as well.

#ifndef SHARDFEED_CUDA_DEVICE_H_
#define SHARDFEED_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/driver.h"

namespace shardfeed {

// Holds the device's primary context. Thread safe; a process may have several devices.
class CudaDevice {
 public:
  // Device `ordinal` as the driver counts those it lets this process see: CUDA_VISIBLE_DEVICES and
  // MIG are the driver's. Unavailable: see CudaDriver::Load. InvalidArgument: there is no such
  // device; the message tells which there are.
  static absl::StatusOr<std::shared_ptr<const CudaDevice>> Open(int ordinal);
  // Its name, without making a context there. Errors as Open's.
  static absl::StatusOr<std::string> NameOf(int ordinal);

  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const CudaDriver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  CuContext context() const { return context_; }
  const std::string& name() const { return name_; }
  // Of the memory next to the device; -1: the machine has one node, or does not tell.
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
// of our calls is meant to be captured. Restores the former context and mode.
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
  int mode_ = kCuCaptureModeRelaxed;  // after the exchange the former mode
};

// Whether the stream is being captured in a CUDA graph, or cannot be asked because one that it
// waits for is (the legacy stream).
bool IsCaptured(const CudaDriver& driver, CuStream stream);

// Whether work on the device's batches can be enqueued on the stream. InvalidArgument: it belongs
// to another context. FailedPrecondition: it is being captured.
absl::Status CheckStream(const CudaDevice& device, CuStream stream);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_DEVICE_H_
