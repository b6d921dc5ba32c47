#include "pipeline/stages/batching.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "io/buffer.h"
#include "pipeline/data/batch_builder.h"
#include "pipeline/stages/padding_value.h"
#include "pipeline/stages/pending_rows.h"

namespace shardfeed {
namespace {

class BatchStage : public Stage {
 public:
  BatchStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, uint64_t size,
             bool drop_remainder, HostAllocator allocator)
      : queue_(std::move(input)),
        builder_(std::move(spec), std::move(allocator)),
        size_(size),
        drop_remainder_(drop_remainder) {}

  absl::Status Next(Batch* out) override {
    while (builder_.rows() < size_) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) break;
      const size_t n = std::min<uint64_t>(size_ - builder_.rows(), queue_.left());
      builder_.Append(queue_.head(), queue_.at(), n);
      queue_.Advance(n);
    }
    const bool whole = builder_.rows() == size_;
    *out = builder_.Finish(/*batched=*/true);
    if (!whole && drop_remainder_) *out = Batch();
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { queue_.Save(words); }
  absl::Status Load(StateReader* words) override {
    (void)builder_.Finish(/*batched=*/true);  // rows that an error left there
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  BatchBuilder builder_;
  const uint64_t size_;
  const bool drop_remainder_;
};

class UnbatchStage : public Stage {
 public:
  explicit UnbatchStage(std::unique_ptr<Stage> input) : input_(std::move(input)) {}

  absl::Status Next(Batch* out) override {
    absl::Status status = input_->Next(out);
    out->batched = false;
    return status;
  }
  void Save(StateWords* words) const override { input_->Save(words); }
  absl::Status Load(StateReader* words) override { return input_->Load(words); }

 private:
  const std::unique_ptr<Stage> input_;
};

class BucketStage : public Stage {
 public:
  BucketStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, size_t column,
              std::vector<int64_t> boundaries, std::vector<uint64_t> sizes, bool drop_remainder)
      : rows_(std::move(input)),
        spec_(std::move(spec)),
        column_(column),
        boundaries_(std::move(boundaries)),
        sizes_(std::move(sizes)),
        drop_remainder_(drop_remainder),
        buckets_(sizes_.size()) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (true) {
      PendingRow row;
      absl::Status status = rows_.Next(&row);
      if (!status.ok()) return status;
      if (row.batch.empty()) break;
      const size_t b = std::upper_bound(boundaries_.begin(), boundaries_.end(),
                                        RowLength(row.batch, column_, 0)) -
                       boundaries_.begin();
      buckets_[b].push_back(std::move(row));
      if (buckets_[b].size() < sizes_[b]) continue;
      Emit(b, out);
      return absl::OkStatus();
    }
    if (drop_remainder_) return absl::OkStatus();
    for (size_t b = 0; b < buckets_.size(); ++b) {
      if (buckets_[b].empty()) continue;
      Emit(b, out);
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { rows_.Save(words); }
  absl::Status Load(StateReader* words) override {
    for (auto& bucket : buckets_) bucket.clear();
    return rows_.Load(words);
  }

 private:
  void Emit(size_t b, Batch* out) {
    BatchBuilder builder(spec_);
    for (PendingRow& row : buckets_[b]) {
      builder.Append(row.batch, 0, 1);
      rows_.Done(row.number);
    }
    *out = builder.Finish(/*batched=*/true);
    rows_.TellHeld(buckets_[b], out);
    buckets_[b].clear();
  }

  PendingRows rows_;
  const std::shared_ptr<const RowSpec> spec_;
  const size_t column_;
  const std::vector<int64_t> boundaries_;
  const std::vector<uint64_t> sizes_;
  const bool drop_remainder_;
  std::vector<std::vector<PendingRow>> buckets_;
};

class BudgetBatchStage : public Stage {
 public:
  BudgetBatchStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, size_t column,
                   int64_t budget)
      : queue_(std::move(input)), builder_(std::move(spec)), column_(column), budget_(budget) {}

  absl::Status Next(Batch* out) override {
    int64_t longest = 0;
    while (true) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) break;
      const int64_t length = std::max(longest, RowLength(queue_.head(), column_, queue_.at()));
      const int64_t rows = static_cast<int64_t>(builder_.rows()) + 1;
      if (rows > 1 && length > budget_ / rows) break;
      longest = length;
      builder_.Append(queue_.head(), queue_.at(), 1);
      queue_.Advance(1);
    }
    *out = builder_.Finish(/*batched=*/true);
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override { queue_.Save(words); }
  absl::Status Load(StateReader* words) override {
    (void)builder_.Finish(/*batched=*/true);  // rows that an error left there
    return queue_.Load(words);
  }

 private:
  ElementQueue queue_;
  BatchBuilder builder_;
  const size_t column_;
  const int64_t budget_;
};

}  // namespace

int64_t RowLength(const Batch& batch, size_t column, size_t row) {
  const Column& c = batch.columns[column];
  if (c.splits != nullptr) return c.splits[row + 1] - c.splits[row];
  if ((*batch.spec)[column].dtype == DType::kInt64) {
    return reinterpret_cast<const int64_t*>(c.data)[row];
  }
  return static_cast<int64_t>(reinterpret_cast<const std::string_view*>(c.data)[row].size());
}

std::unique_ptr<Stage> MakeBatchStage(std::unique_ptr<Stage> input,
                                      std::shared_ptr<const RowSpec> spec, uint64_t size,
                                      bool drop_remainder, HostAllocator allocator) {
  return std::make_unique<BatchStage>(std::move(input), std::move(spec), size, drop_remainder,
                                      std::move(allocator));
}

std::unique_ptr<Stage> MakeUnbatchStage(std::unique_ptr<Stage> input) {
  return std::make_unique<UnbatchStage>(std::move(input));
}

std::unique_ptr<Stage> MakeBucketStage(std::unique_ptr<Stage> input,
                                       std::shared_ptr<const RowSpec> spec, size_t column,
                                       std::vector<int64_t> boundaries, std::vector<uint64_t> sizes,
                                       bool drop_remainder) {
  return std::make_unique<BucketStage>(std::move(input), std::move(spec), column,
                                       std::move(boundaries), std::move(sizes), drop_remainder);
}

std::unique_ptr<Stage> MakeBudgetBatchStage(std::unique_ptr<Stage> input,
                                            std::shared_ptr<const RowSpec> spec, size_t column,
                                            int64_t budget) {
  return std::make_unique<BudgetBatchStage>(std::move(input), std::move(spec), column, budget);
}

BatchFn MakePadFn(std::map<std::string, Padding> by_name) {
  // Batches hold it too, because their bytes columns have views of its strings.
  auto shared = std::make_shared<const std::map<std::string, Padding>>(std::move(by_name));
  return [shared](Batch& batch) -> absl::Status {
    static const Padding& kZeros = *new Padding();
    const std::map<std::string, Padding>& padding = *shared;
    Batch padded = batch;
    auto spec = std::make_shared<RowSpec>(*batch.spec);
    // Allocate memory only for the columns that become fixed.
    auto fresh = std::make_shared<RowSpec>();
    std::vector<size_t> numbers;
    for (size_t c = 0; c < spec->size(); ++c) {
      ColumnSpec& s = (*spec)[c];
      if (!s.ragged) continue;
      const auto it = padding.find(s.name);
      const int64_t* splits = batch.columns[c].splits;
      int64_t longest = 0;
      for (size_t r = 0; r < batch.rows; ++r)
        longest = std::max(longest, splits[r + 1] - splits[r]);
      int64_t length = it == padding.end() ? 0 : it->second.length;
      if (length > 0 && longest > length) {
        return absl::InvalidArgumentError(
            fmt::format("column '{}': a row has {} elements, more than the padded length of {}",
                        s.name, longest, length));
      }
      if (length == 0) length = longest;
      s.ragged = false;
      s.shape.insert(s.shape.begin(), length);
      fresh->push_back(s);
      numbers.push_back(c);
    }
    if (numbers.empty()) return absl::OkStatus();
    Batch memory;
    memory.rows = batch.rows;
    memory.spec = fresh;
    AllocateFixedColumns(&memory);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t c = numbers[i];
      const ColumnSpec& s = (*fresh)[i];
      const size_t element = (*batch.spec)[c].bytes();
      const auto it = padding.find(s.name);
      const Padding& how = it == padding.end() ? kZeros : it->second;
      const absl::StatusOr<PaddingValue> value = PaddingValueOf("pad", (*batch.spec)[c], how);
      if (!value.ok()) return value.status();
      const int64_t* splits = batch.columns[c].splits;
      char* to = memory.columns[i].data;
      for (size_t r = 0; r < batch.rows; ++r) {
        const size_t n = (splits[r + 1] - splits[r]) * element;
        if (n > 0) std::memcpy(to, batch.columns[c].data + splits[r] * element, n);
        FillWith(*value, s.dtype, (s.bytes() - n) / DTypeSize(s.dtype), to + n);
        to += s.bytes();
      }
      padded.columns[c] = memory.columns[i];
    }
    for (auto& owner : memory.memory) padded.memory.push_back(std::move(owner));
    padded.memory.push_back(shared);
    padded.spec = std::move(spec);
    batch = std::move(padded);
    return absl::OkStatus();
  };
}

std::string IndicesName(std::string_view column) { return fmt::format("{}_indices", column); }

BatchFn MakeSparseFn(std::vector<std::string> columns) {
  return [columns = std::move(columns)](Batch& batch) -> absl::Status {
    Batch out = batch;
    auto spec = std::make_shared<RowSpec>(*batch.spec);
    for (const std::string& name : columns) {
      const int64_t* splits = batch.columns[batch.Find(name)].splits;
      const int64_t elements = splits[batch.rows] - splits[0];
      const size_t splits_size = (batch.rows + 1 + 7) / 8 * 8;
      std::shared_ptr<Buffer> buffer =
          Buffer::Allocate((splits_size + 2 * elements) * sizeof(int64_t));
      auto* to = reinterpret_cast<int64_t*>(buffer->data());
      int64_t* indices = to + splits_size;
      out.columns.push_back({reinterpret_cast<char*>(indices), to});
      *to = 0;
      for (size_t r = 0; r < batch.rows; ++r) {
        const int64_t n = splits[r + 1] - splits[r];
        for (int64_t i = 0; i < n; ++i) {
          *indices++ = static_cast<int64_t>(r);
          *indices++ = i;
        }
        to[r + 1] = to[r] + n;
      }
      spec->push_back({IndicesName(name), DType::kInt64, {2}, true});
      out.memory.push_back(std::move(buffer));
    }
    out.spec = std::move(spec);
    batch = std::move(out);
    return absl::OkStatus();
  };
}

}  // namespace shardfeed
