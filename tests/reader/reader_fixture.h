// Helpers to read small datasets in every order, and to check what readers deliver.

#ifndef SHARDFEED_TESTS_READER_READER_FIXTURE_H_
#define SHARDFEED_TESTS_READER_READER_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "reader/reader.h"
#include "tests/reader/dataset_fixture.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {

inline const std::vector<uint64_t> kSizes = {37, 0, 512, 64, 1, 300, 300, 7};
inline constexpr uint64_t kRecords = 1221;
inline constexpr int kSmallBlocks =
    1;  // zlib's memory level, so that there are many restart points

struct Delivered {
  std::vector<std::string> records;
  std::vector<uint64_t> positions;  // epoch * 1,000,000 + position
  uint64_t padded = 0;
  std::vector<uint64_t> damaged;  // positions
};

// Reads to the end, or until `records` records were delivered.
inline absl::StatusOr<Delivered> Drain(Reader& reader, uint64_t records = UINT64_MAX) {
  Delivered all;
  ReadBlock block;
  while (all.records.size() < records) {
    absl::Status status = reader.Next(&block);
    if (!status.ok()) return status;
    if (block.records.empty()) break;
    for (size_t i = 0; i < block.records.size(); ++i) {
      all.records.emplace_back(block.records[i]);
      all.positions.push_back(block.epoch * 1'000'000 + block.position + i * block.stride);
    }
    all.padded += block.padded;
    for (uint32_t i : block.damaged) {
      all.damaged.push_back(block.position + i * block.stride);
    }
  }
  return all;
}

inline std::unique_ptr<Reader> MakeReader(const std::shared_ptr<const ShardTable>& table,
                                          const ReaderOptions& options) {
  auto reader = Reader::Open(table, options);
  EXPECT_OK(reader);
  return reader.ok() ? *std::move(reader) : nullptr;
}

// Reads one epoch and compares each record with the order.
inline void ExpectAll(const std::shared_ptr<const ShardTable>& table, const ReaderOptions& options,
                      uint64_t bytes) {
  const auto reader = MakeReader(table, options);
  const auto all = Drain(*reader);
  if (options.io == EngineKind::kUring && absl::IsUnavailable(all.status())) return;  // none here
  ASSERT_OK(all);
  ASSERT_EQ(all->records.size(), kRecords / options.world);
  for (size_t i = 0; i < all->records.size(); ++i) {
    ASSERT_EQ(all->records[i], RecordText(reader->RecordAt(0, i * options.world), bytes));
  }
}

inline std::vector<OrderSpec> Orders() {
  OrderSpec sequential;
  OrderSpec small_chunks;
  small_chunks.chunk = 10;
  OrderSpec interleave;
  interleave.kind = OrderSpec::Kind::kInterleave;
  interleave.cycle = 3;
  interleave.block = 2;
  interleave.chunk = 16;
  OrderSpec shuffle;
  shuffle.kind = OrderSpec::Kind::kShuffle;
  shuffle.seed = 7;
  shuffle.window = 256;
  shuffle.chunk = 10;
  shuffle.lanes = 8;
  OrderSpec all = shuffle;
  all.window = OrderSpec::kAll;
  OrderSpec by_default;
  by_default.kind = OrderSpec::Kind::kShuffle;
  return {sequential, small_chunks, interleave, shuffle, all, by_default};
}

class ReaderFixture : public ::testing::Test {
 protected:
  TestFolder folder_;
};

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_READER_READER_FIXTURE_H_
