// Chains of steps that deliver batches: the recipe.
//
//   Dataset ds = Dataset::Shards("train@64")
//                    .Shuffle(/*seed=*/1)
//                    .Parse({{.name = "x", .dtype = DType::kFloat32, .shape = {50}},
//                            {.name = "y", .dtype = DType::kInt64}})
//                    .Batch(1024);
//   absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start();

#ifndef SHARDFEED_PIPELINE_DATASET_H_
#define SHARDFEED_PIPELINE_DATASET_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "decode/feature_spec.h"
#include "pipeline/augment.h"
#include "pipeline/autotune.h"
#include "pipeline/batch.h"
#include "pipeline/batching.h"
#include "pipeline/combining.h"
#include "pipeline/decode_image.h"
#include "pipeline/flat_map.h"
#include "pipeline/mixup.h"
#include "pipeline/packing.h"
#include "pipeline/parallel_stage.h"
#include "pipeline/row_step.h"
#include "pipeline/run_context.h"
#include "pipeline/sources.h"
#include "pipeline/trace.h"
#include "reader/lazy_shard_table.h"
#include "reader/reader.h"
#include "shard/spec.h"

namespace shardfeed {

class Iterator;

struct RunOptions {
  // That work at a time on rows and batches, and at the most for each stage; 0: one for each
  // processor that the process may use, by its affinity and control group.
  int threads = 0;
  // Of these threads, those that are used: at least one.
  double cpu_share = 1;
  // What may be held ahead of the consumer. Half is for readers that have no budget of their own,
  // the rest for batches; each stage has always two batches. 0: a quarter of the memory that is
  // free for the process, by its control group too, but from 128 MiB to 2 GiB.
  uint64_t budget_bytes = 0;
  // Finds how many threads of each stage work and how far it reads ahead: see StageTuner. The
  // decisions are in the statistics.
  bool autotune = true;
  // Stages that have these values for good: IteratorStats::tuning of a run before.
  std::vector<StageTuning> tuning;
  // Of what parallel stages and Batch write; other steps' memory is the process's.
  HostAllocator allocator;
  // false: batches come as they are ready; there is no state then.
  bool deterministic = true;
  // Delivers the first element over and over: what remains is the consumer's own time.
  bool headspace = false;
  // Gathers what each thread does when; to be written once the run is over.
  std::shared_ptr<Trace> trace;
};

// What a budget_bytes of 0 stands for.
uint64_t DefaultBudgetBytes();

// An immutable description, cheap to copy. Each step returns a new Dataset. A step that cannot be
// makes a dataset whose status() says why, and so are all that are made of it; Start returns that
// error.
//
// A dataset's elements are rows or, behind Batch and the like, batches. Steps that count or arrange
// elements (Take, Shuffle, Zip ...) work on either; Parse, Map, Filter and FlatMap on rows alone.
//
// Functions of the user's run on several threads at once. What they return as an error, and what
// they throw, ends the run with an error that names the record.
class Dataset {
 public:
  // ---- Sources

  // The records of shards, as one column "record" of bytes. `spec`: see docs/specs.md. Indexes that
  // are missing are made when they are needed: with sequential and interleaved orders, while the
  // first records are delivered.
  static Dataset Shards(const std::string& spec, ReaderOptions options = {});
  static Dataset Shards(const ShardSet& set, ReaderOptions options = {});
  static Dataset Shards(std::shared_ptr<const ShardTable> table, ReaderOptions options = {});
  static Dataset Shards(std::shared_ptr<const LazyShardTable> table, ReaderOptions options = {});
  // A column of int64.
  static Dataset Range(int64_t start, int64_t stop, int64_t step = 1, std::string name = "value");
  // The rows of a batch in memory. `describe`: what errors call row `row`, on any thread.
  static Dataset Rows(const shardfeed::Batch& rows,
                      std::function<std::string(uint64_t row)> describe = {});
  // What the functions that `make` makes give; each run makes its own. See MakeGeneratorStage.
  static Dataset FromGenerator(std::function<Generator()> make, RowSpec spec);

  // ---- Steps on rows

  // Examples (or SequenceExamples) in the column "record", which goes, to a column for each
  // feature. Those of any length are ragged; Pad and Sparse behind Batch give other layouts. A
  // feature list whose steps are of varying length has the elements of all steps in a row, and a
  // further column "NAME_lengths" with the number of elements of each step.
  Dataset Parse(std::vector<FeatureSpec> features,
                std::vector<FeatureSpec> feature_lists = {}) const;
  // All features that the manifest tells of or, without one, the first records: see FeaturesOf. Of
  // shards by their spec.
  Dataset ParseAll() const;
  // Encoded pictures of the column `feature` as pixels: see decode_image.h.
  Dataset DecodeImage(const std::string& feature, const DecodeImageOptions& options = {}) const;
  // Calls `fn` for each row, which writes the row's values of `outputs`. A column of the same name
  // is replaced; those named in `drops` go, all others stay. `seed` keys RowContext::random.
  Dataset Map(RowSpec outputs, MapFn fn, std::vector<std::string> drops = {},
              uint64_t seed = 0) const;
  // The rows for which `fn` is true.
  Dataset Filter(FilterFn fn, uint64_t seed = 0) const;
  // Decode a column of bytes, which the result replaces; see decoders.h. A first size of -1 in
  // `shape`: any number of elements of the other sizes, ragged.
  Dataset DecodeRaw(std::string column, DType dtype, std::vector<int64_t> shape) const;
  Dataset DecodeNpy(std::string column, DType dtype, std::vector<int64_t> shape) const;
  Dataset DecodeText(std::string column) const;
  Dataset DecodeWav(std::string column, int64_t channels = 1,
                    std::string rate = "sample_rate") const;
  // Augments pictures: `column` is of uint8 [height, width, channels], 1 or 3 channels. Repeats for
  // (seed, epoch, position): two such steps of a chain need seeds of their own. See augment.h.
  Dataset Augment(std::string column, std::vector<Augmentation> steps, uint64_t seed = 0) const;
  // Any number of rows for each: see flat_map.h. No column is kept.
  Dataset FlatMap(RowSpec outputs, FlatMapFn fn) const;
  // Keeps these columns alone, in this order.
  Dataset Select(std::vector<std::string> names) const;

  // ---- Rows to batches

  // Ragged columns stay ragged: also what tf.data calls ragged_batch.
  Dataset Batch(uint64_t size, bool drop_remainder = false) const;
  // Ragged columns become [rows, length, shape...].
  Dataset PaddedBatch(uint64_t size, std::map<std::string, Padding> padding = {},
                      bool drop_remainder = false) const;
  // See MakeBucketStage. `sizes` has one more than `boundaries`.
  Dataset BucketByLength(std::string column, std::vector<int64_t> boundaries,
                         std::vector<uint64_t> sizes, bool drop_remainder = false) const;
  // See MakeBudgetBatchStage.
  Dataset BatchByLength(std::string column, int64_t budget) const;
  // Pads the ragged columns of batches.
  Dataset Pad(std::map<std::string, Padding> padding = {}) const;
  // Adds to each of these ragged columns of batches the indices of its values as "NAME_indices",
  // for sparse tensors (COO): see MakeSparseFn.
  Dataset Sparse(std::vector<std::string> columns) const;
  Dataset Unbatch() const;
  // Sequences put end to end into rows of fixed length: see packing.h.
  Dataset Pack(std::string column, PackOptions options) const;

  // ---- Batches

  // Calls `fn` for each batch, which it may change or replace by one of the columns `output`.
  // `changes_count`: it may leave no rows of a batch, which is then left out.
  Dataset MapBatch(RowSpec output, BatchFn fn, bool changes_count = false) const;
  // Pictures of a batch mixed with one another, labels with them: see mixup.h.
  Dataset MixUp(std::string image_column, std::string label_column, int64_t num_classes,
                double alpha = 1, uint64_t seed = 0) const;
  Dataset CutMix(std::string image_column, std::string label_column, int64_t num_classes,
                 double alpha = 1, uint64_t seed = 0) const;

  // ---- Elements

  Dataset Take(uint64_t count) const;
  Dataset Skip(uint64_t count) const;
  // Rank `rank` of `world`. Of shards, a part of the order; else every world-th element.
  Dataset Shard(uint64_t rank, uint64_t world) const;
  Dataset Enumerate(std::string name = "index", int64_t start = 0) const;
  // Of shards, a shuffle of the whole order, each epoch anew, with nothing held but the window (in
  // records; 0: a default, OrderSpec::kAll: the exact permutation). Of any other stream, each
  // stretch of `window` elements is permuted.
  Dataset Shuffle(uint64_t seed, uint64_t window = 0) const;
  // Of shards: the order of tf.data's interleave.
  Dataset InterleaveShards(uint64_t cycle, uint64_t block = 1) const;
  // 0: without end. Each epoch has shuffles and random numbers of its own.
  Dataset Repeat(uint64_t epochs = 0) const;
  // Keeps what this delivers in the run's memory, for the epochs of a Repeat behind.
  Dataset Cache(uint64_t max_bytes = uint64_t{1} << 30) const;
  // The same in a file in `folder`, which goes with the run.
  Dataset CacheOnDisk(std::string folder, uint64_t max_bytes = uint64_t{1} << 40) const;
  // Writes what this delivers to the file `path`, once, and delivers it from there in this and all
  // later runs. The file is there when all elements have been delivered; it is checked against
  // Fingerprint, rank and world included, but what functions of the user's do is not known: name
  // another file for other functions. See docs/snapshot.md.
  Dataset Snapshot(std::string path, uint64_t max_bytes = uint64_t{1} << 40) const;
  // Makes `count` elements ahead, on a thread of its own.
  Dataset Prefetch(size_t count = 2) const;

  static Dataset Concatenate(std::vector<Dataset> datasets);
  static Dataset Zip(std::vector<Dataset> datasets);
  // See MakeMixStage. `exhausted`: one for all, or one for each.
  static Dataset Mix(std::vector<Dataset> datasets, std::vector<double> weights, uint64_t seed = 0,
                     std::vector<Exhausted> exhausted = {Exhausted::kDrop});
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
  // The chain as it would be written: "shards(64 files).shuffle(seed=1).parse(x, y).batch(1024)".
  std::string Text() const;
  // A number that changes with the data and with all of the chain that is not a function of the
  // user's. Waits for the indexes of shards, as table().
  absl::StatusOr<uint64_t> Fingerprint() const;

  absl::StatusOr<std::unique_ptr<Iterator>> Start(const RunOptions& options = {}) const;

 private:
  struct Node;
  struct Keeping;

  friend class Iterator;

  explicit Dataset(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  explicit Dataset(absl::Status status) : status_(std::move(status)) {}
  static Dataset FromNode(Node node);
  Dataset Then(Node node) const;
  Dataset Mixed(const std::string& image_column, const std::string& label_column,
                MixOptions options) const;
  Dataset Kept(std::string text, Keeping keeping) const;
  static absl::StatusOr<uint64_t> FingerprintOf(const Node& node, bool with_ranks);
  static bool IndexesMade(const Node& node);
  Dataset WithRowStep(std::shared_ptr<const RowStep> step, std::string text) const;
  static absl::StatusOr<std::unique_ptr<Stage>> Compile(const std::shared_ptr<const Node>& node,
                                                        std::shared_ptr<RunContext> context,
                                                        uint64_t epoch);
  absl::StatusOr<std::shared_ptr<RunContext>> MakeContext(const RunOptions& options) const;

  std::shared_ptr<const Node> node_;
  absl::Status status_;
};

// What a stage of a run did.
struct StageStats {
  std::string name;
  int threads = 0;
  int workers = 0;          // threads that work
  uint64_t read_ahead = 0;  // batches that are begun ahead
  uint64_t batches = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;    // of its input
  uint64_t invalid = 0;  // rows that could not be decoded and were replaced or zeroed
  double busy_seconds = 0;
  double wait_in_seconds = 0;
  double wait_out_seconds = 0;  // how long its consumer waited
  uint64_t ready = 0;
  uint64_t ahead = 0;
  uint64_t ahead_bytes = 0;
  uint64_t peak_bytes = 0;
};

struct IteratorStats {
  double seconds = 0;
  uint64_t elements = 0;
  uint64_t rows = 0;
  uint64_t damaged = 0;            // rows that Batch::damaged told of
  double wait_seconds = 0;         // of Next
  std::vector<StageStats> stages;  // from the source to the consumer
  std::vector<StageTuning> tuning;
  // What autotune changed, when, and why: "1.5 s: parse+batch: 2 -> 1 threads: the consumer does
  // not wait, and 0.3 of 2 are busy". The last hundred.
  std::vector<std::string> decisions;
  std::string limit;  // "the consumer", "reading", or a stage
  // What limits, and what to do: "parse limits: 97 % of its 2 threads' time ...".
  std::string verdict;
};

// One run of a dataset. One thread at a time calls Next, Await, State and Load; Cancel and stats
// may be called from any. May be destroyed at any time.
//
// In a child after fork, Next goes on from the same place with threads of the child's own, for
// which the run must be deterministic. The parent's goes on as well.
class Iterator {
 public:
  ~Iterator();

  // The next element, a batch or a row; one without rows at the end. After an error each further
  // call returns it again. Cancelled: Cancel was called.
  absl::Status Next(Batch* out);
  // The next element and, where elements are rows, those that stand ready behind it; none at the
  // end. They are not delivered before Advance says so, and until then come again.
  absl::Status Peek(Batch* out);
  // Delivers so many of the elements that Peek gave.
  void Advance(size_t elements);
  // Waits until Next and Peek need not wait: for elements, the end or an error. False: not within
  // `most`. Nothing, and at once: the chain's last step cannot tell.
  std::optional<bool> Await(std::chrono::nanoseconds most);
  const RowSpec& spec() const { return recipe_.spec(); }
  bool batched() const { return recipe_.batched(); }

  // Where the iterator stands, in elements delivered: a JSON document, mostly of some hundred
  // bytes. Waits for the indexes of shards. FailedPrecondition: the run is not deterministic.
  absl::StatusOr<std::string> State() const;
  // Whether State would not wait.
  bool StateAtHand() const;
  // Goes to a saved place. FailedPrecondition: the state is of another chain or other data.
  absl::Status Load(std::string_view state);

  void Cancel();
  IteratorStats stats() const;

 private:
  friend class Dataset;
  Iterator(Dataset recipe, RunOptions options);
  absl::Status Open();
  // In a child after fork.
  bool Forked() const;
  void Abandon();
  absl::Status OpenAgain();
  // The recipe's fingerprint, as states have it.
  absl::StatusOr<std::string> Chain() const;
  // Counts a wait of the consumer, which is over now, for so many rows; gives the time.
  uint64_t EndWait(uint64_t start_ns, size_t rows);
  // Makes `work` ask the queue, with what Next and Peek have in common.
  absl::Status Ask(Batch* out, absl::Status (*work)(ElementQueue&, Batch*));

  const Dataset recipe_;  // whose steps are keys in context_
  RunOptions options_;
  std::shared_ptr<RunContext> context_;
  std::unique_ptr<Autotuner> tuner_;
  std::unique_ptr<ElementQueue> queue_;
  uint64_t forks_ = 0;
  mutable std::string chain_;  // once it was asked for
  Batch repeated_;
  absl::Status error_;
  std::atomic<uint64_t> elements_ = 0;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> damaged_ = 0;
  std::atomic<uint64_t> wait_ns_ = 0;
  uint64_t start_ns_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATASET_H_
