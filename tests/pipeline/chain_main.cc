// Runs a chain that is given as JSON and prints its elements as JSON, one per line, for tests that
// compare with TensorFlow.
//
//   chain '[["range", 0, 10], ["map_square"], ["batch", 3, false]]'
//
// Sources: ["range", start, stop, step], ["ragged", n] (row i has i mod 5 values of i), ["shards",
// spec],
// ["concatenate" | "zip" | "interleave", [chain, ...], ...].

#include <cstdio>
#include <iostream>

#include "nlohmann/json.hpp"
#include "pipeline/dataset.h"
#include "tests/pipeline/element_text.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

Dataset Build(const Json& chain);

std::vector<Dataset> BuildAll(const Json& chains) {
  std::vector<Dataset> all;
  for (const Json& chain : chains) all.push_back(Build(chain));
  return all;
}

Dataset Source(const Json& s) {
  const std::string name = s[0];
  if (name == "range") {
    return Dataset::Range(s[1], s[2], s.size() > 3 ? s[3].get<int64_t>() : 1,
                          s.size() > 4 ? s[4].get<std::string>() : "value");
  }
  if (name == "ragged") {
    return Dataset::Range(0, s[1]).Map({{"values", DType::kInt64, {}, true}},
                                       [](RowContext& row) {
                                         const int64_t n = row.In<int64_t>(0)[0];
                                         for (int64_t& value : row.Extend<int64_t>(0, n % 5))
                                           value = n;
                                         return absl::OkStatus();
                                       },
                                       {"value"});
  }
  if (name == "shards") return Dataset::Read(s[1].get<std::string>());
  if (name == "concatenate") return Dataset::Concatenate(BuildAll(s[1]));
  if (name == "zip") return Dataset::Zip(BuildAll(s[1]));
  return Dataset::Interleave(BuildAll(s[1]), s[2], s[3]);
}

// ["name", "int64" | "float32" | "bytes", "fixed" | "ragged" | "steps", shape]
std::vector<FeatureSpec> Features(const Json& specs) {
  std::vector<FeatureSpec> features;
  for (const Json& s : specs) {
    FeatureSpec feature;
    feature.name = s[0];
    feature.dtype = s[1] == "int64"     ? DType::kInt64
                    : s[1] == "float32" ? DType::kFloat32
                                        : DType::kBytes;
    if (s[2] != "fixed") feature.layout = Layout::kRagged;
    feature.ragged_steps = s[2] == "steps";
    feature.shape = s[3].get<std::vector<int64_t>>();
    features.push_back(std::move(feature));
  }
  return features;
}

Dataset Step(const Dataset& ds, const Json& s) {
  const std::string name = s[0];
  if (name == "map_square") {
    return ds.Map({{"value", DType::kInt64, {}}}, [](RowContext& row) {
      const int64_t value = row.In<int64_t>(0)[0];
      row.Out<int64_t>(0)[0] = value * value;
      return absl::OkStatus();
    });
  }
  if (name == "filter_odd") {
    return ds.Filter([](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 1; });
  }
  if (name == "flat_map_range") {
    return ds.FlatMap({{"value", DType::kInt64, {}}},
                      [](const Batch& in, size_t row, RowEmitter& out) {
                        for (int64_t i = 0; i < in.Row<int64_t>(0, row)[0]; ++i) {
                          out.Begin();
                          out.Out<int64_t>(0)[0] = i;
                        }
                        return absl::OkStatus();
                      });
  }
  if (name == "batch") return ds.Batch(s[1], s[2]);
  if (name == "padded_batch") {
    return ds.PaddedBatch(s[1], {{"values", {s[2].get<int64_t>(), s[3].get<double>()}}});
  }
  if (name == "bucket") return ds.BucketByLength("values", s[1], s[2]).Pad();
  if (name == "sparse") return ds.Sparse({s[1].get<std::string>()});
  if (name == "unbatch") return ds.Unbatch();
  if (name == "take") return ds.Take(s[1]);
  if (name == "skip") return ds.Skip(s[1]);
  if (name == "shard") return ds.Shard(s[1], s[2]);
  if (name == "repeat") return ds.Repeat(s[1]);
  if (name == "enumerate") return ds.Enumerate("index", s[1]);
  if (name == "cache") return ds.Cache();
  if (name == "cache_on_disk") return ds.Cache(s[1].get<std::string>());
  if (name == "snapshot") return ds.Snapshot(s[1].get<std::string>());
  if (name == "prefetch") return ds.Prefetch(s[1]);
  if (name == "interleave_shards") return ds.Interleave(s[1].get<uint64_t>(), s[2].get<uint64_t>());
  if (name == "parse_all") return ds.Parse();
  if (name == "parse") return ds.Parse(Features(s[1]), Features(s[2]));
  std::cerr << "chain: no step " << name << "\n";
  std::exit(2);
}

Dataset Build(const Json& chain) {
  Dataset ds = Source(chain[0]);
  for (size_t i = 1; i < chain.size(); ++i) ds = Step(ds, chain[i]);
  return ds;
}

int Run(const char* text) {
  const auto it = Build(Json::parse(text)).Start({.threads = 3});
  absl::Status status = it.status();
  while (status.ok()) {
    Batch batch;
    status = (*it)->Next(&batch);
    if (!status.ok() || batch.empty()) break;
    std::cout << testing::ElementText(batch) << "\n";
  }
  if (!status.ok()) std::cerr << "chain: " << std::string(status.message()) << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) { return argc == 2 ? shardfeed::Run(argv[1]) : 2; }
