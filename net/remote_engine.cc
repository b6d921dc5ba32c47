#include "net/remote_engine.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/work_stop.h"
#include "io/buffer.h"
#include "net/block_cache.h"
#include "net/remote_file.h"

namespace shardfeed {
namespace {

// If a cache that should have everything lacks more blocks than this, someone has emptied it.
constexpr uint64_t kFewBlocks = 4;
// The first large transfers are not started at once, but over about the time in which a store
// begins to answer. If the line is what limits, transfers that start together also end together:
// then no byte moves while the next ones wait for an answer, and all of these need memory before
// what has arrived is released.
constexpr std::chrono::milliseconds kFirstStarts(75);
constexpr uint64_t kLargeBytes = 512 << 10;

class RemoteEngine : public Engine {
 public:
  RemoteEngine(int depth, std::shared_ptr<BufferPool> pool, RemoteEngineOptions options)
      : depth_(static_cast<size_t>(depth)), pool_(std::move(pool)), options_(options) {}

  ~RemoteEngine() override {
    for (auto& [number, flight] : flights_) {
      for (const std::shared_ptr<Transfer>& transfer : flight.transfers) transfer->Cancel();
    }
    MutexLock lock(shared_->mutex);
    shared_->changed.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
      return shared_->arrived.size() == transfers_;
    });
  }

  void Submit(absl::Span<const ReadRequest> requests) override {
    queue_.insert(queue_.end(), requests.begin(), requests.end());
    StartMore();
  }

  void Wait(size_t min_results, std::vector<ReadResult>* results) override {
    min_results = std::min(min_results, outstanding());
    size_t given = 0;
    bool woken = false;
    while (true) {
      for (ReadResult& result : ready_) {
        results->push_back(std::move(result));
        ++given;
        ++stats_.requests;
      }
      ready_.clear();
      std::vector<std::pair<uint64_t, absl::Status>> arrived;
      std::vector<FetchedBlock> fetched;
      {
        MutexLock lock(shared_->mutex);
        if (given < min_results && cached_.empty() && !woken) {
          const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
            return shared_->woken || !shared_->arrived.empty() || !shared_->fetched.empty();
          };
          woken = !AwaitWanted(shared_->changed, lock, any);
        }
        woken = std::exchange(shared_->woken, false) || woken;
        arrived.swap(shared_->arrived);
        fetched.swap(shared_->fetched);
      }
      transfers_ -= arrived.size();
      for (auto& [number, status] : arrived) {
        Flight& flight = flights_.at(number);
        flight.status.Update(std::move(status));
        --flight.missing;
        EndIfDone(number);
      }
      for (const FetchedBlock& block : fetched) TakeFetched(block);
      StartMore();
      // One at a time, so that what has been read is checked while processors' caches have it.
      if (given < min_results && !woken && ready_.empty() && !cached_.empty()) {
        const uint64_t number = cached_.front();
        cached_.pop_front();
        ReadCached(number);
        StartMore();
      }
      if (!ready_.empty()) continue;
      if (woken || given >= min_results) return;
    }
  }

  void Wake() override {
    {
      MutexLock lock(shared_->mutex);
      shared_->woken = true;
    }
    shared_->changed.NotifyAll();
  }

  size_t outstanding() const override { return queue_.size() + flights_.size() + ready_.size(); }
  size_t depth() const override { return depth_; }
  bool reads_in_wait() const override { return options_.cached && missing_ < kFewBlocks; }

  EngineStats stats() const override {
    EngineStats stats = stats_;
    stats.mode = "http";
    return stats;
  }

 private:
  struct Flight {
    ReadRequest request;
    char* data = nullptr;
    std::shared_ptr<Buffer> buffer;
    absl::Status status;
    bool unverified = false;
    // Number of transfers, or of blocks to fetch, that are not finished.
    size_t missing = 0;
    std::vector<std::shared_ptr<Transfer>> transfers;

    const RemoteFile& file() const { return static_cast<const RemoteFile&>(*request.file); }
    // The cache's blocks that the request needs.
    uint64_t first_block() const { return request.offset / kCacheBlockBytes; }
    uint64_t end_block() const {
      return (request.offset + request.length - 1) / kCacheBlockBytes + 1;
    }
  };
  using BlockOf = std::pair<std::shared_ptr<const CachedObject>, uint64_t>;
  struct FetchedBlock {
    BlockOf block;
    absl::Status status;
  };
  // A block that requests wait for.
  struct Wanted {
    std::shared_ptr<const File> file;
    std::vector<uint64_t> flights;
  };
  // State that is shared with other threads.
  struct Shared {
    Mutex mutex;
    CondVar changed;
    std::vector<std::pair<uint64_t, absl::Status>> arrived ABSL_GUARDED_BY(mutex);
    std::vector<FetchedBlock> fetched ABSL_GUARDED_BY(mutex);
    bool woken ABSL_GUARDED_BY(mutex) = false;
  };

  void StartMore() {
    while (!queue_.empty() && flights_.size() < depth_) {
      ReadRequest request = std::move(queue_.front());
      queue_.pop_front();
      const File& file = *request.file;
      const bool remote = file.fd() < 0;
      absl::Status status;
      if (request.offset > file.size() || request.length > file.size() - request.offset) {
        status = FileTooShort(file, request.offset, request.offset + request.length);
      }
      const uint64_t number = next_number_++;
      Flight& flight = flights_[number];
      flight.request = std::move(request);
      stats_.max_depth = std::max<uint64_t>(stats_.max_depth, flights_.size());
      if (!status.ok() || !remote || flight.request.length == 0) {
        if (status.ok()) {
          Allocate(flight);
          status = file.ReadExactlyAt(flight.request.offset, {flight.data, flight.request.length});
        }
        flight.status = std::move(status);
        EndIfDone(number);
      } else if (flight.file().cached() == nullptr) {
        Allocate(flight);
        StartTransfer(number, flight, flight.request.offset, flight.request.length);
      } else {
        LookIntoCache(number, flight);
      }
    }
    StartFetches();
  }

  void Allocate(Flight& flight) {
    const ReadRequest& request = flight.request;
    flight.buffer = request.into != nullptr ? request.into : pool_->Allocate(request.length);
    flight.data = flight.buffer->data() + (request.into != nullptr ? request.into_offset : 0);
  }

  void StartTransfer(uint64_t number, Flight& flight, uint64_t offset, uint64_t length) {
    ++flight.missing;
    ++transfers_;
    flight.transfers.push_back(flight.file().Start(
        offset, {flight.data + (offset - flight.request.offset), length},
        [shared = shared_, number](absl::Status done) {
          MutexLock lock(shared->mutex);
          shared->arrived.emplace_back(number, std::move(done));
          shared->changed.NotifyAll();
        },
        FirstDelay(length)));
  }

  // The delay of the next transfer: see kFirstStarts.
  std::chrono::milliseconds FirstDelay(uint64_t length) {
    if (!options_.spread_first || started_ >= depth_ || length < kLargeBytes) {
      return std::chrono::milliseconds(0);
    }
    return kFirstStarts * static_cast<int64_t>(started_++) / static_cast<int64_t>(depth_);
  }

  // Blocks that are not in the cache are fetched before the request gets its memory. Meanwhile, the
  // memory of the blocks takes its place in the reader's budget.
  void LookIntoCache(uint64_t number, Flight& flight) {
    const auto& object = flight.file().cached();
    for (uint64_t block = flight.first_block(); block < flight.end_block(); ++block) {
      if (object->cache().Has(*object, block)) continue;
      ++flight.missing;
      ++missing_;
      const BlockOf key(object, block);
      Wanted& wanted = wanted_[key];
      if (wanted.flights.empty()) {
        wanted.file = flight.request.file;
        to_fetch_.push_back(key);
      }
      wanted.flights.push_back(number);
    }
    if (flight.missing == 0) {
      cached_.push_back(number);
    } else {
      waiting_bytes_ += flight.request.length;
    }
  }

  // Fetches as many blocks as hold the bytes that requests wait for, and at least one.
  void StartFetches() {
    while (!to_fetch_.empty() &&
           (fetching_ == 0 || (fetching_ + 1) * kCacheBlockBytes <= waiting_bytes_)) {
      const BlockOf key = std::move(to_fetch_.front());
      to_fetch_.pop_front();
      ++fetching_;
      const std::shared_ptr<const File> file = wanted_.at(key).file;
      static_cast<const RemoteFile&>(*file).Fetch(
          key.second, [shared = shared_, key](absl::Status status, bool /*kept*/) {
            MutexLock lock(shared->mutex);
            shared->fetched.push_back({key, std::move(status)});
            shared->changed.NotifyAll();
          });
    }
  }

  void TakeFetched(const FetchedBlock& fetched) {
    --fetching_;
    const Wanted wanted = std::move(wanted_.extract(fetched.block).mapped());
    for (const uint64_t number : wanted.flights) {
      Flight& flight = flights_.at(number);
      flight.status.Update(fetched.status);
      if (--flight.missing > 0) continue;
      waiting_bytes_ -= flight.request.length;
      if (flight.status.ok()) {
        cached_.push_back(number);
      } else {
        EndIfDone(number);
      }
    }
  }

  // Reads what the cache has, and asks the store for the rest: for what has found no room, or was
  // let go or damaged since.
  void ReadCached(uint64_t number) {
    Flight& flight = flights_.at(number);
    const ReadRequest& request = flight.request;
    const uint64_t end = request.offset + request.length;
    const auto& object = flight.file().cached();
    Allocate(flight);
    uint64_t from = UINT64_MAX;  // where the range begins that is not in the cache
    for (uint64_t at = request.offset; at < end;) {
      const uint64_t block = at / kCacheBlockBytes;
      const uint64_t stop = std::min(end, (block + 1) * kCacheBlockBytes);
      const absl::Status read =
          object->cache().Read(*object, block, at - block * kCacheBlockBytes,
                               {flight.data + (at - request.offset), stop - at},
                               request.has_checksums ? BlockCheck::kHeader : BlockCheck::kAll);
      if (read.ok() && request.has_checksums) flight.unverified = true;
      if (!read.ok() && from == UINT64_MAX) from = at;
      if (from != UINT64_MAX && (read.ok() || stop == end)) {
        StartTransfer(number, flight, from, (read.ok() ? at : stop) - from);
        from = UINT64_MAX;
      }
      at = stop;
    }
    EndIfDone(number);
  }

  void EndIfDone(uint64_t number) {
    const auto it = flights_.find(number);
    if (it->second.missing > 0) return;
    Flight& flight = it->second;
    ReadResult result;
    result.tag = flight.request.tag;
    if (flight.status.ok()) {
      stats_.bytes_read += flight.request.length;
      result.data = {flight.data, flight.request.length};
      result.unverified = flight.unverified;
      result.buffer = std::move(flight.buffer);
    }
    result.status = std::move(flight.status);
    ready_.push_back(std::move(result));
    flights_.erase(it);
  }

  const size_t depth_;
  const std::shared_ptr<BufferPool> pool_;
  const RemoteEngineOptions options_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::deque<ReadRequest> queue_;
  std::map<uint64_t, Flight> flights_;
  std::vector<ReadResult> ready_;
  uint64_t next_number_ = 0;
  size_t transfers_ = 0;  // started, and not taken from `arrived`
  size_t started_ = 0;    // large ones, of the first depth_

  uint64_t missing_ = 0;         // number of blocks that the cache did not have
  std::deque<uint64_t> cached_;  // flights whose blocks the cache has, or has no room for
  std::map<BlockOf, Wanted> wanted_;
  std::deque<BlockOf> to_fetch_;  // blocks of `wanted_` that are not being fetched yet
  size_t fetching_ = 0;           // number of blocks of `wanted_` that are being fetched
  uint64_t waiting_bytes_ = 0;    // bytes of flights that wait for blocks
  EngineStats stats_;
};

}  // namespace

std::unique_ptr<Engine> MakeRemoteEngine(int depth, std::shared_ptr<BufferPool> pool,
                                         RemoteEngineOptions options) {
  return std::make_unique<RemoteEngine>(
      std::max(1, depth), pool != nullptr ? std::move(pool) : BufferPool::Create(0), options);
}

}  // namespace shardfeed
