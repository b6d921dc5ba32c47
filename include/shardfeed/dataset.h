// Chains of steps that deliver batches: the recipe.
//
//   Dataset ds = Dataset::Read("train@64")
//                    .Shuffle(/*seed=*/1)
//                    .Parse({{.name = "x", .dtype = DType::kFloat32, .shape = {50}},
//                            {.name = "y", .dtype = DType::kInt64}})
//                    .Batch(1024);
//   absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start();

#ifndef SHARDFEED_DATASET_H_
#define SHARDFEED_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/batch.h"
#include "shardfeed/functions.h"
#include "shardfeed/images.h"
#include "shardfeed/iterator.h"
#include "shardfeed/options.h"
#include "shardfeed/reader.h"
#include "shardfeed/schema.h"
#include "shardfeed/spec.h"

namespace shardfeed {

struct Step;
class LazyShardTable;
class RowStep;
class ShardTable;
struct MixOptions;

// How many elements there are in one epoch.
struct Length {
  enum class Kind { kKnown, kEndless, kUnknown };

  static Length Of(uint64_t elements) { return {Kind::kKnown, elements, {}}; }
  static Length Endless() { return {Kind::kEndless, 0, "it has no end"}; }
  // `why` says why the number is not known: "filter drops elements".
  static Length Unknown(std::string why) { return {Kind::kUnknown, 0, std::move(why)}; }

  bool known() const { return kind == Kind::kKnown; }

  Kind kind = Kind::kKnown;
  uint64_t elements = 0;  // kKnown
  std::string why;        // not kKnown
};

// How a ragged column becomes [rows, length, shape...].
struct Padding {
  // 0: the longest row of the batch. A longer row is an error.
  int64_t length = 0;
  // The value that fills rows up. For bytes it is a string, or 0, which stands for the empty
  // string.
  std::variant<int64_t, double, std::string> value = int64_t{0};
};

// How sequences are packed: as they come, or by a plan.
struct PackOptions {
  int64_t length = 0;  // length of a packed row
  // Number of packed rows that are open at a time, without a plan. A sequence goes into the first
  // one with room (first fit); if there is none, the oldest row is delivered.
  size_t open = 16;
  // The value that fills rows up: one for all packed columns, or one for each.
  std::vector<int64_t> pad = {0};
  // Whether a sequence longer than a row is truncated. Otherwise it is an error.
  bool truncate = false;

  // Plans the rows of the whole epoch by these lengths, which the indexes have (docs/index.md).
  // Empty: no plan.
  std::string lengths;
  // With a plan: the way in which sequences are put together, whether those longer than a row are
  // split, and the number of records that are packed together. See PackSpec.
  PackSpec::How how = PackSpec::How::kBestFit;
  bool split = false;
  uint64_t window = 0;
  // With a plan, leaves out records whose lengths are less or greater.
  uint64_t min_length = 0;
  uint64_t max_length = UINT64_MAX;
  // With a plan: what is balanced among the ranks in each step.
  PackSpec::Cost cost = PackSpec::Cost::kLinear;

  // A value that follows each sequence as a part of its segment: one for all packed columns, or one
  // for each. Empty: none.
  std::vector<int64_t> separator;
  // Columns of one value per row, which become ragged columns with one for each segment.
  std::vector<std::string> keep;
  // Adds the ragged int32 column NAME_cu_seqlens: where the segments begin, and the end of the last
  // one, as FlashAttention takes them; padding is a segment of its own.
  bool cu_seqlens = false;
};

// How batches by length are planned. The members are those of PackOptions.
struct BatchByLengthOptions {
  std::string lengths;
  uint64_t window = 0;
  uint64_t min_length = 0;
  uint64_t max_length = UINT64_MAX;
};

// Elements of a sequence around a step: those from step + begin to step + end - 1. Without `end`,
// the one at step + begin, as a single value.
struct StepColumn {
  std::string column;
  int64_t begin = 0;
  std::optional<int64_t> end;
};

// What happens to steps that lack elements, at the ends of an episode.
enum class StepEnds {
  // The first or last element of the episode is repeated beyond its ends. A column COLUMN_mask
  // marks these elements, for columns with an `end`.
  kRepeat,
  kDrop,  // only steps that have all elements become rows
};

// How episodes become steps.
struct StepsOptions {
  std::string lengths;  // as in PackOptions
  std::vector<StepColumn> columns;
  StepEnds ends = StepEnds::kRepeat;
  // The name of an int32 column with the number of the step in its episode. Empty: none.
  std::string number;
  // Number of episodes whose steps are mixed: see PackSpec.
  uint64_t window = 0;
};

// What a mix does when one of its inputs ends.
enum class Exhausted {
  kStop,    // the mix ends
  kDrop,    // the mix continues with the other inputs
  kRepeat,  // the mix begins the next epoch of the input
};

// A source of a mixture: a dataset, or several that follow each other.
struct MixInput {
  std::string name;
  std::vector<std::string> specs;
  std::optional<std::vector<RecordRange>> records;  // nullopt: all
};

// An immutable description of a chain of steps, cheap to copy. Each step returns a new Dataset. An
// invalid step returns a dataset whose status() is the error, and so do all steps that follow it;
// Start returns that error.
//
// The elements of a dataset are rows or, after Batch and similar steps, batches. Steps that count
// or arrange elements (Take, Shuffle, Zip ...) work on both, and Map works on either, depending on
// its function. Parse, Filter and FlatMap work on rows only.
//
// Thread-safe. User functions (functions.h) run on several threads at the same time, and live as
// long as any Dataset or Iterator made from them.
class Dataset {
 public:
  // ---- Sources

  // Reads the records of shards as one column "record" of bytes. `spec`: see docs/specs.md. Missing
  // indexes are built when they are needed; with sequential and interleaved orders, that is while
  // the first records are being delivered.
  static Dataset Read(const std::string& spec, ReaderOptions options = {});
  static Dataset Read(const ShardSet& set, ReaderOptions options = {});
  // Reads several datasets as one, by a schedule of weights (docs/mixtures.md). `length` is that of
  // an epoch; 0: it ends before a source would have to repeat a record. With a `seed`, sources are
  // drawn at random. `options` must not have `records`.
  static Dataset Mix(const std::vector<MixInput>& inputs, std::vector<MixSegment> schedule,
                     uint64_t length = 0, ReaderOptions options = {},
                     std::optional<uint64_t> seed = std::nullopt);
  // Directly after Read or a mixture: adds the int64 column `number` with the number of each
  // record in its dataset. For a mixture, adds the int32 column `source` with the number of each
  // record's source, and `number` counts within the source. An empty name adds no column.
  // InvalidArgument: another step precedes, a name is taken, or `source` is given without a
  // mixture.
  Dataset NumberRecords(std::string number, std::string source = {}) const;
  // Internal: for shards whose indexes are open already.
  static Dataset Read(std::shared_ptr<const ShardTable> table, ReaderOptions options = {});
  static Dataset Read(std::shared_ptr<const LazyShardTable> table, ReaderOptions options = {});
  // One column of int64 numbers.
  static Dataset Range(int64_t start, int64_t stop, int64_t step = 1, std::string name = "value");
  // The rows of a batch in memory. `describe` names row `row` in errors, and is called on any
  // thread.
  static Dataset FromArrays(const shardfeed::Batch& rows,
                            std::function<std::string(uint64_t row)> describe = {});
  // What each rank is to read of items of known sizes, such as groups of rows in files, as rows of
  // three int64 columns: `item`, and the range `begin`, `end` in it. The items come in their order
  // or, with a seed, in an order that differs in each epoch. Each rank of `world` gets a stretch of
  // that order, whose sizes are equal or differ by one, and which may begin and end within an item.
  // InvalidArgument: the rank is not below the world, or the sum of the sizes is above 2^62.
  static Dataset Slices(std::vector<uint64_t> sizes, std::optional<uint64_t> seed = std::nullopt,
                        uint64_t rank = 0, uint64_t world = 1);
  // The rows that a generator returns. Each run calls `make` for a generator of its own, and calls
  // the generator on a thread of its own, up to 64 rows ahead of the consumer. If a call has not
  // returned when the run ends, the thread is left behind, so the function must own everything that
  // it uses. To resume from a state, a new generator is made and the rows delivered before are
  // generated again.
  static Dataset FromGenerator(std::function<Generator()> make, RowSpec spec,
                               std::string version = {});

  // ---- Steps on rows

  // Parses the Examples (or SequenceExamples) in the column "record" and replaces it by one column
  // per feature. Features of varying length become ragged columns; Pad and Sparse after Batch give
  // other layouts. A feature list whose steps vary in length becomes the elements of all steps in
  // sequence, and an additional column "NAME_lengths" with the number of elements of each step.
  Dataset Parse(std::vector<FeatureSpec> features,
                std::vector<FeatureSpec> feature_lists = {}) const;
  // Parses all features listed in the manifest, with the types and shapes that the writer noted.
  // Without a manifest, parses those that the features.json of TFDS declares, if its
  // dataset_info.json lists the shards (docs/tfds.md). Without either, parses those found in the
  // records: in all records of a small dataset, in some of a large one. If no manifest lists the
  // features, a record with another feature ends the run with InvalidArgument, and so does a value
  // that does not fit what TFDS declares. Must directly follow a Read by spec.
  //
  // InvalidArgument: a feature is of several kinds, or TFDS declares one that has no counterpart.
  Dataset Parse() const;
  // Decodes the images in the column `feature` and replaces them by their pixels: see images.h.
  // With OnDamage::kReplace and kZero it adds a uint8 column OUTPUT/valid, which is 1 for each
  // image that was decoded and 0 for each that was not.
  Dataset DecodeImage(const std::string& feature, const DecodeImageOptions& options = {}) const;
  // Calls `fn` for each row to compute the columns `output`. A column of the same name is
  // replaced, the columns named in `drops` are removed, and all others stay. `seed` is the seed of
  // RowContext::random. `version` identifies the function in the fingerprint: change it when the
  // function changes. `by_place` says that the function uses the row's place in the epoch or random
  // numbers, so that rows cannot be read by number.
  Dataset Map(RowSpec output, MapFn fn, std::vector<std::string> drops = {}, uint64_t seed = 0,
              std::string version = {}, bool by_place = false) const;
  // Keeps the rows for which `fn` returns true.
  Dataset Filter(FilterFn fn, uint64_t seed = 0, std::string version = {}) const;
  // Decode a column of bytes and replace it by the result: raw little-endian numbers, a NumPy .npy
  // file, UTF-8 text, which is validated, or a WAV file, whose sample rate becomes the column
  // `rate`. If the first size in `shape` is -1, the column is ragged: any number of elements of the
  // other sizes.
  Dataset DecodeRaw(std::string column, DType dtype, std::vector<int64_t> shape) const;
  Dataset DecodeNpy(std::string column, DType dtype, std::vector<int64_t> shape) const;
  Dataset DecodeText(std::string column) const;
  Dataset DecodeWav(std::string column, int64_t channels = 1,
                    std::string rate = "sample_rate") const;
  // Augments images of uint8 [height, width, channels] with 1 or 3 channels in `column`. The random
  // numbers depend on (seed, epoch, position): two such steps in a chain need different seeds. The
  // columns of `joint` change with the image. See images.h.
  Dataset Augment(std::string column, std::vector<Augmentation> steps, uint64_t seed = 0,
                  const JointColumns& joint = {}) const;
  // Calls `fn` for each row, which may write any number of rows. The input's columns are dropped.
  Dataset FlatMap(RowSpec output, FlatMapFn fn, std::string version = {}) const;
  // Calls a function for each row in order, which writes one row. The function may keep state: each
  // epoch, and each run that resumes, calls `make` for a fresh one, so that LoadStateDict calls it
  // again for all preceding rows. The input's columns are dropped.
  Dataset Scan(RowSpec output, std::function<FlatMapFn()> make, std::string version = {}) const;
  // Drops the rows on which the row steps directly before this one (Parse, DecodeImage, Map, Filter
  // ...) fail, and counts them in IteratorStats::ignored. DataLoss: `max_ignored` allows fewer
  // failures among the epoch's rows so far; the message includes the first error. `text` renders an
  // error, and is called on any thread.
  Dataset IgnoreErrors(SkipCeiling max_ignored = {}, ErrorText text = {}) const;
  // Keeps only these columns, in this order.
  Dataset Select(std::vector<std::string> names) const;

  // ---- Rows to batches

  // Batches of `size` rows. Ragged columns stay ragged, as in tf.data's ragged_batch.
  Dataset Batch(uint64_t size, bool drop_remainder = false) const;
  // The same, but ragged columns become [rows, length, shape...].
  Dataset PaddedBatch(uint64_t size, std::map<std::string, Padding> padding = {},
                      bool drop_remainder = false) const;
  // Batches rows of similar length. A row goes into the bucket i with boundaries[i - 1] <= length <
  // boundaries[i], and a bucket becomes a batch when it has sizes[i] rows; `sizes` has one more
  // entry than `boundaries`. The length is the number of elements of a ragged column, the size of a
  // bytes value, or the value of an int64 column. Unless `drop_remainder`, the rows left in the
  // buckets are delivered at the end, shortest first.
  Dataset BucketByLength(std::string column, std::vector<int64_t> boundaries,
                         std::vector<uint64_t> sizes, bool drop_remainder = false) const;
  // The same, with the length computed by `length`, which must not return a negative number.
  Dataset BucketByLength(NumberFn length, std::vector<int64_t> boundaries,
                         std::vector<uint64_t> sizes, bool drop_remainder = false,
                         std::string version = {}) const;
  // Batches every `window_size` rows with the same key, which is the value of a column of single
  // numbers or bytes, or the result of a function. Unless `drop_remainder`, the remaining rows of
  // each group are delivered at the end, in the order of their first rows. Waiting rows are held in
  // memory, and a state has a number for each of them. Skipped damaged records have no key and are
  // dropped.
  Dataset GroupByWindow(std::string column, uint64_t window_size,
                        bool drop_remainder = false) const;
  Dataset GroupByWindow(KeyFn key, uint64_t window_size, bool drop_remainder = false,
                        std::string version = {}) const;
  // Batches as many rows as `budget` allows. A batch costs its number of rows times the length of
  // its longest row (length as in BucketByLength). A row longer than the budget is a batch of its
  // own. With `lengths`, which the indexes have, batches of rows of similar length are planned as
  // Pack's rows are, out of `window` records at a time (see PackSpec).
  Dataset BatchByLength(std::string column, int64_t budget,
                        BatchByLengthOptions options = {}) const;
  // Pads the ragged columns of batches.
  Dataset Pad(std::map<std::string, Padding> padding = {}) const;
  // Adds for each of these ragged columns a column "NAME_indices" of shape [values, 2]: the row of
  // each value and its index in the row, as sparse tensors need them (COO).
  Dataset Sparse(std::vector<std::string> columns) const;
  Dataset Unbatch() const;
  // Makes batches of another size, as Unbatch and Batch would.
  Dataset Rebatch(uint64_t size, bool drop_remainder = false) const;
  // Combines rows into windows: each window has `size` rows that are `stride` apart, and starts
  // `shift` rows after the previous window (0: `size`). Each column gets an additional first
  // dimension. With `drop_remainder` that is `size`; otherwise the column is ragged, and the last
  // windows have the rows that are left. The row of a damaged record has zeros, and its windows
  // count as damaged. InvalidArgument: ragged columns.
  Dataset Window(uint64_t size, uint64_t shift = 0, uint64_t stride = 1,
                 bool drop_remainder = false) const;
  // Packs the sequences of ragged columns of single numbers, which all have the same length in a
  // row, into rows of a fixed length: these columns as [length], and, named after the first of
  // them, NAME_segment_ids (int32: 1, 2 ... for the sequences in a row, 0 for padding) and
  // NAME_positions (int32: the position within the segment). Other columns are dropped.
  //
  // With options.lengths, the rows are planned before anything is read: they are the same for any
  // number of ranks, which share them evenly, and their number is known. Only Shuffle, Interleave,
  // Shard, Repeat and steps on rows that keep each of them may precede. InvalidArgument in a run:
  // a row does not have the length that is in its index.
  Dataset Pack(std::vector<std::string> columns, PackOptions options) const;
  // Makes a row of each step of each record, which is an episode: its ragged columns have one
  // element for each step. A row has the elements of options.columns around its step, under their
  // names, and the columns of one value per episode; other ragged columns are dropped. Rows are
  // planned as by Pack, and the same steps may precede. A record that is skipped because it is
  // damaged has as many rows as its index says, and they count as damaged.
  Dataset Steps(StepsOptions options) const;

  // ---- Batches

  // Calls `fn` for each batch, which may change it, or replace it by a batch of the columns
  // `output`. `changes_count` says that the function may change the number of rows; a batch without
  // rows is dropped. Python: map(fn, batched=True).
  Dataset Map(RowSpec output, BatchFn fn, bool changes_count = false,
              std::string version = {}) const;
  // Mix each image of a batch and its label with the preceding one (the first with the last), by
  // one lambda per batch drawn from Beta(alpha, alpha), as torchvision.transforms.v2.MixUp and
  // CutMix do. Labels become float32 [num_classes].
  Dataset MixUp(std::string image, std::string label, int64_t num_classes, double alpha = 1,
                uint64_t seed = 0) const;
  Dataset CutMix(std::string image, std::string label, int64_t num_classes, double alpha = 1,
                 uint64_t seed = 0) const;

  // ---- Elements

  Dataset Take(uint64_t count) const;
  Dataset Skip(uint64_t count) const;
  // States the number of elements of an epoch, which is then the chain's length. Otherwise the
  // length is unknown after Filter, Unbatch or a generator. FailedPrecondition, from Next: an epoch
  // has fewer or more.
  Dataset AssertCardinality(uint64_t count) const;
  // The rows before the first for which `fn` returns false. `fn` may also be called for later rows.
  Dataset TakeWhile(FilterFn fn, std::string version = {}) const;
  // Keeps the first row of each value of a column of single numbers or bytes. The values seen so
  // far are held in memory. LoadStateDict reads all preceding rows again.
  Dataset Unique(std::string column) const;
  // Drops rows at random so that the classes of the remaining rows have the proportions
  // `target_dist`, one for each class from 0 on; they need not add up to 1. `initial_dist` is the
  // distribution of the input; if it is empty, it is estimated from the preceding rows, and a state
  // has a number for each class. Whether row i is kept depends only on seed, epoch, i, its class
  // and (if estimated) the classes before it. The class is the value of an integer column, or the
  // result of a function. InvalidArgument in a run: a class out of range.
  Dataset RejectionResample(std::string classes, std::vector<double> target_dist,
                            std::vector<double> initial_dist = {}, uint64_t seed = 0) const;
  Dataset RejectionResample(NumberFn classes, std::vector<double> target_dist,
                            std::vector<double> initial_dist = {}, uint64_t seed = 0,
                            std::string version = {}) const;
  // The share of rank `rank` of `world`: directly after Read a part of the order, otherwise every
  // world-th element.
  Dataset Shard(uint64_t rank, uint64_t world) const;
  // The same, applied as close to the sources as possible, so that ranks share the work of the
  // following steps: to the sources themselves, or after the last step that counts elements (Take,
  // Skip, Enumerate). InvalidArgument: the chain contains Shard already.
  Dataset ShardSources(uint64_t rank, uint64_t world) const;
  Dataset Enumerate(std::string name = "index", int64_t start = 0) const;
  // Directly after Read: shuffles the whole order, differently in each epoch, and holds no more
  // than `window` records (0: a default; OrderSpec::kAll: the exact permutation). `chunk` and
  // `lanes` are those of OrderSpec; object stores are read best in chunks of about 8 MiB. After any
  // other step: permutes each run of `window` consecutive elements. InvalidArgument: there,
  // `window` is 0 or kAll, or `chunk` or `lanes` is given.
  Dataset Shuffle(uint64_t seed, uint64_t window = 0, uint64_t chunk = 0,
                  uint64_t lanes = OrderSpec().lanes) const;
  // Directly after Read: the order of tf.data's interleave.
  Dataset Interleave(uint64_t cycle, uint64_t block = 1) const;
  // Repeats for `epochs` epochs, or without end if it is 0. Each epoch has its own shuffle and
  // random numbers.
  Dataset Repeat(uint64_t epochs = 0) const;
  // Caches the elements in the memory of the run, for the epochs of a later Repeat.
  Dataset Cache(uint64_t max_bytes = uint64_t{1} << 30) const;
  // Caches them in a file in the local folder `path`, which is removed with the run.
  Dataset Cache(std::string path, uint64_t max_bytes = uint64_t{1} << 40) const;
  // Writes the elements to the local file `path` once, and reads them from it in later runs. The
  // file appears when all elements have been delivered. It is checked against the fingerprint, rank
  // and world, which cannot tell whether a user function has changed: give such a function another
  // version, or name another file. See docs/snapshot.md.
  Dataset Snapshot(std::string path, uint64_t max_bytes = uint64_t{1} << 40) const;
  // Computes up to `count` elements ahead on a thread of its own.
  Dataset Prefetch(size_t count = 2) const;

  static Dataset Concatenate(std::vector<Dataset> datasets);
  static Dataset Zip(std::vector<Dataset> datasets);
  // Takes each element from an input drawn by weight; the draw for element i depends only on seed,
  // epoch and i. `exhausted` has one entry for all inputs, or one for each. With `exact` nothing is
  // drawn: each element comes from the input that is furthest below its share, so that integer
  // weights W1, W2 ... hold in every W1 + W2 ... elements.
  static Dataset Mix(std::vector<Dataset> datasets, std::vector<double> weights, uint64_t seed = 0,
                     std::vector<Exhausted> exhausted = {Exhausted::kDrop}, bool exact = false);
  // Takes each element from the input whose number is the next element of `choice`, rows of one
  // int64. It ends when `choice` ends, when all inputs have ended, and with kStop when an input is
  // chosen that has ended; with kDrop that choice is skipped. InvalidArgument in a run: a number
  // without an input.
  static Dataset Choose(std::vector<Dataset> datasets, const Dataset& choice,
                        std::vector<Exhausted> exhausted = {Exhausted::kStop});
  // Like tf.data's interleave: visits `cycle` inputs in turn and takes `block` elements from each;
  // when one ends, the next input takes its place.
  static Dataset Interleave(std::vector<Dataset> datasets, uint64_t cycle, uint64_t block = 1);

  // ---- What it is

  absl::Status status() const { return status_; }
  // The columns of the elements. Empty if status() is an error.
  const RowSpec& spec() const;
  // Whether the elements are batches.
  bool batched() const;
  // The shards that the chain reads if they are its only source, otherwise null. Waits for their
  // indexes. Errors: those of RandomAccess::Open.
  absl::StatusOr<std::shared_ptr<const ShardTable>> table() const;
  // The numbers of the records at these positions of the first epoch of a mixture, which the chain
  // must read. Errors: as table(), and those of the mixture.
  absl::StatusOr<std::vector<uint64_t>> RecordsAt(const std::vector<uint64_t>& positions) const;
  // Adds the columns of NumberRecords to rows that hold the records with these numbers, which count
  // through all sources. Errors: as table().
  absl::Status AddNumbers(const std::vector<uint64_t>& numbers, shardfeed::Batch* rows) const;
  // The chain as Python code: "read(64 files).shuffle(seed=1).parse(x, y).batch(1024)".
  std::string Text() const;
  // The exact number of elements, or why it is not known. Waits for indexes, as table() does.
  absl::StatusOr<Length> CountElements() const;
  // A number that identifies the data and all parameters of the chain, except the rank and the
  // number of ranks. It includes only the versions of user functions. It is the same on all
  // machines. Waits for indexes, as table() does.
  absl::StatusOr<uint64_t> Fingerprint() const;
  // The steps of this chain applied to `source` instead of its shards: for reading elements by
  // record number. InvalidArgument: a step does not work on single rows, or draws random numbers;
  // the message names it.
  Dataset WithSource(const Dataset& source) const;

  absl::StatusOr<std::unique_ptr<Iterator>> Start(const RunOptions& options = {}) const;

 private:
  explicit Dataset(std::shared_ptr<const Step> step) : step_(std::move(step)) {}
  explicit Dataset(absl::Status status) : status_(std::move(status)) {}
  // Appends `step` to this chain or, if it names inputs, to these.
  Dataset Then(Step step) const;
  // A step with these columns, without any work yet.
  Step Like(std::string name) const;
  // The chain with its shards read in planned rows. InvalidArgument: it does not consist of shards
  // and steps that keep each row; the message names the step `name`.
  Dataset WithPlannedRows(std::string_view name, const PackSpec& pack) const;
  Dataset ThenOnRows(Step step, std::shared_ptr<const RowStep> row_step) const;
  // Appends a last column that only the following step sees, which removes it: see DropLastColumn.
  // `step` is the name of that step.
  Dataset WithHidden(std::string step, DType dtype, MapFn fn, std::string version) const;
  // Use the column with the number `column`; if that is hidden, `spec` does not include it. `name`
  // is the name of the column, or empty if it is hidden.
  Dataset BucketBy(size_t column, std::shared_ptr<const RowSpec> spec, const std::string& name,
                   std::vector<int64_t> boundaries, std::vector<uint64_t> sizes,
                   bool drop_remainder) const;
  Dataset GroupBy(size_t column, std::shared_ptr<const RowSpec> spec, const std::string& name,
                  uint64_t size, bool drop_remainder) const;
  Dataset ResampleBy(size_t column, std::shared_ptr<const RowSpec> spec, const std::string& name,
                     std::vector<double> target, std::vector<double> initial, uint64_t seed) const;
  Dataset Mixed(const std::string& image_column, const std::string& label_column,
                MixOptions options) const;
  // Whether the datasets can stand for one another.
  static absl::Status CheckAlike(std::string_view step, const std::vector<Dataset>& datasets);
  static std::vector<std::shared_ptr<const Step>> StepsOf(const std::vector<Dataset>& datasets);

  std::shared_ptr<const Step> step_;
  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DATASET_H_
