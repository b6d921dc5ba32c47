// Measures the pipeline beside the loops that bound it. Each run prints one JSON object.
//
//   pipeline_benchmark parse FOLDER THREADS   50 floats and a label to batches of 1024, and the
//                                             loop of read and CRC, alternating
//   pipeline_benchmark map THREADS            a millisecond of arithmetic per element, and a bare
//                                             loop; also with one element in fifty 20 times longer
//   pipeline_benchmark empty FOLDER THREADS   the time that an empty map adds per element
//   pipeline_benchmark sleep WORKERS          elements that sleep: how many are busy at a time
//   pipeline_benchmark state FOLDER           size and time of a state after 10,000 batches
//   pipeline_benchmark soak FOLDER EPOCHS     resident memory after each epoch
//   pipeline_benchmark budget FOLDER MIB      the most memory that a run with this budget takes

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/parallel.h"
#include "pipeline/dataset.h"
#include "shard/spec/spec.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr int kRounds = 5;

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  fmt::print(stderr, "pipeline_benchmark: {}\n", std::string(result.status().message()));
  std::exit(1);
}
void Check(const absl::Status& status) {
  Value(status.ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(status));
}

std::string List(const std::vector<double>& values) {
  return fmt::format("[{:.5f}]", fmt::join(values, ", "));
}

// Runs the chain to its end and returns the number of rows.
uint64_t Drain(const Dataset& ds, int threads, bool deterministic = true) {
  const auto it = Value(ds.Start({.threads = threads, .deterministic = deterministic}));
  uint64_t rows = 0;
  for (Batch batch;;) {
    Check(it->Next(&batch));
    if (batch.empty()) return rows;
    rows += batch.rows;
  }
}

// The same loop as in records_benchmark.
uint64_t CrcLoop(const ShardSet& set, int threads) {
  std::atomic<uint64_t> records{0};
  Check(ParallelFor(set.paths.size(), threads, {}, [&](size_t i) -> absl::Status {
    const auto file = Value(File::Open(set.paths[i]));
    std::string buffer(1 << 20, '\0');
    uint64_t n = 0;
    for (uint64_t offset = 0; offset < file->size();) {
      const size_t size = Value(file->ReadAt(offset, absl::MakeSpan(buffer)));
      std::vector<Record> frames;
      const FrameScan scan =
          ScanFrames({buffer.data(), size}, offset, offset + size == file->size(), CrcCheck::kAll,
                     SIZE_MAX, &frames);
      offset += scan.consumed;
      n += frames.size();
    }
    records += n;
    return absl::OkStatus();
  }));
  return records;
}

void Parse(const std::string& folder, int threads) {
  const ShardSet set = Value(ResolveSpec(folder + "/data@16"));
  const auto table = Value(ShardTable::Open(set));
  const Dataset ds = Dataset::Read(table)
                         .Parse({{.name = "x", .dtype = DType::kFloat32, .shape = {50}},
                                 {.name = "y", .dtype = DType::kInt64}})
                         .Batch(1024);
  std::vector<double> loop;
  std::vector<double> parse;
  uint64_t rows = 0;
  for (int round = 0; round <= kRounds; ++round) {
    double start = NowSeconds();
    const uint64_t expected = CrcLoop(set, threads);
    const double loop_seconds = NowSeconds() - start;
    start = NowSeconds();
    rows = Drain(ds, threads);
    const double seconds = NowSeconds() - start;
    if (rows != expected) {
      fmt::print(stderr, "pipeline_benchmark: the two do not agree\n");
      std::exit(1);
    }
    if (round == 0) continue;  // warms the page cache
    loop.push_back(loop_seconds);
    parse.push_back(seconds);
  }
  fmt::print("{{\"records\": {}, \"crc_loop\": {}, \"parse\": {}}}\n", rows, List(loop),
             List(parse));
}

// Takes about `times` milliseconds.
double Arithmetic(int64_t element, int times) {
  double x = static_cast<double>(element % 97) + 1;
  for (int i = 0; i < times * 125000; ++i) x = x * 1.0000001 + 1e-9;
  return x;
}

void Map(int threads) {
  constexpr int64_t kElements = 2000;
  const auto chain = [](int64_t slow_every) {
    return Dataset::Range(0, kElements)
        .Map({{"result", DType::kFloat64, {}}},
             [=](RowContext& row) {
               const int64_t element = row.In<int64_t>(0)[0];
               row.Out<double>(0)[0] = Arithmetic(element, element % slow_every == 0 ? 20 : 1);
               return absl::OkStatus();
             })
        .Batch(32);
  };
  std::string lines;
  for (const auto& [name, slow_every] : {std::pair{"even", int64_t{1} << 40}, {"uneven", 50}}) {
    std::vector<double> loop;
    std::vector<double> ordered;
    std::vector<double> unordered;
    for (int round = 0; round < kRounds; ++round) {
      double start = NowSeconds();
      std::atomic<double> sum = 0;
      Check(ParallelFor(kElements, threads, {}, [&, slow_every = slow_every](size_t i) {
        sum = Arithmetic(static_cast<int64_t>(i), i % slow_every == 0 ? 20 : 1);
        return absl::OkStatus();
      }));
      loop.push_back(NowSeconds() - start);
      start = NowSeconds();
      if (Drain(chain(slow_every), threads) != kElements) std::exit(1);
      ordered.push_back(NowSeconds() - start);
      start = NowSeconds();
      if (Drain(chain(slow_every), threads, false) != kElements) std::exit(1);
      unordered.push_back(NowSeconds() - start);
    }
    lines +=
        fmt::format("{}\"{}\": {{\"loop\": {}, \"ordered\": {}, \"unordered\": {}}}",
                    lines.empty() ? "" : ", ", name, List(loop), List(ordered), List(unordered));
  }
  fmt::print("{{{}}}\n", lines);
}

void Empty(const std::string& folder, int threads) {
  const auto table = Value(ShardTable::Open(Value(ResolveSpec(folder + "/data@16"))));
  const Dataset records = Dataset::Read(table);
  const Dataset batches = records.Batch(1024);
  const Dataset mapped = records.Map({}, [](RowContext&) { return absl::OkStatus(); }).Batch(1024);
  std::vector<double> without;
  std::vector<double> with;
  uint64_t rows = 0;
  for (int round = 0; round <= kRounds; ++round) {
    double start = NowSeconds();
    rows = Drain(batches, threads);
    const double a = NowSeconds() - start;
    start = NowSeconds();
    Drain(mapped, threads);
    const double b = NowSeconds() - start;
    if (round == 0) continue;
    without.push_back(a);
    with.push_back(b);
  }
  fmt::print("{{\"records\": {}, \"without\": {}, \"with\": {}}}\n", rows, List(without),
             List(with));
}

void Sleep(int workers) {
  constexpr int64_t kElements = 20000;
  std::atomic<int> busy = 0;
  std::atomic<int> most = 0;
  const Dataset ds =
      Dataset::Range(0, kElements)
          .Map({},
               [&](RowContext&) {
                 const int now = ++busy;
                 for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
                 }
                 std::this_thread::sleep_for(std::chrono::milliseconds(5));
                 --busy;
                 return absl::OkStatus();
               })
          .Batch(64);
  const double start = NowSeconds();
  Drain(ds, workers);
  const double seconds = NowSeconds() - start;
  fmt::print("{{\"workers\": {}, \"most_at_once\": {}, \"mean_at_once\": {:.2f}}}\n", workers,
             most.load(), kElements * 0.005 / seconds);
}

void State(const std::string& folder) {
  const auto table = Value(ShardTable::Open(Value(ResolveSpec(folder + "/data@16"))));
  const auto chain = [&](uint64_t seed) {
    return Dataset::Read(table)
        .Shuffle(seed)
        .Repeat()
        .Parse({{.name = "y", .dtype = DType::kInt64}})
        .Filter([](RowContext& row) { return row.In<int64_t>(0)[0] != 3; })
        .Map({{"tokens", DType::kInt64, {}, true}}, [](RowContext& row) {
          const int64_t y = row.In<int64_t>(0)[0];
          for (int64_t& token : row.Extend<int64_t>(0, 20 + y)) token = y;
          return absl::OkStatus();
        });
  };
  const Dataset ds =
      Dataset::Mix({chain(1), chain(2)}, {0.7, 0.3}).Pack({"tokens"}, {.length = 256}).Batch(8);
  const auto it = Value(ds.Start());
  Batch batch;
  for (int i = 0; i < 10000; ++i) Check(it->Next(&batch));
  double start = NowSeconds();
  const std::string state = Value(it->StateDict());
  const double save = NowSeconds() - start;
  const auto fresh = Value(ds.Start());
  start = NowSeconds();
  Check(fresh->LoadStateDict(state));
  const double load = NowSeconds() - start;
  Batch again;
  Check(fresh->Next(&again));
  const double first = NowSeconds() - start;
  Check(it->Next(&batch));
  const auto a = batch.Values<int64_t>(0);
  const auto b = again.Values<int64_t>(0);
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) {
    fmt::print(stderr, "pipeline_benchmark: the state does not resume at the right batch\n");
    std::exit(1);
  }
  fmt::print("{{\"bytes\": {}, \"save\": {:.6f}, \"load\": {:.6f}, \"first_batch\": {:.6f}}}\n",
             state.size(), save, load, first);
}

uint64_t ResidentBytes() {
  uint64_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

void Soak(const std::string& folder, int epochs) {
  const auto table = Value(ShardTable::Open(Value(ResolveSpec(folder + "/data@16"))));
  const Dataset ds = Dataset::Read(table)
                         .Interleave(16)
                         .Parse({{.name = "x", .dtype = DType::kFloat32, .shape = {50}},
                                 {.name = "y", .dtype = DType::kInt64}})
                         .Filter([](RowContext& row) { return row.In<int64_t>(1)[0] != 3; })
                         .Batch(1024);
  std::vector<double> resident;
  // The tuner would use more of the budget over time.
  const auto it = Value(ds.Repeat(epochs).Start({.autotune = false}));
  const uint64_t rows = Drain(ds, 0);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    Batch batch;
    for (uint64_t n = 0; n < rows; n += batch.rows) {
      Check(it->Next(&batch));
      if (batch.empty()) std::exit(1);
    }
    resident.push_back(static_cast<double>(ResidentBytes()) / (1 << 20));
  }
  fmt::print("{{\"resident_mib\": {}}}\n", List(resident));
}

// A windowed shuffle and parsing with a slow consumer, so that everything that may be held is held.
void Budget(const std::string& folder, uint64_t mib) {
  const auto table = Value(ShardTable::Open(Value(ResolveSpec(folder + "/data@16"))));
  const Dataset ds = Dataset::Read(table)
                         .Shuffle(1, 50'000)
                         .Parse({{.name = "x", .dtype = DType::kFloat32, .shape = {50}},
                                 {.name = "y", .dtype = DType::kInt64}})
                         .Batch(1024);
  const uint64_t before = ResidentBytes();
  const auto it = Value(ds.Start({.threads = 2, .budget_bytes = mib << 20}));
  uint64_t most = 0;
  uint64_t rows = 0;
  for (Batch batch;; rows += batch.rows) {
    Check(it->Next(&batch));
    if (batch.empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    most = std::max(most, ResidentBytes());
  }
  uint64_t counted = 0;
  for (const StageStats& stage : it->stats().stages) counted += stage.peak_bytes;
  fmt::print("{{\"rows\": {}, \"resident_mib\": {:.1f}, \"counted_mib\": {:.1f}}}\n", rows,
             static_cast<double>(most - before) / (1 << 20),
             static_cast<double>(counted) / (1 << 20));
}

int Run(const std::vector<std::string>& arguments) {
#ifndef NDEBUG
  fmt::print(stderr, "pipeline_benchmark: a debug build measures nothing; use --config=opt\n");
  return 1;
#endif
  const auto is = [&](std::string_view command, size_t count) {
    return arguments.size() == count + 1 && arguments[0] == command;
  };
  if (is("parse", 2)) {
    Parse(arguments[1], std::stoi(arguments[2]));
  } else if (is("map", 1)) {
    Map(std::stoi(arguments[1]));
  } else if (is("empty", 2)) {
    Empty(arguments[1], std::stoi(arguments[2]));
  } else if (is("sleep", 1)) {
    Sleep(std::stoi(arguments[1]));
  } else if (is("soak", 2)) {
    Soak(arguments[1], std::stoi(arguments[2]));
  } else if (is("budget", 2)) {
    Budget(arguments[1], std::stoull(arguments[2]));
  } else if (is("state", 1)) {
    State(arguments[1]);
  } else {
    fmt::print(stderr, "usage: see the top of pipeline_benchmark.cc\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) { return shardfeed::Run({argv + 1, argv + argc}); }
