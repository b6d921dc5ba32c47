#include "net/remote_engine.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "io/buffer.h"
#include "net/remote_file.h"

namespace shardfeed {
namespace {

class RemoteEngine : public Engine {
 public:
  RemoteEngine(int depth, std::shared_ptr<BufferPool> pool)
      : depth_(static_cast<size_t>(depth)), pool_(std::move(pool)) {}

  ~RemoteEngine() override {
    for (auto& [number, flight] : flights_) flight.transfer->Cancel();
    MutexLock lock(shared_->mutex);
    shared_->changed.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
      return shared_->arrived.size() == flights_.size();
    });
  }

  void Submit(absl::Span<const ReadRequest> requests) override {
    queue_.insert(queue_.end(), requests.begin(), requests.end());
    StartMore();
  }

  void Wait(size_t min_results, std::vector<ReadResult>* results) override {
    min_results = std::min(min_results, outstanding());
    size_t given = 0;
    const auto give = [&](ReadResult result) {
      results->push_back(std::move(result));
      ++given;
      ++stats_.requests;
    };
    while (true) {
      for (ReadResult& result : ready_) give(std::move(result));
      ready_.clear();
      std::vector<std::pair<uint64_t, absl::Status>> arrived;
      bool woken = false;
      {
        MutexLock lock(shared_->mutex);
        if (given < min_results) {
          shared_->changed.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
            return shared_->woken || !shared_->arrived.empty();
          });
        }
        woken = std::exchange(shared_->woken, false);
        arrived.swap(shared_->arrived);
      }
      for (auto& [number, status] : arrived) {
        const auto it = flights_.find(number);
        Flight flight = std::move(it->second);
        flights_.erase(it);
        stats_.bytes_read += flight.request.length;
        ReadResult result;
        result.tag = flight.request.tag;
        result.status = std::move(status);
        if (result.status.ok()) {
          result.data = {flight.data, flight.request.length};
          result.buffer = std::move(flight.buffer);
        }
        give(std::move(result));
      }
      StartMore();
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
    std::shared_ptr<Transfer> transfer;
  };
  // What the client's thread has.
  struct Shared {
    Mutex mutex;
    CondVar changed;
    std::vector<std::pair<uint64_t, absl::Status>> arrived ABSL_GUARDED_BY(mutex);
    bool woken ABSL_GUARDED_BY(mutex) = false;
  };

  void StartMore() {
    while (!queue_.empty() && flights_.size() < depth_) {
      Flight flight;
      flight.request = std::move(queue_.front());
      queue_.pop_front();
      const ReadRequest& request = flight.request;
      const File& file = *request.file;
      flight.buffer = request.into != nullptr ? request.into : pool_->Allocate(request.length);
      flight.data = flight.buffer->data() + (request.into != nullptr ? request.into_offset : 0);
      const absl::Span<char> into(flight.data, request.length);
      absl::Status status;
      const bool remote = file.fd() < 0;
      if (request.offset > file.size() || request.length > file.size() - request.offset) {
        status = FileTooShort(file, request.offset, request.offset + request.length);
      } else if (!remote) {
        status = file.ReadExactlyAt(request.offset, into);
      }
      if (!status.ok() || !remote || request.length == 0) {
        ReadResult result;
        result.tag = request.tag;
        if (status.ok()) {
          result.data = {flight.data, request.length};
          result.buffer = std::move(flight.buffer);
        }
        result.status = std::move(status);
        ready_.push_back(std::move(result));
        continue;
      }
      const uint64_t number = next_number_++;
      Flight& kept = flights_[number] = std::move(flight);
      stats_.max_depth = std::max<uint64_t>(stats_.max_depth, flights_.size());
      kept.transfer =
          static_cast<const RemoteFile&>(*kept.request.file)
              .Start(kept.request.offset, into, [shared = shared_, number](absl::Status done) {
                MutexLock lock(shared->mutex);
                shared->arrived.emplace_back(number, std::move(done));
                shared->changed.NotifyAll();
              });
    }
  }

  const size_t depth_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::deque<ReadRequest> queue_;
  std::map<uint64_t, Flight> flights_;
  std::vector<ReadResult> ready_;
  uint64_t next_number_ = 0;
  EngineStats stats_;
};

}  // namespace

std::unique_ptr<Engine> MakeRemoteEngine(int depth, std::shared_ptr<BufferPool> pool) {
  return std::make_unique<RemoteEngine>(std::max(1, depth),
                                        pool != nullptr ? std::move(pool) : BufferPool::Create(0));
}

}  // namespace shardfeed
