#include "python/core/datasets.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nanobind/ndarray.h"
#include "nanobind/stl/map.h"
#include "nanobind/stl/optional.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/shared_ptr.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/tuple.h"
#include "nanobind/stl/variant.h"
#include "nanobind/stl/vector.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/pipeline_state.h"
#include "python/core/batches.h"
#include "python/core/errors.h"
#include "python/core/feature_arguments.h"
#include "python/core/fields.h"
#include "python/core/functions.h"
#include "python/core/generator.h"
#include "python/core/gil.h"
#include "python/core/images.h"
#include "python/core/iterator.h"
#include "python/core/notes.h"
#include "python/core/reading.h"
#include "reader/shards/shard_table.h"
#include "shard/indexing/index_write.h"
#include "shardfeed/index.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

std::vector<Exhausted> ExhaustedOf(const std::vector<std::string>& names) {
  std::vector<Exhausted> exhausted;
  for (const std::string& name : names) {
    if (name == "stop") {
      exhausted.push_back(Exhausted::kStop);
    } else if (name == "drop") {
      exhausted.push_back(Exhausted::kDrop);
    } else if (name == "repeat") {
      exhausted.push_back(Exhausted::kRepeat);
    } else {
      throw nb::value_error(
          ("exhausted must be one of 'stop', 'drop', 'repeat', not '" + name + "'").c_str());
    }
  }
  return exhausted;
}

Dataset Rows(nb::sequence spec, nb::sequence columns) {
  Batch batch =
      BatchFromPython(std::make_shared<const RowSpec>(SpecFromPython(spec)), std::move(columns));
  batch.batched = false;
  return Made(Dataset::FromArrays(batch));
}

// Iterator.__init__
void Start(PyIterator* self, const Dataset& ds, nb::dict run_options, bool bare, bool writable,
           bool blocks) {
  const IteratorChange change(/*makes=*/true);
  RunOptions options = RunOptionsFromPython(std::move(run_options));
  const bool headspace = options.headspace;
  absl::StatusOr<std::unique_ptr<Iterator>> run;
  {
    const GilRelease release;
    run = ds.Start(options);
  }
  new (self) PyIterator(Check(std::move(run)), ElementForm{bare, writable && !headspace, blocks});
}

// Random access to records by number.
class Records {
 public:
  // `reader` is the chain that reads `table`.
  Records(std::shared_ptr<const ShardTable> table, Dataset reader)
      : access_(std::make_shared<const RandomAccess>(std::move(table))),
        reader_(std::move(reader)) {}

  uint64_t size() const { return access_->num_records(); }
  BytesArray Get(const std::vector<uint64_t>& numbers, int threads) const {
    absl::StatusOr<RecordSet> set;
    {
      const GilRelease release;
      set = access_->Get(numbers, threads);
    }
    auto records = std::make_shared<RecordSet>(Check(std::move(set)));
    const std::string_view* data = records->records.data();
    return {std::move(records), data, {static_cast<int64_t>(numbers.size())}};
  }
  // Returns the records with these numbers as the source of a chain.
  Dataset Rows(std::vector<uint64_t> numbers) const {
    absl::StatusOr<RecordSet> set;
    {
      const GilRelease release;
      set = access_->Get(numbers);
    }
    auto records = std::make_shared<RecordSet>(Check(std::move(set)));
    Batch batch;
    batch.rows = numbers.size();
    batch.spec = RecordSpec();
    batch.columns = {{reinterpret_cast<char*>(records->records.data())}};
    batch.memory = {std::move(records)};
    Check(reader_.AddNumbers(numbers, &batch));
    return Made(
        Dataset::FromArrays(batch, [access = access_, numbers = std::move(numbers)](uint64_t row) {
          return access->table().NameOf(numbers[row]);
        }));
  }
  // Returns (path, number of records, bytes of the file, bytes of the frames, digest of the
  // records) of each shard.
  nb::list Shards() const {
    const ShardTable& table = access_->table();
    nb::list shards;
    for (size_t i = 0; i < table.num_shards(); ++i) {
      const IndexSummary& summary = table.summary(i);
      shards.append(nb::make_tuple(table.path(i), table.RangeOf(i).count, summary.shard_bytes,
                                   summary.stream_bytes, summary.records_digest));
    }
    return shards;
  }
  // Returns (path, record in the shard, byte of its frame).
  nb::tuple Place(uint64_t number) const {
    const ShardTable& table = access_->table();
    if (number >= table.num_records()) throw nb::index_error("this record does not exist");
    const size_t shard = table.ShardOf(number);
    const uint64_t record = number - table.begins()[shard];
    const auto index = Check(table.Index(shard));
    return nb::make_tuple(table.path(shard), record, index->FileOffset(record));
  }

  // Adds length columns, {name: uint64 of each record}, to the index of a shard.
  void AddLengths(size_t shard, nb::dict columns) const {
    using Lengths = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    std::vector<NewLengthColumn> added;
    for (auto [name, values] : columns) {
      const auto lengths = nb::cast<Lengths>(values);
      added.push_back(
          {nb::cast<std::string>(name), {lengths.data(), lengths.data() + lengths.size()}});
    }
    absl::Status status;
    {
      const GilRelease release;
      const auto index = access_->table().Index(shard);
      status = index.ok() ? AddLengthColumns(access_->table().path(shard), **index, added, {})
                          : index.status();
    }
    Check(status);
  }

 private:
  std::shared_ptr<const RandomAccess> access_;
  Dataset reader_;
};

nb::object NextElement(PyIterator& it, const nb::object& convert) {
  nb::object element = it.Next(convert);
  if (!element.is_valid()) EndIteration();
  TellNotes();
  return element;
}

}  // namespace

RunOptions RunOptionsFromPython(nb::dict fields) {
  const Fields f(std::move(fields));
  RunOptions options;
  f.Read("threads", &options.threads);
  f.Read("cpu_share", &options.cpu_share);
  f.Read("budget_bytes", &options.budget_bytes);
  f.Read("autotune", &options.autotune);
  f.Read("deterministic", &options.deterministic);
  f.Read("headspace", &options.headspace);
  f.Read("trace", &options.trace);
  f.Read("epoch", &options.epoch);
  f.Read("flight_recorder", &options.flight_recorder);
  f.Read("starved_seconds", &options.starved_seconds);
  nb::list tuning;
  f.Read("tuning", &tuning);
  for (nb::handle stage : tuning) {
    options.tuning.push_back({nb::cast<std::string>(stage["stage"]),
                              nb::cast<int>(stage["workers"]),
                              nb::cast<uint64_t>(stage["read_ahead"])});
  }
  return options;
}

namespace {

// Returns the name that a str or an os.PathLike gives. Raises what its __fspath__ does.
std::string PathToString(nb::handle path) {
  const nb::object text = nb::steal(PyOS_FSPath(path.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  if (!PyUnicode_Check(text.ptr())) {
    throw nb::type_error(
        "Trace.write: the path must be a str, or an os.PathLike of one, not bytes");
  }
  const nb::object bytes = nb::steal(PyUnicode_EncodeFSDefault(text.ptr()));
  if (!bytes.is_valid()) throw nb::python_error();
  char* first = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &first, &size) != 0) throw nb::python_error();
  std::string name(first, size);
  if (name.find('\0') != std::string::npos) {
    throw nb::value_error("Trace.write: the path must be a str without NUL");
  }
  return name;
}

}  // namespace

void BindDatasets(nb::module_& m) {
  using nb::arg;
  nb::class_<Trace>(m, "Trace")
      .def(nb::init<>())
      .def(
          "write",
          [](const Trace& trace, nb::handle path) { Check(trace.Write(PathToString(path))); },
          nb::sig("def write(self, arg: str | os.PathLike, /) -> None"));
  nb::class_<Records>(m, "Records")
      .def("__len__", &Records::size)
      .def("get", &Records::Get)
      .def("rows", &Records::Rows)
      .def("shards", &Records::Shards)
      .def("place", &Records::Place)
      .def("add_lengths", &Records::AddLengths);

  nb::class_<Dataset>(m, "Dataset")
      .def_static("shards", &ReadShards, arg("specs"), arg("records").none(), arg("batch"),
                  arg("end"), arg("check_crc"), arg("skip_damaged"), arg("max_skipped"), arg("io"),
                  arg("threads"), arg("budget_bytes"), arg("block_records"), arg("cache"),
                  arg("cache_size"), arg("number"))
      .def_static("mixture", &ReadMixture, arg("sources"), arg("schedule"), arg("length"),
                  arg("seed").none(), arg("batch"), arg("end"), arg("check_crc"),
                  arg("skip_damaged"), arg("max_skipped").none(), arg("io"), arg("threads"),
                  arg("budget_bytes"), arg("block_records"), arg("cache"), arg("cache_size"),
                  arg("number"), arg("source"))
      .def_static("range",
                  [](int64_t start, int64_t stop, int64_t step, std::string name) {
                    return Made(Dataset::Range(start, stop, step, std::move(name)));
                  })
      .def_static("rows", &Rows)
      .def_static(
          "slices",
          [](std::vector<uint64_t> sizes, std::optional<uint64_t> seed, uint64_t rank,
             uint64_t world) { return Made(Dataset::Slices(std::move(sizes), seed, rank, world)); },
          arg("sizes"), arg("seed").none(), arg("rank"), arg("world"))
      .def_static("from_generator",
                  [](nb::object make, nb::sequence outputs, std::string version) {
                    RowSpec spec = SpecFromPython(outputs);
                    auto generator = MakePythonGenerator(spec, std::move(make));
                    return Made(Dataset::FromGenerator(std::move(generator), std::move(spec),
                                                       std::move(version)));
                  })
      .def("parse",
           [](const Dataset& ds, nb::sequence features, nb::sequence feature_lists) {
             return Made(ds.Parse(FeaturesFromPython(features), FeaturesFromPython(feature_lists)));
           })
      .def("parse_all",
           [](const Dataset& ds) {
             std::optional<Dataset> parsed;
             {
               const GilRelease release;
               parsed = ds.Parse();
             }
             return Made(*std::move(parsed));
           })
      .def("decode_image",
           [](const Dataset& ds, const std::string& feature, nb::dict fields) {
             return Made(ds.DecodeImage(feature, DecodeImageFromPython(std::move(fields))));
           })
      .def("augment",
           [](const Dataset& ds, std::string column, nb::sequence steps, uint64_t seed,
              nb::dict joint) {
             return Made(ds.Augment(std::move(column), AugmentationsFromPython(std::move(steps)),
                                    seed, JointColumnsFromPython(std::move(joint))));
           })
      .def("decode_raw",
           [](const Dataset& ds, std::string column, const std::string& dtype,
              std::vector<int64_t> shape) {
             return Made(ds.DecodeRaw(std::move(column), DTypeFromName(dtype), std::move(shape)));
           })
      .def("decode_npy",
           [](const Dataset& ds, std::string column, const std::string& dtype,
              std::vector<int64_t> shape) {
             return Made(ds.DecodeNpy(std::move(column), DTypeFromName(dtype), std::move(shape)));
           })
      .def("decode_text", [](const Dataset& ds,
                             std::string column) { return Made(ds.DecodeText(std::move(column))); })
      .def("decode_wav",
           [](const Dataset& ds, std::string column, int64_t channels, std::string rate) {
             return Made(ds.DecodeWav(std::move(column), channels, std::move(rate)));
           })
      .def("flat_map",
           [](const Dataset& ds, nb::sequence outputs, nb::object fn, std::string version) {
             RowSpec spec = SpecFromPython(outputs);
             FlatMapFn map = MakePythonFlatMap(ds.spec(), spec, std::move(fn));
             return Made(ds.FlatMap(std::move(spec), std::move(map), std::move(version)));
           })
      .def("map",
           [](const Dataset& ds, nb::sequence outputs, nb::object fn,
              std::vector<std::string> drops, std::string version, uint64_t seed, bool by_place) {
             RowSpec spec = SpecFromPython(outputs);
             MapFn map = MakePythonMap(ds.spec(), spec, std::move(fn), by_place);
             return Made(ds.Map(std::move(spec), std::move(map), std::move(drops), seed,
                                std::move(version), by_place));
           })
      .def("filter",
           [](const Dataset& ds, nb::object fn, std::string version) {
             return Made(
                 ds.Filter(MakePythonFilter(ds.spec(), std::move(fn)), 0, std::move(version)));
           })
      .def("scan",
           [](const Dataset& ds, nb::sequence outputs, nb::object make, std::string version) {
             RowSpec spec = SpecFromPython(outputs);
             auto scan = MakePythonScan(ds.spec(), spec, std::move(make));
             return Made(ds.Scan(std::move(spec), std::move(scan), std::move(version)));
           })
      .def("take_while",
           [](const Dataset& ds, nb::object fn, std::string version) {
             return Made(
                 ds.TakeWhile(MakePythonFilter(ds.spec(), std::move(fn)), std::move(version)));
           })
      .def("unique",
           [](const Dataset& ds, std::string column) { return Made(ds.Unique(std::move(column))); })
      .def("ignore_errors",
           [](const Dataset& ds, const std::optional<std::string>& max_ignored) {
             SkipCeiling ceiling;
             if (max_ignored) {
               ceiling = CeilingOf("max_ignored", "rows", *max_ignored);
               // A share refers to the rows so far, which are few at first.
               if (max_ignored->back() == '%') ceiling.at_least = SkipCeiling().at_least;
             }
             return Made(ds.IgnoreErrors(ceiling, DropException));
           })
      .def("map_batch",
           [](const Dataset& ds, nb::sequence outputs, nb::object fn, bool writable,
              std::string version) {
             RowSpec spec = SpecFromPython(outputs);
             BatchFn map = MakePythonBatchMap(spec, std::move(fn), writable);
             return Made(ds.Map(std::move(spec), std::move(map), false, std::move(version)));
           })
      .def("filter_batch",
           [](const Dataset& ds, nb::object fn, std::string version) {
             return Made(
                 ds.Map(ds.spec(), MakePythonBatchFilter(std::move(fn)), true, std::move(version)));
           })
      .def("select",
           [](const Dataset& ds, std::vector<std::string> names) {
             return Made(ds.Select(std::move(names)));
           })
      .def("batch", [](const Dataset& ds, uint64_t size,
                       bool drop_remainder) { return Made(ds.Batch(size, drop_remainder)); })
      .def("rebatch", [](const Dataset& ds, uint64_t size,
                         bool drop_remainder) { return Made(ds.Rebatch(size, drop_remainder)); })
      .def("padded_batch",
           [](const Dataset& ds, uint64_t size,
              const std::map<std::string, std::pair<int64_t, nb::object>>& padding,
              bool drop_remainder) {
             return Made(ds.PaddedBatch(size, PaddingOf(padding), drop_remainder));
           })
      .def("pad",
           [](const Dataset& ds,
              const std::map<std::string, std::pair<int64_t, nb::object>>& padding) {
             return Made(ds.Pad(PaddingOf(padding)));
           })
      .def("bucket_by_length",
           [](const Dataset& ds, std::string column, std::vector<int64_t> boundaries,
              std::vector<uint64_t> sizes, bool drop_remainder) {
             return Made(ds.BucketByLength(std::move(column), std::move(boundaries),
                                           std::move(sizes), drop_remainder));
           })
      .def("bucket_by_function",
           [](const Dataset& ds, nb::object fn, std::vector<int64_t> boundaries,
              std::vector<uint64_t> sizes, bool drop_remainder, std::string version) {
             return Made(ds.BucketByLength(MakePythonNumber(ds.spec(), std::move(fn)),
                                           std::move(boundaries), std::move(sizes), drop_remainder,
                                           std::move(version)));
           })
      .def("group_by_window",
           [](const Dataset& ds, std::string column, uint64_t size, bool drop_remainder) {
             return Made(ds.GroupByWindow(std::move(column), size, drop_remainder));
           })
      .def("group_by_function",
           [](const Dataset& ds, nb::object fn, uint64_t size, bool drop_remainder,
              std::string version) {
             return Made(ds.GroupByWindow(MakePythonKey(ds.spec(), std::move(fn)), size,
                                          drop_remainder, std::move(version)));
           })
      .def("window",
           [](const Dataset& ds, uint64_t size, uint64_t shift, uint64_t stride,
              bool drop_remainder) { return Made(ds.Window(size, shift, stride, drop_remainder)); })
      .def("rejection_resample",
           [](const Dataset& ds, std::string column, std::vector<double> target,
              std::vector<double> initial, uint64_t seed) {
             return Made(ds.RejectionResample(std::move(column), std::move(target),
                                              std::move(initial), seed));
           })
      .def("rejection_resample_by_function",
           [](const Dataset& ds, nb::object fn, std::vector<double> target,
              std::vector<double> initial, uint64_t seed, std::string version) {
             return Made(ds.RejectionResample(MakePythonNumber(ds.spec(), std::move(fn)),
                                              std::move(target), std::move(initial), seed,
                                              std::move(version)));
           })
      .def("batch_by_length",
           [](const Dataset& ds, std::string column, int64_t budget, std::string lengths,
              uint64_t window, uint64_t min_length, uint64_t max_length) {
             return Made(ds.BatchByLength(std::move(column), budget,
                                          {.lengths = std::move(lengths),
                                           .window = window,
                                           .min_length = min_length,
                                           .max_length = max_length}));
           })
      .def("sparse",
           [](const Dataset& ds, std::vector<std::string> columns) {
             return Made(ds.Sparse(std::move(columns)));
           })
      .def("mixup",
           [](const Dataset& ds, std::string image, std::string label, int64_t num_classes,
              double alpha, uint64_t seed) {
             return Made(ds.MixUp(std::move(image), std::move(label), num_classes, alpha, seed));
           })
      .def("cutmix",
           [](const Dataset& ds, std::string image, std::string label, int64_t num_classes,
              double alpha, uint64_t seed) {
             return Made(ds.CutMix(std::move(image), std::move(label), num_classes, alpha, seed));
           })
      .def("unbatch", [](const Dataset& ds) { return Made(ds.Unbatch()); })
      .def("pack",
           [](const Dataset& ds, std::vector<std::string> columns, int64_t length, size_t open,
              std::vector<int64_t> pad, bool truncate, std::string lengths, const std::string& how,
              bool split, uint64_t window, uint64_t min_length, uint64_t max_length,
              const std::string& cost, std::vector<int64_t> separator,
              std::vector<std::string> keep, bool cu_seqlens) {
             return Made(ds.Pack(std::move(columns),
                                 {.length = length,
                                  .open = open,
                                  .pad = std::move(pad),
                                  .truncate = truncate,
                                  .lengths = std::move(lengths),
                                  .how = how == "concatenate" ? PackSpec::How::kConcatenate
                                         : how == "first_fit" ? PackSpec::How::kFirstFit
                                                              : PackSpec::How::kBestFit,
                                  .split = split,
                                  .window = window,
                                  .min_length = min_length,
                                  .max_length = max_length,
                                  .cost = cost == "quadratic" ? PackSpec::Cost::kQuadratic
                                                              : PackSpec::Cost::kLinear,
                                  .separator = std::move(separator),
                                  .keep = std::move(keep),
                                  .cu_seqlens = cu_seqlens}));
           })
      .def("steps",
           [](const Dataset& ds, std::vector<std::string> columns, std::vector<int64_t> begins,
              std::vector<std::optional<int64_t>> ends, std::string lengths, bool repeat_ends,
              std::string number, uint64_t window) {
             StepsOptions options = {.lengths = std::move(lengths),
                                     .columns = {},
                                     .ends = repeat_ends ? StepEnds::kRepeat : StepEnds::kDrop,
                                     .number = std::move(number),
                                     .window = window};
             for (size_t i = 0; i < columns.size(); ++i) {
               options.columns.push_back({std::move(columns[i]), begins.at(i), ends.at(i)});
             }
             return Made(ds.Steps(std::move(options)));
           })
      .def("take", [](const Dataset& ds, uint64_t count) { return Made(ds.Take(count)); })
      .def("assert_cardinality",
           [](const Dataset& ds, uint64_t count) { return Made(ds.AssertCardinality(count)); })
      .def("skip", [](const Dataset& ds, uint64_t count) { return Made(ds.Skip(count)); })
      .def("shard", [](const Dataset& ds, uint64_t rank,
                       uint64_t world) { return Made(ds.Shard(rank, world)); })
      .def("shard_sources", [](const Dataset& ds, uint64_t rank,
                               uint64_t world) { return Made(ds.ShardSources(rank, world)); })
      .def("with_source",
           [](const Dataset& ds, const Dataset& source) { return Made(ds.WithSource(source)); })
      .def("enumerate", [](const Dataset& ds, std::string name,
                           int64_t start) { return Made(ds.Enumerate(std::move(name), start)); })
      .def(
          "shuffle",
          [](const Dataset& ds, uint64_t seed, std::optional<uint64_t> window, uint64_t chunk,
             uint64_t lanes) {
            return Made(ds.Shuffle(seed, window.value_or(OrderSpec::kAll), chunk, lanes));
          },
          arg("seed"), arg("window").none(), arg("chunk"), arg("lanes"))
      .def("interleave_shards", [](const Dataset& ds, uint64_t cycle,
                                   uint64_t block) { return Made(ds.Interleave(cycle, block)); })
      .def("repeat", [](const Dataset& ds, uint64_t epochs) { return Made(ds.Repeat(epochs)); })
      .def("cache", [](const Dataset& ds, uint64_t max_bytes) { return Made(ds.Cache(max_bytes)); })
      .def("cache_on_disk",
           [](const Dataset& ds, std::string folder, uint64_t max_bytes) {
             return Made(ds.Cache(std::move(folder), max_bytes));
           })
      .def("snapshot",
           [](const Dataset& ds, std::string path, uint64_t max_bytes) {
             return Made(ds.Snapshot(std::move(path), max_bytes));
           })
      .def("prefetch", [](const Dataset& ds, size_t count) { return Made(ds.Prefetch(count)); })
      .def_static(
          "concatenate",
          [](std::vector<Dataset> all) { return Made(Dataset::Concatenate(std::move(all))); })
      .def_static("zip",
                  [](std::vector<Dataset> all) { return Made(Dataset::Zip(std::move(all))); })
      .def_static("interleave",
                  [](std::vector<Dataset> all, uint64_t cycle, uint64_t block) {
                    return Made(Dataset::Interleave(std::move(all), cycle, block));
                  })
      .def_static("mix",
                  [](std::vector<Dataset> all, std::vector<double> weights, uint64_t seed,
                     const std::vector<std::string>& exhausted, bool exact) {
                    return Made(Dataset::Mix(std::move(all), std::move(weights), seed,
                                             ExhaustedOf(exhausted), exact));
                  })
      .def_static("choose",
                  [](std::vector<Dataset> all, const Dataset& choice,
                     const std::vector<std::string>& exhausted) {
                    return Made(Dataset::Choose(std::move(all), choice, ExhaustedOf(exhausted)));
                  })
      .def("spec", [](const Dataset& ds) { return SpecToPython(ds.spec()); })
      .def("batched", &Dataset::batched)
      .def("text", &Dataset::Text)
      // Returns the number of elements, or the reason why it is unknown.
      .def("length",
           [](const Dataset& ds) -> std::variant<uint64_t, std::string> {
             absl::StatusOr<Length> length;
             {
               const GilRelease release;
               length = ds.CountElements();
             }
             Length counted = Check(std::move(length));
             TellNotes();
             if (counted.known()) return counted.elements;
             return std::move(counted.why);
           })
      .def("fingerprint",
           [](const Dataset& ds) {
             absl::StatusOr<uint64_t> fingerprint;
             {
               const GilRelease release;
               fingerprint = ds.Fingerprint();
             }
             return Check(std::move(fingerprint));
           })
      // Returns the numbers of the records that have these positions of a mixture.
      .def("record_numbers",
           [](const Dataset& ds, const std::vector<uint64_t>& positions) {
             absl::StatusOr<std::vector<uint64_t>> numbers;
             {
               const GilRelease release;
               numbers = ds.RecordsAt(positions);
             }
             return Check(std::move(numbers));
           })
      .def("records", [](const Dataset& ds) -> std::optional<Records> {
        absl::StatusOr<std::shared_ptr<const ShardTable>> table;
        {
          const GilRelease release;
          table = ds.table();
        }
        TellNotes();
        if (auto shards = Check(std::move(table))) return Records(std::move(shards), ds);
        return std::nullopt;
      });

  nb::class_<PyIterator>(m, "Iterator")
      .def("__init__", &Start, arg("dataset"), arg("run"), arg("bare"), arg("writable"),
           arg("blocks"))
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", [](PyIterator& it) { return NextElement(it, nb::object()); })
      .def("next_converted", &NextElement)
      .def("state", &PyIterator::State)
      .def("load", &PyIterator::Load)
      .def("stats", &PyIterator::Stats)
      .def("close", &PyIterator::Close)
      .def("epoch", &PyIterator::Epoch)
      .def_prop_ro("padded", &PyIterator::padded)
      .def_prop_ro("damaged", &PyIterator::damaged)
      .def_prop_ro("closed", &PyIterator::closed);
  m.def("merge_states",
        [](const std::vector<std::string>& states) { return Check(MergeStates(states)); });
}

}  // namespace shardfeed::python
