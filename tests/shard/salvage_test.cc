// Tests all small damages of small shards: each undamaged record is kept, and no record is
// delivered that was not written.
#include "shard/verify/salvage.h"

#include <functional>
#include <map>
#include <set>

#include "shard/indexing/index_build.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "tests/testing/deflate.h"
#include "tests/testing/files.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using testing::OnDisk;
using testing::ReadBytes;
using testing::TestFolder;

constexpr int kRecords = 12;
// The distance between damaged places in bytes: 1, except with sanitizers, which are slow.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kStep = 5;
#else
constexpr size_t kStep = 1;
#endif

// The bytes of the file on which a record depends.
struct Extent {
  size_t begin;
  size_t end;
};

struct Shard {
  std::string name;
  std::string bytes;
  std::vector<std::string> records;
  // The extents of the frame, or of the member or segment that holds it.
  std::vector<Extent> extents;
  // Whether records contain records. If damage moves the bytes of an outer one's header, or hits
  // header and payload, framing alone is not enough (docs/repair.md), and an index is needed.
  bool nested = false;
};

std::string Payload(int i) {
  std::string payload = "record " + std::to_string(i) + " ";
  uint32_t state = 12345 + i;
  const int size = 5 + i * 7 % 61;
  for (int j = 0; j < size; ++j) {
    state = state * 1664525 + 1013904223;
    payload.push_back(static_cast<char>('a' + (state >> 24) % 26));
  }
  return payload;
}

std::string Frames(int begin, int end, std::vector<size_t>* ends = nullptr) {
  std::string bytes;
  for (int i = begin; i < end; ++i) {
    AppendFrame(Payload(i), &bytes);
    if (ends != nullptr) ends->push_back(bytes.size());
  }
  return bytes;
}

class SalvageTest : public ::testing::Test {
 protected:
  std::vector<std::string> All() {
    std::vector<std::string> all;
    for (int i = 0; i < kRecords; ++i) all.push_back(Payload(i));
    return all;
  }

  Shard Raw() {
    Shard shard{"raw", "", All(), {}};
    std::vector<size_t> ends;
    shard.bytes = Frames(0, kRecords, &ends);
    for (int i = 0; i < kRecords; ++i) shard.extents.push_back({i == 0 ? 0 : ends[i - 1], ends[i]});
    return shard;
  }

  // A shard of shardfeed's own writer, with several members or segments.
  Shard Own(Compression compression) {
    Shard shard{std::string(CompressionName(compression)), "", All(), {}};
    DatasetWriterOptions options;
    options.encode = {.compression = compression, .member_bytes = 120};
    options.sync = false;
    options.overwrite = true;
    auto writer = DatasetWriter::Create(*ParseOutputSpec(folder_ / "own@1"), options);
    EXPECT_OK(writer);
    for (const std::string& record : shard.records) EXPECT_OK((*writer)->Write(record));
    EXPECT_OK((*writer)->Finish({}));
    const std::string path = ResolveSpec(folder_ / "own@1")->paths[0];
    shard.bytes = ReadBytes(path);
    const auto index = *ShardIndex::Open(IndexPath(path));
    EXPECT_GT(index->num_restart_points(), 3);
    for (int i = 0; i < kRecords; ++i) {
      const RestartPoint begin = index->RestartBefore(index->Offset(i));
      const uint64_t next = index->RestartAtOrAfter(index->Offset(i) + 1);
      const size_t end = next == index->summary().stream_bytes
                             ? shard.bytes.size()
                             : index->RestartBefore(next).file_offset;
      shard.extents.push_back({begin.file_offset, end});
    }
    return shard;
  }

  Shard Foreign(int window_bits) {
    Shard shard{window_bits > MAX_WBITS ? "foreign gzip" : "foreign zlib", "", All(), {}};
    shard.bytes = testing::Deflate(Frames(0, kRecords), window_bits);
    // A single stream: what precedes the damage can be read; more is not expected here.
    shard.extents.assign(kRecords, {0, shard.bytes.size()});
    return shard;
  }

  // GZIP members of other programs, each with several records.
  Shard ForeignMembers() {
    Shard shard{"foreign members", "", All(), {}};
    for (int i = 0; i < kRecords; i += 4) {
      const size_t begin = shard.bytes.size();
      shard.bytes += testing::Deflate(Frames(i, i + 4), MAX_WBITS + 16);
      for (int j = 0; j < 4; ++j) shard.extents.push_back({begin, shard.bytes.size()});
    }
    return shard;
  }

  // Records that contain whole records, as in a dataset of shards.
  Shard Nested() {
    Shard shard{"nested", "", {}, {}, true};
    for (int i = 0; i < kRecords; ++i) {
      std::string payload = i % 3 == 0 ? "" : std::string(i, 'a' + i);
      for (int j = 0; j < i % 4; ++j) AppendFrame("inner " + Payload(10 * i + j), &payload);
      if (i % 2 == 0) payload += "behind";
      const size_t begin = shard.bytes.size();
      AppendFrame(payload, &shard.bytes);
      shard.records.push_back(payload);
      shard.extents.push_back({begin, shard.bytes.size()});
    }
    return shard;
  }

  struct Salvaged {
    std::vector<std::pair<uint64_t, std::string>> records;
    std::vector<DamagedPlace> damage;
    std::optional<uint64_t> lost;
    bool exact = true;
  };
  Salvaged Read(const std::string& path, bool use_index) {
    SalvageOptions options;
    options.use_index = use_index;
    auto salvager = ShardSalvager::Open(path, options);
    EXPECT_OK(salvager);
    Salvaged all;
    RecordBlock block;
    for (int blocks = 0; blocks < 1000; ++blocks) {
      EXPECT_OK((*salvager)->Next(&block));
      if (block.records.empty()) break;
      for (size_t i = 0; i < block.records.size(); ++i) {
        all.records.emplace_back(block.first_record + i, block.records[i].payload);
      }
    }
    all.damage = (*salvager)->damage();
    all.lost = (*salvager)->records_lost();
    all.exact = (*salvager)->numbers_exact();
    return all;
  }

  // `kept`: the extents of the old file whose bytes still exist in one piece.
  void Check(const Shard& shard, const std::string& damaged,
             const std::function<bool(const Extent&)>& kept, const std::string& what) {
    const bool moves_or_spans = !what.starts_with("flip") && !what.starts_with("cut") &&
                                !what.starts_with("tail") && what != "sound";
    for (const bool use_index : {false, true}) {
      if (shard.nested && moves_or_spans && !use_index) continue;
      SCOPED_TRACE(shard.name + ": " + what + (use_index ? ", indexed" : ", not indexed"));
      const std::string path = folder_.Write("s/shard", damaged);
      if (use_index) {
        folder_.Write("s/.shardfeed/shard.index", index_);
      } else {
        std::filesystem::remove(OnDisk(IndexPath(path)));
      }
      const Salvaged salvaged = Read(path, true);
      ++cases_;
      std::map<std::string, int> got;
      for (const auto& [number, record] : salvaged.records) {
        ++got[record];
        const auto place = std::find(shard.records.begin(), shard.records.end(), record);
        ASSERT_NE(place, shard.records.end()) << "never written: " << record;
        // A whole shard that appears twice is intact, and longer than its index says.
        if (salvaged.exact && use_index && number < shard.records.size()) {
          ASSERT_EQ(number, place - shard.records.begin());
        }
      }
      for (size_t i = 0; i < shard.records.size(); ++i) {
        if (kept(shard.extents[i])) {
          ASSERT_GE(got[shard.records[i]], 1) << "lost: record " << i;
        }
        if (use_index && salvaged.records.size() <= shard.records.size()) {
          ASSERT_LE(got[shard.records[i]], 1) << "twice: record " << i;
        }
      }
      if (use_index && salvaged.exact && salvaged.lost &&
          salvaged.records.size() <= shard.records.size()) {
        ASSERT_EQ(*salvaged.lost + salvaged.records.size(), shard.records.size());
      }
      if (salvaged.records.size() < shard.records.size()) {
        ASSERT_FALSE(use_index && salvaged.damage.empty());
      }
    }
  }

  void MakeIndex(const Shard& shard) {
    const std::string path = folder_.Write("sound/shard", shard.bytes);
    IndexBuildOptions options;
    options.restart_interval = 1;
    ASSERT_OK(IndexShard(path, options));
    index_ = ReadBytes(IndexPath(path));
  }

  void EveryDamage(const Shard& shard) {
    MakeIndex(shard);
    const std::string& sound = shard.bytes;
    const size_t size = sound.size();
    const auto untouched = [](size_t begin, size_t end) {
      return [begin, end](const Extent& e) { return e.end <= begin || e.begin >= end; };
    };
    Check(
        shard, sound, [](const Extent&) { return true; }, "sound");
    for (size_t at = 0; at < size; at += kStep) {
      for (const int bits : {1 << at % 8, 0xff}) {
        std::string bytes = sound;
        bytes[at] ^= static_cast<char>(bits);
        Check(shard, bytes, untouched(at, at + 1), "flip " + std::to_string(at));
        if (HasFatalFailure()) return;
      }
      Check(shard, sound.substr(0, at), untouched(at, SIZE_MAX), "cut " + std::to_string(at));
      if (HasFatalFailure()) return;
      std::string bytes = sound;
      bytes.insert(at, "\x5a");
      Check(
          shard, bytes,
          [&, at](const Extent& e) {
            // A segment of ZLIB that is separated from its preceding mark is not found without an
            // index.
            return e.end <= at || e.begin >= at + (shard.name == "ZLIB" || shard.name == "zlib");
          },
          "insertion " + std::to_string(at));
      if (HasFatalFailure()) return;
      bytes = sound;
      bytes.erase(at, 1);
      Check(shard, bytes, untouched(at, at + 1), "removal " + std::to_string(at));
      if (HasFatalFailure()) return;
    }
    for (const size_t page : {size_t{64}, size_t{256}, size_t{4096}}) {
      for (size_t at = 0; at < size; at += page) {
        const size_t end = std::min(size, at + page);
        std::string bytes = sound;
        std::fill(bytes.begin() + at, bytes.begin() + end, '\0');
        Check(shard, bytes, untouched(at, end), "zeroed page " + std::to_string(at));
        if (HasFatalFailure()) return;
        bytes = sound;
        bytes.insert(end, sound.substr(at, end - at));
        Check(
            shard, bytes, [end](const Extent& e) { return e.end <= end || e.begin >= end; },
            "doubled page " + std::to_string(at));
        if (HasFatalFailure()) return;
        const size_t other = at + 2 * page;
        if (other + page > size) continue;
        bytes = sound;
        std::swap_ranges(bytes.begin() + at, bytes.begin() + end, bytes.begin() + other);
        Check(
            shard, bytes,
            [=](const Extent& e) {
              return (e.end <= at || e.begin >= end) && (e.end <= other || e.begin >= other + page);
            },
            "swapped pages " + std::to_string(at));
        if (HasFatalFailure()) return;
      }
    }
    for (const std::string& tail :
         {std::string("x"), std::string(4, '\0'), std::string(5000, '\0'), std::string(100, 'z')}) {
      Check(
          shard, sound + tail, [](const Extent&) { return true; },
          "tail of " + std::to_string(tail.size()));
      if (HasFatalFailure()) return;
    }
    RecordProperty("cases", cases_);
  }

  TestFolder folder_;
  std::string index_;
  int cases_ = 0;
};

TEST_F(SalvageTest, EveryDamageOfARawShard) { EveryDamage(Raw()); }
TEST_F(SalvageTest, EveryDamageOfRecordsThatHoldRecords) { EveryDamage(Nested()); }
TEST_F(SalvageTest, EveryDamageOfGzip) { EveryDamage(Own(Compression::kGzip)); }
TEST_F(SalvageTest, EveryDamageOfZlib) { EveryDamage(Own(Compression::kZlib)); }
TEST_F(SalvageTest, EveryDamageOfForeignGzip) { EveryDamage(Foreign(MAX_WBITS + 16)); }
TEST_F(SalvageTest, EveryDamageOfForeignMembers) { EveryDamage(ForeignMembers()); }
TEST_F(SalvageTest, EveryDamageOfForeignZlib) { EveryDamage(Foreign(MAX_WBITS)); }

}  // namespace
}  // namespace shardfeed
