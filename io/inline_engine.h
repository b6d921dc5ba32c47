// Engines that read in Wait, on the thread that calls it.

#ifndef SHARDFEED_IO_INLINE_ENGINE_H_
#define SHARDFEED_IO_INLINE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "io/engine.h"

namespace shardfeed {

// Reads one request after another, in the order in which they were submitted.
class InlineEngine : public Engine {
 public:
  void Submit(absl::Span<const ReadRequest> requests) override {
    queue_.insert(queue_.end(), requests.begin(), requests.end());
  }
  void Wait(size_t min_results, std::vector<ReadResult>* results) override {
    for (; min_results > 0 && !queue_.empty(); --min_results) {
      results->push_back(Read(queue_.front(), &stats_.bytes_read));
      queue_.pop_front();
      ++stats_.requests;
      stats_.max_depth = 1;
    }
  }
  void Wake() override {}
  size_t outstanding() const override { return queue_.size(); }
  // More requests than these would only queue.
  size_t depth() const override { return 32; }
  bool reads_in_wait() const override { return true; }
  EngineStats stats() const override { return stats_; }

 protected:
  InlineEngine(std::string mode, std::string reason) {
    stats_.mode = std::move(mode);
    stats_.reason = std::move(reason);
  }

 private:
  // Reads what is requested and adds to `bytes` how much was read for it.
  virtual ReadResult Read(const ReadRequest& request, uint64_t* bytes) = 0;

  std::deque<ReadRequest> queue_;
  EngineStats stats_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_INLINE_ENGINE_H_
