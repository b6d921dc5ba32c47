#include "cuda/upload_flight.h"

#include <utility>

namespace shardfeed {

absl::StatusOr<std::unique_ptr<UploadFlight>> UploadFlight::New(const CudaDriver& driver) {
  auto flight = std::make_unique<UploadFlight>();
  for (CuEvent* event : {&flight->started, &flight->copied, &flight->ready, &flight->asked}) {
    if (absl::Status status = NewEvent(driver, kCuEventBlockingSync, event); !status.ok()) {
      flight->DestroyEvents(driver);
      return status;
    }
  }
  return flight;
}

void UploadFlight::DestroyEvents(const CudaDriver& driver) {
  for (CuEvent event : {started, copied, ready, asked}) {
    if (event != nullptr) driver.EventDestroy(event);
  }
  for (CuEvent event : done) driver.EventDestroy(event);
}

absl::Status NewEvent(const CudaDriver& driver, unsigned flags, CuEvent* event) {
  return driver.Check(driver.EventCreate(event, flags), "cuEventCreate");
}

absl::StatusOr<bool> EventPassed(const CudaDriver& driver, CuEvent event) {
  const CuResult result = driver.EventQuery(event);
  if (result == kCuErrorNotReady) return false;
  absl::Status status = driver.Check(result, "cuEventQuery");
  if (!status.ok()) return status;
  return true;
}

absl::Status AwaitLastUse(const CudaDriver& driver, CuStream stream, UploadBuffer* buffer) {
  UploadFlight* const last = std::exchange(buffer->last, nullptr);
  if (last == nullptr) return absl::OkStatus();
  last->buffer = nullptr;
  absl::Status status =
      driver.Check(driver.StreamWaitEvent(stream, last->ready, 0), "cuStreamWaitEvent");
  for (CuEvent event : last->done) {
    if (!status.ok()) return status;
    status = driver.Check(driver.StreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
  }
  return status;
}

}  // namespace shardfeed
