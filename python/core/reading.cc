#include "python/core/reading.h"

#include "fmt/format.h"
#include "nanobind/nanobind.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "python/core/notes.h"
#include "shard/spec/spec.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

EngineKind EngineOf(const std::string& io) {
  if (io == "auto") return EngineKind::kAuto;
  if (io == "threads") return EngineKind::kThreads;
  if (io == "uring") return EngineKind::kUring;
  if (io == "mmap") return EngineKind::kMmap;
  throw nb::value_error(
      ("io must be one of 'auto', 'threads', 'uring', 'mmap', not '" + io + "'").c_str());
}

EpochEnd EpochEndOf(const std::string& end) {
  if (end == "drop") return EpochEnd::kDrop;
  if (end == "pad") return EpochEnd::kPad;
  if (end == "wrap") return EpochEnd::kWrap;
  throw nb::value_error(("end must be one of 'drop', 'pad', 'wrap', not '" + end + "'").c_str());
}

std::optional<std::vector<RecordRange>> RangesOf(const Ranges& given) {
  if (!given) return std::nullopt;
  std::vector<RecordRange> ranges;
  for (const auto& [begin, count] : *given) ranges.push_back({begin, count});
  return ranges;
}

ReaderOptions ReadOptions(uint64_t batch, const std::string& end, bool check_crc, bool skip_damaged,
                          const std::optional<std::string>& max_skipped, const std::string& io,
                          int threads, uint64_t budget_bytes, uint64_t block_records,
                          const std::string& cache, uint64_t cache_size) {
  ReaderOptions options;
  options.batch = batch;
  options.end = EpochEndOf(end);
  options.check_crc = check_crc ? CrcCheck::kAll : CrcCheck::kHeader;
  options.skip_damaged = skip_damaged;
  if (max_skipped) {
    options.max_skipped = CeilingOf("max_skipped", "records", *max_skipped);
  }
  options.io = EngineOf(io);
  options.threads = threads;
  options.budget_bytes = budget_bytes;
  options.block_records = block_records;
  options.cache = cache;
  options.cache_size = cache_size;
  options.on_notes = KeepNotes;
  return options;
}

}  // namespace

Dataset Made(Dataset ds) {
  Check(ds.status());
  return ds;
}

SkipCeiling CeilingOf(const char* argument, const char* of, const std::string& text) {
  const std::optional<SkipCeiling> ceiling = ParseSkipCeiling(text);
  if (!ceiling) {
    throw nb::value_error(fmt::format("{} must be a number of {} or a share such as '5%', not '{}'",
                                      argument, of, text)
                              .c_str());
  }
  return *ceiling;
}

Dataset ReadShards(const std::vector<std::string>& specs, const Ranges& records, uint64_t batch,
                   const std::string& end, bool check_crc, bool skip_damaged,
                   const std::optional<std::string>& max_skipped, const std::string& io,
                   int threads, uint64_t budget_bytes, uint64_t block_records,
                   const std::string& cache, uint64_t cache_size, const std::string& number) {
  ReaderOptions options = ReadOptions(batch, end, check_crc, skip_damaged, max_skipped, io, threads,
                                      budget_bytes, block_records, cache, cache_size);
  options.records = RangesOf(records);
  absl::Status status;
  std::optional<Dataset> ds;
  {
    const GilRelease release;
    absl::StatusOr<ShardSet> set = ResolveSpecs(specs);
    status = set.status();
    if (status.ok()) ds = Dataset::Read(*set, std::move(options));
  }
  Check(status);
  return Made(number.empty() ? *std::move(ds) : ds->NumberRecords(number));
}

Dataset ReadMixture(
    const std::vector<std::tuple<std::string, std::vector<std::string>, Ranges>>& sources,
    const std::vector<std::pair<uint64_t, std::vector<double>>>& schedule, uint64_t length,
    std::optional<uint64_t> seed, uint64_t batch, const std::string& end, bool check_crc,
    bool skip_damaged, const std::optional<std::string>& max_skipped, const std::string& io,
    int threads, uint64_t budget_bytes, uint64_t block_records, const std::string& cache,
    uint64_t cache_size, const std::string& number, const std::string& source) {
  ReaderOptions options = ReadOptions(batch, end, check_crc, skip_damaged, max_skipped, io, threads,
                                      budget_bytes, block_records, cache, cache_size);
  std::vector<MixInput> inputs;
  inputs.reserve(sources.size());
  for (const auto& [name, specs, records] : sources) {
    inputs.push_back({name, specs, RangesOf(records)});
  }
  std::vector<MixSegment> segments;
  segments.reserve(schedule.size());
  for (const auto& [position, weights] : schedule) segments.push_back({position, weights});
  std::optional<Dataset> ds;
  {
    const GilRelease release;
    ds = Dataset::Mix(inputs, std::move(segments), length, std::move(options), seed);
  }
  if (number.empty() && source.empty()) return Made(*std::move(ds));
  return Made(ds->NumberRecords(number, source));
}

}  // namespace shardfeed::python
