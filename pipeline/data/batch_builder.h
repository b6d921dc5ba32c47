// Copies rows of batches into new memory.

#ifndef SHARDFEED_PIPELINE_DATA_BATCH_BUILDER_H_
#define SHARDFEED_PIPELINE_DATA_BATCH_BUILDER_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "shardfeed/batch.h"

namespace shardfeed {

// Rounds `n` up to the alignment of columns, 64 bytes.
constexpr size_t AlignedColumnBytes(size_t n) { return (n + 63) / 64 * 64; }

// Combines rows of several batches into one batch in new memory. Not thread-safe.
class BatchBuilder {
 public:
  explicit BatchBuilder(std::shared_ptr<const RowSpec> spec, HostAllocator allocator = {});

  // Copies rows [begin, begin + count) of `batch`, whose spec must be the same. The payloads of
  // bytes columns are shared, not copied.
  void Append(const Batch& batch, size_t begin, size_t count);
  // The same for the batch that was appended last.
  void AppendMore(size_t begin, size_t count) { AppendOf(batches_.size() - 1, begin, count); }
  // Copies the values of row `row` of the batch that was appended last, but with the origin of row
  // `place`, and as padding if that is padding.
  void AppendInPlaceOf(size_t place, size_t row) {
    AppendPiece({batches_.size() - 1, row, 1, place});
  }
  // For many rows of a few batches: Add returns a number for a batch, which is valid until Finish.
  size_t Add(const Batch& batch);
  void AppendOf(size_t batch, size_t begin, size_t count) {
    AppendPiece({batch, begin, count, begin});
  }
  size_t rows() const { return rows_; }
  // Returns the rows so far, in order; the builder is empty afterwards.
  Batch Finish(bool batched);

 private:
  struct Piece {
    size_t batch;  // index into batches_
    size_t begin;
    size_t count;
    size_t place;  // the first of the rows whose origins these rows have
  };
  void AppendPiece(const Piece& piece);

  std::shared_ptr<const RowSpec> spec_;
  HostAllocator allocator_;
  std::vector<Batch> batches_;
  std::vector<Piece> pieces_;
  size_t rows_ = 0;
};

// Memory from `allocator`, as it specifies.
std::shared_ptr<char> AllocateValues(size_t size, const HostAllocator& allocator);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_BATCH_BUILDER_H_
