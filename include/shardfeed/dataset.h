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
  // Why that is not known: "filter drops elements".
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
  // What rows are filled up with. Of bytes a string, or 0, which stands for the empty one.
  std::variant<int64_t, double, std::string> value = int64_t{0};
};

// How sequences are packed.
struct PackOptions {
  int64_t length = 0;  // length of a packed row
  // Packed rows that are open at a time: a sequence goes into the first that has room (first fit).
  // Where none has, the oldest is delivered.
  size_t open = 16;
  int64_t pad = 0;
  // false: a sequence longer than a row is an error; true: what does not fit is cut off.
  bool truncate = false;
};

// What a mix does when one of its inputs ends.
enum class Exhausted {
  kStop,    // ends
  kDrop,    // goes on with the others
  kRepeat,  // begins the input's next epoch
};

// An immutable description, cheap to copy. Each step returns a new Dataset. A step that cannot be
// makes a dataset whose status() says why, and so are all that are made of it; Start returns that
// error.
//
// A dataset's elements are rows or, behind Batch and the like, batches. Steps that count or arrange
// elements (Take, Shuffle, Zip ...) work on either, and so does Map, by the function that it gets;
// Parse, Filter and FlatMap work on rows alone.
//
// Thread-safe. User functions (functions.h) run on several threads at once, and are kept for as
// long as a Dataset or an Iterator made from it exists.
class Dataset {
 public:
  // ---- Sources

  // The records of shards, as one column "record" of bytes. `spec`: see docs/specs.md. Indexes that
  // are missing are made when they are needed: with sequential and interleaved orders, while the
  // first records are delivered.
  static Dataset Read(const std::string& spec, ReaderOptions options = {});
  static Dataset Read(const ShardSet& set, ReaderOptions options = {});
  // Internal: of shards whose indexes are open already.
  static Dataset Read(std::shared_ptr<const ShardTable> table, ReaderOptions options = {});
  static Dataset Read(std::shared_ptr<const LazyShardTable> table, ReaderOptions options = {});
  // A column of int64.
  static Dataset Range(int64_t start, int64_t stop, int64_t step = 1, std::string name = "value");
  // The rows of a batch in memory. `describe`: what errors call row `row`, on any thread.
  static Dataset FromArrays(const shardfeed::Batch& rows,
                            std::function<std::string(uint64_t row)> describe = {});
  // The rows that a generator returns; each run calls `make` for one of its own. The generator is
  // called on a thread of its own, up to 64 rows ahead of the consumer. When a run ends while a
  // call does not return, the thread is left behind, so the function must own all that it uses. To
  // go to a saved state, a new generator is made, and what was delivered before is generated again.
  static Dataset FromGenerator(std::function<Generator()> make, RowSpec spec,
                               std::string version = {});

  // ---- Steps on rows

  // Examples (or SequenceExamples) in the column "record", which goes, to a column for each
  // feature. Those of any length are ragged; Pad and Sparse behind Batch give other layouts. A
  // feature list whose steps are of varying length has the elements of all steps in a row, and a
  // further column "NAME_lengths" with the number of elements of each step.
  Dataset Parse(std::vector<FeatureSpec> features,
                std::vector<FeatureSpec> feature_lists = {}) const;
  // All features that the manifest lists or, without a manifest, those of the first records. Only
  // directly behind shards that were named by their spec.
  Dataset ParseAll() const;
  // Decodes the encoded images of the column `feature`, which the pixels replace: see images.h.
  // With OnDamage::kReplace and kZero there is also a column OUTPUT/valid, a uint8 of 1 for each
  // image that was decoded and 0 for each that was not.
  Dataset DecodeImage(const std::string& feature, const DecodeImageOptions& options = {}) const;
  // Calls `fn` for each row, which writes the row's values of `outputs`. A column of the same name
  // is replaced; those named in `drops` go, all others stay. `seed` keys RowContext::random.
  // `version`: of the function, in the fingerprint: name another one when the function changes.
  // `by_place`: it asks for the row's place in the epoch, or for random numbers, so that rows
  // cannot be had by number.
  Dataset Map(RowSpec outputs, MapFn fn, std::vector<std::string> drops = {}, uint64_t seed = 0,
              std::string version = {}, bool by_place = false) const;
  // The rows for which `fn` is true.
  Dataset Filter(FilterFn fn, uint64_t seed = 0, std::string version = {}) const;
  // Decode a column of bytes, which the result replaces: numbers as they are in memory
  // (little-endian), a NumPy .npy file, UTF-8 text, which is checked, and a WAV file, whose sample
  // rate becomes the column `rate`. A first size of -1 in `shape`: any number of elements of the
  // other sizes, ragged.
  Dataset DecodeRaw(std::string column, DType dtype, std::vector<int64_t> shape) const;
  Dataset DecodeNpy(std::string column, DType dtype, std::vector<int64_t> shape) const;
  Dataset DecodeText(std::string column) const;
  Dataset DecodeWav(std::string column, int64_t channels = 1,
                    std::string rate = "sample_rate") const;
  // Augments images: `column` is of uint8 [height, width, channels], 1 or 3 channels. Repeats for
  // (seed, epoch, position): two such steps of a chain need seeds of their own. See images.h.
  Dataset Augment(std::string column, std::vector<Augmentation> steps, uint64_t seed = 0) const;
  // Calls `fn` for each row, which writes any number of rows. No column is kept.
  Dataset FlatMap(RowSpec outputs, FlatMapFn fn, std::string version = {}) const;
  // Calls `fn` for one row after another, in their order, which writes one row for each. It may
  // remember what it likes: each epoch, and each run that goes on from a state, calls `make` for
  // one that has seen nothing. So Load calls it again for all rows before. No column is kept.
  Dataset Scan(RowSpec outputs, std::function<FlatMapFn()> make, std::string version = {}) const;
  // Leaves out the rows on which steps on rows directly before this one (Parse, DecodeImage, Map,
  // Filter ...) fail, and counts them: IteratorStats::ignored. DataLoss: more of the epoch's rows
  // so far than `ceiling` allows; the message says what was wrong. `text`: what is to be said of an
  // error, by any thread.
  Dataset IgnoreErrors(SkipCeiling ceiling = {}, ErrorText text = {}) const;
  // Keeps these columns alone, in this order.
  Dataset Select(std::vector<std::string> names) const;

  // ---- Rows to batches

  // Ragged columns stay ragged: also what tf.data calls ragged_batch.
  Dataset Batch(uint64_t size, bool drop_remainder = false) const;
  // Ragged columns become [rows, length, shape...].
  Dataset PaddedBatch(uint64_t size, std::map<std::string, Padding> padding = {},
                      bool drop_remainder = false) const;
  // Batches of rows of similar length: row r goes into the bucket i with boundaries[i - 1] <=
  // length < boundaries[i], and a bucket becomes a batch when it has sizes[i] rows. `sizes` has one
  // more entry than `boundaries`. The length is the number of elements of a ragged column, the size
  // of a value of bytes, or the number in a column of int64. At the end what is left in the buckets
  // follows, shortest first, unless `drop_remainder`.
  Dataset BucketByLength(std::string column, std::vector<int64_t> boundaries,
                         std::vector<uint64_t> sizes, bool drop_remainder = false) const;
  // The same by a length that `length` gives, which is not below 0.
  Dataset BucketByLength(NumberFn length, std::vector<int64_t> boundaries,
                         std::vector<uint64_t> sizes, bool drop_remainder = false,
                         std::string version = {}) const;
  // Each `size` rows of one key as a batch: by a column of single numbers or bytes, or by a
  // function. At the end what is left follows, in the order of the groups' first rows there, unless
  // `drop_remainder`. The rows that wait are held in memory; a state has a number for each of them.
  // Damaged records that were skipped have no key, and go.
  Dataset GroupByWindow(std::string column, uint64_t size, bool drop_remainder = false) const;
  Dataset GroupByWindow(KeyFn key, uint64_t size, bool drop_remainder = false,
                        std::string version = {}) const;
  // Batches of as many rows as `budget` allows: a batch takes its rows times the length of its
  // longest one (length as for BucketByLength). A row longer than the budget is a batch of its own.
  Dataset BatchByLength(std::string column, int64_t budget) const;
  // Pads the ragged columns of batches.
  Dataset Pad(std::map<std::string, Padding> padding = {}) const;
  // Adds to each of these ragged columns of batches the indices of its values as "NAME_indices",
  // for sparse tensors (COO): the row and the place in the row of each value, [values, 2].
  Dataset Sparse(std::vector<std::string> columns) const;
  Dataset Unbatch() const;
  // The rows of batches in batches of another size: Unbatch and Batch.
  Dataset Rebatch(uint64_t size, bool drop_remainder = false) const;
  // Rows of windows: `size` rows that are `stride` apart, of which the first stands `shift` behind
  // the last window's first (0: `size`). Each column has one more dimension in front: of `size`,
  // with `drop_remainder`; else it is ragged, and the last windows have the rows that are left. A
  // row of a damaged record has zeros, and makes its windows damaged. InvalidArgument: ragged
  // columns.
  Dataset Window(uint64_t size, uint64_t shift = 0, uint64_t stride = 1,
                 bool drop_remainder = false) const;
  // Puts the sequences of a ragged column of int64 or int32 end to end into rows of fixed length:
  // the columns NAME [length], NAME_segment_ids (int32: 1, 2 ... for the sequences in a row, 0 for
  // padding) and NAME_positions (int32: the position in the sequence).
  Dataset Pack(std::string column, PackOptions options) const;

  // ---- Batches

  // Calls `fn` for each batch, which it may change or replace by one of the columns `output`.
  // `changes_count`: it may leave no rows of a batch, which is then left out. Python: map(fn,
  // batched=True).
  Dataset Map(RowSpec output, BatchFn fn, bool changes_count = false,
              std::string version = {}) const;
  // Mix each image of a batch with the one before it (the first with the last), and their labels,
  // by one lambda for the batch, drawn from Beta(alpha, alpha): as torchvision.transforms.v2.MixUp
  // and CutMix. The labels become float32 [num_classes].
  Dataset MixUp(std::string image_column, std::string label_column, int64_t num_classes,
                double alpha = 1, uint64_t seed = 0) const;
  Dataset CutMix(std::string image_column, std::string label_column, int64_t num_classes,
                 double alpha = 1, uint64_t seed = 0) const;

  // ---- Elements

  Dataset Take(uint64_t count) const;
  Dataset Skip(uint64_t count) const;
  // The rows before the first for which `fn` is false. It may be called for rows behind that one.
  Dataset TakeWhile(FilterFn fn, std::string version = {}) const;
  // Of each value of a column of single numbers or bytes, the first row. The values that were seen
  // are held in memory. Load reads all rows before again.
  Dataset Unique(std::string column) const;
  // Drops rows at random such that the classes of those that stay have the shares `target`, one for
  // each class from 0 on; they need not add up to 1. `initial`: the classes' shares in what comes;
  // empty: they are estimated from the rows before, and a state has a number for each class.
  // Whether row i stays depends on seed, epoch, i and its class (and those before) alone. The
  // class: of a column of whole numbers, or of a function. InvalidArgument in a run: a row of no
  // such class.
  Dataset RejectionResample(std::string column, std::vector<double> target,
                            std::vector<double> initial = {}, uint64_t seed = 0) const;
  Dataset RejectionResample(NumberFn kind, std::vector<double> target,
                            std::vector<double> initial = {}, uint64_t seed = 0,
                            std::string version = {}) const;
  // Rank `rank` of `world`. Of shards, a part of the order; else every world-th element.
  Dataset Shard(uint64_t rank, uint64_t world) const;
  // Rank `rank` of `world`, taken as near to the sources as it can be, so that ranks share the work
  // of the steps behind it: of the sources themselves, or behind the last step that counts elements
  // (Take, Skip, Enumerate). InvalidArgument: a step takes a part already.
  Dataset ShardSources(uint64_t rank, uint64_t world) const;
  Dataset Enumerate(std::string name = "index", int64_t start = 0) const;
  // Of shards, a shuffle of the whole order, each epoch anew, with nothing held but the window (in
  // records; 0: a default, OrderSpec::kAll: the exact permutation). Of any other stream, each
  // stretch of `window` elements is permuted.
  Dataset Shuffle(uint64_t seed, uint64_t window = 0) const;
  // Of shards: the order of tf.data's interleave.
  Dataset Interleave(uint64_t cycle, uint64_t block = 1) const;
  // 0: without end. Each epoch has shuffles and random numbers of its own.
  Dataset Repeat(uint64_t epochs = 0) const;
  // Keeps what this delivers in the run's memory, for the epochs of a Repeat behind.
  Dataset Cache(uint64_t max_bytes = uint64_t{1} << 30) const;
  // The same in a file in the folder `path`, which goes with the run.
  Dataset Cache(std::string path, uint64_t max_bytes = uint64_t{1} << 40) const;
  // Writes what this delivers to the file `path`, once, and delivers it from there in this and all
  // later runs. The file is there when all elements have been delivered; it is checked against
  // Fingerprint, rank and world included, but what functions of the user's do is not known: give
  // them another version, or name another file, for other functions. See docs/snapshot.md.
  Dataset Snapshot(std::string path, uint64_t max_bytes = uint64_t{1} << 40) const;
  // Makes `count` elements ahead, on a thread of its own.
  Dataset Prefetch(size_t count = 2) const;

  static Dataset Concatenate(std::vector<Dataset> datasets);
  static Dataset Zip(std::vector<Dataset> datasets);
  // Each element from an input that is drawn by weight; the draw of element i depends on seed,
  // epoch and i alone. `exhausted`: one for all, or one for each. `exact`: nothing is drawn; each
  // element is of the input that lacks most of its share so far, so that whole weights W1, W2 ...
  // are met in each W1 + W2 ... elements.
  static Dataset Mix(std::vector<Dataset> datasets, std::vector<double> weights, uint64_t seed = 0,
                     std::vector<Exhausted> exhausted = {Exhausted::kDrop}, bool exact = false);
  // Each element from the input whose number is the next element of `choice`, rows of one int64.
  // Ends with the choice, with kStop when an input is chosen that has ended, and when all have.
  // With kDrop such an element of the choice is passed. InvalidArgument in a run: a number that no
  // input has.
  static Dataset Choose(std::vector<Dataset> datasets, const Dataset& choice,
                        std::vector<Exhausted> exhausted = {Exhausted::kStop});
  // As tf.data's interleave: `cycle` inputs at a time, `block` elements from each in turn; where
  // one ends, the next input takes its place.
  static Dataset Interleave(std::vector<Dataset> datasets, uint64_t cycle, uint64_t block = 1);

  // ---- What it is

  absl::Status status() const { return status_; }
  // The columns of its elements. Empty when status() is an error.
  const RowSpec& spec() const;
  // Its elements are batches.
  bool batched() const;
  // The shards that the chain reads, where it has one source and that is shards; else null. Waits
  // for their indexes; errors: as ShardTable::Open.
  absl::StatusOr<std::shared_ptr<const ShardTable>> table() const;
  // The chain as it would be written: "read(64 files).shuffle(seed=1).parse(x, y).batch(1024)".
  std::string Text() const;
  // How many elements it delivers, exactly, or why that is not known. Waits for the indexes of
  // shards, as table().
  absl::StatusOr<Length> CountElements() const;
  // A number that changes with the data and with all parameters of the chain, but not with the rank
  // and the number of ranks. Of the user's functions it knows their versions alone. The same on all
  // machines. Waits for the indexes of shards, as table().
  absl::StatusOr<uint64_t> Fingerprint() const;
  // The steps of this chain, all on single rows and without random numbers, behind `source` instead
  // of behind its shards: for the elements of records by number. InvalidArgument: a step is none of
  // these, which the message names.
  Dataset WithSource(const Dataset& source) const;

  absl::StatusOr<std::unique_ptr<Iterator>> Start(const RunOptions& options = {}) const;

 private:
  explicit Dataset(std::shared_ptr<const Step> step) : step_(std::move(step)) {}
  explicit Dataset(absl::Status status) : status_(std::move(status)) {}
  // `step` behind this chain or, where it names inputs, behind these.
  Dataset Then(Step step) const;
  // A step of these columns, which is still to be told what it does.
  Step Like(std::string name) const;
  Dataset ThenOnRows(Step step, std::shared_ptr<const RowStep> row_step) const;
  // These rows with a last column that is for the step behind alone, which takes it away: see
  // DropLastColumn. `step`: that step's name.
  Dataset WithHidden(std::string step, DType dtype, MapFn fn, std::string version) const;
  // By the column of that number, of which `spec` does not have the last one where that is hidden.
  // `name`: the column's, empty for a hidden one.
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
