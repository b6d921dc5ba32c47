#include "python/core/arrow.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/arrow/export.h"
#include "fmt/format.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/core/batches.h"
#include "python/core/errors.h"
#include "python/core/gil.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

constexpr char kSchemaName[] = "arrow_schema";
constexpr char kArrayName[] = "arrow_array";
constexpr char kStreamName[] = "arrow_array_stream";

// A structure of Arrow, released at its end.
template <typename T>
struct Held {
  T value = {};

  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (value.release != nullptr) value.release(&value);
  }
};

// Takes the structure out of a capsule, which then has none.
template <typename T>
void Take(nb::handle capsule, const char* name, Held<T>* held) {
  auto* inside = static_cast<T*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (inside == nullptr) throw nb::python_error();
  if (inside->release == nullptr) throw nb::value_error("the Arrow data was taken already");
  held->value = *inside;
  inside->release = nullptr;
}

template <typename T>
nb::object MakeCapsule(std::unique_ptr<T> value, const char* name) {
  PyObject* capsule = PyCapsule_New(value.get(), name, [](PyObject* self) {
    auto* inside = static_cast<T*>(PyCapsule_GetPointer(self, PyCapsule_GetName(self)));
    if (inside->release != nullptr) inside->release(inside);
    delete inside;
  });
  if (capsule == nullptr) throw nb::python_error();
  (void)value.release();
  return nb::steal(capsule);
}

// Record batches that are made of the records that an iterator of Python delivers.
class ArrowSource {
 public:
  // `batches`: an Iterator of BytesArrays. `place`: tells where the record with a number among
  // those of the iterator comes from, for messages.
  ArrowSource(nb::object batches, nb::sequence fields, bool raw, uint64_t max_bytes,
              nb::object place)
      : batches_(std::move(batches)), place_(std::move(place)), max_bytes_(max_bytes) {
    std::vector<ArrowField> wanted;
    bool sampled = false;
    for (nb::handle field : fields) {
      const nb::tuple t = nb::borrow<nb::tuple>(field);
      ArrowField& made = wanted.emplace_back();
      made.name = nb::cast<std::string>(t[0]);
      const auto kind = nb::cast<std::string>(t[1]);
      made.kind = kind == "bytes"   ? FeatureKind::kBytes
                  : kind == "float" ? FeatureKind::kFloat
                  : kind == "int64" ? FeatureKind::kInt64
                                    : FeatureKind::kNone;
      const auto width = nb::cast<int64_t>(t[2]);  // 0: a scalar, -1: a list of any length
      made.form = width == 0    ? ArrowField::Form::kScalar
                  : width == -1 ? ArrowField::Form::kList
                                : ArrowField::Form::kFixedList;
      made.width = width;
      sampled |= nb::cast<bool>(t[3]);
    }
    exporter_ = Check(ArrowExporter::Make(std::move(wanted), raw, sampled));
  }

  const ArrowExporter& exporter() const { return *exporter_; }

  // Makes the next batch; false at the end. `numbers`, unless null, receives the number of each
  // record among those of the iterator. With the GIL; raises what the iterator raises, and what is
  // wrong with a record.
  bool Next(ArrowArray* out, std::vector<uint64_t>* numbers = nullptr) {
    while (at_ == size_) {
      PyObject* next = PyIter_Next(batches_.ptr());
      if (next == nullptr) {
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
        return false;
      }
      current_ = nb::steal(next);
      TakeIntact(nb::cast<const BytesArray&>(current_));
    }
    size_t end = at_;
    uint64_t bytes = 0;
    do {
      bytes += data_[end++].size();
    } while (end < size_ && bytes + data_[end].size() <= max_bytes_);
    ArrowFailure failure;
    {
      const GilRelease release;
      failure = exporter_->Convert({data_ + at_, end - at_}, out);
    }
    if (!failure.status.ok()) {
      const nb::object where = place_(NumberOf(at_ + failure.row));
      Raise(
          absl::Status(failure.status.code(), fmt::format("{}: {}", nb::cast<std::string>(where),
                                                          std::string(failure.status.message()))));
    }
    if (numbers != nullptr) {
      numbers->clear();
      for (size_t row = at_; row < end; ++row) numbers->push_back(NumberOf(row));
    }
    at_ = end;
    return true;
  }

 private:
  uint64_t NumberOf(size_t row) const { return first_ + (rows_.empty() ? row : rows_[row]); }

  // Begins with the records of the iterator's next batch, except for damaged ones, which have no
  // bytes.
  void TakeIntact(const BytesArray& records) {
    first_ += taken_;
    taken_ = records.size();
    data_ = records.data();
    size_ = taken_;
    at_ = 0;
    rows_.clear();
    const auto damaged = nb::cast<std::vector<uint32_t>>(batches_.attr("damaged"));
    if (damaged.empty()) return;
    intact_.clear();
    for (size_t row = 0; row < taken_; ++row) {
      if (std::binary_search(damaged.begin(), damaged.end(), row)) continue;
      intact_.push_back(data_[row]);
      rows_.push_back(row);
    }
    data_ = intact_.data();
    size_ = intact_.size();
  }

  const nb::object batches_;
  const nb::object place_;
  const uint64_t max_bytes_;
  std::shared_ptr<const ArrowExporter> exporter_;
  nb::object current_;  // holds what data_ points to
  uint64_t first_ = 0;  // number of its first record
  size_t taken_ = 0;    // records in it
  std::vector<std::string_view> intact_;
  std::vector<size_t> rows_;  // those of intact_ in current_; empty: all
  const std::string_view* data_ = nullptr;
  size_t size_ = 0;
  size_t at_ = 0;
};

// What a stream holds. Its functions may be called by any thread, without the GIL.
struct StreamState {
  std::shared_ptr<ArrowSource> source;
  std::string error;
};

// An interpreter that is ending cannot make batches any more.
constexpr char kEnding[] = "the interpreter is ending";

int StreamSchema(ArrowArrayStream* stream, ArrowSchema* out) {
  static_cast<StreamState*>(stream->private_data)->source->exporter().GetSchema(out);
  return 0;
}

int StreamNext(ArrowArrayStream* stream, ArrowArray* out) {
  auto& state = *static_cast<StreamState*>(stream->private_data);
  *out = {};
  int result = EIO;
  state.error = kEnding;
  WithGil([&] {
    try {
      if (!state.source->Next(out)) *out = {};
      result = 0;
    } catch (nb::python_error& error) {
      // Arrow's libraries raise ValueError for it.
      if (error.matches(PyExc_ValueError)) result = EINVAL;
      state.error = error.what();
      // They raise an OSError, which must not be all that comes of a Ctrl-C.
      if (!error.matches(PyExc_Exception)) KeepInterrupt(error, nb::handle()).IgnoreError();
    } catch (const nb::builtin_exception& error) {
      if (error.type() == nb::exception_type::value_error) result = EINVAL;
      state.error = error.what();
    } catch (const std::exception& error) {
      state.error = error.what();
    }
  });
  return result;
}

const char* StreamError(ArrowArrayStream* stream) {
  return static_cast<StreamState*>(stream->private_data)->error.c_str();
}

void StreamRelease(ArrowArrayStream* stream) {
  auto* state = static_cast<StreamState*>(stream->private_data);
  stream->release = nullptr;
  // Objects of an interpreter that has ended are not released.
  WithGil([state] { delete state; });
}

nb::object ExportStream(std::shared_ptr<ArrowSource> source) {
  auto stream = std::make_unique<ArrowArrayStream>();
  *stream = {&StreamSchema, &StreamNext, &StreamError, &StreamRelease,
             new StreamState{std::move(source), {}}};
  return MakeCapsule(std::move(stream), kStreamName);
}

// One record batch, for which consumers ask once or several times.
class ArrowBatch {
 public:
  // The structure's content is shared by all that were asked for.
  ArrowBatch(std::shared_ptr<Held<ArrowSchema>> schema, std::shared_ptr<Held<ArrowArray>> array,
             std::vector<uint64_t> numbers)
      : schema_(std::move(schema)), array_(std::move(array)), numbers_(std::move(numbers)) {}

  int64_t rows() const { return array_->value.length; }
  const std::vector<uint64_t>& numbers() const { return numbers_; }
  nb::tuple Export() const {
    auto schema = std::make_unique<ArrowSchema>();
    Share(schema_->value, schema_, schema.get());
    auto array = std::make_unique<ArrowArray>();
    Share(array_->value, array_, array.get());
    return nb::make_tuple(MakeCapsule(std::move(schema), kSchemaName),
                          MakeCapsule(std::move(array), kArrayName));
  }

 private:
  // Copies a structure whose buffers `owner` keeps; its children are copies, too.
  template <typename T>
  static void Share(const T& from, const std::shared_ptr<Held<T>>& owner, T* to) {
    struct Copy {
      std::shared_ptr<Held<T>> owner;
      std::vector<T> children;
      std::vector<T*> pointers;
    };
    auto copy = std::make_unique<Copy>();
    copy->owner = owner;
    copy->children.resize(static_cast<size_t>(from.n_children));
    for (size_t i = 0; i < copy->children.size(); ++i) {
      Share(*from.children[i], owner, &copy->children[i]);
      copy->pointers.push_back(&copy->children[i]);
    }
    *to = from;
    to->children = copy->pointers.data();
    to->private_data = copy.release();
    to->release = [](T* self) {
      auto* mine = static_cast<Copy*>(self->private_data);
      for (T& child : mine->children) {
        if (child.release != nullptr) child.release(&child);
      }
      delete mine;
      self->release = nullptr;
    };
  }

  const std::shared_ptr<Held<ArrowSchema>> schema_;
  const std::shared_ptr<Held<ArrowArray>> array_;
  const std::vector<uint64_t> numbers_;
};

// Batches of Arrow: an iterator in Python, and a stream for Arrow's libraries.
class ArrowBatches {
 public:
  ArrowBatches(nb::object batches, nb::sequence fields, bool raw, uint64_t max_bytes,
               nb::object place)
      : source_(std::make_shared<ArrowSource>(std::move(batches), std::move(fields), raw, max_bytes,
                                              std::move(place))),
        schema_(std::make_shared<Held<ArrowSchema>>()) {
    source_->exporter().GetSchema(&schema_->value);
  }

  // The stream has what has not been read yet. A second one would have nothing.
  nb::object Stream(nb::object /*requested_schema*/) {
    if (std::exchange(has_stream_, true)) {
      throw nb::value_error("the batches have been read as a stream already; call arrow() again");
    }
    return ExportStream(source_);
  }
  nb::object Schema() const {
    auto schema = std::make_unique<ArrowSchema>();
    source_->exporter().GetSchema(schema.get());
    return MakeCapsule(std::move(schema), kSchemaName);
  }
  ArrowBatch Next() {
    auto array = std::make_shared<Held<ArrowArray>>();
    std::vector<uint64_t> numbers;
    if (!source_->Next(&array->value, &numbers)) throw nb::stop_iteration();
    return ArrowBatch(schema_, std::move(array), std::move(numbers));
  }

 private:
  const std::shared_ptr<ArrowSource> source_;
  const std::shared_ptr<Held<ArrowSchema>> schema_;
  bool has_stream_ = false;
};

}  // namespace

void VisitArrow(nb::handle object,
                const std::function<bool(const ArrowSchema&, const ArrowArray&)>& take) {
  if (nb::hasattr(object, "__arrow_c_stream__")) {
    Held<ArrowArrayStream> stream;
    Take(object.attr("__arrow_c_stream__")(), kStreamName, &stream);
    Held<ArrowSchema> schema;
    int failed = 0;
    {
      const GilRelease release;
      failed = stream.value.get_schema(&stream.value, &schema.value);
      while (failed == 0) {
        Held<ArrowArray> batch;
        failed = stream.value.get_next(&stream.value, &batch.value);
        if (failed != 0 || batch.value.release == nullptr) break;
        if (!take(schema.value, batch.value)) break;
      }
    }
    if (failed == 0) return;
    const char* why = stream.value.get_last_error(&stream.value);
    throw nb::value_error(
        fmt::format("the Arrow stream failed: {}", why == nullptr ? "without a reason" : why)
            .c_str());
  }
  if (nb::hasattr(object, "__arrow_c_array__")) {
    const nb::object pair = object.attr("__arrow_c_array__")();
    Held<ArrowSchema> schema;
    Held<ArrowArray> batch;
    Take(pair[0], kSchemaName, &schema);
    Take(pair[1], kArrayName, &batch);
    const GilRelease release;
    take(schema.value, batch.value);
    return;
  }
  throw nb::type_error(fmt::format("expected a table, a record batch or a stream of Arrow, got {}",
                                   nb::cast<std::string>(nb::str(object.type().attr("__name__"))))
                           .c_str());
}

void BindArrow(nb::module_& m) {
  nb::class_<ArrowBatch>(m, "ArrowBatch")
      .def("__len__", &ArrowBatch::rows)
      .def_prop_ro("numbers", &ArrowBatch::numbers)
      .def(
          "__arrow_c_array__",
          [](const ArrowBatch& batch, const nb::object& /*requested_schema*/) {
            return batch.Export();
          },
          nb::arg("requested_schema") = nb::none());
  nb::class_<ArrowBatches>(m, "ArrowBatches")
      .def(nb::init<nb::object, nb::sequence, bool, uint64_t, nb::object>())
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &ArrowBatches::Next)
      .def("__arrow_c_schema__", &ArrowBatches::Schema)
      .def("__arrow_c_stream__", &ArrowBatches::Stream, nb::arg("requested_schema") = nb::none());
}

}  // namespace shardfeed::python
