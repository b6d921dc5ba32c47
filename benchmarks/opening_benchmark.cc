// Measures how long it takes to open a dataset of many shards in a store with latency, and with how
// many requests.
//
//   opening_benchmark FOLDER [SHARDS [MILLISECONDS [ROUNDS]]]
//
// Writes the manifest and the index pack of a dataset t@SHARDS (default 200,000, each with 100
// records of about 100 KB, which are not there) to FOLDER, and serves them with the given latency
// (default 5 ms) from a part of this program, on the same processors. Prints a line of JSON for
// each case, with medians. The cases: finding the shards, opening the table (so that all of len()
// and an order is known), the indexes of one rank's eighth, and those of all shards; then the whole
// of it for a tenth of the shards without a pack, where each shard has an index of its own.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "io/output_file.h"
#include "reader/shards/shard_table.h"
#include "shard/index/index.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "tests/net/fault_server.h"
#include "tests/testing/described_dataset.h"

namespace {

using namespace shardfeed;
using testing::Fault;
using testing::FaultServer;
using testing::SeenRequest;

constexpr int kRecords = 100;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "{}\n", std::string(status.message()));
  std::exit(1);
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

// Writes what readers ask for before they read records. With `packed`, indexes are in a pack,
// otherwise each is a file.
void WriteDataset(const std::string& folder, const std::string& stem, size_t shards, bool packed) {
  std::mt19937 random(1);
  const auto index_of = [&](const std::string& name) {
    IndexBuilder builder;
    for (int n = 0; n < kRecords; ++n) Check(builder.AddFrame(50'000 + random() % 100'000));
    IndexSummary summary;
    summary.records_digest = random();
    summary.shard_bytes = builder.stream_bytes();
    auto index = ShardIndex::FromBytes(Value(builder.Finish(summary)), name);
    if (!packed) {
      Check(WriteFile(IndexPath(JoinPath(folder, name)), Value(index)->bytes(), false));
    }
    return index;
  };
  Check(testing::WriteDescription(folder, stem, shards, index_of));
  if (!packed) std::filesystem::remove(IndexPackPath(folder, stem));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: opening_benchmark FOLDER [SHARDS [MILLISECONDS [ROUNDS]]]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const size_t shards = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 200'000;
  const auto latency = std::chrono::milliseconds(argc > 3 ? std::atoi(argv[3]) : 5);
  const int rounds = argc > 4 ? std::atoi(argv[4]) : 5;
  const size_t few = std::max<size_t>(1, shards / 10);
  WriteDataset(folder, "t", shards, true);
  WriteDataset(folder, "single", few, false);

  FaultServer server;
  server.ServeFolder(folder);
  server.SetFaults(
      [&](const SeenRequest&) { return Fault{.kind = Fault::kDelay, .wait = latency}; });
  struct Case {
    std::string name;
    std::vector<double> seconds;
    size_t requests = 0;
  };
  std::vector<Case> cases = {{"find the shards", {}, 0},
                             {"open the table", {}, 0},
                             {"indexes of an eighth", {}, 0},
                             {"indexes of all", {}, 0},
                             {"find and open without a pack, a tenth of the shards", {}, 0}};
  for (int round = 0; round < rounds; ++round) {
    size_t next = 0;
    const auto measure = [&](auto work) {
      server.ForgetRequests();
      const Stopwatch watch;
      auto result = work();
      cases[next].seconds.push_back(watch.Seconds());
      cases[next].requests = server.requests().size();
      ++next;
      return result;
    };
    const ShardSet set =
        measure([&] { return Value(ResolveSpec(fmt::format("{}/t@{}", server.url(), shards))); });
    const auto table = measure([&] { return Value(ShardTable::Open(set)); });
    if (table->num_records() != shards * kRecords) Check(absl::InternalError("wrong records"));
    const auto open_indexes = [&](size_t count) {
      uint64_t records = 0;
      for (size_t i = 0; i < count; ++i) records += Value(table->Index(i))->records();
      return records;
    };
    measure([&] { return open_indexes(shards / 8); });
    measure([&] { return open_indexes(shards); });
    measure([&] {
      return Value(
          ShardTable::Open(Value(ResolveSpec(fmt::format("{}/single@{}", server.url(), few)))));
    });
  }
  for (const Case& each : cases) {
    fmt::print("{{\"benchmark\": \"{}\", \"shards\": {}, \"requests\": {}, \"seconds\": {:.3f}}}\n",
               each.name, &each == &cases.back() ? few : shards, each.requests,
               Median(each.seconds));
  }
}
