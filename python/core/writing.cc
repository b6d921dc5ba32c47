#include "python/core/writing.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "decode/arrow/import.h"
#include "decode/features/example_columns.h"
#include "fmt/format.h"
#include "nanobind/stl/map.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/unique_ptr.h"
#include "nanobind/stl/vector.h"
#include "python/core/arrow.h"
#include "python/core/batches.h"
#include "python/core/errors.h"
#include "python/core/example_values.h"
#include "python/core/gil.h"
#include "shard/names.h"
#include "shard/write_job.h"
#include "shard/writer.h"
#include "shardfeed/examples.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

ExampleColumn::Type TypeOf(DType dtype) {
  using Type = ExampleColumn::Type;
  switch (dtype) {
    case DType::kUInt8:
      return Type::kUInt8;
    case DType::kInt8:
      return Type::kInt8;
    case DType::kUInt16:
      return Type::kUInt16;
    case DType::kInt16:
      return Type::kInt16;
    case DType::kInt32:
      return Type::kInt32;
    case DType::kInt64:
      return Type::kInt64;
    case DType::kFloat16:
      return Type::kFloat16;
    case DType::kBFloat16:
      return Type::kBFloat16;
    case DType::kFloat32:
      return Type::kFloat32;
    case DType::kFloat64:
      return Type::kFloat64;
    case DType::kBytes:
      return Type::kView;
  }
  return Type::kView;
}

// 0: no value tells.
char KindOfColumn(ExampleColumn::Type type) {
  using Type = ExampleColumn::Type;
  switch (type) {
    case Type::kNull:
      return 0;
    case Type::kFloat16:
    case Type::kBFloat16:
    case Type::kFloat32:
    case Type::kFloat64:
      return 'f';
    case Type::kView:
    case Type::kString32:
    case Type::kString64:
    case Type::kFixedBytes:
    case Type::kArrowView:
      return 'b';
    default:
      return 'i';
  }
}

using Kinds = std::map<std::string, std::string>;

// What writes records that Python gives.
class RecordSink {
 public:
  explicit RecordSink(const Kinds& types) {
    for (const auto& [name, type] : types) kinds_[name] = KindOf(DTypeFromName(type));
  }
  virtual ~RecordSink() = default;

  void WriteBytes(nb::bytes record) {
    CheckOpen();
    Put({record.c_str(), record.size()});
  }

  void WriteExample(nb::dict features) {
    CheckOpen();
    builder_.Clear();
    std::vector<nb::object> held;
    for (auto [key, value] : features) {
      const std::string_view name = StringOf(key);
      const auto declared = kinds_.find(name);
      const char wanted = declared == kinds_.end() ? '\0' : declared->second;
      Values values;
      if (PyBytes_Check(value.ptr()) || PyUnicode_Check(value.ptr())) {
        values.kind = 'b';
        CheckKind(name, wanted, &values);
        builder_.AddBorrowedBytes(name, StringOf(value));
        continue;
      }
      nb::object held_value = nb::borrow(value);
      if (nb::isinstance<BytesArray>(value)) {
        held_value = nb::cast<BytesArray&>(value).ToList();
        values.kind = 'b';
      }
      AnyArray array;
      // NumPy scalars have no length; dates among them offer a buffer without a format.
      const bool is_array = !PyLong_Check(value.ptr()) && !PyFloat_Check(value.ptr()) &&
                            !PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr()) &&
                            nb::hasattr(value, "__len__") && nb::try_cast(value, array) &&
                            array.is_valid();
      if (is_array && AddArray(name, array, &values)) {
        // Done.
      } else if (nb::hasattr(held_value, "tolist") && !PyList_Check(held_value.ptr())) {
        held_value = held_value.attr("tolist")();
        AddAll(name, held_value, &values);
      } else {
        AddAll(name, held_value, &values);
      }
      held.push_back(std::move(held_value));
      CheckKind(name, wanted, &values);
      // An empty list has no type, so leave the feature out.
      if (values.kind == 0) continue;
      if (values.kind == 'b') {
        builder_.AddBytesList(name, values.bytes);
      } else if (values.kind == 'f') {
        builder_.AddFloatList(name, values.floats);
      } else {
        builder_.AddInt64List(name, values.ints);
      }
    }
    record_.clear();
    builder_.SerializeExample(&record_);
    Put(record_);
  }

  // Writes the rows of columns as Examples; see BatchFromPython. Returns their number.
  uint64_t WriteColumns(nb::sequence spec, nb::sequence columns) {
    CheckOpen();
    const Batch batch = BatchFromPython(
        std::make_shared<const RowSpec>(SpecFromPython(std::move(spec))), std::move(columns));
    std::vector<ExampleColumn> made;
    for (size_t c = 0; c < batch.columns.size(); ++c) {
      const ColumnSpec& column = (*batch.spec)[c];
      ExampleColumn& one = made.emplace_back();
      one.name = column.name;
      one.type = TypeOf(column.dtype);
      one.values = batch.columns[c].data;
      one.width = column.num_values();
      one.splits64 = batch.columns[c].splits;
      if (column.ragged && column.num_values() != 1) {
        throw nb::value_error(
            fmt::format("feature '{}': expected rows of numbers or bytes, got rows of arrays of "
                        "{} values",
                        column.name, column.num_values())
                .c_str());
      }
    }
    absl::Status status;
    {
      const GilRelease release;
      status = WriteRows(std::move(made), batch.rows);
    }
    Check(status);
    return batch.rows;
  }

  // Writes the rows of a table, a record batch or a stream of Arrow. Returns their number.
  uint64_t WriteArrow(nb::handle data) {
    CheckOpen();
    uint64_t rows = 0;
    absl::Status status;
    VisitArrow(data, [&](const ArrowSchema& schema, const ArrowArray& batch) {
      absl::StatusOr<std::vector<ExampleColumn>> columns = ColumnsFromArrow(schema, batch);
      status = columns.status();
      const auto more = static_cast<uint64_t>(batch.length);
      if (status.ok()) status = WriteRows(*std::move(columns), more);
      rows += more;
      return status.ok();
    });
    Check(status);
    return rows;
  }

 protected:
  virtual bool is_open() const = 0;
  // Without the GIL.
  virtual absl::Status Write(std::string_view record) = 0;
  void CheckOpen() const {
    if (!is_open()) throw nb::value_error("the writer is closed");
  }

 private:
  // Converts the values to the declared kind; 0 if none is declared.
  static void CheckKind(std::string_view name, char wanted, Values* values) {
    if (wanted == 0 || values->kind == wanted) return;
    if (values->kind == 'i' && wanted == 'f') {
      ToFloats(name, values);
    } else if (values->kind != 0) {
      Refuse(name, fmt::format("{}, where {} are declared", NameOf(values->kind), NameOf(wanted)));
    }
    values->kind = wanted;
  }

  static void AddAll(std::string_view name, nb::handle value, Values* values) {
    if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) {
      return AddValue(name, value, values);
    }
    for (nb::handle item : nb::borrow<nb::sequence>(value)) {
      if (PyList_Check(item.ptr()) || PyTuple_Check(item.ptr())) {
        AddAll(name, item, values);
      } else {
        AddValue(name, item, values);
      }
    }
  }

  void Put(std::string_view record) {
    absl::Status status;
    {
      const GilRelease release;
      status = Write(record);
    }
    Check(status);
  }

  absl::Status WriteRows(std::vector<ExampleColumn> columns, uint64_t rows) {
    for (const ExampleColumn& column : columns) {
      const auto declared = kinds_.find(column.name);
      const char kind = KindOfColumn(column.type);
      if (declared == kinds_.end() || kind == 0 || kind == declared->second) continue;
      return absl::InvalidArgumentError(fmt::format("feature '{}': {}, where {} are declared",
                                                    column.name, NameOf(kind),
                                                    NameOf(declared->second)));
    }
    absl::StatusOr<ExampleColumns> examples = ExampleColumns::Make(std::move(columns));
    if (!examples.ok()) return examples.status();
    for (uint64_t row = 0; row < rows; ++row) {
      absl::Status status = examples->Serialize(row, &record_);
      if (status.ok()) status = Write(record_);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  ExampleBuilder builder_;
  std::string record_;
  std::map<std::string, char, std::less<>> kinds_;  // declared kinds, encoded as in Values::kind
};

EncodeOptions EncodeOptionsOf(const std::string& compression, int level, uint64_t member_bytes) {
  EncodeOptions encode;
  if (compression == "gzip") {
    encode.compression = Compression::kGzip;
  } else if (compression == "zlib") {
    encode.compression = Compression::kZlib;
  } else if (compression != "none") {
    throw nb::value_error(
        fmt::format("compression must be one of 'none', 'gzip', 'zlib', not '{}'", compression)
            .c_str());
  }
  encode.compression_level = level;
  encode.member_bytes = member_bytes;
  return encode;
}

OutputSpec OutputOf(const std::string& spec) {
  absl::StatusOr<OutputSpec> parsed;
  {
    const GilRelease release;  // a store may ask servers for credentials
    parsed = ParseOutputSpec(spec);
  }
  OutputSpec output = Check(std::move(parsed));
  if (!output.count) {
    throw nb::value_error(
        fmt::format("{}: the number of shards is missing: name the dataset as {}@16", spec, spec)
            .c_str());
  }
  return output;
}

nb::dict ReportOf(const Manifest& manifest) {
  nb::dict report;
  report["shards"] = manifest.shards.size();
  report["records"] = manifest.num_records();
  report["bytes"] = manifest.num_bytes();
  return report;
}

// A sink into a DatasetWriter or a PartWriter, which is null once it has ended.
template <typename Target>
class SinkInto : public RecordSink {
 public:
  explicit SinkInto(const Kinds& types) : RecordSink(types) {}
  ~SinkInto() override { Abort(); }

  void Abort() {
    const GilRelease release;
    writer_.reset();
  }

  uint64_t records() const { return writer_ ? writer_->records_written() : 0; }

 protected:
  std::unique_ptr<Target> writer_;

 private:
  bool is_open() const override { return writer_ != nullptr; }
  absl::Status Write(std::string_view record) override { return writer_->Write(record); }
};

class Writer : public SinkInto<DatasetWriter> {
 public:
  Writer(const std::string& spec, const std::string& compression, int level, uint64_t member_bytes,
         int threads, bool overwrite, bool sync, std::map<std::string, std::string> made_by,
         const Kinds& types)
      : SinkInto(types), made_by_(std::move(made_by)) {
    const OutputSpec output = OutputOf(spec);
    DatasetWriterOptions options;
    options.encode = EncodeOptionsOf(compression, level, member_bytes);
    options.threads = threads;
    options.overwrite = overwrite;
    options.sync = sync;
    absl::StatusOr<std::unique_ptr<DatasetWriter>> writer;
    {
      const GilRelease release;
      writer = DatasetWriter::Create(output, options);
    }
    writer_ = Check(std::move(writer));
  }

  nb::dict Finish() {
    CheckOpen();
    Manifest manifest;
    manifest.made_by = made_by_;
    absl::StatusOr<Manifest> finished;
    {
      const GilRelease release;
      finished = writer_->Finish(std::move(manifest));
      writer_.reset();
    }
    return ReportOf(Check(std::move(finished)));
  }

 private:
  std::map<std::string, std::string> made_by_;
};

// One attempt at a part of a job.
class PartSink : public SinkInto<PartWriter> {
 public:
  PartSink(std::unique_ptr<PartWriter> writer, const Kinds& types) : SinkInto(types) {
    writer_ = std::move(writer);
  }

  std::string Close() {
    CheckOpen();
    absl::StatusOr<std::string> message;
    {
      const GilRelease release;
      message = writer_->Close();
      writer_.reset();
    }
    return Check(std::move(message));
  }
};

// Makes tf.train.Examples of rows, without a file.
class ExampleEncoder : public RecordSink {
 public:
  using RecordSink::RecordSink;

  nb::bytes Encode(nb::dict features) {
    WriteExample(std::move(features));
    return nb::bytes(made_.data(), made_.size());
  }

 private:
  bool is_open() const override { return true; }
  absl::Status Write(std::string_view record) override {
    made_ = record;
    return absl::OkStatus();
  }

  std::string made_;
};

WriteJob MakeJob(const std::string& spec, const std::string& compression, int level,
                 uint64_t member_bytes, bool overwrite, bool sync) {
  const OutputSpec output = OutputOf(spec);
  WriteJobOptions options;
  options.encode = EncodeOptionsOf(compression, level, member_bytes);
  options.overwrite = overwrite;
  options.sync = sync;
  absl::StatusOr<WriteJob> job;
  {
    const GilRelease release;
    job = WriteJob::Create(output, options);
  }
  return Check(std::move(job));
}

}  // namespace

void BindWriting(nb::module_& m) {
  nb::class_<RecordSink>(m, "RecordSink")
      .def("write_bytes", &RecordSink::WriteBytes)
      .def("write_example", &RecordSink::WriteExample)
      .def("write_columns", &RecordSink::WriteColumns)
      .def("write_arrow", &RecordSink::WriteArrow);
  nb::class_<Writer, RecordSink>(m, "Writer")
      .def(
          nb::init<const std::string&, const std::string&, int, uint64_t, int, bool, bool,
                   std::map<std::string, std::string>, const std::map<std::string, std::string>&>())
      .def("finish", &Writer::Finish)
      .def("abort", &Writer::Abort)
      .def_prop_ro("records_written", &Writer::records);
  nb::class_<PartSink, RecordSink>(m, "PartWriter")
      .def("close", &PartSink::Close)
      .def("abort", &PartSink::Abort)
      .def_prop_ro("records_written", &PartSink::records);
  nb::class_<ExampleEncoder>(m, "ExampleEncoder")
      .def(nb::init<const Kinds&>())
      .def("encode", &ExampleEncoder::Encode);
  nb::class_<WriteJob>(m, "WriteJob")
      .def_static("create", &MakeJob)
      .def_static("from_text",
                  [](const std::string& text) { return Check(WriteJob::FromText(text)); })
      .def_prop_ro("text", &WriteJob::Text)
      .def_prop_ro("id", &WriteJob::id)
      .def_prop_ro("parts", &WriteJob::num_parts)
      .def_prop_ro("spec",
                   [](const WriteJob& job) {
                     const OutputSpec& spec = job.spec();
                     return FormatSpec(spec.directory, spec.stem, spec.count, spec.suffix);
                   })
      .def("open",
           [](const WriteJob& job, uint64_t part, const std::string& attempt, int threads,
              const Kinds& types) {
             absl::StatusOr<std::unique_ptr<PartWriter>> writer;
             {
               const GilRelease release;
               writer = job.Open(part, attempt, threads);
             }
             return std::make_unique<PartSink>(Check(std::move(writer)), types);
           })
      .def("commit",
           [](const WriteJob& job, const std::vector<std::string>& messages,
              std::map<std::string, std::string> made_by, std::vector<std::string> notes) {
             Manifest manifest;
             manifest.made_by = std::move(made_by);
             manifest.notes = std::move(notes);
             absl::StatusOr<Manifest> finished;
             {
               const GilRelease release;
               finished = job.Commit(messages, std::move(manifest));
             }
             return ReportOf(Check(std::move(finished)));
           })
      .def("abort", [](const WriteJob& job) {
        absl::Status status;
        {
          const GilRelease release;
          status = job.Abort();
        }
        Check(status);
      });
}

}  // namespace shardfeed::python
