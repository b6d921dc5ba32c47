// Reading a dataset from a store with latency, beside a bare loop of libcurl's multi interface that
// keeps as many ranges of 8 MiB in flight and throws the bytes away.
//
//   stores_benchmark FOLDER/STEM@N [MILLISECONDS [ROUNDS]]
//
// The server is a part of this program, on the same processors: it waits before the first byte of
// each range (default 75 ms), and in the last case answers 503 to 2 % of them and stalls 1 % for a
// second. Then through a cache on disk: the second epoch, with everything in it, beside local
// reading of the same files, and what a second epoch asks for where it holds half. Prints a line of
// JSON for each case: the median rate and its ratio to the bare loop's, of the same round. Checked:
// each round delivers every record, with its CRCs.

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "net/block_cache.h"
#include "net/http_client.h"
#include "net/transfers.h"
#include "reader/reader.h"
#include "reader/shard_table.h"
#include "shard/spec.h"
#include "tests/net/fault_server.h"

namespace {

using namespace shardfeed;
using testing::Fault;
using testing::FaultServer;
using testing::SeenRequest;

constexpr size_t kDepth = 64;
constexpr uint64_t kRangeBytes = 8 << 20;
constexpr uint64_t kBudget = 1 << 30;

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  fmt::print(stderr, "{}\n", std::string(value.status().message()));
  std::exit(1);
}

size_t Drop(char*, size_t, size_t size, void*) { return size; }

// Bytes a second of the bare loop.
double Bare(const ShardSet& set, const std::vector<uint64_t>& sizes) {
  std::vector<std::pair<std::string, std::string>> ranges;
  uint64_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    for (uint64_t at = 0; at < sizes[i]; at += kRangeBytes) {
      ranges.emplace_back(set.paths[i],
                          fmt::format("{}-{}", at, std::min(sizes[i], at + kRangeBytes) - 1));
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
  while (active < kDepth && next < ranges.size()) start(curl_easy_init());
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

struct Read {
  double rate;
  ReaderStats stats;
};

Read ReadAll(const std::shared_ptr<const ShardTable>& table, OrderSpec order) {
  ReaderOptions options;
  options.order = order;
  options.epochs = 1;
  options.budget_bytes = kBudget;
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
  return {static_cast<double>(table->stream_bytes()) / watch.Seconds(), reader->stats()};
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
  uint64_t bytes = 0;  // of the data in it
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
      const uint64_t requests = HttpClient::Get().stats().requests;
      for (int round = 0; round < rounds; ++round) {
        const double rate = ReadAll(beside, order).rate;
        rates.push_back(ReadAll(cached.table, order).rate);
        ratios.push_back(rates.back() / rate);
      }
      Print(fmt::format("{}, all cached", shuffles ? "shuffle" : "sequential"), rates, ratios,
            fmt::format(", \"requests\": {}", HttpClient::Get().stats().requests - requests));
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
    fmt::print(stderr, "usage: stores_benchmark FOLDER/STEM@N [MILLISECONDS [ROUNDS]]\n");
    return 2;
  }
  const auto latency = std::chrono::milliseconds(argc > 2 ? std::atoi(argv[2]) : 75);
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 5;
  const std::filesystem::path local = std::filesystem::absolute(argv[1]);
  FaultServer server;
  server.ServeFolder(local.parent_path().string());
  HttpClient::Get();  // initialises libcurl
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
  std::vector<std::vector<double>> rates(cases.size());
  std::vector<std::vector<double>> ratios(cases.size());
  std::vector<ReaderStats> stats(cases.size());
  double clean = 0;
  for (int round = 0; round < rounds; ++round) {
    bare.push_back(Bare(set, sizes));
    for (size_t c = 0; c < cases.size(); ++c) {
      faults = cases[c].faults;
      const Read read = ReadAll(table, cases[c].order);
      faults = false;
      if (c == 0) clean = read.rate;
      stats[c] = read.stats;
      rates[c].push_back(read.rate);
      ratios[c].push_back(read.rate / (cases[c].faults ? clean : bare.back()));
    }
  }
  Print("bare loop", bare, {1});
  for (size_t c = 0; c < cases.size(); ++c) {
    Print(
        cases[c].name, rates[c], ratios[c],
        fmt::format(
            ", \"requests\": {}, \"requests_of_8_MiB\": {:.2f}, \"bytes\": {:.3f}", stats[c].reads,
            static_cast<double>(stats[c].reads) * kRangeBytes /
                static_cast<double>(table->file_bytes()),
            static_cast<double>(stats[c].bytes_read) / static_cast<double>(table->file_bytes())));
  }
  MeasureCache(set, local.string(), rounds);
}
