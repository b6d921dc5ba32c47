#include "reader/shards/io_choice.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>

#include "base/rounding.h"
#include "fmt/format.h"
#include "io/page_cache.h"
#include "net/block_cache.h"
#include "net/http_client.h"
#include "net/remote_file.h"
#include "net/store.h"
#include "net/transfers.h"

namespace shardfeed {
namespace {

constexpr size_t kShardsLookedAt = 16;
// Samples of each shard: this many places of this many bytes.
constexpr uint64_t kPlaces = 4;
constexpr uint64_t kPlaceBytes = 1 << 20;
// How many blocks of a cache on disk are looked at.
constexpr uint64_t kBlocksLookedAt = 1024;
constexpr double kMostlyCached = 0.9;
constexpr int kDepth = 64;
// What is on its way from a store: this many bytes per second for the time that it takes to answer,
// and at least what that is for 90 ms. More would only share the line, and leave less of the budget
// to what waits for a late range.
constexpr double kRemoteBytesPerSecond = 3e9;
constexpr double kMinRemoteInFlight = 256 << 20;
constexpr double kMinRemoteDepth = 32;

// How many ranges have this many bytes, at least kMinRemoteInFlight.
int RangesOf(double in_flight, const ShardTable& table, const OrderSpec& order) {
  const bool exact = order.kind == OrderSpec::Kind::kShuffle && order.window == OrderSpec::kAll;
  const double ratio = static_cast<double>(table.file_bytes()) /
                       static_cast<double>(std::max<uint64_t>(1, table.stream_bytes()));
  const double records = exact ? 1.0 : static_cast<double>(order.chunk);
  const double bytes = std::max(1.0, records * static_cast<double>(table.mean_bytes()) * ratio);
  return static_cast<int>(std::clamp<double>(std::max(kMinRemoteInFlight, in_flight) / bytes,
                                             kMinRemoteDepth, HttpClient::kMaxConnections));
}

// How many seconds the slowest of the shards' stores takes to answer.
double LatencyOf(const ShardTable& table) {
  double seconds = 0;
  const size_t looked_at = std::min(table.num_shards(), kShardsLookedAt);
  for (size_t i = 0; i < looked_at; ++i) {
    const auto store = Store::Of(table.path(i * table.num_shards() / looked_at));
    if (!store.ok()) continue;  // a path
    seconds = std::max(seconds, std::chrono::duration<double>((*store)->latency()).count());
  }
  return seconds;
}

int RemoteDepth(const ShardTable& table, const OrderSpec& order, uint64_t budget_bytes) {
  const double in_flight = kRemoteBytesPerSecond * LatencyOf(table);
  return RangesOf(std::min(in_flight, static_cast<double>(budget_bytes)), table, order);
}

}  // namespace

bool IsFetched(const ShardTable& table) {
  if (!table.remote()) return false;
  uint64_t blocks = 0;
  for (size_t i = 0; i < table.num_shards(); ++i) {
    blocks += CeilDivide(table.summary(i).shard_bytes, kCacheBlockBytes);
  }
  if (blocks == 0) return true;
  // Look at a random block of each stretch of `step` blocks: it is nearly certain that this finds a
  // cache that lacks a hundredth of the data.
  const uint64_t step = CeilDivide(blocks, kBlocksLookedAt);
  std::minstd_rand random(static_cast<uint32_t>(blocks));
  uint64_t next = random() % step;
  uint64_t begin = 0;  // where the shard's blocks begin
  for (size_t i = 0; i < table.num_shards(); ++i) {
    const uint64_t end = begin + CeilDivide(table.summary(i).shard_bytes, kCacheBlockBytes);
    std::shared_ptr<const File> file;
    for (; next < end; next = (next / step + 1) * step + random() % step) {
      if (file == nullptr) {
        absl::StatusOr<std::shared_ptr<const File>> opened = table.OpenFile(i);
        if (!opened.ok()) return true;  // reading it will report the error
        file = *std::move(opened);
      }
      if (file->fd() >= 0) break;  // a copy of intact records
      const auto& object = static_cast<const RemoteFile&>(*file).cached();
      if (object == nullptr || !object->cache().Has(*object, next - begin)) return true;
    }
    // If the rest of the shard was skipped, continue with the next shard.
    if (next < end) next = std::max(next, end);
    begin = end;
  }
  return false;
}

uint64_t ClientBytes(const ShardTable& table, const OrderSpec& order, uint64_t budget_bytes) {
  if (!table.remote()) return 0;
  // What an order has room for must not depend on how quick a store is today.
  const int ranges = RangesOf(static_cast<double>(budget_bytes), table, order);
  const uint64_t buffers = HttpClient::kBufferBytes * static_cast<uint64_t>(ranges);
  return std::min(buffers + kMostHedgedAtOnce, budget_bytes / 4);
}

IoChoice ChooseIo(const ShardTable& table, const OrderSpec& order, const ReaderOptions& options) {
  IoChoice choice;
  choice.engine.kind = options.io;
  choice.engine.depth = kDepth;
  if (table.remote()) {
    choice.remote = true;
    choice.fetched = IsFetched(table);
    if (choice.fetched) choice.engine.depth = RemoteDepth(table, order, options.budget_bytes);
    choice.engine.inline_reads = !choice.fetched;
    choice.reason = choice.fetched ? "the data is in a store" : "the data is in the cache on disk";
    return choice;
  }
  if (options.page_cache == CacheUse::kBypass) {
    choice.engine.direct = true;
    choice.reason = "bypassing the page cache, as requested";
    return choice;
  }
  uint64_t bytes = 0;
  uint64_t cached = 0;
  const size_t looked_at = std::min(table.num_shards(), kShardsLookedAt);
  for (size_t i = 0; i < looked_at; ++i) {
    const size_t shard = i * table.num_shards() / looked_at;
    absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(shard);
    if (!file.ok()) continue;  // reading it will report the error
    const uint64_t size = (*file)->size();
    const uint64_t places = size > kPlaces * kPlaceBytes ? kPlaces : 1;
    for (uint64_t place = 0; place < places; ++place) {
      // The last place ends with the file.
      const uint64_t begin =
          places == 1 ? 0 : (size - kPlaceBytes) / (places - 1) * place / 4096 * 4096;
      const uint64_t end = places == 1 ? size : begin + kPlaceBytes;
      absl::StatusOr<uint64_t> n = CachedBytes(**file, begin, end);
      if (!n.ok()) continue;
      bytes += end - begin;
      cached += std::min(*n, end - begin);
    }
  }
  const double share = bytes > 0 ? static_cast<double>(cached) / static_cast<double>(bytes) : 1.0;
  if (share >= kMostlyCached) {
    choice.engine.inline_reads = true;
    choice.reason = fmt::format("{:.0f} % of the data is in the page cache", share * 100);
  } else if (options.page_cache == CacheUse::kUse) {
    choice.reason = fmt::format(
        "{:.0f} % of the data is in the page cache; through the cache, as requested", share * 100);
  } else if (table.file_bytes() <= FreeMemoryBytes() / 2) {
    choice.reason = fmt::format(
        "{:.0f} % of the data is in the page cache, and all of it fits into "
        "free memory",
        share * 100);
  } else {
    choice.engine.direct = true;
    choice.reason = fmt::format(
        "{:.0f} % of the data is in the page cache, but it does not fit into "
        "free memory: bypassing the cache",
        share * 100);
  }
  return choice;
}

}  // namespace shardfeed
