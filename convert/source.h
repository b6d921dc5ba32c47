// Raw data as a sequence of items that each become one record.

#ifndef SHARDFEED_CONVERT_SOURCE_H_
#define SHARDFEED_CONVERT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tfrecord/example_builder.h"

namespace shardfeed {

// One raw record and where it came from. `bytes` mean something only to the source that made the
// item (a path, a row of a table ...), and live until the callback that got the item returns.
struct Item {
  std::string_view bytes;
  uint32_t file = 0;  // which of the source's files
  uint64_t line = 0;  // 1-based line in that file where the item starts; 0 where lines mean nothing
};

// A kind of raw data. The calls come in the order Scan, then any number of ForEach and Build.
//
// Errors: NotFound and the like for files that cannot be read; DataLoss for content that is not
// what it should be, with "FILE:LINE: ..." or "FILE: ..." and the remedy.
class Source {
 public:
  virtual ~Source() = default;

  // Reads the whole input once (names only, for folders): counts the records and fixes the names
  // and types of their features. `progress` is called now and then with the bytes read so far.
  virtual absl::Status Scan(std::stop_token stop,
                            const std::function<void(uint64_t bytes)>& progress) = 0;

  // Known after Scan.
  virtual uint64_t num_records() const = 0;
  // The input's size: a measure for progress and, roughly, for the size of the output.
  virtual uint64_t num_bytes() const = 0;
  // The mean size of a record, about, where the scan tells it; 0 where records have to be built for
  // that.
  virtual uint64_t mean_record_bytes() const { return 0; }
  // Notes for the user, such as "skipped 2 files that are not pictures: a/Thumbs.db, ...". What is
  // counted while records are built is complete when all are, each of them once.
  virtual std::vector<std::string> notes() const { return {}; }

  // Hands the items to `sink` one after another in a fixed order (sorted folders and names; rows as
  // they stand). Stops at the first error of `sink` and returns it.
  virtual absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const = 0;

  // Adds the item's features to an empty `builder`. Thread safe. What it adds as borrowed lives
  // until the next call on the same thread.
  virtual absl::Status Build(const Item& item, ExampleBuilder& builder) const = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCE_H_
