#include "python/core/writing.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/work_stop.h"
#include "decode/arrow/import.h"
#include "decode/features/example_columns.h"
#include "fmt/format.h"
#include "nanobind/stl/map.h"
#include "nanobind/stl/optional.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/string_view.h"
#include "nanobind/stl/unique_ptr.h"
#include "nanobind/stl/vector.h"
#include "net/http_client.h"
#include "python/core/arrow.h"
#include "python/core/column_values.h"
#include "python/core/errors.h"
#include "python/core/example_values.h"
#include "python/core/exclusive_use.h"
#include "python/core/gil.h"
#include "python/core/record_types.h"
#include "shard/names/names.h"
#include "shard/writing/shared_job.h"
#include "shard/writing/write_job.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

// What writes records that Python gives, without the GIL: a second thread is refused meanwhile.
class RecordSink {
 public:
  // `features`: as for RecordTypes.
  RecordSink(nb::sequence features, bool keeps_shapes)
      : types_(std::move(features), keeps_shapes) {}
  virtual ~RecordSink() = default;

  // Number of records that were taken, which may not be in a file yet.
  uint64_t records() const { return records_; }

  // Writes a record as it is.
  void WriteBytes(nb::bytes record) {
    const ExclusiveUse use(used_, "the writer");
    CheckOpen();
    const std::string_view bytes(record.c_str(), record.size());
    types_.Begin(records_);
    if (Wrong wrong = types_.CheckRecord(bytes)) {
      types_.Undo();
      wrong.text = fmt::format("record {}: {}", records_, wrong.text);
      Raise(wrong);
    }
    Put(bytes);
  }

  void WriteExample(nb::dict features) {
    const ExclusiveUse use(used_, "the writer");
    CheckOpen();
    builder_.Clear();
    try {
      std::vector<nb::object> held;
      types_.Begin(records_);
      for (auto [key, value] : features) {
        const std::string_view name = NameOfFeature(key);
        if (value.is_none()) {
          types_.CheckName(name);
        } else {
          Add(name, value, &held);
        }
      }
      if (const Wrong wrong = types_.CheckComplete()) Raise(wrong);
      // With the GIL: other threads might change what was borrowed.
      record_.clear();
      builder_.SerializeExample(&record_);
    } catch (const nb::builtin_exception& error) {
      types_.Undo();
      throw nb::builtin_exception(error.type(),
                                  fmt::format("record {}: {}", records_, error.what()).c_str());
    } catch (...) {
      types_.Undo();
      throw;
    }
    Put(record_);
  }

  // Writes the rows of columns as Examples, and returns their number. Each column is (name, dtype,
  // values, splits), as for TakeColumn.
  uint64_t WriteColumns(nb::sequence columns) {
    const ExclusiveUse use(used_, "the writer");
    CheckOpen();
    std::vector<nb::object> held;
    std::vector<TypedColumn> made;
    uint64_t rows = 0;
    types_.Begin(records_);
    try {
      for (nb::handle column : columns) {
        const nb::tuple t = nb::borrow<nb::tuple>(column);
        const std::string_view name = NameOfFeature(t[0]);
        const nb::object splits = t[3];
        GivenColumn given =
            TakeColumn(name, nb::cast<std::string>(t[1]), t[2], splits, &types_, &held);
        if (!made.empty() && given.rows != rows) {
          RefuseValue(name,
                      fmt::format("{} rows, and the columns before it have {}", given.rows, rows));
        }
        rows = given.rows;
        made.push_back(std::move(given.typed));
      }
    } catch (...) {
      types_.Undo();
      throw;
    }
    Failure failure;
    {
      const GilRelease release;
      failure = WriteRows(std::move(made), rows);
    }
    RaiseIf(failure);
    return rows;
  }

  // Writes the rows of a table, a record batch or a stream of Arrow. `shapes`: those of columns
  // whose lists are arrays, which have no missing values within. `dtypes`: names of NumPy, of
  // columns whose values had another type before they came here. Returns the number of rows.
  uint64_t WriteArrow(nb::handle data, const std::map<std::string, std::vector<int64_t>>& shapes,
                      const std::map<std::string, std::string>& dtypes) {
    const ExclusiveUse use(used_, "the writer");
    CheckOpen();
    uint64_t rows = 0;
    Failure failure;
    VisitArrow(data, [&](const ArrowSchema& schema, const ArrowArray& batch) {
      absl::StatusOr<std::vector<ExampleColumn>> columns = ColumnsFromArrow(schema, batch);
      failure.status = columns.status();
      const auto more = static_cast<uint64_t>(batch.length);
      std::vector<TypedColumn> typed;
      if (failure.ok()) {
        for (ExampleColumn& column : *columns) {
          TypedColumn& one = typed.emplace_back();
          const auto dtype = dtypes.find(column.name);
          one.dtype = dtype == dtypes.end() ? DtypeOf(column.type) : dtype->second;
          const auto shape = shapes.find(column.name);
          if (shape != shapes.end()) {
            one.shape = shape->second;
          } else if (!column.shape.empty()) {
            one.shape = column.shape;
          } else if (column.splits32 != nullptr || column.splits64 != nullptr) {
            one.shape = {-1};
          } else if (column.is_list) {
            one.shape = {static_cast<int64_t>(column.width)};
          }
          one.column = std::move(column);
        }
        types_.Begin(records_);
        failure = WriteRows(std::move(typed), more);
      }
      rows += more;
      return failure.ok();
    });
    RaiseIf(failure);
    return rows;
  }

  // What lost digits, a line for each feature.
  std::vector<std::string> Losses() const { return types_.Losses(); }

 protected:
  virtual bool is_open() const = 0;
  // Makes a record as DatasetWriter::Write does.
  using Make = absl::FunctionRef<absl::Status(std::string*)>;
  // Without the GIL.
  virtual absl::Status Write(Make make) = 0;
  void CheckOpen() const {
    if (!is_open()) throw nb::value_error("the writer is closed");
  }
  FeatureTypes Types() const { return types_.Types(); }

  std::atomic<bool> used_ = false;

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

  // Why rows were not written.
  struct Failure {
    Wrong wrong;
    absl::Status status;

    bool ok() const { return !wrong && status.ok(); }
  };
  static void RaiseIf(const Failure& failure) {
    if (failure.wrong) Raise(failure.wrong);
    Check(failure.status);
  }

  void Put(std::string_view record) {
    absl::Status status;
    {
      const GilRelease release;
      status = Write([record](std::string* to) {
        to->append(record);
        return absl::OkStatus();
      });
    }
    Check(status);
    types_.Learn();
    ++records_;
  }

  // Writes all rows, or none if one of them is wrong, between types_.Begin and its end. Without
  // the GIL.
  Failure WriteRows(std::vector<TypedColumn> typed, uint64_t rows) {
    Failure failure;
    if (rows > 0) {
      for (TypedColumn& one : typed) {
        failure.wrong = types_.CheckColumn(&one, rows);
        if (failure.wrong) break;
      }
      if (!failure.wrong) failure.wrong = types_.CheckComplete();
    }
    if (failure.wrong || rows == 0) {
      types_.Undo();
      return failure;
    }
    std::vector<ExampleColumn> columns;
    columns.reserve(typed.size());
    for (TypedColumn& one : typed) columns.push_back(std::move(one.column));
    absl::StatusOr<ExampleColumns> examples = ExampleColumns::Make(std::move(columns));
    failure.status = examples.status();
    for (uint64_t row = 0; row < rows && failure.ok(); ++row) {
      failure.status = Write([&](std::string* record) { return examples->Serialize(row, record); });
      if (failure.ok()) ++records_;
    }
    if (failure.ok()) {
      types_.Learn();
    } else {
      types_.Undo();
    }
    return failure;
  }

  ExampleBuilder builder_;
  std::string record_;
  Values values_;  // values of the feature that is being added
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
  encode.level = level;
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

// Checks a name to write, perhaps without a number of shards; `is_free`: also that it is free.
void CheckOutput(const std::string& spec, bool is_free) {
  absl::Status status;
  {
    const GilRelease release;
    const absl::StatusOr<OutputSpec> output = ParseOutputSpec(spec);
    status = output.status();
    if (status.ok() && is_free) status = DatasetWriter::CheckNameIsFree(*output);
    if (absl::IsNotFound(status)) status = absl::OkStatus();  // the folder is made
  }
  Check(status);
}

nb::dict ReportOf(const Manifest& manifest) {
  nb::dict report;
  report["shards"] = manifest.shards.size();
  report["records"] = manifest.num_records();
  report["bytes"] = manifest.num_bytes();
  return report;
}

std::stop_token StoppedToken() {
  static auto* const source = new std::stop_source();
  source->request_stop();
  return source->get_token();
}

// A sink into a DatasetWriter or a PartWriter, which is null once it has ended.
template <typename Target>
class SinkInto : public RecordSink {
 public:
  explicit SinkInto(nb::sequence features)
      : RecordSink(std::move(features), /*keeps_shapes=*/true) {}
  ~SinkInto() override {
    const GilRelease release;
    Drop(/*soon=*/true);
  }

  void Abort(bool soon) {
    const ExclusiveUse use(used_, "the writer");
    const GilRelease release;
    Drop(soon);
  }

 protected:
  // Removes what was not finished, without the GIL. `soon`: a store that does not answer is not
  // waited for longer than a second.
  void Drop(bool soon) {
    std::optional<WorkStop> stop;
    if (soon) stop.emplace(StoppedToken());
    writer_.reset();
  }

  std::unique_ptr<Target> writer_;

 private:
  bool is_open() const override { return writer_ != nullptr; }
  absl::Status Write(Make make) override { return writer_->Write(make); }
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
    const ExclusiveUse use(used_, "the writer");
    CheckOpen();
    Manifest manifest;
    manifest.made_by = made_by_;
    manifest.notes = Losses();
    writer_->SetTypes(Types());
    absl::StatusOr<Manifest> finished;
    {
      const GilRelease release;
      finished = writer_->Finish(std::move(manifest));
      Drop(IsInterrupted());
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

  // `without_values`: features that were given, but without a value or a type.
  std::string Close(std::vector<std::string> notes, std::vector<std::string> without_values) {
    const ExclusiveUse use(used_, "the writer");
    CheckOpen();
    FeatureTypes types = Types();
    for (std::string& name : without_values) types.try_emplace(std::move(name));
    writer_->SetTypes(std::move(types));
    absl::StatusOr<std::string> message;
    {
      const GilRelease release;
      message = writer_->Close(std::move(notes));
      Drop(IsInterrupted());
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
  absl::Status Write(Make make) override {
    made_.clear();
    return make(&made_);
  }

  std::string made_;
};

WriteJobOptions JobOptionsOf(const std::string& compression, int level, uint64_t member_bytes,
                             bool overwrite, bool sync) {
  WriteJobOptions options;
  options.encode = EncodeOptionsOf(compression, level, member_bytes);
  options.overwrite = overwrite;
  options.sync = sync;
  return options;
}

// A job that tasks share by its name, as one of them sees it.
class JobTask {
 public:
  // Creates nothing.
  static JobTask Make(const std::string& spec, const std::string& compression, int level,
                      uint64_t member_bytes, bool overwrite, bool sync, const std::string& id,
                      const std::map<std::string, std::string>& made_by) {
    const OutputSpec output = OutputOf(spec);
    const WriteJobOptions options = JobOptionsOf(compression, level, member_bytes, overwrite, sync);
    absl::StatusOr<SharedJob> job;
    {
      const GilRelease release;
      job = SharedJob::Prepare(output, options, id, made_by);
    }
    return JobTask(Check(std::move(job)), {.made_by = made_by});
  }

  // Creates the job unless another task has, and says what the dataset is made of. Returns those of
  // `parts`, which ascend, that no task has finished.
  std::vector<uint64_t> Join(const std::vector<uint64_t>& parts, std::vector<std::string> notes,
                             std::string fingerprint) {
    input_.notes = std::move(notes);
    input_.fingerprint = std::move(fingerprint);
    absl::StatusOr<FinishedParts> finished;
    {
      const GilRelease release;
      finished = LookFor(parts);
    }
    return Check(std::move(finished)).missing;
  }

  // Begins an attempt at a part, whose message is left for the commit.
  std::unique_ptr<PartSink> Open(uint64_t part, int threads, nb::sequence features) const {
    absl::StatusOr<std::unique_ptr<PartWriter>> writer;
    {
      const GilRelease release;
      writer = job_.Open(part, input_, threads);
    }
    return std::make_unique<PartSink>(Check(std::move(writer)), std::move(features));
  }

 private:
  JobTask(SharedJob job, JobInput input) : job_(std::move(job)), input_(std::move(input)) {}

  absl::StatusOr<FinishedParts> LookFor(const std::vector<uint64_t>& parts) {
    if (absl::Status status = job_.Join(); !status.ok()) return status;
    const absl::StatusOr<std::unique_ptr<PartStaging>> staging = job_.Stage(parts);
    if (!staging.ok()) return staging.status();
    if (absl::Status status = job_.Describe(**staging, input_); !status.ok()) return status;
    return job_.Finished(parts);
  }

  SharedJob job_;
  JobInput input_;
};

WriteJob MakeJob(const std::string& spec, const std::string& compression, int level,
                 uint64_t member_bytes, bool overwrite, bool sync) {
  const OutputSpec output = OutputOf(spec);
  const WriteJobOptions options = JobOptionsOf(compression, level, member_bytes, overwrite, sync);
  return Check(WithoutGil([&] { return WriteJob::Create(output, options); }));
}

}  // namespace

void BindWriting(nb::module_& m) {
  nb::class_<RecordSink>(m, "RecordSink")
      .def("write_bytes", &RecordSink::WriteBytes)
      .def("write_example", &RecordSink::WriteExample)
      .def("write_columns", &RecordSink::WriteColumns)
      .def("write_arrow", &RecordSink::WriteArrow)
      .def("losses", &RecordSink::Losses);
  nb::class_<Writer, RecordSink>(m, "Writer")
      .def(nb::init<const std::string&, const std::string&, int, uint64_t, int, bool, bool,
                    std::map<std::string, std::string>, nb::sequence>())
      .def("finish", &Writer::Finish)
      .def("abort", &Writer::Abort, nb::arg("soon") = false)
      .def_prop_ro("records_written", &Writer::records);
  nb::class_<PartSink, RecordSink>(m, "PartWriter")
      .def("close", &PartSink::Close)
      .def("abort", &PartSink::Abort, nb::arg("soon") = false)
      .def_prop_ro("records_written", &PartSink::records);
  nb::class_<ExampleEncoder>(m, "ExampleEncoder")
      .def(nb::init<nb::sequence>())
      .def("encode", &ExampleEncoder::Encode)
      .def("losses", &ExampleEncoder::Losses);
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
      .def("ensure", [](const WriteJob& job) { Check(WithoutGil([&] { return job.Ensure(); })); })
      // What the manifest says about the origin of the dataset of the job's name; None without one.
      .def("made_by",
           [](const WriteJob& job) -> std::optional<std::map<std::string, std::string>> {
             std::optional<Manifest> manifest = Check(WithoutGil([&] { return job.Dataset(); }));
             if (!manifest) return std::nullopt;
             return std::move(manifest->made_by);
           })
      .def("open",
           [](const WriteJob& job, uint64_t part, const std::string& attempt, int threads,
              nb::sequence features) {
             return std::make_unique<PartSink>(
                 Check(WithoutGil([&] { return job.Open(part, attempt, threads); })),
                 std::move(features));
           })
      // The report, and the features that had no value in any part.
      .def("commit",
           [](const WriteJob& job, const std::vector<std::string>& messages,
              std::map<std::string, std::string> made_by, std::vector<std::string> notes) {
             Manifest manifest;
             manifest.made_by = std::move(made_by);
             manifest.notes = std::move(notes);
             std::vector<std::string> without_values;
             absl::StatusOr<Manifest> finished = WithoutGil(
                 [&] { return job.Commit(messages, std::move(manifest), {}, &without_values); });
             return nb::make_tuple(ReportOf(Check(std::move(finished))), without_values);
           })
      .def("abort", [](const WriteJob& job) { Check(WithoutGil([&] { return job.Abort(); })); });
  m.def("note_on_suffix", &NoteOnSuffix, nb::arg("suffix"), nb::arg("compression"));
  m.def("check_output", &CheckOutput, nb::arg("spec"), nb::arg("is_free") = false);
  // The number of requests that this process has sent to stores.
  m.def("store_requests", [] { return HttpClient::Get().stats().requests; });
  nb::class_<JobTask>(m, "JobTask")
      .def_static("make", &JobTask::Make)
      .def("join", &JobTask::Join)
      .def("open", &JobTask::Open);
}

}  // namespace shardfeed::python
