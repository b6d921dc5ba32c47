#include "shard/index/length_column.h"

#include <filesystem>
#include <functional>
#include <random>

#include "base/little_endian.h"
#include "shard/index/index.h"
#include "tests/testing/files.h"
#include "tests/testing/index_lies.h"

namespace shardfeed {
namespace {

using testing::FitIndexCrcs;
using testing::LyingIndex;

using Lengths = std::vector<uint64_t>;
using Names = std::vector<std::string>;

std::shared_ptr<const ShardIndex> Opened(std::string bytes) {
  auto index = ShardIndex::FromBytes(std::move(bytes), "test");
  EXPECT_OK(index);
  return *index;
}

std::shared_ptr<const ShardIndex> RawIndex(uint64_t records) {
  IndexBuilder builder;
  for (uint64_t i = 0; i < records; ++i) EXPECT_OK(builder.AddFrame(20 + i % 7));
  return Opened(*builder.Finish({.shard_bytes = builder.stream_bytes()}));
}

// An index of GZIP with dictionaries and blocks.
IndexBuilder GzipBuilder() {
  IndexBuilder builder;
  for (int i = 0; i < 300; ++i) EXPECT_OK(builder.AddFrame(1000));
  builder.AddRestartPoint({});
  builder.AddDeflateBlock({8'000, 10'000});
  builder.AddRestartPoint({.file_offset = 5000,
                           .stream_offset = 100'000,
                           .bits = 3,
                           .at_header = false,
                           .dictionary = std::string(1000, 'd')});
  builder.AddDeflateBlock({48'000, 110'000});
  return builder;
}

std::shared_ptr<const ShardIndex> GzipIndex() {
  IndexBuilder builder = GzipBuilder();
  return Opened(*builder.Finish({.compression = Compression::kGzip, .shard_bytes = 10'000}));
}

std::shared_ptr<const ShardIndex> With(const ShardIndex& index,
                                       const std::vector<NewLengthColumn>& columns) {
  auto bytes = WithLengthColumns(index, columns);
  EXPECT_OK(bytes);
  return Opened(*std::move(bytes));
}

Lengths LengthsOf(const ShardIndex& index, std::string_view name) {
  const LengthColumn* const column = index.FindLengths(name);
  if (column == nullptr) return {};
  Lengths lengths;
  for (uint64_t i = 0; i < index.records(); ++i) lengths.push_back(column->At(i));
  return lengths;
}

Names NamesIn(const ShardIndex& index) {
  Names names;
  for (const LengthColumn& column : index.lengths()) names.emplace_back(column.name());
  return names;
}

TEST(LengthColumn, GivesEachLengthBack) {
  std::mt19937_64 random(1);
  for (const uint64_t records : {0, 1, 129}) {
    const auto index = RawIndex(records);
    for (int width = 1; width <= 8; ++width) {
      Lengths lengths;
      uint64_t total = 0;
      uint64_t max = 0;
      for (uint64_t i = 0; i < records; ++i) {
        lengths.push_back(random() >> (64 - 8 * width) >> random() % 9);
      }
      if (records > 0) lengths.back() = uint64_t{1} << (8 * width - 1);
      // The sum must not exceed 64 bits.
      if (width == 8) {
        for (uint64_t i = 0; i + 1 < records; ++i) lengths[i] >>= 8;
      }
      for (const uint64_t length : lengths) {
        total += length;
        max = std::max(max, length);
      }
      const auto bytes = WithLengthColumns(*index, {{"tokens", lengths}});
      ASSERT_OK(bytes);
      // A head of three bytes, the name, and the trailer.
      EXPECT_EQ(bytes->size(),
                index->bytes().size() + 3 + 6 + records * (records > 0 ? width : 1) + 16);
      const auto with = Opened(*bytes);
      EXPECT_EQ(LengthsOf(*with, "tokens"), lengths);
      ASSERT_EQ(with->lengths().size(), 1);
      EXPECT_EQ(with->lengths()[0].max(), max);
      EXPECT_EQ(with->lengths()[0].total(), total);
    }
  }
}

TEST(LengthColumn, IndexWithoutColumnsHasNone) {
  const auto index = RawIndex(3);
  EXPECT_TRUE(index->lengths().empty());
  EXPECT_EQ(index->FindLengths("tokens"), nullptr);
  EXPECT_EQ(*WithLengthColumns(*index, {}), index->bytes());
}

TEST(LengthColumn, SeveralAreOrderedByNameAndReplacedOneByOne) {
  const auto index = RawIndex(3);
  const auto both = With(*index, {{"tokens", {1, 2, 300}}, {"pixels", {7, 8, 9}}});
  EXPECT_EQ(NamesIn(*both), (Names{"pixels", "tokens"}));
  EXPECT_EQ(LengthsOf(*both, "tokens"), (Lengths{1, 2, 300}));
  EXPECT_EQ(LengthsOf(*both, "pixels"), (Lengths{7, 8, 9}));
  EXPECT_EQ(both->FindLengths("token"), nullptr);
  const auto three = With(*both, {{"seconds", {0, 0, 0}}, {"tokens", {4, 5, 6}}});
  EXPECT_EQ(NamesIn(*three), (Names{"pixels", "seconds", "tokens"}));
  EXPECT_EQ(LengthsOf(*three, "pixels"), (Lengths{7, 8, 9}));
  EXPECT_EQ(LengthsOf(*three, "seconds"), (Lengths{0, 0, 0}));
  EXPECT_EQ(LengthsOf(*three, "tokens"), (Lengths{4, 5, 6}));
  // The bytes do not depend on the order in which columns were added.
  EXPECT_EQ(*WithLengthColumns(*three, {}), three->bytes());
  EXPECT_EQ(*WithLengthColumns(
                *index, {{"tokens", {4, 5, 6}}, {"seconds", {0, 0, 0}}, {"pixels", {7, 8, 9}}}),
            three->bytes());
}

TEST(LengthColumn, WrongColumnsAreRefused) {
  const auto index = RawIndex(2);
  const auto refused = [&](const std::vector<NewLengthColumn>& columns, std::string_view message) {
    EXPECT_FAILS(WithLengthColumns(*index, columns), kInvalidArgument, message);
  };
  refused({{"", {1, 2}}}, "the name of a length column has 1 to 65535 bytes, got 0");
  refused({{std::string(65536, 'n'), {1, 2}}},
          "the name of a length column has 1 to 65535 bytes, got 65536");
  refused({{"tokens", {1}}}, "length column 'tokens': got 1 lengths for 2 records");
  refused({{"tokens", {UINT64_MAX, 1}}},
          "length column 'tokens': the sum of the lengths exceeds 64 bits");
  refused({{"tokens", {1, 2}}, {"tokens", {1, 2}}}, "length column 'tokens' appears twice");
}

// What versions without length columns check of the end of an index: that the restart points, and
// the dictionary and the blocks of each, lie within it.
bool IsSoundToOldVersions(std::string_view bytes) {
  const auto load = [&](uint64_t at) { return LoadLittleEndian<uint64_t>(bytes.data() + at); };
  const uint64_t restarts = load(56);
  const uint64_t points = load(64);
  if (load(72) != bytes.size() || restarts + 32 * points > bytes.size()) return false;
  const uint64_t dictionaries = bytes.size() - restarts - 32 * points;
  for (uint64_t i = 0; i < points; ++i) {
    const char* const entry = bytes.data() + restarts + 32 * i;
    const uint64_t size = LoadLittleEndian<uint32_t>(entry + 24) +
                          8 * uint64_t{LoadLittleEndian<uint16_t>(entry + 30)};
    if (load(restarts + 32 * i + 16) + size > dictionaries) return false;
  }
  return true;
}

TEST(LengthColumn, RestIsAsWithoutColumns) {
  for (const auto& index : {RawIndex(300), GzipIndex()}) {
    const auto with = With(*index, {{"tokens", Lengths(300, 1000)}});
    EXPECT_TRUE(IsSoundToOldVersions(with->bytes()));
    EXPECT_EQ(with->BytesBeforeLengths().substr(88), index->bytes().substr(88));
    EXPECT_EQ(with->summary().records_digest, index->summary().records_digest);
    ASSERT_EQ(with->num_restart_points(), index->num_restart_points());
    for (uint64_t i = 0; i < with->num_restart_points(); ++i) {
      EXPECT_EQ(with->DictionaryAt(i), index->DictionaryAt(i));
      EXPECT_EQ(with->BlocksBehind(i).size(), 1);
    }
    for (uint64_t i = 0; i <= 300; ++i) ASSERT_EQ(with->Offset(i), index->Offset(i));
  }
}

TEST(LengthColumn, IndexesOfReleasesHaveNone) {
  int indexes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("testdata/releases")) {
    if (entry.path().extension() != ".index") continue;
    ++indexes;
    const auto index = ShardIndex::Open(entry.path());
    ASSERT_OK(index);
    EXPECT_TRUE((*index)->lengths().empty());
    EXPECT_EQ((*index)->BytesBeforeLengths(), (*index)->bytes());
    const Lengths lengths((*index)->records(), 5);
    EXPECT_EQ(LengthsOf(*With(**index, {{"tokens", lengths}}), "tokens"), lengths);
  }
  EXPECT_GT(indexes, 0);
}

// The blocks of a restart point, which come last, happen to look like columns.
TEST(LengthColumn, BlocksAreNotTakenForColumns) {
  IndexBuilder builder = GzipBuilder();
  const std::string looks_like = std::string("\x70\0\0\0\0\0\0\0", 8) + "SFLENGT1";
  for (int i = 0; i < 2; ++i) {
    builder.AddDeflateBlock(
        {.bit = 8 * 5000 - 3 + LoadLittleEndian<uint32_t>(looks_like.data() + 8 * i),
         .offset = 100'000 + LoadLittleEndian<uint32_t>(looks_like.data() + 8 * i + 4)});
  }
  const auto index =
      Opened(*builder.Finish({.compression = Compression::kGzip, .shard_bytes = 10'000}));
  ASSERT_TRUE(index->bytes().ends_with(looks_like));
  EXPECT_TRUE(index->lengths().empty());
  const Lengths lengths(300, 5);
  const auto with = With(*index, {{"tokens", lengths}});
  EXPECT_EQ(LengthsOf(*with, "tokens"), lengths);
  EXPECT_EQ(with->BlocksBehind(1).size(), 3);
}

// The bytes of `index` after `change`, with a valid size and valid CRCs.
std::string Changed(const ShardIndex& index, const std::function<void(std::string&)>& change) {
  std::string bytes(index.bytes());
  change(bytes);
  StoreLittleEndian<uint64_t>(bytes.size(), bytes.data() + 72);
  FitIndexCrcs(&bytes);
  return bytes;
}

TEST(LengthColumn, ContradictionsAreFound) {
  const auto none = RawIndex(2);
  const auto index = With(*none, {{"aa", {1, 2}}, {"bb", {UINT64_MAX / 2, 3}}, {"cc", {300, 400}}});
  const uint64_t begin = none->bytes().size();
  const uint64_t second = begin + 3 + 2 + 2;
  const uint64_t third = second + 3 + 2 + 16;
  const uint64_t trailer = third + 3 + 2 + 4;
  ASSERT_EQ(index->bytes().size(), trailer + 16);
  const auto refused = [&](const std::function<void(std::string&)>& change) {
    EXPECT_FAILS(ShardIndex::FromBytes(Changed(*index, change), "test"), kDataLoss,
                 "test: the length columns in the index contradict themselves; rebuild it with "
                 "'shardfeed index'");
  };
  const auto put = [&](uint64_t at, uint64_t value) {
    refused([=](std::string& bytes) { StoreLittleEndian(value, bytes.data() + at); });
  };
  const auto put_byte = [&](uint64_t at, char value) {
    refused([=](std::string& bytes) { bytes[at] = value; });
  };
  EXPECT_OK(ShardIndex::FromBytes(Changed(*index, [](std::string&) {}), "test"));
  put(trailer, begin - 1);    // Within the rest of the index.
  put(trailer, trailer + 1);  // Within the trailer.
  put(trailer, UINT64_MAX);
  put(trailer, trailer - 2);      // No room for the head of a column.
  put(trailer, begin + 1);        // Not the start of a column.
  put_byte(begin, 0);             // No width.
  put_byte(begin, 9);             // More than 64 bits.
  put_byte(begin, 4);             // Then the next column begins within this one.
  put_byte(begin + 1, 0);         // No name.
  put_byte(begin + 2, 1);         // The name is longer than the index.
  put_byte(second + 3, 'a' - 1);  // Not in order.
  refused([&](std::string& bytes) { bytes.replace(second + 3, 2, "aa"); });  // Twice.
  put_byte(third, 8);                   // The last column does not fit.
  put_byte(third, 1);                   // It leaves bytes that belong to no column.
  put(second + 5 + 8, UINT64_MAX - 5);  // The sum exceeds 64 bits.
  refused([&](std::string& bytes) { bytes.insert(trailer, 1, '\0'); });
  refused([&](std::string& bytes) { bytes.erase(trailer - 1, 1); });
  // Something else after the index, perhaps of a later version, is no column.
  EXPECT_TRUE(
      Opened(Changed(*index, [](std::string& bytes) { bytes.back() = '2'; }))->lengths().empty());
  EXPECT_TRUE(
      Opened(Changed(*none, [](std::string& bytes) { bytes += "SFLENGT1"; }))->lengths().empty());
}

TEST(LengthColumn, NoLieLeadsOutsideTheIndex) {
  std::mt19937_64 random(1);
  const std::string sound(
      With(*GzipIndex(), {{"a", Lengths(300, 3)}, {"b", Lengths(300, 70'000)}})->bytes());
  int opened = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = LyingIndex(sound, random);
    for (int lies = static_cast<int>(random() % 3); lies > 0; --lies) {
      bytes[bytes.size() - 1 - random() % 60] = static_cast<char>(random() % 300);
    }
    FitIndexCrcs(&bytes);
    const auto index = ShardIndex::FromBytes(bytes, "test");
    if (!index.ok()) {
      EXPECT_FAILS(index, kDataLoss, "rebuild it with 'shardfeed index'");
      continue;
    }
    ++opened;
    for (const LengthColumn& column : (*index)->lengths()) {
      uint64_t total = 0;
      for (uint64_t record = 0; record < (*index)->records(); ++record) {
        EXPECT_LE(column.At(record), column.max());
        total += column.At(record);
      }
      EXPECT_EQ(total, column.total());
    }
  }
  EXPECT_GT(opened, 100);
}

}  // namespace
}  // namespace shardfeed
