// Measures reading a dataset from a store with latency, beside a bare loop of libcurl's multi
// interface that keeps as many ranges of the same size in flight and discards the bytes: 32 of 8
// MiB for reading in order, 128 of 1 MiB for a shuffle.
//
//   stores_benchmark FOLDER/STEM@N [MILLISECONDS [ROUNDS [cache]]]
//
// With "cache", only the cases of the cache on disk are measured.
//
// The server is part of this program and shares its processors. It waits before the first byte of
// each range (75 ms by default), and in the last case answers 503 to 2 % of them and stalls 1 % for
// a second. Further cases read through a cache on disk: the second epoch with everything in it,
// beside local reading of the same files, and the requests of a second epoch if the cache holds
// half. Prints a line of JSON for each case, with the median rate and its ratio to that of its bare
// loop in the same round (with faults: to that of the case without). Each round checks that every
// record is delivered, with its CRCs. Rounds share their memory, as epochs of a training run do.
//
// If the processors limit both, the ratio of the rates is that of their loads. "in_flight" does not
// depend on the processors: the mean number of requests in flight in the middle 80 % of a round,
// divided by the maximum. "cpu" is the CPU time of the last round, including the server's, in
// seconds; "cpu_ratio" is that of local reading divided by that of reading through the cache.

#include <curl/curl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/buffer.h"
#include "net/block_cache.h"
#include "net/http_client.h"
#include "net/transfers.h"
#include "reader/reader.h"
#include "reader/shards/shard_table.h"
#include "shard/spec/spec.h"
#include "tests/net/fault_server.h"

namespace {

using namespace shardfeed;
using testing::Fault;
using testing::FaultServer;
using testing::SeenRequest;

constexpr size_t kDepth = 32;  // ranges that the reader requests at a time
constexpr uint64_t kRangeBytes = 8 << 20;
// As a shuffle reads by default.
constexpr size_t kChunkDepth = 128;
constexpr uint64_t kChunkBytes = 1 << 20;
constexpr uint64_t kBudget = 1 << 30;

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  fmt::print(stderr, "{}\n", std::string(value.status().message()));
  std::exit(1);
}

size_t Drop(char*, size_t, size_t size, void*) { return size; }

// The bytes per second of the bare loop.
double Bare(const ShardSet& set, const std::vector<uint64_t>& sizes, size_t depth,
            uint64_t range_bytes) {
  std::vector<std::pair<std::string, std::string>> ranges;
  uint64_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (uint64_t at = 0; at < sizes[i]; at += range_bytes) {
      ranges.emplace_back(set.paths[i],
                          fmt::format("{}-{}", at, std::min(sizes[i], at + range_bytes) - 1));
    }
    bytes += sizes[i];
  }
  const Stopwatch watch;
  CURLM* multi = curl_multi_init();
  size_t next = 0;
  size_t active = 0;
  const auto start = [&](CURL* easy) {
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, ranges[next].first.c_str());
    curl_easy_setopt(easy, CURLOPT_RANGE, ranges[next].second.c_str());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Drop);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L << 10);
    curl_multi_add_handle(multi, easy);
    ++next;
    ++active;
  };
  while (active < depth && next < ranges.size()) start(curl_easy_init());
  while (active > 0) {
    int running = 0;
    curl_multi_perform(multi, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      CURL* easy = message->easy_handle;
      if (message->data.result != CURLE_OK) std::exit(1);
      curl_multi_remove_handle(multi, easy);
      --active;
      if (next < ranges.size()) {
        start(easy);
      } else {
        curl_easy_cleanup(easy);
      }
    }
    if (active > 0) curl_multi_poll(multi, nullptr, 0, 100, nullptr);
  }
  curl_multi_cleanup(multi);
  return static_cast<double>(bytes) / watch.Seconds();
}

// Processor time of this process, the server included.
double CpuSeconds() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Read {
  double rate;
  double cpu;  // seconds
  ReaderStats stats;
  double in_flight;  // mean
  uint64_t most_in_flight;
};

// Looks how many requests are under way, every few milliseconds.
class Sampler {
 public:
  Sampler()
      : thread_([this](std::stop_token stop) {
          while (!stop.stop_requested()) {
            samples_.push_back(HttpClient::Get().stats().active);
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
        }) {}
  std::vector<uint64_t> Stop() {
    thread_.request_stop();
    thread_.join();
    return samples_;
  }

 private:
  std::vector<uint64_t> samples_;
  std::jthread thread_;
};

Read ReadAll(const std::shared_ptr<const ShardTable>& table, OrderSpec order) {
  ReaderOptions options;
  options.order = order;
  options.epochs = 1;
  options.budget_bytes = kBudget;
  static const auto buffers = BufferPool::Create(kBudget, BufferPool::Memory::kSlabs);
  options.buffers = buffers;
  Sampler sampler;
  const double cpu = CpuSeconds();
  const Stopwatch watch;
  const auto reader = Value(Reader::Open(table, options));
  uint64_t records = 0;
  for (ReadBlock block;;) {
    const absl::Status status = reader->Next(&block);
    if (!status.ok()) Value<int>(status);
    if (block.records.empty()) break;
    records += block.records.size();
  }
  if (records != table->num_records()) Value<int>(absl::InternalError("records are missing"));
  const double seconds = watch.Seconds();
  std::vector<uint64_t> samples = sampler.Stop();
  const size_t cut = samples.size() / 10;
  const auto begin = samples.begin() + static_cast<ptrdiff_t>(cut);
  const auto end = samples.end() - static_cast<ptrdiff_t>(cut);
  const double sum = std::accumulate(begin, end, 0.0);
  return {static_cast<double>(table->file_bytes()) / seconds, CpuSeconds() - cpu, reader->stats(),
          sum / std::max<double>(1, static_cast<double>(end - begin)),
          *std::max_element(samples.begin(), samples.end())};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const std::string& name, const std::vector<double>& rates,
           const std::vector<double>& ratios, const std::string& more = "") {
  fmt::print(
      "{{\"benchmark\": \"{}\", \"MB_per_second\": {:.0f}, \"ratio\": {:.2f}, \"ratios\": "
      "[{:.2f}]{}}}\n",
      name, Median(rates) * 1e-6, Median(ratios), fmt::join(ratios, ", "), more);
  std::fflush(stdout);
}

// A table that is read through a cache in `folder`, whose files have at most so many bytes, and
// which has been read once.
struct Cached {
  std::shared_ptr<const void> serving;
  std::shared_ptr<const ShardTable> table;
  uint64_t bytes = 0;  // size of the data in it
};
Cached FillCache(const ShardSet& set, const std::string& folder, std::optional<uint64_t> max_bytes,
                 const OrderSpec& order) {
  Cached cached;
  cached.serving = BlockCache::Serve(Value(BlockCache::Open(folder, max_bytes)), set.paths);
  cached.table = Value(ShardTable::Open(set));
  const uint64_t before = GetBlockCacheStats().stored_bytes;
  ReadAll(cached.table, order);
  cached.bytes = GetBlockCacheStats().stored_bytes - before;
  return cached;
}

void MeasureCache(const ShardSet& set, const std::string& local, int rounds) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / fmt::format("shardfeed-cache-{}", ::getpid()))
          .string();
  OrderSpec shuffle;
  shuffle.kind = OrderSpec::Kind::kShuffle;
  {
    const auto beside = Value(ShardTable::Open(Value(ResolveSpec(local))));
    const Cached cached = FillCache(set, folder, std::nullopt, OrderSpec());
    for (const bool shuffles : {false, true}) {
      const OrderSpec order = shuffles ? shuffle : OrderSpec();
      std::vector<double> rates;
      std::vector<double> ratios;
      std::vector<double> cpu_ratios;
      const uint64_t requests = HttpClient::Get().stats().requests;
      for (int round = 0; round < rounds; ++round) {
        const Read here = ReadAll(beside, order);
        const Read there = ReadAll(cached.table, order);
        rates.push_back(there.rate);
        ratios.push_back(there.rate / here.rate);
        cpu_ratios.push_back(here.cpu / there.cpu);
      }
      Print(fmt::format("{}, all cached", shuffles ? "shuffle" : "sequential"), rates, ratios,
            fmt::format(", \"cpu_ratio\": {:.2f}, \"requests\": {}", Median(cpu_ratios),
                        HttpClient::Get().stats().requests - requests));
    }
  }
  std::filesystem::remove_all(folder);
  const auto all = Value(ShardTable::Open(set))->file_bytes();
  const Cached half = FillCache(set, folder + "-half", all / 2, shuffle);
  const HttpStats before = HttpClient::Get().stats();
  const Read read = ReadAll(half.table, shuffle);
  const HttpStats after = HttpClient::Get().stats();
  const double kept = static_cast<double>(half.bytes) / static_cast<double>(all);
  const double fetched = static_cast<double>(after.bytes - before.bytes) / static_cast<double>(all);
  Print("shuffle, half cached", {read.rate}, {fetched / (1 - kept)},
        fmt::format(", \"kept\": {:.3f}, \"fetched\": {:.3f}, \"requests\": {}", kept, fetched,
                    after.requests - before.requests));
  std::filesystem::remove_all(folder + "-half");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: stores_benchmark FOLDER/STEM@N [MILLISECONDS [ROUNDS [cache]]]\n");
    return 2;
  }
  const auto latency = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 75);
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const std::filesystem::path local = std::filesystem::absolute(argv[1]);
  FaultServer server;
  server.ServeFolder(local.parent_path().string());
  HttpClient::Get();  // initializes libcurl
  std::atomic<bool> faults = false;
  std::atomic<uint64_t> ranges = 0;
  server.SetFaults([&](const SeenRequest& request) {
    if (!request.headers.contains("range")) return Fault();
    const uint64_t number = ranges++;
    if (faults && number % 50 == 7) return Fault{.kind = Fault::kStatus};
    const bool stalls = faults && number % 100 == 11;
    return Fault{.kind = Fault::kDelay,
                 .wait = latency + std::chrono::milliseconds(stalls ? 1000 : 0)};
  });
  const ShardSet set = Value(ResolveSpec(server.url() + "/" + local.filename().string()));
  if (argc > 4 && std::string_view(argv[4]) == "cache") {
    MeasureCache(set, local.string(), rounds);
    return 0;
  }
  const auto table = Value(ShardTable::Open(set));
  std::vector<uint64_t> sizes;
  for (size_t i = 0; i < table->num_shards(); ++i) sizes.push_back(table->summary(i).shard_bytes);

  OrderSpec shuffle;
  shuffle.kind = OrderSpec::Kind::kShuffle;
  struct Case {
    std::string name;
    OrderSpec order;
    bool faults;
  };
  const std::vector<Case> cases = {{"sequential", OrderSpec(), false},
                                   {"shuffle", shuffle, false},
                                   {"sequential, 2 % 503 and 1 % stalls", OrderSpec(), true}};
  std::vector<double> bare;
  std::vector<double> bare_chunks;
  std::vector<double> chunk_ratios;
  std::vector<std::vector<double>> rates(cases.size());
  std::vector<std::vector<double>> ratios(cases.size());
  std::vector<Read> reads(cases.size());
  double clean = 0;
  double bare_cpu = 0;
  double chunk_cpu = 0;
  for (int round = 0; round < rounds; ++round) {
    const double before = CpuSeconds();
    bare.push_back(Bare(set, sizes, kDepth, kRangeBytes));
    const double between = CpuSeconds();
    bare_chunks.push_back(Bare(set, sizes, kChunkDepth, kChunkBytes));
    bare_cpu = between - before;
    chunk_cpu = CpuSeconds() - between;
    chunk_ratios.push_back(bare_chunks.back() / bare.back());
    for (size_t c = 0; c < cases.size(); ++c) {
      faults = cases[c].faults;
      const Read read = ReadAll(table, cases[c].order);
      faults = false;
      if (c == 0) clean = read.rate;
      reads[c] = read;
      rates[c].push_back(read.rate);
      const bool shuffles = cases[c].order.kind == OrderSpec::Kind::kShuffle;
      const double beside = shuffles ? bare_chunks.back() : bare.back();
      ratios[c].push_back(read.rate / (cases[c].faults ? clean : beside));
    }
  }
  Print("bare loop, 32 ranges of 8 MiB", bare, {1}, fmt::format(", \"cpu\": {:.2f}", bare_cpu));
  Print("bare loop, 128 ranges of 1 MiB", bare_chunks, chunk_ratios,
        fmt::format(", \"cpu\": {:.2f}", chunk_cpu));
  for (size_t c = 0; c < cases.size(); ++c) {
    const Read& read = reads[c];
    const auto bytes = static_cast<double>(table->file_bytes());
    Print(cases[c].name, rates[c], ratios[c],
          fmt::format(", \"requests\": {}, \"requests_of_8_MiB\": {:.2f}, \"bytes\": {:.3f}, "
                      "\"in_flight\": {:.1f}, \"cpu\": {:.2f}, \"most_in_flight\": {}, "
                      "\"stall_seconds\": {:.2f}",
                      read.stats.reads, static_cast<double>(read.stats.reads) * kRangeBytes / bytes,
                      static_cast<double>(read.stats.bytes_read) / bytes, read.in_flight, read.cpu,
                      read.most_in_flight, read.stats.stall_seconds));
  }
  const TransferStats transfers = GetTransferStats();
  fmt::print("{{\"retries\": {}, \"hedges\": {}, \"hedges_won\": {}}}\n", transfers.retries,
             transfers.hedges, transfers.hedges_won);
  MeasureCache(set, local.string(), rounds);
}
