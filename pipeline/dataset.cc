#include "pipeline/dataset.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/buffer.h"
#include "io/page_cache.h"
#include "io/parallel.h"
#include "nlohmann/json.hpp"
#include "pipeline/cache.h"
#include "pipeline/decoders.h"
#include "pipeline/element_store.h"
#include "pipeline/fork_count.h"
#include "pipeline/known_features.h"
#include "pipeline/limiting.h"

namespace shardfeed {
namespace {

// Of a row's column, and of a batch: what is larger is a mistake, and products of these and the
// size of an element do not overflow.
constexpr int64_t kMaxLength = INT32_MAX;
constexpr uint64_t kMaxRows = INT32_MAX;

constexpr int kStateVersion = 1;

uint64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// FNV-1a, which is the same everywhere.
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

std::string NamesText(const RowSpec& spec) {
  std::string text;
  for (const ColumnSpec& s : spec) text += (text.empty() ? "" : ", ") + s.name;
  return text;
}

// Of Dataset::Repeat, as a reader has them.
std::optional<uint64_t> EpochsOf(uint64_t repeats) {
  return repeats == 0 ? std::nullopt : std::optional(repeats);
}

// What decides which records come in which order, but for the rank, and for the batches that each
// epoch is cut to: with other ranks, each has other batches.
std::string ReaderText(const ReaderOptions& options) {
  const OrderSpec& order = options.order;
  std::string text = fmt::format(
      "order({}, {}, {}, {}, {}, {}, {}) end={} epochs={}", static_cast<int>(order.kind),
      order.cycle_length, order.block_length, order.seed, order.window, order.chunk, order.lanes,
      static_cast<int>(options.end), options.epochs.value_or(0));
  if (options.records) {
    for (const RecordRange& range : *options.records) {
      text += fmt::format(" {}+{}", range.first, range.count);
    }
  }
  return text;
}

}  // namespace

struct Dataset::Node {
  enum Kind { kOther, kShards, kRowStep, kRepeat, kBatch, kBatchFn };

  Kind kind = kOther;
  std::string text;   // of this step alone
  std::string ranks;  // of a step that takes a rank's part
  std::vector<std::shared_ptr<const Node>> inputs;
  std::shared_ptr<const RowSpec> spec;
  bool batched = false;

  std::shared_ptr<const LazyShardTable> table;  // kShards
  ReaderOptions reader;
  std::shared_ptr<const RowStep> row_step;  // kRowStep
  uint64_t epochs = 0;                      // kRepeat; 0: without end
  uint64_t batch_size = 0;                  // kBatch
  bool drop_remainder = false;
  BatchFn batch_fn;            // kBatchFn
  bool changes_count = false;  // kBatchFn: of elements
  size_t prefetch = 0;
  // What comes next may depend on what the consumer does with what it has.
  bool may_await = false;
  // Sources of kOther: makes the stage; `source` is its number.
  std::function<std::unique_ptr<Stage>(uint64_t epoch, uint32_t source)> make_source;
  std::function<std::string(uint64_t position)> describe;  // may be empty: what its rows are called
  // Others of kOther: makes the stage, from those of the inputs or from what makes them.
  std::function<absl::StatusOr<std::unique_ptr<Stage>>(std::shared_ptr<RunContext>, uint64_t epoch)>
      make;
};

Dataset Dataset::FromNode(Node node) {
  return Dataset(std::make_shared<const Node>(std::move(node)));
}

// The step `node` behind this chain.
Dataset Dataset::Then(Node node) const {
  if (!status_.ok()) return *this;
  if (node.inputs.empty()) node.inputs = {node_};
  for (const auto& input : node.inputs) node.may_await |= input->may_await;
  return FromNode(std::move(node));
}

const RowSpec& Dataset::spec() const {
  static const auto* none = new RowSpec();
  return node_ == nullptr ? *none : *node_->spec;
}

bool Dataset::batched() const { return node_ != nullptr && node_->batched; }

absl::StatusOr<std::shared_ptr<const ShardTable>> Dataset::table() const {
  const Node* node = node_.get();
  while (node != nullptr && node->inputs.size() == 1) node = node->inputs[0].get();
  if (node == nullptr || node->table == nullptr) return nullptr;
  return node->table->Get();
}

std::string Dataset::Text() const {
  if (node_ == nullptr) return std::string(status_.message());
  const std::function<std::string(const Node&)> text = [&](const Node& node) -> std::string {
    if (node.inputs.empty()) return node.text;
    if (node.inputs.size() == 1) return text(*node.inputs[0]) + "." + node.text;
    std::string all;
    for (const auto& input : node.inputs) all += (all.empty() ? "" : ", ") + text(*input);
    return fmt::format("{}[{}]", node.text, all);
  };
  return text(*node_);
}

absl::StatusOr<uint64_t> Dataset::FingerprintOf(const Node& node, bool with_ranks) {
  std::string all = Dataset(std::make_shared<const Node>(node)).Text();
  if (!with_ranks) {
    // A batch at the end has no part in where the chain stands: its size may change with the ranks.
    const Node* end = &node;
    while (end->kind == Node::kBatchFn && !end->changes_count) end = end->inputs[0].get();
    if (end->kind == Node::kBatch) {
      all.replace(all.rfind("." + end->text), end->text.size() + 1, ".batch");
    }
  }
  absl::Status status;
  const std::function<void(const Node&)> add = [&](const Node& n) {
    if (n.table != nullptr) {
      const absl::StatusOr<std::shared_ptr<const ShardTable>> table = n.table->Get();
      status.Update(table.status());
      if (!status.ok()) return;
      all += fmt::format(" {:016x} {}", (*table)->fingerprint(), ReaderText(n.reader));
      if (with_ranks) all += fmt::format(" {}/{}", n.reader.rank, n.reader.world);
    }
    if (with_ranks) all += n.ranks;
    for (const auto& input : n.inputs) add(*input);
  };
  add(node);
  if (!status.ok()) return status;
  return Hash(all);
}

bool Dataset::IndexesMade(const Node& node) {
  if (node.table != nullptr) return node.table->made();
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [](const auto& input) { return IndexesMade(*input); });
}

absl::StatusOr<uint64_t> Dataset::Fingerprint() const {
  if (!status_.ok()) return status_;
  return FingerprintOf(*node_, /*with_ranks=*/false);
}

// ---- Sources

Dataset Dataset::Shards(const std::string& spec, ReaderOptions options) {
  absl::StatusOr<ShardSet> set = ResolveSpec(spec);
  if (!set.ok()) return Dataset(set.status());
  return Shards(*set, std::move(options));
}

Dataset Dataset::Shards(const ShardSet& set, ReaderOptions options) {
  absl::StatusOr<std::shared_ptr<LazyShardTable>> table = LazyShardTable::Open(set);
  if (!table.ok()) return Dataset(table.status());
  return Shards(*std::move(table), std::move(options));
}

Dataset Dataset::Shards(std::shared_ptr<const ShardTable> table, ReaderOptions options) {
  return Shards(std::make_shared<LazyShardTable>(std::move(table)), std::move(options));
}

Dataset Dataset::Shards(std::shared_ptr<const LazyShardTable> table, ReaderOptions options) {
  Node node;
  node.kind = Node::kShards;
  node.spec = RecordSpec();
  node.table = std::move(table);
  node.reader = std::move(options);
  node.text = fmt::format("shards({} files)", node.table->num_shards());
  return FromNode(std::move(node));
}

Dataset Dataset::Range(int64_t start, int64_t stop, int64_t step, std::string name) {
  if (step == 0) return Dataset(absl::InvalidArgumentError("range: the step must not be 0"));
  Node node;
  node.text = fmt::format("range({}, {}, {})", start, stop, step);
  node.spec = std::make_shared<const RowSpec>(RowSpec{{std::move(name), DType::kInt64, {}, false}});
  node.make_source = [start, stop, step, spec = node.spec](uint64_t epoch, uint32_t source) {
    return MakeRangeStage(start, stop, step, spec, epoch, source);
  };
  return FromNode(std::move(node));
}

Dataset Dataset::Rows(const shardfeed::Batch& rows,
                      std::function<std::string(uint64_t row)> describe) {
  if (rows.spec == nullptr) {
    return Dataset(absl::InvalidArgumentError("rows: a batch without a spec"));
  }
  Node node;
  node.text = fmt::format("rows({})", rows.rows);
  node.spec = rows.spec;
  node.make_source = [rows](uint64_t epoch, uint32_t source) {
    shardfeed::Batch copy = rows;
    copy.batched = false;
    return MakeRowsStage(std::move(copy), epoch, source);
  };
  node.describe = std::move(describe);
  return FromNode(std::move(node));
}

Dataset Dataset::FromGenerator(std::function<Generator()> make, RowSpec spec) {
  Node node;
  node.text = "generator";
  node.may_await = true;
  node.spec = std::make_shared<const RowSpec>(std::move(spec));
  node.make_source = [make = std::move(make), spec = node.spec](uint64_t epoch, uint32_t source) {
    return MakeGeneratorStage(make, spec, epoch, source);
  };
  return FromNode(std::move(node));
}

// ---- Steps on rows

Dataset Dataset::WithRowStep(std::shared_ptr<const RowStep> step, std::string text) const {
  if (!status_.ok()) return *this;
  if (node_->batched) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "{}: works on rows, but the elements here are batches: put it before batch, or unbatch "
        "first",
        step->name())));
  }
  for (const ColumnSpec& output : step->outputs()) {
    for (int64_t size : output.shape) {
      if (size < 1) {
        return Dataset(absl::InvalidArgumentError(
            fmt::format("{}: column '{}' has a shape with {}", step->name(), output.name, size)));
      }
    }
  }
  absl::StatusOr<std::shared_ptr<const RowProgram>> program = RowProgram::Make(node_->spec, {step});
  if (!program.ok()) return Dataset(program.status());
  Node node;
  node.kind = Node::kRowStep;
  node.text = std::move(text);
  node.spec = (*program)->output();
  node.row_step = std::move(step);
  return Then(std::move(node));
}

Dataset Dataset::Parse(std::vector<FeatureSpec> features,
                       std::vector<FeatureSpec> feature_lists) const {
  absl::StatusOr<std::shared_ptr<const ExampleParser>> parser =
      ExampleParser::Make(std::move(features), std::move(feature_lists));
  if (!parser.ok()) {
    return Dataset(status_.ok() ? absl::Status(parser.status().code(),
                                               fmt::format("parse: {}",
                                                           std::string(parser.status().message())))
                                : status_);
  }
  if (const int record = FindColumn(spec(), "record");
      status_.ok() && (record < 0 || spec()[record].dtype != DType::kBytes ||
                       spec()[record].ragged || !spec()[record].shape.empty())) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "parse: there is no column 'record' of bytes; there are: {}", RowSpecText(spec()))));
  }
  std::shared_ptr<const RowStep> step = MakeParseStep(*std::move(parser));
  std::string text = fmt::format("parse({})", NamesText(step->outputs()));
  return WithRowStep(std::move(step), std::move(text));
}

Dataset Dataset::ParseAll() const {
  if (!status_.ok()) return *this;
  const Node* source = node_.get();
  while (source->kind != Node::kShards && source->inputs.size() == 1) {
    source = source->inputs[0].get();
  }
  if (source->table == nullptr || source->table->set().paths.empty()) {
    return Dataset(
        absl::InvalidArgumentError("parse: the features are known of shards alone that are named "
                                   "by a spec; name the features"));
  }
  absl::StatusOr<Schema> schema = FindSchema(source->table->set());
  if (!schema.ok()) return Dataset(schema.status());
  KnownFeatures known = FeaturesOf(*schema);
  return Parse(std::move(known.features), std::move(known.feature_lists));
}

Dataset Dataset::DecodeImage(const std::string& feature, const DecodeImageOptions& options) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<std::shared_ptr<const RowStep>> step = MakeDecodeImageStep(feature, options);
  if (!step.ok()) return Dataset(step.status());
  if (const int column = FindColumn(spec(), feature); column >= 0) {
    const ColumnSpec& encoded = spec()[column];
    if (encoded.dtype != DType::kBytes || encoded.ragged || encoded.num_values() != 1) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "decode_image: column '{}' is not one value of bytes a row; the columns are: {}", feature,
          RowSpecText(spec()))));
    }
  }
  return WithRowStep(*std::move(step),
                     fmt::format("decode_image({})", DecodeImageText(feature, options)));
}

Dataset Dataset::Map(RowSpec outputs, MapFn fn, std::vector<std::string> drops,
                     uint64_t seed) const {
  std::string text = fmt::format("map({})", NamesText(outputs));
  return WithRowStep(MakeMapStep(std::move(outputs), std::move(drops), std::move(fn), seed),
                     std::move(text));
}

Dataset Dataset::Filter(FilterFn fn, uint64_t seed) const {
  return WithRowStep(MakeFilterStep(std::move(fn), seed), "filter");
}

namespace {

absl::StatusOr<size_t> BytesColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name) {
  const int column = FindColumn(spec, name);
  if (column < 0 || spec[column].dtype != DType::kBytes || spec[column].ragged ||
      !spec[column].shape.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there is no column '{}' of bytes, one value in a row; there are: {}", step,
                    name, RowSpecText(spec)));
  }
  return static_cast<size_t>(column);
}

// What a decoder's column becomes. A first size of -1 makes it ragged.
absl::StatusOr<ColumnSpec> TensorSpec(std::string_view step, std::string name, DType dtype,
                                      std::vector<int64_t> shape) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  ColumnSpec spec = {std::move(name), dtype, std::move(shape), false};
  if (!spec.shape.empty() && spec.shape[0] == -1) {
    spec.ragged = true;
    spec.shape.erase(spec.shape.begin());
  }
  uint64_t bytes = DTypeSize(dtype);
  for (int64_t size : spec.shape) {
    bytes = size < 1 || size > kMostBytes ? kMostBytes + 1 : bytes * size;
    if (bytes > kMostBytes) break;
  }
  if (dtype == DType::kBytes || bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: numbers of sizes from 1 on, at most 2 GiB in a row, can be decoded; asked "
                    "is for {}",
                    step, RowSpecText({spec})));
  }
  return spec;
}

}  // namespace

Dataset Dataset::DecodeRaw(std::string column, DType dtype, std::vector<int64_t> shape) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_raw", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  absl::StatusOr<ColumnSpec> output =
      TensorSpec("decode_raw", std::move(column), dtype, std::move(shape));
  if (!output.ok()) return Dataset(output.status());
  return WithRowStep(MakeDecodeRawStep(*output, *number),
                     fmt::format("decode_raw({})", RowSpecText({*output})));
}

Dataset Dataset::DecodeNpy(std::string column, DType dtype, std::vector<int64_t> shape) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_npy", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  absl::StatusOr<ColumnSpec> output =
      TensorSpec("decode_npy", std::move(column), dtype, std::move(shape));
  if (!output.ok()) return Dataset(output.status());
  return WithRowStep(MakeDecodeNpyStep(*output, *number),
                     fmt::format("decode_npy({})", RowSpecText({*output})));
}

Dataset Dataset::DecodeText(std::string column) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_text", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  std::string text = fmt::format("decode_text({})", column);
  return WithRowStep(MakeDecodeTextStep(std::move(column), *number), std::move(text));
}

Dataset Dataset::DecodeWav(std::string column, int64_t channels, std::string rate) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = BytesColumn("decode_wav", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  if (channels < 1 || channels > UINT16_MAX || rate == column) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("decode_wav: channels must be from 1 to {}, and the rate's column another one",
                    UINT16_MAX)));
  }
  std::string text = fmt::format("decode_wav({}, channels={}, rate={})", column, channels, rate);
  return WithRowStep(MakeDecodeWavStep(std::move(column), *number, channels, std::move(rate)),
                     std::move(text));
}

Dataset Dataset::Augment(std::string column, std::vector<Augmentation> steps, uint64_t seed) const {
  if (!status_.ok()) return *this;
  constexpr int64_t kMostPixels = 1 << 20;  // of a side
  const int number = FindColumn(spec(), column);
  if (number < 0) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "augment: there is no column '{}'; there are: {}", column, RowSpecText(spec()))));
  }
  const ColumnSpec& s = spec()[number];
  const std::vector<int64_t>& shape = s.shape;
  if (s.dtype != DType::kUInt8 || s.ragged || shape.size() != 3 ||
      std::min({shape[0], shape[1], shape[2]}) < 1 || std::max(shape[0], shape[1]) > kMostPixels ||
      (shape[2] != 1 && shape[2] != 3)) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("augment: wanted are pictures of uint8 [height, width, 1 or 3]; the column is "
                    "{}",
                    RowSpecText({s}))));
  }
  absl::StatusOr<std::shared_ptr<const ImageAugmenter>> augmenter =
      ImageAugmenter::Make(std::move(steps), static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                           static_cast<int>(shape[2]));
  if (!augmenter.ok()) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("augment: {}", std::string(augmenter.status().message()))));
  }
  std::string text = fmt::format("augment({}, [{}], seed={})", column, (*augmenter)->text(), seed);
  return WithRowStep(MakeAugmentStep(std::move(column), number, *std::move(augmenter), seed),
                     std::move(text));
}

Dataset Dataset::FlatMap(RowSpec outputs, FlatMapFn fn) const {
  if (!status_.ok()) return *this;
  if (node_->batched) {
    return Dataset(absl::InvalidArgumentError(
        "flat_map: works on rows, but the elements here are batches: unbatch first"));
  }
  Node node;
  node.kind = Node::kBatchFn;
  node.text = fmt::format("flat_map({})", NamesText(outputs));
  node.spec = std::make_shared<const RowSpec>(std::move(outputs));
  node.batch_fn = MakeFlatMapFn(node.spec, std::move(fn));
  node.changes_count = true;
  return Then(std::move(node));
}

Dataset Dataset::Select(std::vector<std::string> names) const {
  if (!status_.ok()) return *this;
  RowSpec kept;
  std::vector<size_t> numbers;
  for (const std::string& name : names) {
    const int column = FindColumn(spec(), name);
    if (column < 0) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "select: there is no column '{}'; there are: {}", name, RowSpecText(spec()))));
    }
    numbers.push_back(column);
    kept.push_back(spec()[column]);
  }
  Node node;
  node.kind = Node::kBatchFn;
  node.text = fmt::format("select({})", NamesText(kept));
  node.spec = std::make_shared<const RowSpec>(std::move(kept));
  node.batched = node_->batched;
  node.batch_fn = [numbers, spec = node.spec](shardfeed::Batch& batch) {
    std::vector<Column> columns;
    auto actual = std::make_shared<RowSpec>();  // padded columns have a shape of their own
    for (size_t n : numbers) {
      columns.push_back(batch.columns[n]);
      actual->push_back((*batch.spec)[n]);
    }
    batch.columns = std::move(columns);
    batch.spec = *actual == *spec ? spec : std::shared_ptr<const RowSpec>(std::move(actual));
    return absl::OkStatus();
  };
  return Then(std::move(node));
}

// ---- Rows to batches

Dataset Dataset::Batch(uint64_t size, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  if (size == 0 || size > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("batch: the size must lie between 1 and {}; it is {}", kMaxRows, size)));
  }
  if (node_->batched) {
    return Dataset(
        absl::InvalidArgumentError("batch: the elements here are batches already: unbatch first"));
  }
  Node node;
  node.kind = Node::kBatch;
  node.text = fmt::format("batch({}{})", size, drop_remainder ? ", drop_remainder" : "");
  node.spec = node_->spec;
  node.batched = true;
  node.batch_size = size;
  node.drop_remainder = drop_remainder;
  return Then(std::move(node));
}

Dataset Dataset::Pad(std::map<std::string, Padding> padding) const {
  if (!status_.ok()) return *this;
  if (!node_->batched) {
    return Dataset(absl::InvalidArgumentError("pad: the elements here are rows: batch first"));
  }
  auto padded = std::make_shared<RowSpec>(*node_->spec);
  for (ColumnSpec& s : *padded) {
    if (!s.ragged) continue;
    const auto it = padding.find(s.name);
    s.ragged = false;
    // 0 stands for a length that differs from batch to batch.
    s.shape.insert(s.shape.begin(), it == padding.end() ? 0 : it->second.length);
  }
  for (const auto& [name, how] : padding) {
    const int column = FindColumn(*node_->spec, name);
    if (column < 0 || !(*node_->spec)[column].ragged) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "pad: there is no ragged column '{}'; there are: {}", name, RowSpecText(*node_->spec))));
    }
    if (how.length < 0 || how.length > kMaxLength) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("pad: column '{}': the length must lie between 0 and {}; it is {}", name,
                      kMaxLength, how.length)));
    }
  }
  Node node;
  node.kind = Node::kBatchFn;
  node.text = "pad";
  node.spec = std::move(padded);
  node.batched = true;
  node.batch_fn = MakePadFn(std::move(padding));
  return Then(std::move(node));
}

Dataset Dataset::Sparse(std::vector<std::string> columns) const {
  if (!status_.ok()) return *this;
  if (!node_->batched) {
    return Dataset(absl::InvalidArgumentError("sparse: the elements here are rows: batch first"));
  }
  RowSpec with = spec();
  for (const std::string& name : columns) {
    const int column = FindColumn(spec(), name);
    if (column < 0 || !spec()[column].ragged) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "sparse: there is no ragged column '{}'; there are: {}", name, RowSpecText(spec()))));
    }
    with.push_back({IndicesName(name), DType::kInt64, {2}, true});
    if (FindColumn(with, with.back().name) + 1 < static_cast<int>(with.size())) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("sparse: there is a column '{}' already", with.back().name)));
    }
  }
  Node node;
  node.kind = Node::kBatchFn;
  node.text = fmt::format("sparse({})", fmt::join(columns, ", "));
  node.spec = std::make_shared<const RowSpec>(std::move(with));
  node.batched = true;
  node.batch_fn = MakeSparseFn(std::move(columns));
  return Then(std::move(node));
}

Dataset Dataset::PaddedBatch(uint64_t size, std::map<std::string, Padding> padding,
                             bool drop_remainder) const {
  return Batch(size, drop_remainder).Pad(std::move(padding));
}

namespace {

// The column that tells a row's length, or an error.
absl::StatusOr<size_t> LengthColumn(std::string_view step, const RowSpec& spec,
                                    const std::string& name, bool batched) {
  if (batched) {
    return absl::InvalidArgumentError(
        fmt::format("{}: works on rows, but the elements here are batches: unbatch first", step));
  }
  const int column = FindColumn(spec, name);
  if (column < 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there is no column '{}'; there are: {}", step, name, RowSpecText(spec)));
  }
  if (!spec[column].ragged &&
      (spec[column].dtype != DType::kBytes || !spec[column].shape.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the rows of column '{}' are all of one length", step, name));
  }
  return static_cast<size_t>(column);
}

}  // namespace

Dataset Dataset::BucketByLength(std::string column, std::vector<int64_t> boundaries,
                                std::vector<uint64_t> sizes, bool drop_remainder) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = LengthColumn("bucket_by_length", spec(), column, node_->batched);
  if (!number.ok()) return Dataset(number.status());
  if (sizes.size() != boundaries.size() + 1 ||
      !std::is_sorted(boundaries.begin(), boundaries.end())) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "bucket_by_length: {} boundaries in rising order take {} batch sizes; there are {}",
        boundaries.size(), boundaries.size() + 1, sizes.size())));
  }
  if (std::count(sizes.begin(), sizes.end(), 0) > 0) {
    return Dataset(absl::InvalidArgumentError("bucket_by_length: a batch size is 0"));
  }
  Node node;
  node.text = fmt::format("bucket_by_length({}, [{}], [{}]{})", column, fmt::join(boundaries, ", "),
                          fmt::join(sizes, ", "), drop_remainder ? ", drop_remainder" : "");
  node.spec = node_->spec;
  node.batched = true;
  node.make = [=, input = node_, n = *number](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeBucketStage(*std::move(stage), input->spec, n, boundaries, sizes, drop_remainder);
  };
  return Then(std::move(node));
}

Dataset Dataset::BatchByLength(std::string column, int64_t budget) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = LengthColumn("batch_by_length", spec(), column, node_->batched);
  if (!number.ok()) return Dataset(number.status());
  if (budget < 1) {
    return Dataset(absl::InvalidArgumentError("batch_by_length: the budget must be at least 1"));
  }
  Node node;
  node.text = fmt::format("batch_by_length({}, {})", column, budget);
  node.spec = node_->spec;
  node.batched = true;
  node.make = [input = node_, n = *number, budget](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeBudgetBatchStage(*std::move(stage), input->spec, n, budget);
  };
  return Then(std::move(node));
}

Dataset Dataset::Unbatch() const {
  if (!status_.ok()) return *this;
  if (!node_->batched) {
    return Dataset(absl::InvalidArgumentError("unbatch: the elements here are rows already"));
  }
  for (const ColumnSpec& s : spec()) {
    if (std::count(s.shape.begin(), s.shape.end(), 0) > 0) {
      return Dataset(
          absl::InvalidArgumentError(fmt::format("unbatch: column '{}' is padded to another length "
                                                 "in each batch; pad it to a fixed length",
                                                 s.name)));
    }
  }
  Node node;
  node.text = "unbatch";
  node.spec = node_->spec;
  node.make = [input = node_](std::shared_ptr<RunContext> context,
                              uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeUnbatchStage(*std::move(stage));
  };
  return Then(std::move(node));
}

Dataset Dataset::Pack(std::string column, PackOptions options) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = LengthColumn("pack", spec(), column, node_->batched);
  if (!number.ok()) return Dataset(number.status());
  const ColumnSpec& s = spec()[*number];
  if (!s.ragged || !s.shape.empty() || (s.dtype != DType::kInt64 && s.dtype != DType::kInt32)) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("pack: column '{}' must be a ragged one of int64 or int32", column)));
  }
  if (options.length < 1 || options.length > kMaxLength || options.open < 1 ||
      options.open > kMaxRows) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("pack: the length {} and the number of open rows {} must lie between 1 and {}",
                    options.length, options.open, kMaxLength)));
  }
  Node node;
  node.text = fmt::format("pack({}, length={}, open={}, pad={}{})", column, options.length,
                          options.open, options.pad, options.truncate ? ", truncate" : "");
  node.spec = PackedSpec(s, options.length);
  node.make = [input = node_, n = *number, spec = node.spec, options](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakePackStage(*std::move(stage), n, spec, options);
  };
  return Then(std::move(node));
}

// ---- Batches

Dataset Dataset::MapBatch(RowSpec output, BatchFn fn, bool changes_count) const {
  if (!status_.ok()) return *this;
  if (!node_->batched) {
    return Dataset(
        absl::InvalidArgumentError("map_batch: the elements here are rows: batch first, or map"));
  }
  Node node;
  node.kind = Node::kBatchFn;
  node.text = fmt::format("map_batch({})", NamesText(output));
  node.spec = std::make_shared<const RowSpec>(std::move(output));
  node.batched = true;
  node.changes_count = changes_count;
  node.batch_fn = [fn = std::move(fn), spec = node.spec](shardfeed::Batch& batch) -> absl::Status {
    absl::Status status = fn(batch);
    if (!status.ok()) return status;
    batch.batched = true;
    if (batch.spec == nullptr || batch.spec->size() != spec->size() ||
        batch.columns.size() != spec->size()) {
      return absl::InvalidArgumentError(
          fmt::format("map_batch: it gives {}, but was declared to give {}",
                      batch.spec ? RowSpecText(*batch.spec) : "nothing", RowSpecText(*spec)));
    }
    return absl::OkStatus();
  };
  return Then(std::move(node));
}

Dataset Dataset::Mixed(const std::string& image_column, const std::string& label_column,
                       MixOptions options) const {
  if (!status_.ok()) return *this;
  const std::string_view step = options.kind == MixKind::kMixUp ? "mixup" : "cutmix";
  if (!node_->batched) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "{}: mixes rows of batches, but the elements here are rows: batch first", step)));
  }
  for (const std::string& name : {image_column, label_column}) {
    if (FindColumn(spec(), name) >= 0) continue;
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "{}: there is no column '{}'; there are: {}", step, name, RowSpecText(spec()))));
  }
  options.image = FindColumn(spec(), image_column);
  options.label = FindColumn(spec(), label_column);
  absl::Status status = CheckMix(step, spec(), options);
  if (!status.ok()) return Dataset(std::move(status));
  RowSpec mixed = spec();
  mixed[options.label] = MixedLabelSpec(mixed[options.label], options.num_classes);
  Node node;
  node.kind = Node::kBatchFn;
  node.text = fmt::format("{}({}, {}, num_classes={}, alpha={}, seed={})", step, image_column,
                          label_column, options.num_classes, options.alpha, options.seed);
  node.spec = std::make_shared<const RowSpec>(std::move(mixed));
  node.batched = true;
  node.batch_fn = MakeMixFn(options);
  return Then(std::move(node));
}

Dataset Dataset::MixUp(std::string image_column, std::string label_column, int64_t num_classes,
                       double alpha, uint64_t seed) const {
  return Mixed(image_column, label_column,
               {.kind = MixKind::kMixUp, .num_classes = num_classes, .alpha = alpha, .seed = seed});
}

Dataset Dataset::CutMix(std::string image_column, std::string label_column, int64_t num_classes,
                        double alpha, uint64_t seed) const {
  return Mixed(
      image_column, label_column,
      {.kind = MixKind::kCutMix, .num_classes = num_classes, .alpha = alpha, .seed = seed});
}

// ---- Elements

Dataset Dataset::Take(uint64_t count) const {
  Node node;
  node.text = fmt::format("take({})", count);
  if (node_ != nullptr) {
    node.spec = node_->spec;
    node.batched = node_->batched;
  }
  node.make = [input = node_, count](std::shared_ptr<RunContext> context,
                                     uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeTakeStage(*std::move(stage), count);
  };
  return Then(std::move(node));
}

Dataset Dataset::Skip(uint64_t count) const {
  Node node;
  node.text = fmt::format("skip({})", count);
  if (node_ != nullptr) {
    node.spec = node_->spec;
    node.batched = node_->batched;
  }
  node.make = [input = node_, count](std::shared_ptr<RunContext> context,
                                     uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeSkipStage(*std::move(stage), count);
  };
  return Then(std::move(node));
}

Dataset Dataset::Shard(uint64_t rank, uint64_t world) const {
  if (!status_.ok()) return *this;
  if (world == 0 || rank >= world) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("shard: rank {} of {}: ranks are numbered from 0", rank, world)));
  }
  if (node_->kind == Node::kShards) {
    Node node = *node_;
    node.reader.rank = rank;
    node.reader.world = world;
    return FromNode(std::move(node));
  }
  Node node;
  // Not the rank: a state of one rank serves all.
  node.text = "shard";
  node.ranks = fmt::format(" {}/{}", rank, world);
  node.spec = node_->spec;
  node.batched = node_->batched;
  node.make = [input = node_, rank, world](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeShardStage(*std::move(stage), rank, world);
  };
  return Then(std::move(node));
}

Dataset Dataset::Enumerate(std::string name, int64_t start) const {
  if (!status_.ok()) return *this;
  if (node_->batched) {
    return Dataset(absl::InvalidArgumentError(
        "enumerate: numbers rows, but the elements here are batches: put it before batch"));
  }
  if (FindColumn(spec(), name) >= 0) {
    return Dataset(
        absl::InvalidArgumentError(fmt::format("enumerate: there is a column '{}' already", name)));
  }
  Node node;
  node.text = fmt::format("enumerate({}, {})", name, start);
  RowSpec with = spec();
  with.push_back({std::move(name), DType::kInt64, {}, false});
  node.spec = std::make_shared<const RowSpec>(std::move(with));
  node.make = [input = node_, spec = node.spec, start](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeEnumerateStage(*std::move(stage), spec, start);
  };
  return Then(std::move(node));
}

Dataset Dataset::Shuffle(uint64_t seed, uint64_t window) const {
  if (!status_.ok()) return *this;
  if (node_->kind == Node::kShards) {
    Node node = *node_;
    node.reader.order = OrderSpec();
    node.reader.order.kind = OrderSpec::Kind::kShuffle;
    node.reader.order.seed = seed;
    node.reader.order.window = window;
    node.text += fmt::format(".shuffle(seed={}, window={})", seed, window);
    return FromNode(std::move(node));
  }
  if (window == 0 || window == OrderSpec::kAll) {
    return Dataset(absl::InvalidArgumentError(
        "shuffle: behind other steps it needs a window, in elements; or put it first, where it "
        "shuffles all"));
  }
  Node node;
  node.text = fmt::format("shuffle(seed={}, window={})", seed, window);
  node.spec = node_->spec;
  node.batched = node_->batched;
  node.make = [input = node_, seed, window](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
    if (!stage.ok()) return stage;
    return MakeShuffleStage(*std::move(stage), input->spec, window, seed, epoch);
  };
  return Then(std::move(node));
}

Dataset Dataset::InterleaveShards(uint64_t cycle, uint64_t block) const {
  if (!status_.ok()) return *this;
  if (node_->kind != Node::kShards) {
    return Dataset(
        absl::InvalidArgumentError("interleave: only shards have an order of their own; use "
                                   "Interleave for other datasets"));
  }
  Node node = *node_;
  node.reader.order = OrderSpec();
  node.reader.order.kind = OrderSpec::Kind::kInterleave;
  node.reader.order.cycle_length = cycle;
  node.reader.order.block_length = block;
  node.text += fmt::format(".interleave({}, {})", cycle, block);
  return FromNode(std::move(node));
}

Dataset Dataset::Repeat(uint64_t epochs) const {
  if (!status_.ok()) return *this;
  if (node_->kind == Node::kShards && node_->reader.epochs == 1) {
    // Its threads go on from one epoch to the next.
    Node node = *node_;
    node.reader.epochs = EpochsOf(epochs);
    node.text += fmt::format(".repeat({})", epochs);
    return FromNode(std::move(node));
  }
  Node node;
  node.kind = Node::kRepeat;
  node.epochs = epochs;
  node.text = fmt::format("repeat({})", epochs);
  node.spec = node_->spec;
  node.batched = node_->batched;
  return Then(std::move(node));
}

// How a step keeps its elements.
struct Dataset::Keeping {
  std::function<absl::StatusOr<std::unique_ptr<ElementWriter>>()> writer;
  // What is there from a run before, or null.
  std::function<absl::StatusOr<std::shared_ptr<const StoredElements>>()> stored;
};

Dataset Dataset::Kept(std::string text, Keeping keeping) const {
  Node node;
  node.text = std::move(text);
  node.spec = node_->spec;
  node.batched = node_->batched;
  // One for each run: what is cached may depend on the run's options.
  node.make = [input = node_, keeping = std::move(keeping), key = std::make_shared<char>()](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    const auto cache = context->Kept<ElementCache>(key.get());
    if (keeping.stored && cache->stored() == nullptr) {
      auto stored = keeping.stored();
      if (!stored.ok()) return stored.status();
      cache->Publish(*std::move(stored));
    }
    // Always of the first epoch, so that a run that was resumed in a later one has the same.
    return MakeCacheStage({[input, context] { return Compile(input, context, 0); }, keeping.writer},
                          cache, epoch);
  };
  return Then(std::move(node));
}

Dataset Dataset::Cache(uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  return Kept("cache",
              {[spec = node_->spec, max_bytes]() -> absl::StatusOr<std::unique_ptr<ElementWriter>> {
                 return MakeMemoryWriter(spec, max_bytes);
               },
               nullptr});
}

Dataset Dataset::CacheOnDisk(std::string folder, uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  return Kept("cache", {[folder = std::move(folder), spec = node_->spec, max_bytes] {
                          return MakeFileWriter({.path = folder + "/shardfeed-cache",
                                                 .spec = spec,
                                                 .max_bytes = max_bytes,
                                                 .temporary = true});
                        },
                        nullptr});
}

Dataset Dataset::Snapshot(std::string path, uint64_t max_bytes) const {
  if (!status_.ok()) return *this;
  const absl::StatusOr<uint64_t> chain = FingerprintOf(*node_, /*with_ranks=*/true);
  if (!chain.ok()) return Dataset(chain.status());
  const ElementFileOptions options = {.path = std::move(path),
                                      .chain = fmt::format("{:016x}", *chain),
                                      .spec = node_->spec,
                                      .max_bytes = max_bytes};
  return Kept("snapshot", {[options] { return MakeFileWriter(options); },
                           [options]() -> absl::StatusOr<std::shared_ptr<const StoredElements>> {
                             auto stored = OpenElementFile(options);
                             if (absl::IsNotFound(stored.status())) return nullptr;
                             return stored;
                           }});
}

Dataset Dataset::Prefetch(size_t count) const {
  if (!status_.ok()) return *this;
  Node node;
  node.kind = Node::kBatchFn;
  node.text = fmt::format("prefetch({})", count);
  node.spec = node_->spec;
  node.batched = node_->batched;
  node.prefetch = std::max<size_t>(count, 1);
  return Then(std::move(node));
}

namespace {

template <typename Nodes>
std::vector<StageFactory> Factories(
    const Nodes& nodes, std::shared_ptr<RunContext> context,
    absl::StatusOr<std::unique_ptr<Stage>> (*compile)(const typename Nodes::value_type&,
                                                      std::shared_ptr<RunContext>, uint64_t)) {
  std::vector<StageFactory> factories;
  for (const auto& node : nodes) {
    factories.push_back(
        [node, context, compile](uint64_t epoch) { return compile(node, context, epoch); });
  }
  return factories;
}

// Whether the datasets can stand for one another.
absl::Status CheckAlike(std::string_view step, const std::vector<Dataset>& datasets) {
  if (datasets.empty()) {
    return absl::InvalidArgumentError(fmt::format("{}: there are no datasets", step));
  }
  for (const Dataset& ds : datasets) {
    if (!ds.status().ok()) return ds.status();
    if (ds.spec() != datasets[0].spec() || ds.batched() != datasets[0].batched()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the datasets have different columns: {}{}, and {}{}", step,
                      datasets[0].batched() ? "batches of " : "", RowSpecText(datasets[0].spec()),
                      ds.batched() ? "batches of " : "", RowSpecText(ds.spec())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Dataset Dataset::Concatenate(std::vector<Dataset> datasets) {
  if (absl::Status status = CheckAlike("concatenate", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  Node node;
  node.text = "concatenate";
  for (const Dataset& ds : datasets) node.inputs.push_back(ds.node_);
  node.spec = datasets[0].node_->spec;
  node.batched = datasets[0].batched();
  node.make = [inputs = node.inputs](std::shared_ptr<RunContext> context, uint64_t epoch) {
    return MakeConcatenateStage(Factories(inputs, context, &Compile), epoch);
  };
  return FromNode(std::move(node));
}

Dataset Dataset::Zip(std::vector<Dataset> datasets) {
  if (datasets.empty()) return Dataset(absl::InvalidArgumentError("zip: there are no datasets"));
  RowSpec all;
  Node node;
  for (const Dataset& ds : datasets) {
    if (!ds.status().ok()) return ds;
    if (ds.batched() != datasets[0].batched()) {
      return Dataset(
          absl::InvalidArgumentError("zip: some datasets' elements are rows, others' are batches"));
    }
    for (const ColumnSpec& s : ds.spec()) {
      if (FindColumn(all, s.name) >= 0) {
        return Dataset(absl::InvalidArgumentError(
            fmt::format("zip: two datasets have a column '{}'; rename one by map", s.name)));
      }
      all.push_back(s);
    }
    node.inputs.push_back(ds.node_);
  }
  node.text = "zip";
  node.spec = std::make_shared<const RowSpec>(std::move(all));
  node.batched = datasets[0].batched();
  node.make = [inputs = node.inputs, spec = node.spec](
                  std::shared_ptr<RunContext> context,
                  uint64_t epoch) -> absl::StatusOr<std::unique_ptr<Stage>> {
    std::vector<std::unique_ptr<Stage>> stages;
    for (const auto& input : inputs) {
      absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(input, context, epoch);
      if (!stage.ok()) return stage;
      stages.push_back(*std::move(stage));
    }
    return MakeZipStage(std::move(stages), spec);
  };
  return FromNode(std::move(node));
}

Dataset Dataset::Mix(std::vector<Dataset> datasets, std::vector<double> weights, uint64_t seed,
                     std::vector<Exhausted> exhausted) {
  if (absl::Status status = CheckAlike("mix", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  double total = 0;
  for (double weight : weights) {
    if (!(weight >= 0)) {
      return Dataset(absl::InvalidArgumentError(fmt::format("mix: a weight is {}", weight)));
    }
    total += weight;
  }
  if (weights.size() != datasets.size() || !(total > 0)) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("mix: {} datasets take as many weights, not all 0; there are {}",
                    datasets.size(), weights.size())));
  }
  if (exhausted.size() == 1) exhausted.resize(datasets.size(), exhausted[0]);
  if (exhausted.size() != datasets.size()) {
    return Dataset(absl::InvalidArgumentError(
        "mix: say what happens at a dataset's end once for all, or for each"));
  }
  Node node;
  for (const Dataset& ds : datasets) node.inputs.push_back(ds.node_);
  std::vector<int> policies;
  for (Exhausted policy : exhausted) policies.push_back(static_cast<int>(policy));
  node.text = fmt::format("mix([{}], seed={}, exhausted=[{}])", fmt::join(weights, ", "), seed,
                          fmt::join(policies, ", "));
  node.spec = datasets[0].node_->spec;
  node.batched = datasets[0].batched();
  node.make = [=, inputs = node.inputs, spec = node.spec](std::shared_ptr<RunContext> context,
                                                          uint64_t epoch) {
    return MakeMixStage(Factories(inputs, context, &Compile), weights, exhausted, spec, seed,
                        epoch);
  };
  return FromNode(std::move(node));
}

Dataset Dataset::Interleave(std::vector<Dataset> datasets, uint64_t cycle, uint64_t block) {
  if (absl::Status status = CheckAlike("interleave", datasets); !status.ok()) {
    return Dataset(std::move(status));
  }
  if (cycle == 0 || block == 0) {
    return Dataset(absl::InvalidArgumentError("interleave: cycle and block must be at least 1"));
  }
  Node node;
  for (const Dataset& ds : datasets) node.inputs.push_back(ds.node_);
  node.text = fmt::format("interleave(cycle={}, block={})", cycle, block);
  node.spec = datasets[0].node_->spec;
  node.batched = datasets[0].batched();
  node.make = [inputs = node.inputs, cycle, block](std::shared_ptr<RunContext> context,
                                                   uint64_t epoch) {
    return MakeInterleaveStage(Factories(inputs, context, &Compile), cycle, block, epoch);
  };
  return FromNode(std::move(node));
}

// ---- Running

// Row steps one after another run as one stage, and so does the work on batches behind them. Where
// all rows stay, what puts them into batches goes before them: then they are written to their place
// in the batch at once. What repeats such row steps goes before them too, and so into the reader of
// shards, whose threads go on from one epoch to the next.
absl::StatusOr<std::unique_ptr<Stage>> Dataset::Compile(const std::shared_ptr<const Node>& node,
                                                        std::shared_ptr<RunContext> context,
                                                        uint64_t epoch) {
  if (node->kind == Node::kShards) {
    const uint32_t source = context->sources.at(node.get());
    return MakeShardsStage(node->table, node->reader, epoch, source, node.get(),
                           std::move(context));
  }
  if (node->make_source) {
    const uint32_t source = context->sources.at(node.get());
    if (node->describe) {
      context->SetDescriber(source, [describe = node->describe](uint64_t, uint64_t position) {
        return describe(position);
      });
    }
    return node->make_source(epoch, source);
  }
  if (node->kind == Node::kOther) return node->make(std::move(context), epoch);

  ParallelSteps steps;
  steps.input_may_await = node->may_await;
  std::vector<std::string> names;
  std::shared_ptr<const Node> at = node;
  for (; at->kind == Node::kBatchFn; at = at->inputs[0]) {
    if (at->batch_fn) steps.batches.push_back(at->batch_fn);
    steps.one_to_one &= !at->changes_count;
    if (at->prefetch > 0) steps.prefetch = at->prefetch;
    names.push_back(at->text.substr(0, at->text.find('(')));
  }
  std::reverse(steps.batches.begin(), steps.batches.end());
  const bool on_rows = at->kind == Node::kRowStep;
  std::shared_ptr<const Node> batch;
  if (at->kind == Node::kBatch) {
    batch = at;
    at = at->inputs[0];
  }
  std::vector<std::shared_ptr<const RowStep>> row_steps;
  bool filters = false;
  std::shared_ptr<const Node> below = at;
  std::shared_ptr<const Node> repeated;
  for (;; below = below->inputs[0]) {
    if (below->kind == Node::kRowStep && !(repeated && below->row_step->filters())) {
      row_steps.push_back(below->row_step);
      filters |= below->row_step->filters();
    } else if (below->kind == Node::kRepeat && !below->batched && !filters && !repeated) {
      repeated = below;
    } else {
      break;
    }
  }
  std::reverse(row_steps.begin(), row_steps.end());
  const bool fuse = !row_steps.empty() &&
                    (on_rows || at->kind == Node::kRepeat || (batch != nullptr && !filters));
  if (!fuse) {
    repeated = at->kind == Node::kRepeat ? at : nullptr;
    below = repeated ? at->inputs[0] : at;
  }
  absl::StatusOr<std::unique_ptr<Stage>> input;
  if (repeated == nullptr) {
    input = Compile(below, context, epoch);
  } else if (below->kind == Node::kShards && below->reader.epochs == 1) {
    ReaderOptions reader = below->reader;
    reader.epochs = EpochsOf(repeated->epochs);
    input = MakeShardsStage(below->table, std::move(reader), epoch,
                            context->sources.at(below.get()), below.get(), context);
  } else {
    input = MakeRepeatStage([below, context](uint64_t e) { return Compile(below, context, e); },
                            repeated->epochs, epoch);
  }
  if (!input.ok()) return input;
  std::unique_ptr<Stage> stage = *std::move(input);
  if (batch != nullptr) {
    stage = MakeBatchStage(std::move(stage), below->spec, batch->batch_size, batch->drop_remainder,
                           context->allocator);
  }
  if (fuse) {
    absl::StatusOr<std::shared_ptr<const RowProgram>> program =
        RowProgram::Make(below->spec, row_steps);
    if (!program.ok()) return program.status();
    steps.rows = *std::move(program);
    steps.one_to_one &= !filters;
    if (batch != nullptr) names.push_back("batch");
    for (auto it = row_steps.rbegin(); it != row_steps.rend(); ++it) names.push_back((*it)->name());
  } else if (names.empty()) {
    return stage;  // batches and no work on them
  }
  std::reverse(names.begin(), names.end());
  steps.name = fmt::format("{}", fmt::join(names, "+"));
  return MakeParallelStage(std::move(stage), std::move(steps), node.get(), std::move(context));
}

uint64_t DefaultBudgetBytes() {
  return std::clamp<uint64_t>(FreeMemoryBytes() / 4, uint64_t{128} << 20, uint64_t{2} << 30);
}

absl::StatusOr<std::shared_ptr<RunContext>> Dataset::MakeContext(const RunOptions& options) const {
  if (!(options.cpu_share > 0 && options.cpu_share <= 1)) {
    return absl::InvalidArgumentError(
        fmt::format("cpu_share is {}, but must be above 0 and not above 1", options.cpu_share));
  }
  auto context = std::make_shared<RunContext>();
  context->threads =
      std::max(1, static_cast<int>(ThreadCount(options.threads) * options.cpu_share + 1e-9));
  context->gate.SetLimit(context->threads);
  context->deterministic = options.deterministic;
  context->trace = options.trace;
  context->autotune = options.autotune;
  context->tuning = options.tuning;
  // Numbered as they stand in the chain, so that random numbers do not depend on what is opened
  // first.
  uint64_t readers = 0;
  const std::function<void(const Node&)> number = [&](const Node& node) {
    if (node.inputs.empty()) {
      const auto added =
          context->sources.try_emplace(&node, static_cast<uint32_t>(context->sources.size()));
      readers += added.second && node.kind == Node::kShards && node.reader.budget_bytes == 0;
    }
    for (const auto& input : node.inputs) number(*input);
  };
  number(*node_);
  context->budget_bytes = options.budget_bytes > 0 ? options.budget_bytes : DefaultBudgetBytes();
  if (readers > 0) {
    context->budget_bytes /= 2;
    context->reader_budget_bytes = std::max<uint64_t>(context->budget_bytes / readers, 1);
  }
  context->allocator = options.allocator;
  if (!context->allocator) {
    // Batches come and go in like sizes: their memory is used again, so that the kernel need not
    // clear pages for each.
    context->allocator = [pool = BufferPool::Create(context->budget_bytes)](size_t size) {
      std::shared_ptr<Buffer> buffer = pool->Allocate(size);
      char* data = buffer->data();
      return std::shared_ptr<char>(std::move(buffer), data);
    };
  }
  return context;
}

absl::StatusOr<std::unique_ptr<Iterator>> Dataset::Start(const RunOptions& options) const {
  if (!status_.ok()) return status_;
  std::unique_ptr<Iterator> iterator(new Iterator(*this, options));
  if (absl::Status status = iterator->Open(); !status.ok()) return status;
  return iterator;
}

Iterator::Iterator(Dataset recipe, RunOptions options)
    : recipe_(std::move(recipe)), options_(std::move(options)), start_ns_(NowNs()) {}

absl::Status Iterator::Open() {
  forks_ = ForkCount();
  absl::StatusOr<std::shared_ptr<RunContext>> context = recipe_.MakeContext(options_);
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  absl::StatusOr<std::unique_ptr<Stage>> stage = Dataset::Compile(recipe_.node_, context_, 0);
  if (!stage.ok()) return stage.status();
  queue_ = std::make_unique<ElementQueue>(*std::move(stage));
  tuner_ = options_.autotune ? std::make_unique<Autotuner>(context_.get()) : nullptr;
  return absl::OkStatus();
}

Iterator::~Iterator() {
  if (Forked()) {
    Abandon();
  } else if (context_ != nullptr) {  // it was opened
    Cancel();
  }
}

bool Iterator::Forked() const { return ForkCount() != forks_; }

// The stages' threads are the parent's, and their locks may be held for ever: nothing of them is
// touched.
void Iterator::Abandon() {
  tuner_ = nullptr;
  new std::shared_ptr<RunContext>(std::move(context_));
  static_cast<void>(queue_.release());
}

absl::Status Iterator::OpenAgain() {
  if (!options_.deterministic) {
    Abandon();
    return absl::FailedPreconditionError(
        "forked while batches were delivered as they were ready (deterministic = false): there is "
        "no place to go on from; start the run in the child");
  }
  // What the consumer's thread has of the stages is as it was.
  StateWords words;
  queue_->Save(&words);
  Abandon();
  options_.trace = nullptr;
  if (absl::Status status = Open(); !status.ok()) return status;
  StateReader reader(words);
  absl::Status status = queue_->Load(&reader);
  return status.ok() ? reader.status() : status;
}

uint64_t Iterator::EndWait(uint64_t start_ns, size_t rows) {
  constexpr uint64_t kTracedNs = 10'000;  // shorter waits are not traced
  const uint64_t end = NowNs();
  wait_ns_ += end - start_ns;
  if (options_.trace && end - start_ns > kTracedNs) {
    options_.trace->Add("next", start_ns, end, rows);
  }
  return end;
}

absl::Status Iterator::Ask(Batch* out, absl::Status (*work)(ElementQueue&, Batch*)) {
  *out = Batch();
  if (!error_.ok()) return error_;
  if (Forked()) {
    error_ = OpenAgain();
    if (!error_.ok()) return error_;
  }
  const uint64_t start = NowNs();
  if (!repeated_.empty()) {
    *out = repeated_;
  } else {
    error_ = work(*queue_, out);
    if (options_.headspace && error_.ok()) repeated_ = *out;
  }
  const uint64_t end = EndWait(start, out->rows);
  if (tuner_ != nullptr) tuner_->Look(end, wait_ns_);
  if (error_.ok() && context_->stop.stop_requested()) {
    error_ = absl::CancelledError("the run was cancelled");
    *out = Batch();
  }
  return error_;
}

absl::Status Iterator::Next(Batch* out) {
  absl::Status status =
      Ask(out, [](ElementQueue& queue, Batch* taken) { return queue.Take(1, taken); });
  elements_ += out->empty() ? 0 : 1;
  rows_ += out->rows;
  damaged_ += out->damaged.size();
  return status;
}

absl::Status Iterator::Peek(Batch* out) {
  return Ask(out, [](ElementQueue& queue, Batch* ready) {
    absl::Status status = queue.Fill();
    if (!status.ok() || queue.ended()) return status;
    *ready = queue.head().batched ? queue.head() : queue.head().Slice(queue.at(), queue.left());
    return status;
  });
}

std::optional<bool> Iterator::Await(std::chrono::nanoseconds most) {
  if (!error_.ok() || !repeated_.empty()) return true;
  if (Forked()) return std::nullopt;
  if (most.count() <= 0) return queue_->Await(most);
  const uint64_t start = NowNs();
  const std::optional<bool> there = queue_->Await(most);
  EndWait(start, 0);
  return there;
}

void Iterator::Advance(size_t elements) {
  if (elements == 0) return;
  elements_ += elements;
  rows_ += !repeated_.empty() ? elements : queue_->head().batched ? queue_->head().rows : elements;
  if (!repeated_.empty()) return;
  // Rows that are passed, of those that the head tells of.
  const shardfeed::Batch& head = queue_->head();
  const uint64_t begin = head.batched ? 0 : queue_->at();
  const uint64_t end = head.batched ? head.rows : begin + elements;
  damaged_ += std::count_if(head.damaged.begin(), head.damaged.end(),
                            [&](uint32_t row) { return row >= begin && row < end; });
  queue_->Advance(elements);
}

absl::StatusOr<std::string> Iterator::Chain() const {
  if (chain_.empty()) {
    const absl::StatusOr<uint64_t> fingerprint = recipe_.Fingerprint();
    if (!fingerprint.ok()) return fingerprint.status();
    chain_ = fmt::format("{:016x}", *fingerprint);
  }
  return chain_;
}

bool Iterator::StateAtHand() const {
  return !chain_.empty() || Dataset::IndexesMade(*recipe_.node_);
}

absl::StatusOr<std::string> Iterator::State() const {
  if (!context_->deterministic) {
    return absl::FailedPreconditionError(
        "batches are delivered as they are ready (deterministic = false), so there is no place to "
        "come back to");
  }
  const absl::StatusOr<std::string> chain = Chain();
  if (!chain.ok()) return chain.status();
  StateWords words;
  queue_->Save(&words);
  const nlohmann::ordered_json state = {{"format", "shardfeed pipeline state"},
                                        {"version", kStateVersion},
                                        {"chain", *chain},
                                        {"place", words}};
  return state.dump();
}

absl::Status Iterator::Load(std::string_view text) {
  nlohmann::json state;
  // Its place is as long as the shuffle buffers are large.
  const absl::Status parsed = ParseBoundedJson(text, &state, /*max_values=*/text.size());
  if (!parsed.ok() || !state.is_object() || !state.contains("format") ||
      state["format"] != "shardfeed pipeline state" || !state.contains("version") ||
      !state.contains("chain") || !state["chain"].is_string() || !state.contains("place") ||
      !state["place"].is_array()) {
    return absl::InvalidArgumentError("not the state of a pipeline of shardfeed");
  }
  if (state["version"] != kStateVersion) {
    return absl::InvalidArgumentError(
        fmt::format("a pipeline's state of version {}; this shardfeed reads version {}",
                    state["version"].dump(), kStateVersion));
  }
  const absl::StatusOr<std::string> chain = Chain();
  if (!chain.ok()) return chain.status();
  if (state["chain"] != *chain) {
    return absl::FailedPreconditionError(fmt::format(
        "the state belongs to another chain or other data: it was saved for {}, this one is {}",
        state["chain"].get<std::string>(), *chain));
  }
  StateWords words;
  for (const auto& word : state["place"]) {
    if (!word.is_number_unsigned()) {
      return absl::InvalidArgumentError("the state is damaged: a place is not a number");
    }
    words.push_back(word.get<uint64_t>());
  }
  if (Forked()) {
    Abandon();
    options_.trace = nullptr;
    if (absl::Status status = Open(); !status.ok()) return status;
  }
  error_ = absl::OkStatus();
  repeated_ = Batch();
  StateReader reader(words);
  absl::Status status = queue_->Load(&reader);
  if (status.ok()) status = reader.status();
  if (status.ok() && !reader.at_end()) {
    status = absl::InvalidArgumentError("the state is not one of this chain: it is too long");
  }
  if (!status.ok()) error_ = status;
  return status;
}

void Iterator::Cancel() { context_->stop.request_stop(); }

IteratorStats Iterator::stats() const {
  IteratorStats stats;
  stats.seconds = static_cast<double>(NowNs() - start_ns_) * 1e-9;
  stats.elements = elements_;
  stats.rows = rows_;
  stats.damaged = damaged_;
  stats.wait_seconds = static_cast<double>(wait_ns_.load()) * 1e-9;
  for (const auto& c : context_->AllCounters()) {
    StageStats stage;
    stage.name = c->name;
    stage.threads = c->threads;
    stage.workers = c->workers;
    stage.read_ahead = c->read_ahead;
    stage.batches = c->batches;
    stage.rows = c->rows;
    stage.bytes = c->bytes;
    stage.busy_seconds = static_cast<double>(c->busy_ns) * 1e-9;
    stage.wait_in_seconds = static_cast<double>(c->wait_in_ns) * 1e-9;
    stage.invalid = c->invalid;
    stage.wait_out_seconds = static_cast<double>(c->wait_out_ns) * 1e-9;
    stage.ready = c->ready;
    stage.ahead = c->ahead;
    stage.ahead_bytes = c->ahead_bytes;
    stage.peak_bytes = c->peak_bytes;
    if (stage.read_ahead > 0) {
      stats.tuning.push_back({stage.name, stage.workers, stage.read_ahead});
    }
    stats.stages.push_back(std::move(stage));
  }
  stats.decisions = context_->Decisions();
  // The consumer, if it hardly waits; else the last stage whose threads are busy; else the source.
  if (stats.wait_seconds < 0.1 * stats.seconds) {
    stats.limit = "the consumer";
    stats.verdict = fmt::format(
        "the consumer limits: it waits {:.0f} % of the time; a faster chain would not help",
        100 * stats.wait_seconds / std::max(stats.seconds, 1e-9));
    return stats;
  }
  for (auto it = stats.stages.rbegin(); it != stats.stages.rend(); ++it) {
    const double share = it->busy_seconds / (std::max(stats.seconds, 1e-9) * it->workers);
    if (share < 0.6) continue;
    stats.limit = it->name;
    stats.verdict = fmt::format(
        "{} limits: its {} threads are busy {:.0f} % of the time; more threads or cores, or less "
        "work in it, would help",
        it->name, it->workers, 100 * share);
    return stats;
  }
  stats.limit = "reading";
  stats.verdict =
      "reading limits: the stages wait for their input; faster storage, a larger budget or more "
      "reading threads would help";
  return stats;
}

}  // namespace shardfeed
