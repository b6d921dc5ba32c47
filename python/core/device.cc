#include "python/core/device.h"

#include <map>
#include <set>
#include <utility>

#include "base/fork_count.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nanobind/ndarray.h"
#include "nanobind/stl/map.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/core/batches.h"
#include "python/core/datasets.h"
#include "python/core/errors.h"
#include "python/core/fields.h"
#include "python/core/gil.h"
#include "python/core/iterator.h"
#include "python/core/shared_object.h"
#include "python/core/turn.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// Guarded by the GIL.
std::set<PyDeviceIterator*>& Open() {
  static auto* open = new std::set<PyDeviceIterator*>();
  return *open;
}

// Makes a batch that is destroyed only in this process. CUDA does not work in a child after fork,
// so the child must not touch what the parent has on a device.
std::shared_ptr<DeviceBatch> NewBatch() {
  return {new DeviceBatch(), [made = ForkCount()](DeviceBatch* batch) {
            if (made == ForkCount()) delete batch;
          }};
}

nb::dlpack::dtype DlpackType(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  Code code = Code::Int;
  switch (dtype) {
    case DType::kUInt8:
    case DType::kUInt16:
      code = Code::UInt;
      break;
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      code = Code::Float;
      break;
    case DType::kBFloat16:
      code = Code::Bfloat;
      break;
    default:
      break;
  }
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * DTypeSize(dtype)), 1};
}

// The layout of DLManagedTensor in DLPack's dlpack.h.
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct ExportedTensor {
  ManagedTensor managed;
  std::shared_ptr<const DeviceBatch> batch;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

// A consumer renames the capsule when it takes the tensor.
constexpr const char* kCapsuleName = "dltensor";
void DropCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kCapsuleName) == 0) return;
  auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsuleName));
  managed->deleter(managed);
}

constexpr int kDlpackCuda = 2;

CuStream StreamOf(uintptr_t stream) { return reinterpret_cast<CuStream>(stream); }

DeviceOptions OptionsFromPython(nb::dict fields, nb::dict normalize) {
  DeviceOptions options;
  const Fields f(std::move(fields));
  f.Read("device", &options.device);
  f.Read("depth", &options.depth);
  f.Read("pinned_bytes", &options.pinned_bytes);
  for (auto [name, column] : normalize) {
    const Fields n(nb::borrow<nb::dict>(column));
    Normalize& how = options.normalize[nb::cast<std::string>(name)];
    std::string dtype(DTypeName(how.dtype));
    n.Read("dtype", &dtype);
    how.dtype = DTypeFromName(dtype);
    n.Choose("layout", {{"NCHW", ImageLayout::kNCHW}, {"NHWC", ImageLayout::kNHWC}}, &how.layout);
    n.Read("mean", &how.mean);
    n.Read("std", &how.std);
    n.Read("flip", &how.flip);
    n.Choose("mixing",
             {{"none", Mixing::kNone}, {"mixup", Mixing::kMixup}, {"cutmix", Mixing::kCutmix}},
             &how.mixing);
    n.Read("mix_alpha", &how.mix_alpha);
    n.Read("seed", &how.seed);
  }
  return options;
}

// Returns the driver's handle of a stream of torch, CuPy, Numba, any object with __cuda_stream__,
// or of the handle itself; None is the legacy default stream.
uintptr_t StreamFromPython(const nb::object& stream) {
  if (stream.is_none()) return 0;
  nb::object handle = stream;
  if (nb::hasattr(stream, "__cuda_stream__")) {
    handle = stream.attr("__cuda_stream__")()[1];
  } else {
    for (const char* name : {"cuda_stream", "ptr", "handle"}) {
      if (!nb::hasattr(stream, name)) continue;
      handle = stream.attr(name);
      break;
    }
    if (nb::hasattr(handle, "value")) handle = handle.attr("value");
    if (handle.is_none()) return 0;
  }
  uintptr_t number = 0;
  if (!nb::try_cast(handle, number)) {
    throw nb::type_error(
        fmt::format("expected a CUDA stream (of torch, CuPy, Numba, with __cuda_stream__, or a "
                    "handle as an int), got {}",
                    nb::cast<std::string>(nb::repr(stream)))
            .c_str());
  }
  return number;
}

// Iterator.__init__
void Start(PyDeviceIterator* self, const Dataset& ds, nb::dict options, nb::dict normalize,
           nb::dict run) {
  const IteratorChange change(/*makes=*/true);
  DeviceOptions device = OptionsFromPython(std::move(options), std::move(normalize));
  RunOptions run_options = RunOptionsFromPython(std::move(run));
  absl::StatusOr<std::unique_ptr<DeviceIterator>> it;
  {
    const GilRelease release;
    it = DeviceIterator::Start(ds, std::move(device), std::move(run_options));
  }
  new (self) PyDeviceIterator(Check(std::move(it)));
}

}  // namespace

// ---- DeviceArray

DeviceArray::DeviceArray(std::shared_ptr<const DeviceBatch> batch, CuDevicePtr data, DType dtype,
                         std::vector<int64_t> shape, float lambda)
    : batch_(std::move(batch)),
      data_(data),
      dtype_(dtype),
      shape_(std::move(shape)),
      lambda_(lambda),
      forks_(ForkCount()) {}

void DeviceArray::CheckNotForked() const {
  if (forks_ != ForkCount()) {
    throw std::runtime_error(
        "this array was made before a fork, and CUDA does not work in the child; copy it to the "
        "host before the fork, with numpy()");
  }
}

uint64_t DeviceArray::num_bytes() const {
  uint64_t n = DTypeSize(dtype_);
  for (int64_t size : shape_) n *= size;
  return n;
}

nb::dict DeviceArray::CudaArrayInterface() const {
  CheckNotForked();
  const bool is_float =
      dtype_ == DType::kFloat16 || dtype_ == DType::kFloat32 || dtype_ == DType::kFloat64;
  // The interface has no bfloat16, so use its bits.
  const bool is_unsigned =
      dtype_ == DType::kUInt8 || dtype_ == DType::kUInt16 || dtype_ == DType::kBFloat16;
  const size_t size = DTypeSize(dtype_);
  CuStream stream = batch_->stream();
  if (stream == nullptr) stream = CuStreamLegacy();
  if (stream == CuStreamPerThread()) {
    stream = CuStreamLegacy();
    Check(batch_->Use(stream));
  }
  nb::dict interface;
  interface["shape"] = nb::tuple(nb::cast(shape_));
  interface["typestr"] = fmt::format("{}{}{}", size == 1 ? '|' : '<',
                                     is_float      ? 'f'
                                     : is_unsigned ? 'u'
                                                   : 'i',
                                     size);
  interface["data"] = nb::make_tuple(num_bytes() > 0 ? data_ : 0, false);
  interface["strides"] = nb::none();
  interface["version"] = 3;
  interface["stream"] = reinterpret_cast<uintptr_t>(stream);
  return interface;
}

nb::object DeviceArray::Dlpack(nb::object stream, nb::object, nb::object device,
                               nb::object copy) const {
  CheckNotForked();
  const auto refuse = [](const std::string& message) {
    PyErr_SetString(PyExc_BufferError, message.c_str());
    throw nb::python_error();
  };
  if (!copy.is_none() && nb::cast<bool>(copy)) refuse("copies are not supported: pass copy=False");
  if (!device.is_none()) {
    const auto [kind, id] = nb::cast<std::pair<int, int>>(device);
    if (kind != kDlpackCuda || id != this->device()) {
      refuse(fmt::format("the array is on CUDA device {}, not on the requested device ({}, {})",
                         this->device(), kind, id));
    }
  }
  int64_t number = 1;
  if ((!stream.is_none() && !nb::try_cast(stream, number)) || number == 0 || number < -1) {
    throw nb::value_error(
        "stream must be None, -1 (do not wait), 1 (legacy), 2 (per thread) or a handle");
  }
  if (number != -1) Check(batch_->Use(StreamOf(static_cast<uintptr_t>(number))));
  auto* exported = new ExportedTensor{{}, batch_, shape_, std::vector<int64_t>(shape_.size())};
  int64_t stride = 1;
  for (size_t i = shape_.size(); i-- > 0;) {
    exported->strides[i] = stride;
    stride *= shape_[i];
  }
  nb::dlpack::dltensor& tensor = exported->managed.tensor;
  tensor.data = reinterpret_cast<void*>(data_);
  tensor.device = {kDlpackCuda, this->device()};
  tensor.ndim = static_cast<int32_t>(shape_.size());
  tensor.dtype = DlpackType(dtype_);
  tensor.shape = exported->shape.data();
  tensor.strides = exported->strides.data();
  tensor.byte_offset = 0;
  exported->managed.context = exported;
  exported->managed.deleter = [](ManagedTensor* managed) {
    delete static_cast<ExportedTensor*>(managed->context);
  };
  PyObject* capsule = PyCapsule_New(&exported->managed, kCapsuleName, &DropCapsule);
  if (capsule == nullptr) {
    delete exported;
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

void DeviceArray::Use(uintptr_t stream) const {
  CheckNotForked();
  Check(batch_->Use(StreamOf(stream)));
}

nb::object DeviceArray::ToHost() const {
  CheckNotForked();
  const size_t bytes = num_bytes();
  auto* copy = new char[bytes + 1];
  const nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  absl::Status status;
  {
    const GilRelease release;
    const CudaContextScope scope(*batch_->device());
    const CudaDriver& driver = batch_->device()->driver();
    // The per-thread stream differs from thread to thread.
    status = batch_->Use(batch_->stream());
    if (status.ok() && bytes > 0) {
      status = driver.Check(driver.MemcpyDtoHAsync(copy, data_, bytes, batch_->stream()),
                            "cuMemcpyDtoHAsync");
    }
    if (status.ok()) {
      status = driver.Check(driver.StreamSynchronize(batch_->stream()), "cuStreamSynchronize");
    }
  }
  Check(status);
  const std::vector<size_t> shape(shape_.begin(), shape_.end());
  // NumPy has no bfloat16, so use its bits.
  const nb::dlpack::dtype type = DlpackType(dtype_ == DType::kBFloat16 ? DType::kUInt16 : dtype_);
  return nb::cast(nb::ndarray<nb::numpy>(copy, shape.size(), shape.data(), owner, nullptr, type));
}

// ---- PyDeviceIterator

PyDeviceIterator::PyDeviceIterator(std::unique_ptr<DeviceIterator> run) : run_(std::move(run)) {
  Open().insert(this);
}

PyDeviceIterator::~PyDeviceIterator() { Close(); }

void PyDeviceIterator::CheckOpen() const {
  if (forked_) {
    throw std::runtime_error(
        "this iterator was made before a fork, and CUDA does not work in the child; fork before "
        "the parent uses CUDA, and make an iterator in the child");
  }
  if (closed_) RaiseClosed();
}

void PyDeviceIterator::CheckCall(const absl::Status& status) const {
  if (!status.ok()) CheckOpen();
  Check(status);
}

nb::object PyDeviceIterator::Next(uintptr_t stream) {
  CheckOpen();
  const Turn turn(*use_);
  CheckOpen();
  const std::shared_ptr<DeviceIterator> run = run_;
  DropObjects();
  while (true) {
    bool there = false;
    {
      const GilRelease release;
      there = run->Await(kSignalInterval);
    }
    if (there) break;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  const std::shared_ptr<DeviceBatch> batch = NewBatch();
  absl::Status status;
  {
    const GilRelease release;
    status = run->Next(batch.get(), StreamOf(stream));
  }
  CheckOpen();
  Check(status);
  if (batch->empty()) return nb::object();
  padded_ = batch->padded;
  damaged_ = batch->host.damaged;
  nb::dict columns;
  for (const DeviceTensor& t : batch->tensors) {
    const nb::str name(t.name.data(), t.name.size());
    nb::object array = nb::cast(DeviceArray(batch, t.data, t.dtype, t.shape, t.lam));
    if (t.splits != 0) {
      const std::vector<int64_t> shape = {static_cast<int64_t>(batch->rows) + 1};
      array =
          RaggedToPython(array, nb::cast(DeviceArray(batch, t.splits, DType::kInt64, shape, 1)));
    }
    columns[name] = std::move(array);
  }
  if (!batch->host.columns.empty()) {
    columns.update(BatchToPython(batch->host, /*bare=*/false, /*writable=*/false));
  }
  return columns;
}

std::string PyDeviceIterator::State() {
  CheckOpen();
  const Turn turn(*use_);
  CheckOpen();
  absl::StatusOr<std::string> state = run_->StateDict();
  CheckCall(state.status());
  return *std::move(state);
}

void PyDeviceIterator::Load(const std::string& state) {
  CheckOpen();
  const Turn turn(*use_);
  CheckOpen();
  const std::shared_ptr<DeviceIterator> run = run_;
  absl::Status status;
  {
    const GilRelease release;
    status = run->LoadStateDict(state);
  }
  padded_ = 0;
  damaged_.clear();
  CheckCall(status);
}

nb::dict PyDeviceIterator::Stats() {
  CheckOpen();
  const DeviceStats stats = run_->stats();
  nb::dict all;
  all["seconds"] = stats.seconds;
  all["batches"] = stats.batches;
  all["elements"] = stats.batches;
  all["rows"] = stats.rows;
  all["bytes"] = stats.bytes;
  all["staged_bytes"] = stats.staged_bytes;
  all["bytes_per_second"] = stats.bytes_per_second;
  all["hidden"] = stats.hidden;
  all["exposed_seconds"] = stats.exposed_seconds;
  all["wait_seconds"] = stats.wait_seconds;
  all["pipeline_wait_seconds"] = stats.pipeline_wait_seconds;
  all["ring_full_seconds"] = stats.ring_full_seconds;
  all["buffers"] = stats.buffers;
  all["device_bytes"] = stats.device_bytes;
  nb::dict pinned;
  pinned["bytes"] = stats.pinned.bytes;
  pinned["idle_bytes"] = stats.pinned.idle_bytes;
  pinned["refused"] = stats.pinned.refused;
  all["pinned"] = std::move(pinned);
  all["pipeline"] = StatsToPython(stats.pipeline);
  all["verdict"] = stats.verdict;
  return all;
}

void PyDeviceIterator::Close() {
  if (closed_ || forked_) return;
  const IteratorChange change(/*makes=*/false);
  closed_ = true;
  Open().erase(this);
  // Once the GIL is released, another thread may drop this iterator.
  std::shared_ptr<DeviceIterator> run = std::move(run_);
  const std::shared_ptr<std::timed_mutex> use = use_;
  {
    // Python functions of this run need the GIL to finish.
    const GilRelease release;
    run->Cancel();
    // A call of another thread returns now.
    std::lock_guard<std::timed_mutex> turn(*use);
    run.reset();
  }
  DropObjects();
}

void PyDeviceIterator::CloseAll() {
  while (!Open().empty()) (*Open().begin())->Close();
}

void PyDeviceIterator::AfterFork() {
  for (PyDeviceIterator* iterator : Open()) {
    iterator->forked_ = true;
    // Leaked, since the destructor would wait for threads that do not exist in the child.
    new std::shared_ptr<DeviceIterator>(std::move(iterator->run_));
  }
  Open().clear();
}

void BindDevice(nb::module_& m) {
  using nb::arg;
  nb::class_<DeviceArray>(
      m, "DeviceArray",
      "A column on a CUDA device, in C order, for torch.from_dlpack, jax.dlpack, CuPy, Numba and "
      "others that take __dlpack__ or __cuda_array_interface__. Keeps the memory of its batch.")
      .def_prop_ro("shape", [](const DeviceArray& a) { return nb::tuple(nb::cast(a.shape())); })
      .def_prop_ro("dtype", [](const DeviceArray& a) { return std::string(DTypeName(a.dtype())); })
      .def_prop_ro("nbytes", &DeviceArray::num_bytes)
      .def_prop_ro("device", &DeviceArray::device, "The number of the device.")
      .def_prop_ro("lam", &DeviceArray::lambda,
                   "For mixed images, the share of each row's own image; otherwise 1.")
      .def_prop_ro("__cuda_array_interface__", &DeviceArray::CudaArrayInterface)
      .def("__dlpack__", &DeviceArray::Dlpack, nb::kw_only(), arg("stream").none() = nb::none(),
           arg("max_version").none() = nb::none(), arg("dl_device").none() = nb::none(),
           arg("copy").none() = nb::none())
      .def("__dlpack_device__",
           [](const DeviceArray& a) { return nb::make_tuple(kDlpackCuda, a.device()); })
      .def("__len__",
           [](const DeviceArray& a) {
             if (a.shape().empty()) throw nb::type_error("a single value has no length");
             return a.shape()[0];
           })
      .def(
          "use",
          [](const DeviceArray& a, const nb::object& stream) { a.Use(StreamFromPython(stream)); },
          arg("stream").none(),
          "Call this before work is enqueued on another stream. The stream (of torch, CuPy, Numba, "
          "an object with __cuda_stream__, a handle, or None for the legacy default stream) waits "
          "for the values, and the memory is reused only after the work that the stream has when "
          "the batch's last array is dropped.")
      .def("numpy", &DeviceArray::ToHost, "Returns a copy in host memory; waits for the copy.")
      .def("__repr__", [](const DeviceArray& a) {
        return fmt::format("DeviceArray({} [{}], cuda:{})", DTypeName(a.dtype()),
                           fmt::join(a.shape(), ", "), a.device());
      });
  nb::class_<PyDeviceIterator>(m, "DeviceIterator")
      .def("__init__", &Start, arg("dataset"), arg("options"), arg("normalize"), arg("run"))
      .def(
          "next",
          [](PyDeviceIterator& it, const nb::object& stream) {
            nb::object batch = it.Next(StreamFromPython(stream));
            if (!batch.is_valid()) EndIteration();
            return batch;
          },
          arg("stream").none())
      .def("state", &PyDeviceIterator::State)
      .def("load", &PyDeviceIterator::Load)
      .def("stats", &PyDeviceIterator::Stats)
      .def("close", &PyDeviceIterator::Close)
      .def_prop_ro("padded", &PyDeviceIterator::padded)
      .def_prop_ro("damaged", &PyDeviceIterator::damaged)
      .def_prop_ro("closed", &PyDeviceIterator::closed);
  m.def("stream_handle", &StreamFromPython, arg("stream").none());
  m.def("check_device", [](int device) {
    absl::StatusOr<std::string> name;
    {
      const GilRelease release;
      name = CudaDevice::NameOf(device);
    }
    return Check(std::move(name));
  });
}

}  // namespace shardfeed::python
