// Small datasets whose records contain their numbers.

#ifndef SHARDFEED_TESTS_READER_DATASET_FIXTURE_H_
#define SHARDFEED_TESTS_READER_DATASET_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "io/output_file.h"
#include "reader/shards/shard_table.h"
#include "shard/index/index.h"
#include "shard/indexing/index_build.h"
#include "shard/names/names.h"
#include "shard/spec/spec.h"
#include "tests/testing/files.h"
#include "tfrecord/framing.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed::testing {

// Record `i`: its number, and more bytes, as determined by `bytes` and the number (some have none).
inline std::string RecordText(uint64_t i, uint64_t bytes = 50) {
  std::string text = fmt::format("{:08}", i);
  const uint64_t more = i * 2654435761 % (bytes + 1);
  text.append(more, static_cast<char>('a' + i % 26));
  return text;
}

// Writes shards with the numbers of records in `sizes`, numbered through all of them.
inline ShardSet WriteShards(const TestFolder& folder, const std::vector<uint64_t>& sizes,
                            uint64_t bytes = 50, bool gzip = false) {
  uint64_t number = 0;
  for (size_t s = 0; s < sizes.size(); ++s) {
    std::string shard;
    std::string member;
    for (uint64_t i = 0; i < sizes[s]; ++i) {
      AppendFrame(RecordText(number++, bytes), gzip ? &member : &shard);
      if (gzip && member.size() > 2000) {
        AppendGzipMember(member, 6, &shard);
        member.clear();
      }
    }
    if (gzip) AppendGzipMember(member, 6, &shard);
    folder.Write(ShardName("d", s, sizes.size(), ""), shard);
  }
  return *ResolveSpec(folder / fmt::format("d@{}", sizes.size()));
}

// Writes the indexes beside the shards. A table of shards in a folder would keep those that it
// builds; one of shards in a store has them in memory alone.
inline void KeepIndexes(const ShardSet& set) {
  for (const std::string& path : set.paths) EXPECT_OK(IndexShard(path, {}));
}

// Makes indexes with the lengths `name`, which depend on the number of a record in the dataset.
inline void AddLengths(const ShardSet& set, const std::string& name,
                       const std::function<uint64_t(uint64_t)>& length_of) {
  KeepIndexes(set);
  uint64_t record = 0;
  for (const std::string& path : set.paths) {
    const auto index = ShardIndex::Open(IndexPath(path));
    ASSERT_OK(index);
    NewLengthColumn column{name, {}};
    for (uint64_t i = 0; i < (*index)->records(); ++i)
      column.lengths.push_back(length_of(record++));
    const auto bytes = WithLengthColumns(**index, {&column, 1});
    ASSERT_OK(bytes);
    ASSERT_OK(WriteFile(IndexPath(path), *bytes, /*sync=*/false));
  }
}

inline std::shared_ptr<const ShardTable> OpenTable(const ShardSet& set) {
  auto table = ShardTable::Open(set);
  EXPECT_OK(table);
  return table.ok() ? *table : nullptr;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_READER_DATASET_FIXTURE_H_
