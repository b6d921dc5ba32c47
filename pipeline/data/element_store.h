// Elements stored to be delivered again, in memory or in a file. The format of the file is in
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

// All elements of a stream, in the pieces in which they arrived. Immutable and thread-safe.
class StoredElements {
 public:
  virtual ~StoredElements() = default;
  // For each piece, the number of elements up to its end.
  const std::vector<uint64_t>& ends() const { return ends_; }
  // DataLoss: the piece is not what was written.
  virtual absl::StatusOr<Batch> Read(size_t piece) const = 0;

 protected:
  std::vector<uint64_t> ends_;
};

// Collects the elements piece by piece. Not thread-safe. An unfinished writer leaves nothing
// behind.
class ElementWriter {
 public:
  virtual ~ElementWriter() = default;
  // ResourceExhausted: the elements exceed the limit, or the disk is full.
  virtual absl::Status Add(const Batch& batch) = 0;
  virtual absl::StatusOr<std::shared_ptr<const StoredElements>> Finish() = 0;
};

// Keeps copies of the elements in memory, up to `max_bytes`.
std::unique_ptr<ElementWriter> MakeMemoryWriter(std::shared_ptr<const RowSpec> spec,
                                                uint64_t max_bytes);

// The chain and data that a file of elements belongs to.
struct ElementFileOptions {
  std::string path;
  std::string chain;  // fingerprint of the chain
  std::shared_ptr<const RowSpec> spec;
  uint64_t max_bytes = UINT64_MAX;
  // Writes a temporary file, which is removed with its last reader: for caches.
  bool temporary = false;
};

// Writes a file that appears at its path when it is complete and on the storage device. Until then
// it has another name beside it, and an older file stays.
absl::StatusOr<std::unique_ptr<ElementWriter>> MakeFileWriter(ElementFileOptions options);

// NotFound: the file does not exist. FailedPrecondition: it belongs to another chain or other data.
// DataLoss: it is not such a file, or is damaged.
absl::StatusOr<std::shared_ptr<const StoredElements>> OpenElementFile(
    const ElementFileOptions& options);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_DATA_ELEMENT_STORE_H_
