#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/sources.h"
#include "shardfeed/functions.h"

namespace shardfeed {
namespace {

// The product of two such numbers, a size and a rank, does not overflow 128 bits.
constexpr uint64_t kMostInAll = uint64_t{1} << 62;

struct Slices {
  std::vector<uint64_t> sizes;
  std::optional<uint64_t> seed;
  uint64_t rank = 0;
  uint64_t world = 1;

  // Where the stretch of a rank begins.
  uint64_t BeginOf(uint64_t number) const {
    const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    return static_cast<uint64_t>(static_cast<unsigned __int128>(all) * number / world);
  }

  std::vector<size_t> OrderOf(uint64_t epoch) const {
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (seed) ShuffleBy(Random(StreamSeed(RandomStream::kSlices, *seed), epoch), &order);
    return order;
  }

  // The values of the three columns.
  std::vector<int64_t> ValuesOf(uint64_t epoch) const {
    const uint64_t from = BeginOf(rank);
    const uint64_t to = BeginOf(rank + 1);
    std::vector<int64_t> items;
    std::vector<int64_t> begins;
    std::vector<int64_t> ends;
    uint64_t at = 0;  // the place in the order at which the item begins
    for (const size_t item : OrderOf(epoch)) {
      const uint64_t begin = std::max(at, from);
      const uint64_t end = std::min(at + sizes[item], to);
      if (begin < end) {
        items.push_back(static_cast<int64_t>(item));
        begins.push_back(static_cast<int64_t>(begin - at));
        ends.push_back(static_cast<int64_t>(end - at));
      }
      at += sizes[item];
    }
    items.insert(items.end(), begins.begin(), begins.end());
    items.insert(items.end(), ends.begin(), ends.end());
    return items;
  }
};

}  // namespace

Dataset Dataset::Slices(std::vector<uint64_t> sizes, std::optional<uint64_t> seed, uint64_t rank,
                        uint64_t world) {
  if (world == 0 || rank >= world) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("slices: rank {} of {}: ranks are numbered from 0", rank, world)));
  }
  if (world > UINT32_MAX) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("slices: world must be at most {}, got {}", UINT32_MAX, world)));
  }
  uint64_t all = 0;
  for (const uint64_t size : sizes) {
    if (size > kMostInAll - all) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("slices: the sum of the sizes must be at most {}", kMostInAll)));
    }
    all += size;
  }
  Step step;
  step.name = "slices";
  step.text = fmt::format("slices({} items{})", sizes.size(),
                          seed ? fmt::format(", seed={}", *seed) : std::string());
  step.identity.Add("items", sizes.size());
  if (seed) step.identity.Add("seed", StreamSeed(RandomStream::kSlices, *seed));
  step.identity.Add("sizes", DigestOf({reinterpret_cast<const char*>(sizes.data()),
                                       sizes.size() * sizeof(sizes[0])}));
  step.spec = std::make_shared<const RowSpec>(RowSpec{{"item", DType::kInt64, {}, false},
                                                      {"begin", DType::kInt64, {}, false},
                                                      {"end", DType::kInt64, {}, false}});
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("the items of a rank's stretch differ between epochs");
  };
  step.rank = rank;
  step.world = world;
  if (world > 1) step.sharing = Sharing::kTakesPart;
  auto slices = std::make_shared<const shardfeed::Slices>(
      shardfeed::Slices{std::move(sizes), seed, rank, world});
  step.work = SourceWork{
      [slices = std::move(slices), spec = step.spec](uint64_t epoch, uint32_t source) {
        auto values = std::make_shared<const std::vector<int64_t>>(slices->ValuesOf(epoch));
        shardfeed::Batch rows;
        rows.spec = spec;
        rows.rows = values->size() / 3;
        for (size_t column = 0; column < 3; ++column) {
          rows.columns.push_back(
              {reinterpret_cast<char*>(const_cast<int64_t*>(values->data() + column * rows.rows))});
        }
        rows.memory = {std::move(values)};
        return MakeRowsStage(std::move(rows), epoch, source);
      },
      nullptr};
  return Dataset(std::make_shared<const Step>(std::move(step)));
}

}  // namespace shardfeed
