// Device buffers of an upload ring, and their uses.
//
// Nothing here is thread-safe. The CUDA context of the events must be current.

#ifndef SHARDFEED_CUDA_UPLOAD_FLIGHT_H_
#define SHARDFEED_CUDA_UPLOAD_FLIGHT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda/driver.h"
#include "shardfeed/batch.h"

namespace shardfeed {

struct UploadBuffer;

// One use of a buffer: the copy of a batch into it, and the work on that batch.
struct UploadFlight {
  // Makes a flight whose events have not been recorded. Errors: those of the driver.
  static absl::StatusOr<std::unique_ptr<UploadFlight>> New(const CudaDriver& driver);
  void DestroyEvents(const CudaDriver& driver);

  UploadBuffer* buffer = nullptr;  // buffer whose `last` is this flight, or null
  CuEvent started = nullptr;
  CuEvent copied = nullptr;
  CuEvent ready = nullptr;
  CuEvent asked = nullptr;  // recorded on the consumer's stream before it waits for `ready`
  std::vector<CuEvent> done;
  std::vector<CuStream> users;
  std::vector<Batch> host;  // holds one batch until it is copied
  std::shared_ptr<char> staging;
  size_t staging_bytes = 0;
  uint64_t bytes = 0;
  bool delivered = false;
  bool late = false;
  bool released = false;
};

struct UploadBuffer {
  CuDevicePtr memory = 0;
  size_t size = 0;
  // The last use, for whose events the next use waits; null if there is none or they have passed.
  UploadFlight* last = nullptr;
};

// Errors of the functions below are those of the driver.
absl::StatusOr<bool> EventPassed(const CudaDriver& driver, CuEvent event);
absl::Status NewEvent(const CudaDriver& driver, unsigned flags, CuEvent* event);

// Makes `stream` wait until the last use of the buffer has ended, and forgets that use.
absl::Status AwaitLastUse(const CudaDriver& driver, CuStream stream, UploadBuffer* buffer);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_UPLOAD_FLIGHT_H_
