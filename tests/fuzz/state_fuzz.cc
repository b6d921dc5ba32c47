// A pipeline refuses a state, or resumes at a place that it can save and return to. The first byte
// chooses the chain and whether the rest is the state's text, or numbers (LEB128) under a valid
// header: of a place, or of the rest of an epoch in merged states.

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "pipeline/data/batch_bytes.h"
#include "pipeline/dataset.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {
namespace {

constexpr int kElements = 12;
// Inputs that begin with this are a whole state.
constexpr uint8_t kText = 0x80;
constexpr uint8_t kMerged = 0x40;

// Rows with a number and a list of (number % 7) numbers.
Dataset Rows(int n) {
  Batch rows;
  rows.rows = n;
  rows.spec = std::make_shared<const RowSpec>(
      RowSpec{{"n", DType::kInt64, {}}, {"values", DType::kInt64, {}, true}});
  std::vector<int64_t> numbers;
  std::vector<int64_t> splits = {0};
  for (int i = 0; i < 7 * n; ++i) numbers.push_back(i);
  for (int i = 0; i < n; ++i) splits.push_back(splits.back() + i % 7);
  const auto kept = std::make_shared<std::pair<std::vector<int64_t>, std::vector<int64_t>>>(
      std::move(numbers), std::move(splits));
  rows.columns.resize(2);
  rows.columns[0].data = reinterpret_cast<char*>(kept->first.data());
  rows.columns[1].data = reinterpret_cast<char*>(kept->first.data());
  rows.columns[1].splits = kept->second.data();
  rows.memory = {kept};
  return Dataset::FromArrays(rows);
}

// Shards of 60 records; removed when the process ends.
Dataset Shards() {
  static const testing::FuzzFile beside("shards", "");
  const std::string path = beside.path() + "-t";
  DatasetWriterOptions options;
  options.threads = 1;
  options.sync = false;
  auto writer = *DatasetWriter::Create(*ParseOutputSpec(path + "@2"), options);
  for (int i = 0; i < 60; ++i) FUZZ_EXPECT(writer->Write("record " + std::to_string(i)).ok());
  FUZZ_EXPECT(writer->Finish({}).ok());
  return Dataset::Read(path + "@2");
}

// All chains end, so that a place far past their end is reached.
const std::vector<Dataset>& Chains() {
  static const auto* chains = [] {
    const Dataset rows = Rows(150);
    const Dataset mixed = Dataset::Mix({rows, rows.Skip(20), rows.Take(5)}, {3, 2, 1}, 9,
                                       {Exhausted::kDrop, Exhausted::kStop, Exhausted::kRepeat});
    const Dataset shards = Shards();
    return new std::vector<Dataset>{
        Dataset::Range(0, 300).Batch(7),
        rows.Enumerate().Skip(3).Take(100),
        rows.Shuffle(1, 40).Repeat(3).Batch(11),
        rows.Batch(10).Shuffle(2, 4).Unbatch().Batch(3),
        rows.BucketByLength("values", {1, 3}, {5, 9, 30}).Pad(),
        rows.BatchByLength("values", 20),
        rows.Pack({"values"}, {.length = 9, .open = 5}).Batch(4),
        Dataset::Zip({rows.Select({"values"}), Dataset::Range(0, 400)}).Batch(8),
        Dataset::Concatenate({rows, rows.Take(20), rows}).Batch(60),
        Dataset::Interleave({rows, rows.Take(20), rows.Skip(40), rows}, 2, 3),
        mixed.Batch(9),
        rows.Shard(1, 3).Enumerate(/*name=*/"index", /*start=*/INT64_MAX - 1000).Batch(8),
        rows.Batch(20).Cache().Unbatch().Repeat(2).Batch(30),
        mixed.Shuffle(4, 50).Pack({"values"}, {.length = 12, .open = 8}).Batch(6).Repeat(2),
        Dataset::Range(INT64_MIN, INT64_MAX, INT64_MAX / 2).Enumerate(),
        rows.Map({{"m", DType::kInt64, {}}},
                 [](RowContext& row) {
                   row.Out<int64_t>(0)[0] = row.In<int64_t>(0)[0] / 2;
                   return absl::OkStatus();
                 })
            .Batch(5),
        shards.Shuffle(7).Batch(9),
        shards.Interleave(2).Shard(1, 3).Repeat(2),
        shards.Shuffle(5, 20)
            .Shard(1, 2)
            .FlatMap({{"n", DType::kInt64, {}}},
                     [](const Batch& in, size_t row, RowEmitter& out) {
                       const size_t digits = in.Row<std::string_view>(0, row)[0].size() - 7;
                       for (size_t i = 0; i < digits; ++i) {
                         out.Begin();
                         out.Out<int64_t>(0)[0] = static_cast<int64_t>(i);
                       }
                       return absl::OkStatus();
                     })
            .Batch(4),
    };
  }();
  return *chains;
}

std::unique_ptr<Iterator> Start(const Dataset& chain) {
  RunOptions options;
  options.threads = 1;
  options.budget_bytes = 1 << 20;
  options.autotune = false;
  return *chain.Start(options);
}

std::string StateText(const std::string& saved, bool merged, const uint8_t* data, size_t size) {
  nlohmann::json state = nlohmann::json::parse(saved);
  std::vector<uint64_t> place;
  uint64_t number = 0;
  int shift = 0;
  for (size_t i = 0; i < size; ++i) {
    if (shift < 64) number |= uint64_t{data[i] & 0x7fU} << shift;
    shift += 7;
    if (data[i] & 0x80) continue;
    place.push_back(std::exchange(number, 0));
    shift = 0;
  }
  if (!merged || place.size() < 3) {
    state["place"] = place;
    return state.dump();
  }
  for (const char* of_ranks : {"ranks", "size", "place"}) state.erase(of_ranks);
  const auto parts = place.begin() + 3;
  const auto left = parts + std::min<ptrdiff_t>(place[2] % 16, place.end() - parts);
  state["merged"] = {{"epoch", place[0]},
                     {"behind", place[1]},
                     {"parts", std::vector<uint64_t>(parts, left)},
                     {"left", std::vector<uint64_t>(left, place.end())}};
  return state.dump();
}

// The next elements, and the continuation from them.
std::vector<std::string> Follow(Iterator& it) {
  std::vector<std::string> found;
  for (int i = 0; i < kElements; ++i) {
    Batch batch;
    const absl::Status status = it.Next(&batch);
    if (!status.ok() || batch.empty()) {
      found.emplace_back(status.message());
      break;
    }
    found.emplace_back();
    AppendBatch(batch, &found.back());
  }
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Dataset& chain = Chains()[(data[0] & ~(kText | kMerged)) % Chains().size()];
  const auto it = Start(chain);
  const std::string text =
      data[0] & kText ? std::string(testing::View(data + 1, size - 1))
                      : StateText(*it->StateDict(), (data[0] & kMerged) != 0, data + 1, size - 1);
  if (!it->LoadStateDict(text).ok()) {
    Batch batch;
    (void)it->Next(&batch);
    return 0;
  }
  const auto saved = it->StateDict();
  FUZZ_EXPECT(saved.ok());
  const std::vector<std::string> expected = Follow(*it);
  FUZZ_EXPECT(it->LoadStateDict(*saved).ok());
  FUZZ_EXPECT(Follow(*it) == expected);
  const auto other = Start(chain);
  FUZZ_EXPECT(other->LoadStateDict(*saved).ok());
  FUZZ_EXPECT(Follow(*other) == expected);
  return 0;
}

}  // namespace shardfeed
