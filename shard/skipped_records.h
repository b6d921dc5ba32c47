// Raw records that were broken, and left out on request.

#ifndef SHARDFEED_SHARD_SKIPPED_RECORDS_H_
#define SHARDFEED_SHARD_SKIPPED_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardfeed {

struct SkippedRecords {
  // What is wrong with those after the first so many is not kept.
  static constexpr size_t kMaxFirst = 100;

  uint64_t count = 0;
  std::vector<std::string> first;

  void Add(std::string what) {
    ++count;
    if (first.size() < kMaxFirst) first.push_back(std::move(what));
  }
  void Append(const SkippedRecords& later) {
    count += later.count;
    for (const std::string& what : later.first) {
      if (first.size() < kMaxFirst) first.push_back(what);
    }
  }

  friend bool operator==(const SkippedRecords&, const SkippedRecords&) = default;
};

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SKIPPED_RECORDS_H_
