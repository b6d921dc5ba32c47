#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/thread.h"
#include "pipeline/data/batch_builder.h"
#include "pipeline/rows/row_step.h"
#include "pipeline/stages/sources.h"

namespace shardfeed {
namespace {

// A generator and the thread that calls it. Both own the shared state, so that a stage may abandon
// a thread whose call does not return.
class GeneratorFeed {
 public:
  // Starts the thread, which calls `make`.
  static absl::StatusOr<std::unique_ptr<GeneratorFeed>> Start(std::function<Generator()> make) {
    std::unique_ptr<GeneratorFeed> feed(new GeneratorFeed());
    absl::StatusOr<std::thread> thread =
        StartThread([shared = feed->shared_, make = std::move(make)]() mutable {
          Work(*shared, std::exchange(make, nullptr));
          // The functions have been destroyed. After this, the thread touches nothing of the stage.
          MutexLock lock(shared->mutex);
          shared->finished = true;
          shared->changed.NotifyAll();
        });
    if (!thread.ok()) return thread.status();
    feed->thread_ = *std::move(thread);
    return feed;
  }

  // Waits for at most kPatience: a call that takes longer is abandoned, and its result dropped.
  ~GeneratorFeed() {
    if (!thread_.joinable()) return;
    bool finished = false;
    {
      MutexLock lock(shared_->mutex);
      shared_->stopping = true;
      shared_->changed.NotifyAll();
      finished = shared_->changed.WaitFor(
          lock, kPatience,
          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) { return shared_->finished; });
    }
    if (finished) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

  // Lets the thread make rows until up to `rows` are not taken yet. Waits for the first of them,
  // the end or an error, and then a moment for more, so as not to switch threads for each row.
  // Returns false if nothing came by `deadline`.
  bool Await(uint64_t rows, std::chrono::steady_clock::time_point deadline,
             const std::stop_token& stop) {
    MutexLock lock(shared_->mutex);
    const auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
      return !shared_->made.empty() || shared_->ended;
    };
    if (there()) return true;
    shared_->wanted = rows;
    shared_->changed.NotifyAll();
    if (!shared_->changed.WaitUntil(lock, stop, deadline, there)) return false;
    shared_->changed.WaitFor(lock, stop, kMoment,
                             [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared_->mutex) {
                               return shared_->wanted == 0 || shared_->ended;
                             });
    return true;
  }

  // Takes what was made; empty at the end or after an error, which `*status` gets.
  std::vector<Batch> Take(absl::Status* status) {
    MutexLock lock(shared_->mutex);
    // The thread finishes its call and makes nothing more until asked again.
    shared_->wanted = 0;
    if (shared_->made.empty()) *status = shared_->status;
    return std::exchange(shared_->made, {});
  }

 private:
  // An exit of the interpreter, or Ctrl-C, should take less than a third of a second.
  static constexpr auto kPatience = std::chrono::milliseconds(200);
  static constexpr auto kMoment = std::chrono::microseconds(200);

  struct Shared {
    Mutex mutex;
    StopCondVar changed;
    uint64_t wanted ABSL_GUARDED_BY(mutex) = 0;  // rows that may still be made
    std::vector<Batch> made ABSL_GUARDED_BY(mutex);
    bool ended ABSL_GUARDED_BY(mutex) = false;
    absl::Status status ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool finished ABSL_GUARDED_BY(mutex) = false;
  };

  GeneratorFeed() : shared_(std::make_shared<Shared>()) {}

  static void Work(Shared& shared, const std::function<Generator()>& make) {
    Generator generator;
    MutexLock lock(shared.mutex);
    while (!shared.stopping && !shared.ended) {
      if (shared.wanted == 0) {
        shared.changed.Wait(lock);
        continue;
      }
      lock.Unlock();
      absl::StatusOr<Batch> rows = Call(make, generator);
      lock.Lock();
      if (rows.ok() && !rows->empty()) {
        shared.wanted -= std::min<uint64_t>(shared.wanted, rows->rows);
        if (!shared.stopping) shared.made.push_back(*std::move(rows));
      } else {
        shared.ended = true;
        shared.status = rows.status();
      }
      if (shared.made.size() <= 1 || shared.wanted == 0 || shared.ended) {
        shared.changed.NotifyAll();
      }
    }
    lock.Unlock();
  }

  static absl::StatusOr<Batch> Call(const std::function<Generator()>& make, Generator& generator) {
    try {
      if (!generator) generator = make();
      return generator();
    } catch (const std::bad_alloc& error) {
      return NoRoom("generator", error);
    } catch (const std::exception& e) {
      return absl::InternalError(fmt::format("generator: {}", e.what()));
    }
  }

  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

class GeneratorStage : public Stage {
 public:
  GeneratorStage(std::function<Generator()> make, std::shared_ptr<const RowSpec> spec,
                 uint64_t epoch, uint32_t source)
      : make_(std::move(make)), spec_(std::move(spec)), epoch_(epoch), source_(source) {}

  absl::Status Next(Batch* out) override {
    while (true) {
      *out = Batch();
      if (absl::Status status = Start(); !status.ok()) return status;
      if (!feed_->Await(rows_, std::chrono::steady_clock::time_point::max(), WorkStop::Token())) {
        return absl::CancelledError("the run was cancelled");
      }
      absl::Status status;
      const std::vector<Batch> made = feed_->Take(&status);
      if (made.empty()) {
        return status.ok() ? CheckNothingToSkip(skip_)
                           : absl::Status(status.code(),
                                          fmt::format("element {} of epoch {}: {}", position_,
                                                      epoch_, std::string(status.message())));
      }
      rows_ = std::min(2 * rows_, kMostRows);
      BatchBuilder builder(spec_);
      for (const Batch& rows : made) {
        if (rows.batched || rows.spec == nullptr || *rows.spec != *spec_) {
          return absl::InvalidArgumentError(
              fmt::format("generator: it returned {}{}, but was declared to return {}",
                          rows.batched ? "batches of " : "",
                          rows.spec ? RowSpecText(*rows.spec) : "nothing", RowSpecText(*spec_)));
        }
        builder.Append(rows, 0, rows.rows);
      }
      *out = builder.Finish(/*batched=*/false);
      out->origins = {{0, source_, epoch_, position_, 1}};
      const uint64_t first = std::min<uint64_t>(skip_, out->rows);
      skip_ -= first;
      position_ += out->rows;
      if (first == out->rows) continue;
      if (first > 0) *out = out->Slice(first, out->rows - first);
      return absl::OkStatus();
    }
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override {
    // Dropping elements first takes more than one call.
    if (skip_ > 0) return std::nullopt;
    if (!Start().ok()) return true;
    return feed_->Await(rows_, std::chrono::steady_clock::now() + most, WorkStop::Token()) ||
           WorkStop::Token().stop_requested();
  }
  void Save(StateWords* words) const override { words->push_back(position_ + skip_); }
  absl::Status Load(StateReader* words) override {
    feed_ = nullptr;
    rows_ = 1;
    position_ = 0;
    skip_ = words->Read();
    return words->status();
  }

 private:
  // The most rows to make ahead of the consumer. The number grows from one, so that a consumer of
  // few elements has few drawn ahead.
  static constexpr uint64_t kMostRows = 64;

  absl::Status Start() {
    if (feed_ != nullptr) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<GeneratorFeed>> feed = GeneratorFeed::Start(make_);
    if (!feed.ok()) return feed.status();
    feed_ = *std::move(feed);
    return absl::OkStatus();
  }

  const std::function<Generator()> make_;
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t epoch_;
  const uint32_t source_;
  std::unique_ptr<GeneratorFeed> feed_;
  uint64_t rows_ = 1;  // number of rows to make ahead
  uint64_t position_ = 0;
  uint64_t skip_ = 0;
};

}  // namespace

std::unique_ptr<Stage> MakeGeneratorStage(std::function<Generator()> make,
                                          std::shared_ptr<const RowSpec> spec, uint64_t epoch,
                                          uint32_t source) {
  return std::make_unique<GeneratorStage>(std::move(make), std::move(spec), epoch, source);
}

}  // namespace shardfeed
