#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/flags/cache_flags.h"
#include "cli/flags/common_flags.h"
#include "cli/flags/order_flags.h"
#include "cli/reports/pipeline_run.h"
#include "cli/reports/store_report.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/units.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/engine_choice.h"
#include "io/parallel.h"
#include "net/block_cache.h"
#include "nlohmann/json.hpp"
#include "reader/reader.h"
#include "reader/shards/lazy_shard_table.h"
#include "reader/unindexed_reader.h"
#include "shard/schema/skipped_records.h"
#include "shard/spec/spec.h"

namespace shardfeed {
namespace {

struct BenchFlags {
  OrderFlags order;
  CrcCheck check = CrcCheck::kAll;
  uint64_t epochs = 1;
  uint64_t skip_to = 0;
  std::optional<uint64_t> take;
  std::string io = "auto";
  CacheUse page_cache = CacheUse::kAuto;
  bool any_order = false;
  bool skip_damaged = false;
  std::optional<std::string> max_skipped;
  bool parse = false;
  uint32_t image = 0;  // 0: no images are decoded
  std::string image_feature = "image/encoded";
  bool center = false;
  bool antialias = true;
  OnDamage on_damage = OnDamage::kFail;
  std::string grid;
  std::string trace;
  bool headspace = false;
};

// Returns decoded images of `flags.image` x `flags.image` pixels, and all columns of fixed size
// that are not bytes.
Dataset DecodeImages(const Dataset& shards, const BenchFlags& flags) {
  Dataset all = shards.Parse();
  if (!all.status().ok()) return all;
  if (FindColumn(all.spec(), flags.image_feature) < 0) return all.DecodeImage(flags.image_feature);
  std::vector<FeatureSpec> features = {{.name = flags.image_feature, .dtype = DType::kBytes}};
  for (const ColumnSpec& column : all.spec()) {
    if (column.ragged || column.dtype == DType::kBytes) continue;
    features.push_back({.name = column.name, .dtype = column.dtype, .shape = column.shape});
  }
  DecodeImageOptions decode;
  decode.image.width = decode.image.height = flags.image;
  decode.image.antialias = flags.antialias;
  decode.crop = flags.center ? CropKind::kCenter : CropKind::kRandom;
  decode.flip = flags.center ? 0 : 0.5;
  decode.on_damage = flags.on_damage;
  decode.output = "image";
  return shards.Parse(std::move(features)).DecodeImage(flags.image_feature, decode);
}

// Returns the number of rows that a run reads, or 0 if it is not known. Without `indexed`, counting
// the records would read all shards first.
uint64_t RowsToRead(const Dataset& rows, bool indexed, const BenchFlags& flags) {
  const uint64_t taken = flags.take.value_or(0) * flags.order.batch;
  if (!indexed || flags.headspace) return taken;
  const absl::StatusOr<Length> length = rows.CountElements();
  if (!length.ok() || !length->known()) return taken;
  return taken > 0 ? std::min(taken, length->elements) : length->elements;
}

bool DeliversBatches(const BenchFlags& flags) { return flags.parse || flags.image > 0; }

absl::Status CheckFlags(const BenchFlags& flags) {
  const BenchFlags defaults;
  if (flags.image == 0 &&
      (flags.center || !flags.antialias || !flags.grid.empty() ||
       flags.image_feature != defaults.image_feature || flags.on_damage != defaults.on_damage)) {
    return absl::InvalidArgumentError(
        "--center, --no-antialias, --image-feature, --on-damage and --save-grid are about images: "
        "add --image SIZE");
  }
  if (DeliversBatches(flags) && flags.skip_to > 0) {
    return absl::InvalidArgumentError(
        "--skip-to counts records: it cannot be combined with --parse or --image");
  }
  for (const std::string* path : {&flags.grid, &flags.trace}) {
    if (absl::Status status = CheckIsPath(*path); !status.ok()) return status;
    if (*path == "-") {
      return absl::InvalidArgumentError(
          "-: --save-grid and --trace write to a file, not to standard output; name a file");
    }
  }
  if (!DeliversBatches(flags) && (!flags.trace.empty() || flags.headspace)) {
    return absl::InvalidArgumentError(
        "--trace and --headspace are about batches: add --parse or --image");
  }
  return absl::OkStatus();
}

struct OpenedShards {
  std::shared_ptr<LazyShardTable> lazy;
  std::shared_ptr<const ShardTable> table;  // null: indexes are built while shards are read
};

absl::StatusOr<OpenedShards> OpenShards(const BenchFlags& flags, const CommandOptions& options) {
  absl::StatusOr<ShardSet> set = ResolveSpecs(flags.order.specs);
  if (!set.ok()) return set.status();
  ShardTableOptions opening;
  opening.threads = options.threads;
  opening.salvage = flags.skip_damaged && flags.check == CrcCheck::kAll;
  absl::StatusOr<std::shared_ptr<LazyShardTable>> lazy = LazyShardTable::Open(*set, opening);
  if (!lazy.ok()) return lazy.status();
  OpenedShards opened = {.lazy = *std::move(lazy), .table = nullptr};
  if (opened.lazy->made()) {
    opened.table = *opened.lazy->Get();
    NoteIndexes(*opened.table, options);
  } else if (flags.skip_to > 0 || flags.skip_damaged || !NeedNoTable(flags.order)) {
    absl::StatusOr<std::shared_ptr<const ShardTable>> made =
        OpenTable(flags.order, options, opening.salvage);
    if (!made.ok()) return made.status();
    opened.table = *std::move(made);
  }
  return opened;
}

absl::StatusOr<ReaderOptions> ReaderOptionsOf(const BenchFlags& flags, const ShardTable* table,
                                              const CommandOptions& options) {
  absl::StatusOr<ReaderOptions> reading = MakeReaderOptions(flags.order, table);
  if (!reading.ok()) return reading.status();
  absl::StatusOr<EngineKind> io = ParseEngineKind(flags.io);
  if (!io.ok()) return io.status();
  reading->io = *io;
  reading->page_cache = flags.page_cache;
  reading->check_crc = flags.check;
  reading->threads = options.threads;
  reading->epochs = flags.epochs;
  reading->deterministic = !flags.any_order;
  reading->skip_damaged = flags.skip_damaged;
  if (flags.max_skipped) {
    const absl::StatusOr<SkipCeiling> ceiling = ParseMaxSkipped(*flags.max_skipped);
    if (!ceiling.ok()) return ceiling.status();
    if (!flags.skip_damaged) {
      return absl::InvalidArgumentError("--max-skipped: nothing is skipped without --skip-damaged");
    }
    reading->max_skipped = *ceiling;
  }
  if (!options.quiet) {
    reading->on_skip = [](const DamagedRecord& record) { Say("skipped: " + record.Message()); };
  }
  return reading;
}

int ReadBatches(OpenedShards opened, ReaderOptions reading, const BenchFlags& flags,
                const CommandOptions& options) {
  // The last batch may be short, unless all ranks need the same number of batches.
  if (flags.order.world == 1) reading.batch = 1;
  const Dataset shards = Dataset::Read(std::move(opened.lazy), std::move(reading));
  const Dataset rows = flags.image > 0 ? DecodeImages(shards, flags) : shards.Parse();
  return RunPipeline(rows.Batch(flags.order.batch),
                     {.take = flags.take,
                      .rows = RowsToRead(rows, opened.table != nullptr, flags),
                      .any_order = flags.any_order,
                      .headspace = flags.headspace,
                      .trace = flags.trace,
                      .grid = flags.grid,
                      .image = "image"},
                     options);
}

// Records as they are read, with or without an index.
class RecordSource {
 public:
  static absl::StatusOr<RecordSource> Open(const OpenedShards& opened,
                                           const ReaderOptions& reading) {
    RecordSource source;
    if (opened.table != nullptr) {
      absl::StatusOr<std::unique_ptr<Reader>> reader = Reader::Open(opened.table, reading);
      if (!reader.ok()) return reader.status();
      source.reader_ = *std::move(reader);
    } else {
      absl::StatusOr<std::unique_ptr<UnindexedReader>> reader =
          UnindexedReader::Open(opened.lazy, reading, InterruptToken());
      if (!reader.ok()) return reader.status();
      source.unindexed_ = *std::move(reader);
    }
    return source;
  }

  // Goes to the record that --skip-to names. Returns the number of records that are left, or
  // UINT64_MAX if it is unknown.
  uint64_t Skip(const BenchFlags& flags) {
    if (reader_ == nullptr) return UINT64_MAX;
    const uint64_t size = std::max<uint64_t>(1, reader_->order().size());
    const uint64_t begun = flags.skip_to / size;
    if (flags.skip_to > 0) reader_->Seek(begun, flags.skip_to % size);
    // An epoch that is cut to batches may have fewer or more records than the order.
    const uint64_t each = reader_->records_per_epoch();
    const uint64_t before = std::min(each, flags.skip_to % size / flags.order.world);
    return begun < flags.epochs ? (flags.epochs - begun) * each - before : 0;
  }
  absl::Status Next(ReadBlock* block) {
    return reader_ != nullptr ? reader_->Next(block) : unindexed_->Next(block);
  }
  ReaderStats stats() const { return reader_ != nullptr ? reader_->stats() : unindexed_->stats(); }
  // The order, or null if reading ended before all indexes were built. Notes what there is to say
  // about indexes that were built meanwhile.
  absl::StatusOr<const Order*> FinalOrder(const CommandOptions& options) {
    if (reader_ != nullptr) return &reader_->order();
    if (!unindexed_->indexed()) {
      if (!options.quiet) {
        Say("note: not all shards had an index when reading ended; 'shardfeed index' writes the "
            "missing ones");
      }
      return nullptr;
    }
    absl::StatusOr<Reader*> indexed = unindexed_->Indexed();
    if (!indexed.ok()) return indexed.status();
    NoteIndexes((*indexed)->table(), options);
    return &(*indexed)->order();
  }

 private:
  // One of them is null.
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<UnindexedReader> unindexed_;
};

// What was read, and how long it took.
struct RecordsRead {
  uint64_t shards = 0;
  uint64_t records = 0;  // without those that were skipped
  uint64_t skipped = 0;
  double seconds = 0;
  double first_record_seconds = 0;  // from the start of the command
  std::string order;
  // Whether records are read one by one, because the window does not fit the budget.
  bool window_too_large = false;
  ReaderStats stats;

  double amplification() const {
    if (stats.bytes == 0) return 0;
    return static_cast<double>(stats.bytes_read) / static_cast<double>(stats.bytes);
  }
};

void PrintJson(const RecordsRead& read) {
  const ReaderStats& stats = read.stats;
  const BlockCacheStats cached = GetBlockCacheStats();
  nlohmann::ordered_json json = {
      {"shards", read.shards},
      {"order", read.order},
      {"records", read.records},
      {"bytes", stats.bytes},
      {"payload_bytes", stats.bytes - std::min(stats.bytes, stats.records * kFrameBytes)},
      {"seconds", read.seconds},
      {"records_per_second", static_cast<double>(read.records) / read.seconds},
      {"bytes_per_second", static_cast<double>(stats.bytes) / read.seconds},
      {"bytes_read", stats.bytes_read},
      {"read_amplification", read.amplification()},
      {"reads", stats.reads},
      {"skipped", read.skipped},
      {"first_record_seconds", read.first_record_seconds},
      {"io", stats.io},
      {"io_reason", stats.io_reason},
      {"io_registered", stats.io_registered},
      {"cache_hits", cached.hits},
      {"cache_hit_bytes", cached.hit_bytes},
      {"cache_misses", cached.misses},
      {"cache_stored_bytes", cached.stored_bytes},
      {"cache_waits", cached.waits},
      {"cache_damaged", cached.damaged},
      {"max_queue_depth", stats.max_queue_depth},
      {"stalls", stats.stalls},
      {"stall_seconds", stats.stall_seconds},
      {"whole_chunks", stats.whole_chunks},
      {"threads", stats.threads},
      {"peak_buffer_bytes", stats.peak_buffer_bytes},
      {"peak_rss_bytes", PeakResidentBytes()}};
  if (nlohmann::ordered_json store = StoreJson(); !store.is_null()) json["store"] = store;
  fmt::print("{}\n", json.dump(1));
}

void PrintText(const RecordsRead& read, const CommandOptions& options) {
  const ReaderStats& stats = read.stats;
  fmt::print("{} records, {} in {}: {} records/s, {}/s on {} threads\n", FormatCount(read.records),
             FormatSize(stats.bytes), FormatDuration(read.seconds),
             FormatCount(static_cast<uint64_t>(static_cast<double>(read.records) / read.seconds)),
             FormatSize(static_cast<uint64_t>(static_cast<double>(stats.bytes) / read.seconds)),
             stats.threads);
  fmt::print("order: {}\n", read.order);
  const std::string reads = stats.reads == 0
                                ? ""
                                : fmt::format("; {} reads, up to {} at once",
                                              FormatCount(stats.reads), stats.max_queue_depth);
  fmt::print("io: {} ({}); {} read, {:.2f} times what was delivered{}\n", stats.io, stats.io_reason,
             FormatSize(stats.bytes_read), read.amplification(), reads);
  PrintStore();
  PrintCacheUse(options);
  if (!stats.io_registered.empty()) {
    fmt::print("registered with the ring: {}\n", stats.io_registered);
  }
  fmt::print("waited {} times, {} in all; buffers up to {}, resident up to {}\n",
             FormatCount(stats.stalls), FormatDuration(stats.stall_seconds),
             FormatSize(stats.peak_buffer_bytes), FormatSize(PeakResidentBytes()));
  if (read.window_too_large) {
    fmt::print(
        "note: the window does not fit the budget, so records are read one by one; a larger "
        "--budget or a smaller --window is faster\n");
  }
  if (read.skipped > 0) fmt::print("skipped {}\n", Counted(read.skipped, "damaged record"));
}

absl::StatusOr<RecordsRead> ReadRecords(const OpenedShards& opened, const ReaderOptions& reading,
                                        const BenchFlags& flags, const Stopwatch& whole,
                                        const CommandOptions& options) {
  absl::StatusOr<RecordSource> source = RecordSource::Open(opened, reading);
  if (!source.ok()) return source.status();
  const uint64_t total = std::min(flags.take.value_or(UINT64_MAX), source->Skip(flags));
  RecordsRead read;
  std::atomic<uint64_t> passed{0};  // delivered or skipped
  const Stopwatch watch;
  {
    ProgressDisplay display(options, [&] {
      return Progress{.what = "reading",
                      .name = fmt::format("{}", fmt::join(flags.order.specs, " ")),
                      .done = passed,
                      .total = total == UINT64_MAX ? 0 : total};
    });
    ReadBlock block;
    while (passed < total) {
      if (InterruptToken().stop_requested()) return absl::CancelledError("interrupted");
      if (absl::Status status = source->Next(&block); !status.ok()) return status;
      if (block.records.empty()) break;
      if (passed == 0) read.first_record_seconds = whole.Seconds();
      const uint64_t taken = std::min<uint64_t>(block.records.size(), total - passed);
      passed += taken;
      read.skipped += std::ranges::count_if(block.damaged, [&](uint64_t i) { return i < taken; });
    }
  }
  read.seconds = std::max(watch.Seconds(), 1e-9);
  read.shards = opened.lazy->set().paths.size();
  read.records = passed - read.skipped;
  read.stats = source->stats();
  const absl::StatusOr<const Order*> order = source->FinalOrder(options);
  if (!order.ok()) return order.status();
  read.order = *order != nullptr ? (*order)->Describe() : flags.order.order;
  read.window_too_large =
      !read.stats.whole_chunks && *order != nullptr && (*order)->spec().window != OrderSpec::kAll;
  return read;
}

int Read(const BenchFlags& flags, const CommandOptions& options) {
  const Stopwatch whole;
  if (absl::Status status = CheckFlags(flags); !status.ok()) return ReportError(status);
  absl::StatusOr<OpenedShards> opened = OpenShards(flags, options);
  if (!opened.ok()) return ReportError(opened.status());
  absl::StatusOr<ReaderOptions> reading = ReaderOptionsOf(flags, opened->table.get(), options);
  if (!reading.ok()) return ReportError(reading.status());
  if (DeliversBatches(flags)) {
    return ReadBatches(*std::move(opened), *std::move(reading), flags, options);
  }
  absl::StatusOr<RecordsRead> read = ReadRecords(*opened, *reading, flags, whole, options);
  if (!read.ok()) return ReportError(read.status());
  if (options.json) {
    PrintJson(*read);
  } else if (!options.quiet) {
    PrintText(*read, options);
  }
  return read->skipped > 0 ? kExitDefects : kExitDone;
}

}  // namespace

void AddBenchCommand(CLI::App& app, CommandOptions& options, int* exit) {
  CLI::App* command = app.add_subcommand(
      "bench", "Read as training would, and report the speed and what limits it");
  auto flags = std::make_shared<BenchFlags>();
  AddOrderFlags(*command, flags->order);
  command->add_option("--epochs", flags->epochs, "passes over the data; default 1")
      ->check(WholeNumber(1));
  command
      ->add_option("--skip-to", flags->skip_to,
                   "start at this position of the sequence, counted over all ranks and epochs: the "
                   "second epoch begins at the number of records in the order")
      ->check(WholeNumber(0));
  command
      ->add_option("--take", flags->take,
                   "stop after this many records, or batches with --parse or --image")
      ->check(WholeNumber(1));
  command->add_flag("--parse", flags->parse,
                    "parse all features into batches of --batch records, and report which stage "
                    "limits the speed");
  command
      ->add_option("--image", flags->image,
                   "decode images into batches: random crops, flipped at random, of SIZE x SIZE "
                   "pixels")
      ->type_name("SIZE")
      ->check(CLI::Range(1, 65535));
  command
      ->add_option("--image-feature", flags->image_feature,
                   "feature that holds the images; default image/encoded")
      ->type_name("NAME");
  command->add_flag("--center", flags->center,
                    "with --image: crop the center of each image, as for evaluation");
  command->add_flag(
      "!--no-antialias", flags->antialias,
      "with --image: resize without antialiasing, as OpenCV and TensorFlow do; faster");
  const std::vector<std::pair<std::string, OnDamage>> on_damage = {{"fail", OnDamage::kFail},
                                                                   {"replace", OnDamage::kReplace},
                                                                   {"zero", OnDamage::kZero},
                                                                   {"accept", OnDamage::kAccept}};
  command
      ->add_option("--on-damage", flags->on_damage,
                   "with --image: what to do with images that cannot be decoded: fail (default), "
                   "replace, zero or accept")
      ->transform(OneOf(on_damage))
      ->type_name("WHAT")
      ->default_str("fail");
  command
      ->add_option("--save-grid", flags->grid,
                   "with --image: write the images of the first batch, side by side, to a PNG file")
      ->type_name("FILE.png");
  command
      ->add_option("--trace", flags->trace,
                   "with --parse or --image: write a timeline of all threads, for ui.perfetto.dev")
      ->type_name("FILE");
  command->add_flag("--headspace", flags->headspace,
                    "with --parse or --image: deliver the first batch again and again");
  const std::vector<std::pair<std::string, CrcCheck>> checks = {
      {"all", CrcCheck::kAll}, {"header", CrcCheck::kHeader}, {"none", CrcCheck::kNone}};
  command
      ->add_option("--checksum", flags->check,
                   "which CRCs are checked: all (default), header or none")
      ->transform(OneOf(checks))
      ->type_name("WHICH")
      ->default_str("all");
  command->add_flag("--skip-damaged", flags->skip_damaged,
                    "skip damaged records instead of failing");
  command
      ->add_option("--max-skipped", flags->max_skipped,
                   "with --skip-damaged: fail if more than this number or share of an epoch's "
                   "records are damaged; default 1%, but at least 10")
      ->type_name("N|P%");
  command
      ->add_option(
          "--io", flags->io,
          "how to read files: auto (default), uring, threads or mmap; also set by SHARDFEED_IO")
      ->check(CLI::IsMember({"auto", "uring", "threads", "mmap"}))
      ->type_name("HOW");
  const std::vector<std::pair<std::string, CacheUse>> caches = {
      {"auto", CacheUse::kAuto}, {"use", CacheUse::kUse}, {"bypass", CacheUse::kBypass}};
  command
      ->add_option("--page-cache", flags->page_cache,
                   "the page cache: auto (default), use, or bypass (O_DIRECT)")
      ->transform(OneOf(caches))
      ->type_name("WHICH")
      ->default_str("auto");
  command->add_flag("--any-order", flags->any_order,
                    "deliver records as soon as they are ready, in any order");
  AddCacheOptions(*command, options);
  AddCommonOptions(*command, options);
  command->footer(
      "The exit status is 1 if damaged records were skipped, or if an image cannot be decoded.\n\n"
      "Examples:\n"
      "  shardfeed bench out/train@64\n"
      "  shardfeed bench out/train@64 --shuffle 1 --epochs 2\n"
      "  shardfeed bench out/train@64 --shuffle --window all --io uring\n"
      "  shardfeed bench out/train@64 --shuffle --rank 3 --world 8 --batch 256\n"
      "  shardfeed bench out/train@64 --parse --batch 256 --shuffle\n"
      "  shardfeed bench out/train@64 --image 224 --batch 256 --shuffle --save-grid first.png\n"
      "  shardfeed bench 'old/train-*' --json\n");
  command->callback([flags, &options, exit] { *exit = Read(*flags, options); });
}

}  // namespace shardfeed
