#include "cuda/upload_ring.h"

#include <algorithm>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/rounding.h"
#include "cuda/host_columns.h"
#include "cuda/staging.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Alignment of tensors in a buffer, the same as cuMemAlloc's.
constexpr size_t kTensorAlignment = 256;

}  // namespace

struct DeviceBatch::Lease {
  Lease(std::shared_ptr<UploadRing> r, UploadRing::Flight* f, UploadRing::Buffer* b)
      : ring(std::move(r)), flight(f), buffer(b) {}
  ~Lease() { ring->Release(flight, buffer); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const std::shared_ptr<UploadRing> ring;
  UploadRing::Flight* const flight;
  UploadRing::Buffer* const buffer;
};

absl::Status DeviceBatch::Use(CuStream stream) const {
  if (lease_ == nullptr) return absl::OkStatus();
  return lease_->ring->Use(lease_->flight, stream);
}

absl::StatusOr<std::shared_ptr<UploadRing>> UploadRing::Create(
    std::shared_ptr<const CudaDevice> device, std::shared_ptr<PinnedPool> pool, const RowSpec& spec,
    std::map<std::string, Normalize> normalize, int depth, int threads) {
  if (depth < 1) {
    return absl::InvalidArgumentError(fmt::format(
        "depth must be at least 1 buffer, or 2 to overlap copies with work, got {}", depth));
  }
  std::shared_ptr<UploadRing> ring(
      new UploadRing(std::move(device), std::move(pool), static_cast<size_t>(depth), threads));
  ring->normalize_ = std::move(normalize);
  for (const auto& [name, unused] : ring->normalize_) {
    if (FindColumn(spec, name) < 0) {
      return absl::InvalidArgumentError(
          fmt::format("normalize: there is no column '{}'; there are: {}", name,
                      spec.empty() ? "none" : RowSpecText(spec)));
    }
  }
  RowSpec host_spec;
  for (size_t c = 0; c < spec.size(); ++c) {
    const auto it = ring->normalize_.find(spec[c].name);
    const Normalize* how = it == ring->normalize_.end() ? nullptr : &it->second;
    if (how == nullptr && spec[c].dtype == DType::kBytes) {
      ring->host_columns_.push_back(c);
      host_spec.push_back(spec[c]);
      continue;
    }
    ColumnSpec made = spec[c];
    if (how != nullptr) {
      absl::StatusOr<ColumnSpec> normalized = NormalizedColumn(spec[c], *how);
      if (!normalized.ok()) return normalized.status();
      made = *std::move(normalized);
    }
    ring->targets_.push_back({c, spec[c], how});
    ring->spec_.push_back(std::move(made));
  }
  ring->host_spec_ = std::make_shared<const RowSpec>(std::move(host_spec));
  if (!ring->normalize_.empty()) {
    absl::StatusOr<std::unique_ptr<NormalizeKernels>> kernels =
        NormalizeKernels::Load(ring->device_);
    if (!kernels.ok()) return kernels.status();
    ring->kernels_ = *std::move(kernels);
  }
  const CudaDriver& driver = ring->device_->driver();
  const CudaContextScope scope(*ring->device_);
  for (CuStream* stream : {&ring->copying_, &ring->working_}) {
    absl::Status status =
        driver.Check(driver.StreamCreate(stream, kCuStreamNonBlocking), "cuStreamCreate");
    if (!status.ok()) return status;
  }
  return ring;
}

UploadRing::~UploadRing() {
  const CudaDriver& driver = device_->driver();
  const CudaContextScope scope(*device_);
  // Errors are ignored: they occurred before, or the process is ending. cuMemFree waits for the
  // work of streams that are still being captured (held_).
  for (CuStream stream : {copying_, working_}) {
    if (stream != nullptr) driver.StreamSynchronize(stream);
  }
  for (auto* flights : {&flights_, &spare_flights_}) {
    for (const std::unique_ptr<Flight>& flight : *flights) {
      for (CuEvent event : flight->done) driver.EventSynchronize(event);
      if (flight->delivered) driver.EventSynchronize(flight->asked);
      flight->DestroyEvents(device_->driver());
    }
  }
  for (CuEvent event : spare_events_) driver.EventDestroy(event);
  for (const std::unique_ptr<Buffer>& buffer : buffers_) {
    if (buffer->memory != 0) driver.MemFree(buffer->memory);
  }
  for (CuStream stream : {copying_, working_}) {
    if (stream != nullptr) driver.StreamDestroy(stream);
  }
}

absl::StatusOr<std::unique_ptr<UploadFlight>> UploadRing::NewFlight() {
  {
    MutexLock lock(mutex_);
    if (!spare_flights_.empty()) {
      std::unique_ptr<Flight> flight = std::move(spare_flights_.back());
      spare_flights_.pop_back();
      return flight;
    }
  }
  return UploadFlight::New(device_->driver());
}

absl::Status UploadRing::Upload(Batch host, DeviceBatch* out) {
  *out = DeviceBatch();
  const CudaContextScope scope(*device_);
  absl::Status status = LimitCopies();
  if (status.ok()) status = FreeSurplus();
  if (!status.ok()) return status;
  absl::StatusOr<Buffer*> buffer = TakeBuffer();
  if (!buffer.ok()) return buffer.status();
  absl::StatusOr<std::unique_ptr<Flight>> made = NewFlight();
  if (!made.ok()) {
    MutexLock lock(mutex_);
    free_.push_back(*buffer);
    Fail(made.status());
    return made.status();
  }
  Flight* const flight = made->get();
  status = Enqueue(host, *buffer, flight, out);
  if (!status.ok()) {
    // Some copies may be in progress.
    device_->driver().StreamSynchronize(copying_);
    device_->driver().StreamSynchronize(working_);
    *out = DeviceBatch();
  }
  const uint64_t rows = host.rows;
  out->padded = host.padded;
  out->host = CopyHostColumns(host, host_columns_, host_spec_);
  {
    MutexLock lock(mutex_);
    if (status.ok()) {
      flight->host.push_back(std::move(host));
    } else {
      flight->released = true;
      free_.push_back(*buffer);
      Fail(status);
    }
    flights_.push_back(*std::move(made));
  }
  if (!status.ok()) {
    *out = DeviceBatch();
    return status;
  }
  out->rows = rows;
  out->device_ = device_;
  out->ready_ = flight->ready;
  out->lease_ = std::make_shared<DeviceBatch::Lease>(shared_from_this(), flight, *buffer);
  return absl::OkStatus();
}

// Limits the number of host batches that wait for their copies to that of the buffers.
absl::Status UploadRing::LimitCopies() {
  const CudaDriver& driver = device_->driver();
  while (true) {
    std::vector<Batch> copied;
    CuEvent oldest = nullptr;
    {
      MutexLock lock(mutex_);
      Reap(&copied);
      if (!error_.ok()) return error_;
      size_t waiting = 0;
      for (const std::unique_ptr<Flight>& flight : flights_) {
        if (flight->host.empty()) continue;
        if (waiting++ == 0) oldest = flight->copied;
      }
      if (waiting < std::max<size_t>(depth_, 2)) return absl::OkStatus();
    }
    const uint64_t start = NowNs();
    absl::Status status = driver.Check(driver.EventSynchronize(oldest), "cuEventSynchronize");
    if (!status.ok()) return status;
    MutexLock lock(mutex_);
    stats_.ring_full_seconds += static_cast<double>(NowNs() - start) * 1e-9;
  }
}

// Frees buffers that were added while the consumer held many.
absl::Status UploadRing::FreeSurplus() {
  const CudaDriver& driver = device_->driver();
  while (true) {
    Buffer* buffer;
    {
      MutexLock lock(mutex_);
      if (free_.size() <= depth_) return absl::OkStatus();
      buffer = free_.front();
      absl::Status status = AwaitLastUse(device_->driver(), copying_, buffer);
      if (!status.ok()) return status;
      free_.pop_front();
    }
    absl::Status status = driver.Check(driver.StreamSynchronize(copying_), "cuStreamSynchronize");
    if (status.ok()) status = driver.Check(driver.MemFree(buffer->memory), "cuMemFree");
    MutexLock lock(mutex_);
    stats_.device_bytes -= buffer->size;
    std::erase_if(buffers_, [&](const auto& b) { return b.get() == buffer; });
    stats_.buffers = buffers_.size();
    if (!status.ok()) return status;
  }
}

absl::StatusOr<UploadBuffer*> UploadRing::TakeBuffer() {
  MutexLock lock(mutex_);
  EndHeldUses();
  const auto may = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !error_.ok() || !free_.empty() || buffers_.size() < depth_ ||
           consumer_waits_;
  };
  if (!may()) {
    const uint64_t start = NowNs();
    freed_.Wait(lock, may);
    stats_.ring_full_seconds += static_cast<double>(NowNs() - start) * 1e-9;
  }
  if (stopped_) return absl::CancelledError("the run was cancelled");
  if (!error_.ok()) return error_;
  Buffer* buffer;
  // A released buffer may still be in use on the device; reusing it would delay the next copy.
  const bool makes = buffers_.size() < depth_ && !free_.empty() && free_.front()->last != nullptr;
  if (!free_.empty() && !makes) {
    buffer = free_.front();
    free_.pop_front();
  } else {
    buffers_.push_back(std::make_unique<Buffer>());
    buffer = buffers_.back().get();
    stats_.buffers = buffers_.size();
  }
  absl::Status status = AwaitLastUse(device_->driver(), copying_, buffer);
  if (!status.ok()) {
    free_.push_back(buffer);
    Fail(status);
    return status;
  }
  return buffer;
}

// Gives the buffer at least `size` bytes. The copying stream waits for its last use already.
absl::Status UploadRing::Fit(Buffer* buffer, size_t size) {
  if (buffer->size >= size) return absl::OkStatus();
  const CudaDriver& driver = device_->driver();
  const size_t had = std::exchange(buffer->size, 0);
  absl::Status status;
  if (buffer->memory != 0) {
    status = driver.Check(driver.StreamSynchronize(copying_), "cuStreamSynchronize");
    if (!status.ok()) return status;
    status = driver.Check(driver.MemFree(std::exchange(buffer->memory, 0)), "cuMemFree");
    if (!status.ok()) return status;
    // Sizes vary, so add some room to stop growing soon.
    size += size / 8;
  }
  size = RoundUp(size, 2 << 20);
  status = driver.Check(driver.MemAlloc(&buffer->memory, size), "cuMemAlloc");
  if (!status.ok()) {
    buffer->memory = 0;
    status =
        absl::Status(status.code(), fmt::format("cannot allocate a buffer of {} bytes on device {} "
                                                "({}): {}; use smaller batches, or keep "
                                                "fewer of them",
                                                size, device_->ordinal(), device_->name(),
                                                std::string(status.message())));
    size = 0;
  }
  buffer->size = size;
  MutexLock lock(mutex_);
  stats_.device_bytes += size;
  stats_.device_bytes -= had;
  return status;
}

// Where the tensors of a batch are in its buffer, and what is copied and computed for them.
struct UploadRing::Layout {
  // `in`, `out` and `flip` are places in the buffer.
  struct Launch {
    const Normalize* normalize;
    NormalizeArgs args;
    size_t in;
    size_t out;
    size_t flip;
    bool flips;
  };

  // Returns the place of the next `bytes` bytes.
  size_t Reserve(size_t bytes) {
    return std::exchange(size, size + RoundUp(bytes, kTensorAlignment));
  }
  // The same for bytes that are copied there.
  size_t Add(const PinnedPool& pool, const void* from, size_t bytes) {
    const size_t to = Reserve(bytes);
    if (bytes > 0) pieces.push_back({from, bytes, to, pool.Contains(from, bytes)});
    return to;
  }

  size_t size = 0;
  std::vector<UploadPiece> pieces;
  std::vector<Launch> launches;
  // Data that is computed for the batch and must live until it is staged.
  std::deque<std::vector<int64_t>> splits;
  std::deque<std::vector<uint8_t>> flips;
};

// Appends the batch's tensors, whose data and splits are places in the buffer so far.
absl::Status UploadRing::LayOut(const Batch& host, Layout* layout,
                                std::vector<DeviceTensor>* tensors) const {
  for (size_t t = 0; t < targets_.size(); ++t) {
    const Target& target = targets_[t];
    const Column& column = host.columns[target.column];
    DeviceTensor tensor;
    tensor.name = spec_[t].name;
    tensor.dtype = spec_[t].dtype;
    tensor.shape = spec_[t].shape;
    if (column.splits == nullptr) {
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(host.rows));
      tensor.data = layout->Add(*pool_, column.data, host.rows * target.spec.bytes());
    } else {
      const int64_t first = column.splits[0];
      const int64_t elements = column.splits[host.rows] - first;
      tensor.shape.insert(tensor.shape.begin(), elements);
      tensor.data = layout->Add(*pool_, column.data + first * target.spec.bytes(),
                                elements * target.spec.bytes());
      const int64_t* from = column.splits;
      if (first != 0) {
        std::vector<int64_t>& moved = layout->splits.emplace_back(from, from + host.rows + 1);
        for (int64_t& split : moved) split -= first;
        from = moved.data();
      }
      tensor.splits = layout->Add(*pool_, from, (host.rows + 1) * sizeof(int64_t));
    }
    if (target.normalize != nullptr) {
      std::vector<uint8_t>& flip = layout->flips.emplace_back();
      absl::StatusOr<NormalizeArgs> args =
          MakeNormalizeArgs(target.spec, *target.normalize, host, &flip, &tensor.lam);
      if (!args.ok()) return args.status();
      Layout::Launch launch = {target.normalize, *args, tensor.data, 0, 0, !flip.empty()};
      if (launch.flips) launch.flip = layout->Add(*pool_, flip.data(), flip.size());
      launch.out = tensor.data = layout->Reserve(host.rows * spec_[t].bytes());
      layout->launches.push_back(launch);
    }
    tensors->push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status UploadRing::RunKernels(const Buffer& buffer, const Flight& flight, Layout* layout) {
  if (layout->launches.empty()) return absl::OkStatus();
  const CudaDriver& driver = device_->driver();
  // Kernels run concurrently with the next copies.
  absl::Status status =
      driver.Check(driver.StreamWaitEvent(working_, flight.copied, 0), "cuStreamWaitEvent");
  for (Layout::Launch& launch : layout->launches) {
    if (!status.ok()) return status;
    launch.args.in = reinterpret_cast<const uint8_t*>(buffer.memory + launch.in);
    launch.args.out = reinterpret_cast<void*>(buffer.memory + launch.out);
    if (launch.flips) {
      launch.args.flip = reinterpret_cast<const uint8_t*>(buffer.memory + launch.flip);
    }
    status = kernels_->Launch(*launch.normalize, launch.args, working_);
  }
  return status;
}

absl::Status UploadRing::Enqueue(const Batch& host, Buffer* buffer, Flight* flight,
                                 DeviceBatch* out) {
  Layout layout;
  absl::Status status = LayOut(host, &layout, &out->tensors);
  if (status.ok()) status = Fit(buffer, std::max(layout.size, kTensorAlignment));
  if (!status.ok()) return status;
  for (size_t t = 0; t < targets_.size(); ++t) {
    DeviceTensor& tensor = out->tensors[t];
    tensor.data += buffer->memory;
    if (targets_[t].spec.ragged) tensor.splits += buffer->memory;
  }
  absl::StatusOr<uint64_t> staged_bytes =
      StagePieces(*pool_, threads_, absl::MakeSpan(layout.pieces), flight);
  if (!staged_bytes.ok()) return staged_bytes.status();
  flight->bytes = 0;
  for (const UploadPiece& piece : layout.pieces) flight->bytes += piece.bytes;
  const CudaDriver& driver = device_->driver();
  status = driver.Check(driver.EventRecord(flight->started, copying_), "cuEventRecord");
  if (!status.ok()) return status;
  for (const UploadPiece& piece : layout.pieces) {
    status = driver.Check(
        driver.MemcpyHtoDAsync(buffer->memory + piece.to, piece.from, piece.bytes, copying_),
        "cuMemcpyHtoDAsync");
    if (!status.ok()) return status;
  }
  status = driver.Check(driver.EventRecord(flight->copied, copying_), "cuEventRecord");
  if (status.ok()) status = RunKernels(*buffer, *flight, &layout);
  if (!status.ok()) return status;
  const CuStream last = layout.launches.empty() ? copying_ : working_;
  status = driver.Check(driver.EventRecord(flight->ready, last), "cuEventRecord");
  if (!status.ok()) return status;
  MutexLock lock(mutex_);
  stats_.bytes += flight->bytes;
  stats_.staged_bytes += *staged_bytes;
  return absl::OkStatus();
}

absl::Status UploadRing::Deliver(DeviceBatch* batch, CuStream stream, bool late) {
  const CudaContextScope scope(*device_);
  const CudaDriver& driver = device_->driver();
  Flight* const flight = batch->lease_->flight;
  std::vector<Batch> copied;
  MutexLock lock(mutex_);
  Reap(&copied);
  if (!error_.ok()) return error_;
  batch->stream_ = stream;
  absl::Status status = driver.Check(driver.EventRecord(flight->asked, stream), "cuEventRecord");
  if (!status.ok()) return status;
  flight->delivered = true;
  flight->late = late;
  return UseLocked(flight, stream);
}

absl::Status UploadRing::Use(Flight* flight, CuStream stream) {
  if (absl::Status status = CheckStream(*device_, stream); !status.ok()) return status;
  const CudaContextScope scope(*device_);
  MutexLock lock(mutex_);
  return UseLocked(flight, stream);
}

absl::Status UploadRing::UseLocked(Flight* flight, CuStream stream) {
  const CudaDriver& driver = device_->driver();
  absl::Status status =
      driver.Check(driver.StreamWaitEvent(stream, flight->ready, 0), "cuStreamWaitEvent");
  if (!status.ok()) return status;
  // Another thread may release the batch, and there CuStreamPerThread would name that thread's
  // stream. The legacy stream waits for all of them.
  if (stream == CuStreamPerThread()) stream = CuStreamLegacy();
  if (std::find(flight->users.begin(), flight->users.end(), stream) == flight->users.end()) {
    flight->users.push_back(stream);
  }
  return absl::OkStatus();
}

void UploadRing::Release(Flight* flight, Buffer* buffer) {
  const CudaContextScope scope(*device_);
  std::vector<Batch> copied;
  {
    MutexLock lock(mutex_);
    EndUse(flight, buffer);
    Reap(&copied);
  }
  freed_.NotifyAll();
}

// Records the progress of the streams that used the batch.
void UploadRing::EndUse(Flight* flight, Buffer* buffer) {
  const CudaDriver& driver = device_->driver();
  if (std::any_of(flight->users.begin(), flight->users.end(),
                  [&](CuStream stream) { return IsCaptured(driver, stream); })) {
    held_.emplace_back(flight, buffer);
    return;
  }
  for (CuStream stream : flight->users) {
    CuEvent event = nullptr;
    absl::Status status;
    if (!spare_events_.empty()) {
      event = spare_events_.back();
      spare_events_.pop_back();
    } else {
      status = NewEvent(driver, kCuEventDisableTiming | kCuEventBlockingSync, &event);
    }
    if (status.ok()) {
      flight->done.push_back(event);
      status = driver.Check(driver.EventRecord(event, stream), "cuEventRecord");
    }
    if (!status.ok()) {
      Fail(absl::Status(
          status.code(),
          fmt::format("cannot release a batch on device {}: {}; a stream that uses a batch "
                      "must live until the batch is released",
                      device_->ordinal(), std::string(status.message()))));
    }
  }
  flight->released = true;
  flight->buffer = buffer;
  buffer->last = flight;
  free_.push_back(buffer);
}

void UploadRing::EndHeldUses() {
  for (const auto& [flight, buffer] : std::exchange(held_, {})) EndUse(flight, buffer);
}

void UploadRing::SetConsumerWaits(bool waits) {
  {
    MutexLock lock(mutex_);
    consumer_waits_ = waits;
  }
  if (waits) freed_.NotifyAll();
}

void UploadRing::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  freed_.NotifyAll();
}

absl::Status UploadRing::Resume() {
  {
    MutexLock lock(mutex_);
    stopped_ = false;
    if (error_.ok()) return absl::OkStatus();
  }
  // Events may be missing, so buffers count as in use until the device is idle.
  const CudaContextScope scope(*device_);
  absl::Status status =
      device_->driver().Check(device_->driver().CtxSynchronize(), "cuCtxSynchronize");
  MutexLock lock(mutex_);
  error_ = status;
  return status;
}

UploadStats UploadRing::stats() {
  const CudaContextScope scope(*device_);
  std::vector<Batch> copied;
  MutexLock lock(mutex_);
  Reap(&copied);
  return stats_;
}

// Recycles flights that the device has finished. Their host batches are moved to `copied`, to be
// destroyed without the lock, since their destructors may run arbitrary code.
void UploadRing::Reap(std::vector<Batch>* copied) {
  if (!error_.ok()) return;
  const auto passed = [&](CuEvent event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    absl::StatusOr<bool> result = EventPassed(device_->driver(), event);
    if (!result.ok()) Fail(result.status());
    return result.ok() && *result;
  };
  for (std::unique_ptr<Flight>& flight : flights_) {
    if (!flight->host.empty()) {
      if (!passed(flight->copied)) break;  // later ones have not been copied either
      copied->push_back(std::move(flight->host[0]));
      flight->host.clear();
    }
    if (!flight->released || !passed(flight->ready) ||
        (flight->delivered && !passed(flight->asked)) ||
        !std::all_of(flight->done.begin(), flight->done.end(), passed)) {
      continue;
    }
    if (flight->delivered) Measure(*flight);
    if (flight->buffer != nullptr) flight->buffer->last = nullptr;
    spare_events_.insert(spare_events_.end(), flight->done.begin(), flight->done.end());
    flight->done.clear();
    flight->users.clear();
    flight->buffer = nullptr;
    flight->delivered = flight->late = flight->released = false;
    spare_flights_.push_back(std::move(flight));
  }
  std::erase(flights_, nullptr);
}

void UploadRing::Measure(const Flight& flight) {
  const CudaDriver& driver = device_->driver();
  float copy = 0;
  float upload = 0;
  float wait = 0;
  if (driver.EventElapsedTime(&copy, flight.started, flight.copied) != kCuSuccess ||
      driver.EventElapsedTime(&upload, flight.started, flight.ready) != kCuSuccess ||
      driver.EventElapsedTime(&wait, flight.asked, flight.ready) != kCuSuccess) {
    return;
  }
  stats_.copied_bytes += flight.bytes;
  stats_.copy_seconds += copy * 1e-3;
  if (!std::exchange(first_measured_, true)) return;
  stats_.upload_seconds += upload * 1e-3;
  if (!flight.late) stats_.exposed_seconds += std::clamp(wait, 0.0f, upload) * 1e-3;
}

void UploadRing::Fail(const absl::Status& status) {
  if (error_.ok()) error_ = status;
  freed_.NotifyAll();
}

}  // namespace shardfeed
