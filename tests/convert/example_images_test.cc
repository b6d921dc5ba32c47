#include "convert/features/example_images.h"

#include <string>
#include <vector>

#include "decode/images/jpeg/seekable_jpeg.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardfeed/examples.h"
#include "tests/decode/jpeg_images.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using testing::MakeJpeg;

std::string Rewrite(const ImageRewriter& rewriter, const std::string& record) {
  std::string out = "before ";
  const absl::Status status = RewriteExampleImages(record, "x: record 3", rewriter, &out);
  EXPECT_TRUE(status.ok()) << status;
  return out.substr(7);
}

TEST(ExampleImagesTest, RewritesEachValueThatIsAJpeg) {
  const std::string jpeg = MakeJpeg({.width = 100, .height = 80});
  const std::vector<std::string_view> several = {jpeg, "text", jpeg};
  ExampleBuilder builder;
  builder.AddBytes("a", "text with \xff\xd8\xff inside");
  builder.AddBytes("image/encoded", jpeg);
  builder.AddBytesList("many", several);
  builder.AddInt64("n", 7);
  std::string record;
  builder.SerializeExample(&record);
  const ImageRewriter rewriter({});
  const std::string rewritten = Rewrite(rewriter, record);
  Example before;
  Example after;
  ASSERT_TRUE(before.ParseFromString(record));
  ASSERT_TRUE(after.ParseFromString(rewritten));
  auto& features = *after.mutable_features()->mutable_feature();
  const auto restore = [&](const char* name, int i) {
    std::string& value = *features[name].mutable_bytes_list()->mutable_value(i);
    EXPECT_TRUE(IsSeekable(value)) << name;
    EXPECT_TRUE(testing::Coefficients(value) == testing::Coefficients(jpeg)) << name;
    value = jpeg;
  };
  restore("image/encoded", 0);
  restore("many", 0);
  restore("many", 2);
  // Nothing else has changed.
  EXPECT_EQ(after.DebugString(), before.DebugString());
  EXPECT_THAT(rewriter.notes(), ElementsAre("3 JPEGs were rewritten losslessly to be seekable"));
}

TEST(ExampleImagesTest, KeepsWhatIsNoExample) {
  const std::string jpeg = MakeJpeg({.width = 100, .height = 80});
  const ImageRewriter rewriter({});
  for (const std::string& record :
       {std::string(), std::string("\x0a"), jpeg, "text " + jpeg, std::string("\x0a\x7f") + jpeg}) {
    EXPECT_TRUE(Rewrite(rewriter, record) == record);
  }
}

TEST(ExampleImagesTest, ARecordThatBreaksOffStaysAsItIs) {
  const std::string jpeg = MakeJpeg({.width = 40, .height = 30});
  ExampleBuilder builder;
  builder.AddBytes("image/encoded", jpeg);
  std::string record;
  builder.SerializeExample(&record);
  const ImageRewriter rewriter({});
  for (size_t size = 0; size < record.size(); ++size) {
    const std::string cut = record.substr(0, size);
    EXPECT_TRUE(Rewrite(rewriter, cut) == cut) << size;
  }
}

TEST(ExampleImagesTest, DamagedImagesAreKeptAndNamed) {
  const std::string cut = MakeJpeg({.width = 100, .height = 80}).substr(0, 700);
  ExampleBuilder builder;
  builder.AddBytes("image/encoded", cut);
  builder.AddBytes("start", "\xff\xd8\xff");
  std::string record;
  builder.SerializeExample(&record);
  const ImageRewriter rewriter({});
  EXPECT_TRUE(Rewrite(rewriter, record) == record);
  EXPECT_THAT(rewriter.notes(),
              ElementsAre(::testing::StartsWith("2 damaged JPEGs were kept: x: record 3 (")));
}

}  // namespace
}  // namespace shardfeed
