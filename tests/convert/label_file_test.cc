#include "convert/features/label_file.h"

#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LabelFileTest : public SourceTest {
 protected:
  LabelFile Read(const std::string& name, std::string_view content) {
    absl::StatusOr<LabelFile> file = LabelFile::Read(Write(name, content));
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  void ExpectDataLoss(const std::string& name, std::string_view content,
                      const std::string& message) {
    ExpectError(LabelFile::Read(Write(name, content)).status(), absl::StatusCode::kDataLoss,
                message);
  }
};

TEST_F(LabelFileTest, TableWithTwoColumns) {
  const LabelFile file =
      Read("a.csv", "\xef\xbb\xbfid,breed\n\"a,1\",\"the \"\"best\"\" dog\"\n\nb,cat\n");
  EXPECT_FALSE(file.is_numeric());
  EXPECT_EQ(file.Find("a,1.jpg"), "the \"best\" dog");
  EXPECT_EQ(file.Find("b"), "cat");
  EXPECT_EQ(file.Find("c"), std::nullopt);
  EXPECT_THAT(file.class_names(), ElementsAre("cat", "the \"best\" dog"));
}

TEST_F(LabelFileTest, TableWithAColumnNamedLabel) {
  const LabelFile file = Read("a.tsv", "name\tsize\tlabel\nx.jpg\t3\t12\ny.jpg\t4\t7\n");
  EXPECT_TRUE(file.is_numeric());
  EXPECT_EQ(file.Find("x.jpg"), "12");
  EXPECT_THAT(file.class_names(), IsEmpty());
}

TEST_F(LabelFileTest, LinesAreSplitAtTheTabOrTheLastBlank) {
  const LabelFile file = Read("val.txt", "./a b.jpg 3\r\nc.jpg\tbig cat\n\nd.jpg  5 \n");
  EXPECT_EQ(file.Find("a b.jpg"), "3");
  EXPECT_EQ(file.Find("c.jpg"), "big cat");
  EXPECT_EQ(file.Find("d.jpg"), "5");
  EXPECT_FALSE(file.is_numeric());
}

TEST_F(LabelFileTest, TheWholeNameCountsBeforeTheOneWithoutSuffix) {
  const LabelFile file = Read("val.txt", "a.jpg 1\na 2\n");
  EXPECT_EQ(file.Find("a.jpg"), "1");
  EXPECT_EQ(file.Find("a.png"), "2");
}

TEST_F(LabelFileTest, DefectsAreTold) {
  ExpectDataLoss("a.csv", "", "a.csv: no labels");
  ExpectDataLoss("a.csv", "id\nx\n", "a.csv:1: expected two columns");
  ExpectDataLoss("a.csv", "id,x,y\n1,2,3\n",
                 "a.csv:1: expected a column named \"label\" among the 3 columns");
  ExpectDataLoss("a.csv", "id,x\n1,2\n1\n", "a.csv:3: expected 2 cells as in the header, got 1");
  ExpectDataLoss("a.csv", "id,x\n\"a\nb\",2\n\"1,2\n", "a.csv:4: expected a row of a table");
  ExpectDataLoss("a.csv", "id,x\n1,2\n1,3\n", "a.csv:3: \"1\" appears twice");
  ExpectDataLoss("a.csv", "id,x\n,2\n", "a.csv:2: expected the name of an image");
  ExpectDataLoss("a.csv", "id,x\n1,\n", "a.csv:2: no label for \"1\"");
  ExpectDataLoss("a.txt", "a 1\nb\n",
                 "a.txt:2: expected \"NAME LABEL\", got \"b\"; if the file is a table");
  ExpectDataLoss("a.txt", "a \xff\n", "a.txt:1: not UTF-8");
}

}  // namespace
}  // namespace shardfeed
