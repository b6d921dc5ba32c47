// Elements that are kept to be delivered again: in memory, or in a file. Format of the file:
// docs/snapshot.md.

#ifndef SHARDFEED_PIPELINE_DATA_ELEMENT_STORE_H_
#define SHARDFEED_PIPELINE_DATA_ELEMENT_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shardfeed/batch.h"

namespace shardfeed {

// All elements of a stream, in the pieces in which they came. Immutable; thread safe.
class StoredElements {
 public:
  virtual ~StoredElements() = default;
  // For each piece, how many elements there are up to its end.
  const std::vector<uint64_t>& ends() const { return ends_; }
  // DataLoss: it is not any more what was written.
  virtual absl::StatusOr<Batch> Read(size_t piece) const = 0;

 protected:
  std::vector<uint64_t> ends_;
};

// Takes the elements one piece after another. Not thread safe. What is not finished leaves nothing
// behind.
class ElementWriter {
 public:
  virtual ~ElementWriter() = default;
  // ResourceExhausted: they take more than allowed, or the disk is full.
  virtual absl::Status Add(const Batch& batch) = 0;
  virtual absl::StatusOr<std::shared_ptr<const StoredElements>> Finish() = 0;
};

// Copies of the elements in memory, of up to `max_bytes`.
std::unique_ptr<ElementWriter> MakeMemoryWriter(std::shared_ptr<const RowSpec> spec,
                                                uint64_t max_bytes);

// What a file of elements belongs to.
struct ElementFileOptions {
  std::string path;
  std::string chain;  // fingerprint of the chain
  std::shared_ptr<const RowSpec> spec;
  uint64_t max_bytes = UINT64_MAX;
  // The file goes with the last who reads it: for caches.
  bool temporary = false;
};

// A file that is at its path once it is complete and on the storage device; until then it has
// another name beside it, and one that was there before stays.
absl::StatusOr<std::unique_ptr<ElementWriter>> MakeFileWriter(ElementFileOptions options);

// NotFound: there is no such file. FailedPrecondition: it belongs to another chain or other data.
// DataLoss: it is no such file, or damaged.
absl::StatusOr<std::shared_ptr<const StoredElements>> OpenElementFile(
    const ElementFileOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_ELEMENT_STORE_H_
