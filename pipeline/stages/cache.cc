#include "pipeline/stages/cache.h"

#include <algorithm>
#include <utility>

namespace shardfeed {
namespace {

class CacheStage : public Stage {
 public:
  CacheStage(CachePlan plan, std::shared_ptr<ElementCache> cache, uint64_t epoch)
      : plan_(std::move(plan)), cache_(std::move(cache)), epoch_(epoch) {}

  // Starts from the first element.
  absl::Status Open() {
    piece_ = 0;
    delivered_ = 0;
    input_ = nullptr;
    writer_ = nullptr;
    stored_ = cache_->stored();
    if (stored_ != nullptr) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<Stage>> input = plan_.input();
    if (!input.ok()) return input.status();
    absl::StatusOr<std::unique_ptr<ElementWriter>> writer = plan_.writer();
    if (!writer.ok()) return writer.status();
    input_ = *std::move(input);
    writer_ = *std::move(writer);
    return absl::OkStatus();
  }

  absl::Status Next(Batch* out) override {
    while (true) {
      absl::Status status = NextPiece(out);
      if (!status.ok()) return status;
      if (out->empty()) return CheckNothingToSkip(skip_);
      // Later random steps must draw other numbers in each epoch.
      for (RowOrigin& origin : out->origins) origin.later += epoch_;
      const uint64_t n = out->num_elements();
      const uint64_t dropped = std::min(skip_, n);
      skip_ -= dropped;
      delivered_ += n;
      if (dropped == n) continue;
      if (dropped > 0) *out = out->Slice(dropped, n - dropped);
      return absl::OkStatus();
    }
  }
  void Save(StateWords* words) const override { words->push_back(delivered_ + skip_); }
  absl::Status Load(StateReader* words) override {
    skip_ = words->Read();
    absl::Status status = Open();
    if (!status.ok() || stored_ == nullptr) return status;
    // Go directly to the piece with the element.
    const std::vector<uint64_t>& ends = stored_->ends();
    piece_ = std::upper_bound(ends.begin(), ends.end(), skip_) - ends.begin();
    delivered_ = piece_ == 0 ? 0 : ends[piece_ - 1];
    skip_ -= delivered_;
    return words->status();
  }

 private:
  absl::Status NextPiece(Batch* out) {
    *out = Batch();
    if (stored_ != nullptr) {
      if (piece_ == stored_->ends().size()) return absl::OkStatus();
      absl::StatusOr<Batch> batch = stored_->Read(piece_++);
      if (!batch.ok()) return batch.status();
      *out = *std::move(batch);
      return absl::OkStatus();
    }
    absl::Status status = input_->Next(out);
    if (!status.ok()) return status;
    if (!out->empty()) return writer_->Add(*out);
    absl::StatusOr<std::shared_ptr<const StoredElements>> stored = writer_->Finish();
    if (!stored.ok()) return stored.status();
    stored_ = *std::move(stored);
    piece_ = stored_->ends().size();
    input_ = nullptr;
    writer_ = nullptr;
    cache_->Publish(stored_);
    return absl::OkStatus();
  }

  const CachePlan plan_;
  const std::shared_ptr<ElementCache> cache_;
  const uint64_t epoch_;
  std::shared_ptr<const StoredElements> stored_;
  std::unique_ptr<Stage> input_;
  std::unique_ptr<ElementWriter> writer_;
  size_t piece_ = 0;        // next piece of stored_
  uint64_t delivered_ = 0;  // number of elements so far
  uint64_t skip_ = 0;       // elements to drop, after Load
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stage>> MakeCacheStage(CachePlan plan,
                                                      std::shared_ptr<ElementCache> cache,
                                                      uint64_t epoch) {
  auto stage = std::make_unique<CacheStage>(std::move(plan), std::move(cache), epoch);
  if (absl::Status status = stage->Open(); !status.ok()) return status;
  return stage;
}

}  // namespace shardfeed
