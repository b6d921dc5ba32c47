// Python bindings of batches on a GPU.

#ifndef SHARDFEED_PYTHON_CORE_DEVICE_H_
#define SHARDFEED_PYTHON_CORE_DEVICE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/device.h"
#include "nanobind/nanobind.h"
#include "shardfeed/cuda.h"

namespace shardfeed::python {

// A column on a device, in C order, which keeps the memory of its batch. Call all functions with
// the GIL.
class DeviceArray {
 public:
  DeviceArray(std::shared_ptr<const DeviceBatch> batch, CuDevicePtr data, DType dtype,
              std::vector<int64_t> shape, float lambda);

  const std::vector<int64_t>& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  uint64_t num_bytes() const;
  int device() const { return batch_->device()->ordinal(); }
  float lambda() const { return lambda_; }

  // Version 3 of Numba's interface, with the stream on which the batch was requested. The
  // per-thread stream, which differs from thread to thread, is replaced by the legacy stream.
  nanobind::dict CudaArrayInterface() const;
  // Returns a capsule "dltensor". The consumer's stream waits for the values; as in DLPack, None
  // and 1 are the legacy default stream, 2 is the per-thread one, and -1 is none.
  nanobind::object Dlpack(nanobind::object stream, nanobind::object max_version,
                          nanobind::object device, nanobind::object copy) const;
  // See DeviceBatch::Use.
  void Use(uintptr_t stream) const;
  // Returns a copy as a NumPy array; waits for the copy.
  nanobind::object ToHost() const;

 private:
  void CheckNotForked() const;

  std::shared_ptr<const DeviceBatch> batch_;
  CuDevicePtr data_;
  DType dtype_;
  std::vector<int64_t> shape_;
  float lambda_;
  uint64_t forks_;  // ForkCount() at construction
};

// A run whose batches are on a device. As for PyIterator, functions are called with the GIL, which
// they release while they wait; they check for signals, and raise in a child after fork.
class PyDeviceIterator {
 public:
  explicit PyDeviceIterator(std::unique_ptr<DeviceIterator> run);
  ~PyDeviceIterator();

  // Returns the next batch, on `stream` (0: the legacy default stream): a dict of DeviceArrays,
  // Raggeds of them and, for bytes, BytesArrays; null at the end.
  nanobind::object Next(uintptr_t stream);
  std::string State();
  void Load(const std::string& state);
  nanobind::dict Stats();
  void Close();
  bool closed() const { return closed_; }
  // Padding and damaged rows of the last delivered batch, as in PyIterator.
  size_t padded() const { return padded_; }
  const std::vector<uint32_t>& damaged() const { return damaged_; }

  static void CloseAll();
  static void AfterFork();

 private:
  void CheckOpen() const;
  // Raises the error of a call or, if the iterator was closed meanwhile, the error for that.
  void CheckCall(const absl::Status& status) const;

  // Shared with the thread that is in a call.
  std::shared_ptr<DeviceIterator> run_;
  const std::shared_ptr<std::timed_mutex> use_ = std::make_shared<std::timed_mutex>();
  bool closed_ = false;
  bool forked_ = false;
  // Accessed with the GIL held.
  size_t padded_ = 0;
  std::vector<uint32_t> damaged_;
};

void BindDevice(nanobind::module_& m);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_DEVICE_H_
