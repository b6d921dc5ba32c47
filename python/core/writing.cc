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
#include "python/core/record_types.h"
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

std::string_view DtypeOf(ExampleColumn::Type type) {
  using Type = ExampleColumn::Type;
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kInt8:
      return "int8";
    case Type::kUInt8:
      return "uint8";
    case Type::kInt16:
      return "int16";
    case Type::kUInt16:
      return "uint16";
    case Type::kInt32:
      return "int32";
    case Type::kUInt32:
      return "uint32";
    case Type::kInt64:
      return "int64";
    case Type::kUInt64:
      return "uint64";
    case Type::kFloat16:
      return "float16";
    case Type::kBFloat16:
      return "bfloat16";
    case Type::kFloat32:
      return "float32";
    case Type::kFloat64:
      return "float64";
    case Type::kNull:
      return "";
    default:
      return "bytes";
  }
}

// What writes records that Python gives.
class RecordSink {
 public:
  // `features`: as for RecordTypes.
  RecordSink(nb::sequence features, bool keeps_shapes)
      : types_(std::move(features), keeps_shapes) {}
  virtual ~RecordSink() = default;

  // Number of records that were taken, which may not be in a file yet.
  uint64_t records() const { return records_; }

  void WriteBytes(nb::bytes record) {
    CheckOpen();
    Put({record.c_str(), record.size()});
    ++records_;
  }

  void WriteExample(nb::dict features) {
    CheckOpen();
    builder_.Clear();
    try {
      std::vector<nb::object> held;
      types_.Begin();
      for (auto [key, value] : features) {
        const std::string_view name = NameOfFeature(key);
        if (!value.is_none()) Add(name, value, &held);
      }
      types_.End();
      record_.clear();
      builder_.SerializeExample(&record_);
    } catch (const nb::builtin_exception& error) {
      throw nb::builtin_exception(error.type(),
                                  fmt::format("record {}: {}", records_, error.what()).c_str());
    }
    Put(record_);
    types_.Learn(records_++);
  }

  // Writes the rows of columns as Examples; see BatchFromPython. Returns their number.
  uint64_t WriteColumns(nb::sequence spec, nb::sequence columns) {
    CheckOpen();
    const Batch batch = BatchFromPython(
        std::make_shared<const RowSpec>(SpecFromPython(std::move(spec))), std::move(columns));
    std::vector<TypedColumn> made;
    std::vector<std::vector<int64_t>> splits(batch.columns.size());
    for (size_t c = 0; c < batch.columns.size(); ++c) {
      const ColumnSpec& column = (*batch.spec)[c];
      TypedColumn& typed = made.emplace_back();
      typed.dtype = DTypeName(column.dtype);
      if (column.ragged) typed.shape.push_back(-1);
      typed.shape.insert(typed.shape.end(), column.shape.begin(), column.shape.end());
      ExampleColumn& one = typed.column;
      one.name = column.name;
      one.type = TypeOf(column.dtype);
      one.values = batch.columns[c].data;
      one.width = column.num_values();
      one.splits64 = batch.columns[c].splits;
      if (column.ragged && column.num_values() != 1) {
        // Splits count elements, and columns of Examples count values.
        for (size_t i = 0; i <= batch.rows; ++i) {
          splits[c].push_back(one.splits64[i] * static_cast<int64_t>(column.num_values()));
        }
        one.splits64 = splits[c].data();
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

  // Writes the rows of a table, a record batch or a stream of Arrow. `shapes`: those of columns of
  // lists of a fixed length that are arrays of more dimensions. Returns the number of rows.
  uint64_t WriteArrow(nb::handle data, const std::map<std::string, std::vector<int64_t>>& shapes) {
    CheckOpen();
    uint64_t rows = 0;
    absl::Status status;
    VisitArrow(data, [&](const ArrowSchema& schema, const ArrowArray& batch) {
      absl::StatusOr<std::vector<ExampleColumn>> columns = ColumnsFromArrow(schema, batch);
      status = columns.status();
      const auto more = static_cast<uint64_t>(batch.length);
      std::vector<TypedColumn> typed;
      if (status.ok()) {
        for (ExampleColumn& column : *columns) {
          TypedColumn& one = typed.emplace_back();
          one.dtype = DtypeOf(column.type);
          const auto shape = shapes.find(column.name);
          if (shape != shapes.end()) {
            one.shape = shape->second;
          } else if (column.splits32 != nullptr || column.splits64 != nullptr) {
            one.shape = {-1};
          } else if (column.is_list) {
            one.shape = {static_cast<int64_t>(column.width)};
          }
          one.column = std::move(column);
        }
        status = WriteRows(std::move(typed), more);
      }
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
  FeatureTypes Types() const { return types_.Types(); }

 private:
  void Add(std::string_view name, nb::handle value, std::vector<nb::object>* held) {
    values_.Clear();
    TakeValues(name, value, &values_, held);
    types_.Check(name, &values_);
    if (values_.kind == 'b' && values_.bytes.size() == 1) {
      held->push_back(nb::borrow(value));  // whatever becomes of the caller's dict
      builder_.AddBorrowedBytes(name, values_.bytes[0]);
    } else if (values_.kind == 'b') {
      builder_.AddBytesList(name, values_.bytes);
    } else if (values_.kind == 'f') {
      builder_.AddFloatList(name, values_.floats);
    } else if (values_.kind == 'i') {
      builder_.AddInt64List(name, values_.ints);
    }
    // An empty list has no type, so leave the feature out.
  }

  void Put(std::string_view record) {
    absl::Status status;
    {
      const GilRelease release;
      status = Write(record);
    }
    Check(status);
  }

  absl::Status WriteRows(std::vector<TypedColumn> typed, uint64_t rows) {
    if (rows == 0) return absl::OkStatus();
    absl::Status status = types_.CheckColumns(typed, rows);
    if (!status.ok()) return status;
    std::vector<ExampleColumn> columns;
    columns.reserve(typed.size());
    for (TypedColumn& one : typed) columns.push_back(std::move(one.column));
    absl::StatusOr<ExampleColumns> examples = ExampleColumns::Make(std::move(columns));
    if (!examples.ok()) return examples.status();
    for (uint64_t row = 0; row < rows; ++row) {
      status = examples->Serialize(row, &record_);
      if (status.ok()) status = Write(record_);
      if (!status.ok()) return status;
      if (row == 0) types_.Learn(records_);
      ++records_;
    }
    return absl::OkStatus();
  }

  ExampleBuilder builder_;
  std::string record_;
  Values values_;  // of the feature that is being added
  RecordTypes types_;
  uint64_t records_ = 0;
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
  explicit SinkInto(nb::sequence features)
      : RecordSink(std::move(features), /*keeps_shapes=*/true) {}
  ~SinkInto() override { Abort(); }

  void Abort() {
    const GilRelease release;
    writer_.reset();
  }

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
         nb::sequence features)
      : SinkInto(std::move(features)), made_by_(std::move(made_by)) {
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
    writer_->SetTypes(Types());
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
  PartSink(std::unique_ptr<PartWriter> writer, nb::sequence features)
      : SinkInto(std::move(features)) {
    writer_ = std::move(writer);
  }

  std::string Close() {
    CheckOpen();
    writer_->SetTypes(Types());
    absl::StatusOr<std::string> message;
    {
      const GilRelease release;
      message = writer_->Close();
      writer_.reset();
    }
    return Check(std::move(message));
  }
};

// Makes tf.train.Examples of rows, without a file, and so without a place for learned shapes.
class ExampleEncoder : public RecordSink {
 public:
  explicit ExampleEncoder(nb::sequence features)
      : RecordSink(std::move(features), /*keeps_shapes=*/false) {}

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
      .def(nb::init<const std::string&, const std::string&, int, uint64_t, int, bool, bool,
                    std::map<std::string, std::string>, nb::sequence>())
      .def("finish", &Writer::Finish)
      .def("abort", &Writer::Abort)
      .def_prop_ro("records_written", &Writer::records);
  nb::class_<PartSink, RecordSink>(m, "PartWriter")
      .def("close", &PartSink::Close)
      .def("abort", &PartSink::Abort)
      .def_prop_ro("records_written", &PartSink::records);
  nb::class_<ExampleEncoder>(m, "ExampleEncoder")
      .def(nb::init<nb::sequence>())
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
              nb::sequence features) {
             absl::StatusOr<std::unique_ptr<PartWriter>> writer;
             {
               const GilRelease release;
               writer = job.Open(part, attempt, threads);
             }
             return std::make_unique<PartSink>(Check(std::move(writer)), std::move(features));
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
