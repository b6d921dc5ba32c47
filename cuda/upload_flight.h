// Device buffers of an upload ring, and the uses that are made of them.
//
// Nothing here is thread safe; the CUDA context of the events is the current one.

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

// A use of a buffer.
struct UploadFlight {
  // With events that nothing has recorded. Errors: those of the driver.
  static absl::StatusOr<std::unique_ptr<UploadFlight>> New(const CudaDriver& driver);
  void DestroyEvents(const CudaDriver& driver);

  UploadBuffer* buffer = nullptr;  // buffer whose `last` is this flight, or null
  CuEvent started = nullptr;
  CuEvent copied = nullptr;
  CuEvent ready = nullptr;
  CuEvent asked = nullptr;  // recorded on the consumer's stream before it waits
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
  // Its last use, whose events the next one waits for; null: none, or they have passed.
  UploadFlight* last = nullptr;
};

// Errors: those of the driver, below too.
absl::StatusOr<bool> EventPassed(const CudaDriver& driver, CuEvent event);
absl::Status NewEvent(const CudaDriver& driver, unsigned flags, CuEvent* event);

// Makes `stream` wait until the last use of the buffer has ended, and forgets that use.
absl::Status AwaitLastUse(const CudaDriver& driver, CuStream stream, UploadBuffer* buffer);

}  // namespace shardfeed

#endif  // SHARDFEED_CUDA_UPLOAD_FLIGHT_H_
