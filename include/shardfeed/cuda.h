// Batches on a GPU: a run of a dataset whose batches are copied to a device while earlier ones are
// in use.
//
//   absl::StatusOr<std::unique_ptr<DeviceIterator>> it = DeviceIterator::Start(
//       ds, {.normalize = {{"image", {.mean = {0.485f, 0.456f, 0.406f},
//                                     .std = {0.229f, 0.224f, 0.225f}}}}});
//   for (DeviceBatch batch; (*it)->Next(&batch, stream).ok() && !batch.empty();) {
//     // enqueue work on `stream` that reads batch.tensors
//   }

#ifndef SHARDFEED_CUDA_H_
#define SHARDFEED_CUDA_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/batch.h"
#include "shardfeed/dataset.h"
#include "shardfeed/images.h"
#include "shardfeed/iterator.h"
#include "shardfeed/schema.h"

namespace shardfeed {

class CudaDevice;
class UploadRing;

// The driver's handles: the same pointers as cudaStream_t and cudaEvent_t, CUstream and CUevent.
using CuDevicePtr = uint64_t;
using CuStream = struct CuStreamObject*;  // null: the legacy default stream
using CuEvent = struct CuEventObject*;

// Special values of CuStream.
inline CuStream CuStreamLegacy() { return reinterpret_cast<CuStream>(1); }
inline CuStream CuStreamPerThread() { return reinterpret_cast<CuStream>(2); }

enum class Mixing {
  kNone,
  kMixup,   // each value is lambda of its own image and 1 - lambda of its partner's
  kCutmix,  // a box of 1 - lambda of the area comes from the partner
};

// How a column of uint8 images [height, width, channels] with up to four channels is converted:
//
//   (x / 255 - mean[c]) / std[c]
//
// Random choices depend only on the seed and the rows' places in the epoch: they are the same after
// a resume and, except for mixing, for any batch size.
struct Normalize {
  DType dtype = DType::kFloat16;  // kFloat16, kBFloat16 or kFloat32
  ImageLayout layout = ImageLayout::kNCHW;
  // One value for each channel, or one for all; if empty, a mean of 0 and a std of 1.
  std::vector<float> mean;
  std::vector<float> std;
  // The share of rows that are mirrored left to right, in [0, 1].
  double flip = 0;
  // Row i is mixed with row i - 1, the first with the last, by one lambda for each batch, drawn
  // from Beta(mix_alpha, mix_alpha). DeviceTensor::lam holds it, so that labels can be mixed
  // too.
  Mixing mixing = Mixing::kNone;
  double mix_alpha = 1;  // above 0
  uint64_t seed = 0;
};

// A column on the device, in C order.
struct DeviceTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  // [rows, ...]. Ragged: [elements of all rows, ...].
  std::vector<int64_t> shape;
  CuDevicePtr data = 0;
  // Ragged columns: int64 [rows + 1] on the device; row r is the elements [splits[r], splits[r +
  // 1]), and splits[0] is 0. Otherwise 0.
  CuDevicePtr splits = 0;
  // The share of a row's own image in Normalize's mixing.
  float lam = 1;
};

// A batch whose columns are on a device. Copies share its memory until the last of them is
// destroyed. The memory is then reused as soon as the work is done that had been enqueued by that
// time on the streams of the batch: the one given to Next and those given to Use. Work on any other
// stream is not waited for, even if that stream waits for these: call Use first.
//
// An object must be used by one thread at a time; different objects may be used by different
// threads.
class DeviceBatch {
 public:
  size_t rows = 0;
  size_t padded = 0;  // number of padding rows, as in Batch::padded
  std::vector<DeviceTensor> tensors;
  // The columns of bytes, which stay on the host, where the rows came from, and Batch::damaged.
  Batch host;

  bool empty() const { return rows == 0; }
  // Null when empty.
  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  // The stream that was given to Next. Work enqueued there finds the values in place.
  CuStream stream() const { return stream_; }
  // The event that passes when the values are in place. Lives as long as the batch.
  CuEvent ready() const { return ready_; }
  // Keeps the memory alive, for tensors that are handed on.
  std::shared_ptr<const void> owner() const { return lease_; }

  // Must be called before work on another stream is enqueued there. The stream waits until the
  // values are in place, and the memory is not reused before the work that is on the stream when
  // the last copy of the batch is destroyed. Does not block. InvalidArgument: the stream belongs to
  // another device's context. FailedPrecondition: it is being captured in a CUDA graph. A stream
  // must live as long as the batch; CuStreamPerThread means the calling thread's.
  absl::Status Use(CuStream stream) const;

 private:
  friend class UploadRing;
  struct Lease;

  std::shared_ptr<const CudaDevice> device_;
  CuStream stream_ = nullptr;
  CuEvent ready_ = nullptr;
  std::shared_ptr<Lease> lease_;
};

// Page-locked memory of the host.
struct PinnedPoolStats {
  uint64_t bytes = 0;       // pinned, in use or idle
  uint64_t idle_bytes = 0;  // bytes of these that are idle
  // Allocations that were served from ordinary memory because the limit was reached or the system
  // refused to pin more.
  uint64_t refused = 0;
};

struct DeviceOptions {
  // The device's number as the driver counts, which respects CUDA_VISIBLE_DEVICES and MIG.
  int device = 0;
  // Buffers on the device. One is filled while another is in use; each further batch that the
  // consumer keeps needs one more.
  int depth = 2;
  // The most pinned memory for batches; 0 means RunOptions::budget_bytes, a quarter of which is for
  // batches in transfer to the device. Batches that do not fit need one copy more.
  uint64_t pinned_bytes = 0;
  // Columns of images that are converted to floating point on the device, by name.
  std::map<std::string, Normalize> normalize;
};

struct DeviceStats {
  double seconds = 0;  // since the first Next
  uint64_t batches = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;           // bytes copied to the device
  uint64_t staged_bytes = 0;    // bytes of these that came from memory that was not pinned
  double bytes_per_second = 0;  // copy rate while copies ran
  // The share of the time of copies and kernels in which the consumer's stream did not have to wait
  // for them, because it was at work or the pipeline was late.
  double hidden = 1;
  double exposed_seconds = 0;        // the rest
  double wait_seconds = 0;           // time that Next waited on the host
  double pipeline_wait_seconds = 0;  // part of wait_seconds spent waiting for the pipeline
  // Time during which all buffers were filled or in use, because the consumer or the bus is slower
  // than the pipeline.
  double ring_full_seconds = 0;
  uint64_t buffers = 0;
  uint64_t device_bytes = 0;
  PinnedPoolStats pinned;
  IteratorStats pipeline;
  // What limits the throughput, and what to do about it.
  std::string verdict;
};

// Next, StateDict and LoadStateDict must be called by one thread at a time; Cancel and stats may be
// called from any thread. May be destroyed at any time; batches that it has delivered stay valid.
class DeviceIterator {
 public:
  // Starts a run, which begins to work with the first Next. InvalidArgument: the dataset's elements
  // are rows, or an option is invalid. Unavailable: there is no GPU; the message says what was
  // tried. FailedPrecondition: this process was forked after its parent had used CUDA.
  static absl::StatusOr<std::unique_ptr<DeviceIterator>> Start(const Dataset& dataset,
                                                               DeviceOptions options = {},
                                                               RunOptions run = {});
  ~DeviceIterator();
  DeviceIterator(const DeviceIterator&) = delete;
  DeviceIterator& operator=(const DeviceIterator&) = delete;

  // The next batch, or one without rows at the end. The previous content of `out` is released
  // first. Work that is enqueued on `stream` afterwards finds the values: `stream` waits for them,
  // while this thread waits only until the copy is enqueued. After an error each further call
  // returns it again, until LoadStateDict. Errors of a stream (Use) are returned once, before a
  // batch is taken. One thread at a time calls it. Errors: those of Iterator::Next; Internal: a
  // call of the driver failed, with its name and reason.
  absl::Status Next(DeviceBatch* out, CuStream stream = nullptr);
  // Waits for a batch, the end or an error, so that Next will not have to wait. Returns false if
  // there is none within `most`. For callers that check for something else while they wait. Must
  // not be called concurrently with Next.
  bool Await(std::chrono::milliseconds most);
  // The columns of the tensors. Bytes columns are not among them: see DeviceBatch::host.
  const RowSpec& spec() const;
  const std::shared_ptr<const CudaDevice>& device() const;

  // The position of the iterator, in batches delivered. States of Iterator and of DeviceIterator
  // are interchangeable.
  absl::StatusOr<std::string> StateDict() const;
  // Goes to a saved position, as Iterator::LoadStateDict does. Clears errors of the device, unless
  // they make the device useless to this process, as an invalid memory access does.
  absl::Status LoadStateDict(std::string_view state);

  void Cancel();
  DeviceStats stats() const;

 private:
  class Run;
  explicit DeviceIterator(std::unique_ptr<Run> run);

  const std::unique_ptr<Run> run_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_H_
