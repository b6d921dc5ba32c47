#include "convert/sources/tfrecord.h"
#include "shard/indexing/index_build.h"
#include "tests/convert/source_fixture.h"
#include "tfrecord/framing.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;

class TfrecordFilesTest : public SourceTest {
 protected:
  static std::string Frames(const std::vector<std::string>& records) {
    std::string bytes;
    for (const std::string& record : records) AppendFrame(record, &bytes);
    return bytes;
  }
  static std::vector<std::string> Read(Source& source) {
    const absl::Status status = Scan(source);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> records;
    for (const Kept& kept : Items(source)) {
      ExampleBuilder builder;
      std::string record = "before ";
      Item item;
      item.bytes = kept.bytes;
      item.file = kept.file;
      item.line = kept.line;
      const absl::Status built = source.BuildRecord(item, builder, &record);
      EXPECT_TRUE(built.ok()) << built;
      records.push_back(record.substr(7));
    }
    EXPECT_EQ(records.size(), source.num_records());
    return records;
  }
};

TEST_F(TfrecordFilesTest, RecordsStayAsTheyAre) {
  std::string gzip;
  AppendGzipMember(Frames({"three", "\xff"}), 6, &gzip);
  const std::string a = Write("a", Frames({"one", "", "two"}));
  const std::string b = Write("b", gzip);
  const std::string c = Write("c", "");
  EXPECT_THAT(Read(**MakeTfrecordSource({a, c, b})),
              ElementsAre("one", "", "two", "three", "\xff"));
}

TEST_F(TfrecordFilesTest, LargeRecordsAreReadWhereTheyStand) {
  const std::string large(100000, 'x');
  const std::string path = Write("a", Frames({large, "small", large + "y"}));
  auto source = *MakeTfrecordSource({path});
  EXPECT_THAT(Read(*source), ElementsAre(large, "small", large + "y"));
  EXPECT_LT(Items(*source)[0].bytes.size(), 100);
}

TEST_F(TfrecordFilesTest, DefectsAreTold) {
  for (const size_t size : {size_t{10}, size_t{100000}}) {
    std::string bytes = Frames({std::string(size, 'x'), std::string(size, 'y')});
    bytes[bytes.size() - 6] ^= 1;
    auto source = *MakeTfrecordSource({Write("a", bytes)});
    ASSERT_TRUE(Scan(*source).ok());
    absl::Status status = source->ForEach([&](const Item& item) {
      ExampleBuilder builder;
      std::string record;
      return source->BuildRecord(item, builder, &record);
    });
    ExpectError(status, absl::StatusCode::kDataLoss,
                "a: record 1 at byte " + std::to_string(size + 16) + ": payload CRC");
  }
  auto source = *MakeTfrecordSource({Write("a", Frames({"one"}).substr(0, 14))});
  ExpectError(Scan(*source), absl::StatusCode::kDataLoss, "a: record 0 at byte 0: cut payload");
  ExpectError(MakeTfrecordSource({Path("none")}).status(), absl::StatusCode::kNotFound, "none");
}

TEST_F(TfrecordFilesTest, AnIndexThatDoesNotFitIsToldByTheRecords) {
  const std::string large(100000, 'x');
  const std::string path = Write("a", Frames({large, large}));
  ASSERT_TRUE(IndexShard(path, {}).ok());
  Write("a", Frames({large + "x", large.substr(1)}));  // has the same size
  auto source = *MakeTfrecordSource({path});
  ASSERT_TRUE(Scan(*source).ok());
  const Kept kept = Items(*source)[0];
  Item item;
  item.bytes = kept.bytes;
  ExampleBuilder builder;
  std::string record;
  ExpectError(source->BuildRecord(item, builder, &record), absl::StatusCode::kDataLoss,
              "a: record 0 at byte 0: payload CRC");
}

}  // namespace
}  // namespace shardfeed
