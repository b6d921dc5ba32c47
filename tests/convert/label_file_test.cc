#include "convert/features/label_file.h"

#include "tests/convert/source_fixture.h"

namespace shardfeed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LabelFileTest : public SourceTest {
 protected:
  LabelFile Read(const std::string& name, std::string_view content,
                 const LabelFileOptions& options = {}) {
    absl::StatusOr<LabelFile> file = LabelFile::Read(Write(name, content), options);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  static std::string_view LabelIn(const LabelFile& file, std::string_view name) {
    const std::optional<size_t> row = file.Find(name);
    EXPECT_TRUE(row.has_value()) << name;
    return row ? file.LabelOf(*row) : std::string_view();
  }
  // The features of an image's row.
  static std::string ColumnsOf(const LabelFile& file, std::string_view name) {
    ExampleBuilder builder;
    file.AddColumns(*file.Find(name), builder);
    std::string bytes;
    builder.SerializeExample(&bytes);
    Example example;
    EXPECT_TRUE(example.ParseFromString(bytes));
    return Text(example);
  }
  void ExpectInvalid(const std::string& name, std::string_view content,
                     const LabelFileOptions& options, const std::string& message) {
    ExpectError(LabelFile::Read(Write(name, content), options).status(),
                absl::StatusCode::kInvalidArgument, message);
  }
  void ExpectDataLoss(const std::string& name, std::string_view content,
                      const std::string& message) {
    ExpectError(LabelFile::Read(Write(name, content)).status(), absl::StatusCode::kDataLoss,
                message);
  }
  void ExpectNoLabel(const std::string& name, std::string_view content,
                     const std::string& message) {
    const LabelFile file = Read(name, content);
    ExpectError(file.CheckLabels(), absl::StatusCode::kDataLoss, message);
    EXPECT_TRUE(file.CheckLabel(0).ok());
  }
};

TEST_F(LabelFileTest, TableWithTwoColumns) {
  const LabelFile file =
      Read("a.csv", "\xef\xbb\xbfid,breed\n\"a,1\",\"the \"\"best\"\" dog\"\n\nb,cat\n");
  EXPECT_EQ(file.labels(), LabelFile::Labels::kNames);
  EXPECT_EQ(LabelIn(file, "a,1.jpg"), "the \"best\" dog");
  EXPECT_EQ(LabelIn(file, "b"), "cat");
  EXPECT_EQ(file.Find("c"), std::nullopt);
  EXPECT_THAT(file.class_names(), ElementsAre("cat", "the \"best\" dog"));
}

TEST_F(LabelFileTest, TableWithAColumnNamedLabel) {
  const LabelFile file = Read("a.tsv", "name\tsize\tlabel\nx.jpg\t3\t12\ny.jpg\t4\t7\n");
  EXPECT_EQ(file.labels(), LabelFile::Labels::kNumbers);
  EXPECT_EQ(LabelIn(file, "x.jpg"), "12");
  EXPECT_THAT(file.class_names(), IsEmpty());
}

TEST_F(LabelFileTest, LinesAreSplitAtTheTabOrTheLastBlank) {
  const LabelFile file = Read("val.txt", "./a b.jpg 3\r\nc.jpg\tbig cat\n\nd.jpg  5 \n");
  EXPECT_EQ(LabelIn(file, "a b.jpg"), "3");
  EXPECT_EQ(LabelIn(file, "c.jpg"), "big cat");
  EXPECT_EQ(LabelIn(file, "d.jpg"), "5");
  EXPECT_EQ(file.labels(), LabelFile::Labels::kNames);
}

TEST_F(LabelFileTest, TheWholeNameCountsBeforeTheOneWithoutSuffix) {
  const LabelFile file = Read("val.txt", "a.jpg 1\na 2\n");
  EXPECT_EQ(LabelIn(file, "a.jpg"), "1");
  EXPECT_EQ(LabelIn(file, "a.png"), "2");
}

TEST_F(LabelFileTest, DefectsAreTold) {
  ExpectDataLoss("a.csv", "", "a.csv: no labels");
  ExpectDataLoss("a.csv", "id:label\nx:1\n",
                 "a.csv:1: expected two columns, the image's name and its label, got one, "
                 "\"id:label\"; , ; | or tabs separate columns");
  ExpectDataLoss("a.csv", "id,x,y\n1,2,3\n",
                 "a.csv:1: expected a column named \"label\" among the 3 columns");
  ExpectDataLoss("a.csv", "id,x\n1,2\n1\n", "a.csv:3: expected 2 cells as in the header, got 1");
  ExpectDataLoss("a.csv", "id,x\n\"a\nb\",2\n\"1,2\n", "a.csv:4: expected a row of a table");
  ExpectDataLoss("a.csv", "id,x\n1,2\n1,3\n",
                 "a.csv:3: \"1\" has the label \"3\", but \"2\" at line 2");
  ExpectDataLoss("a.csv", "id,x\n1,2\n1,2\n", "a.csv:3: \"1\" appears twice, first at line 2");
  ExpectDataLoss("a.csv", "id,label,\n1,2,3\n", "a.csv:1: column 3 has no name");
  ExpectDataLoss("a.csv", "id,label,a,a\n1,2,3,4\n", "a.csv:1: two columns are named \"a\"");
  ExpectDataLoss("a.csv", "id,label,image/format\n1,2,3\n",
                 "a.csv:1: column \"image/format\" has the name of a feature that each image has");
  ExpectDataLoss("a.csv", "id,x\n,2\n", "a.csv:2: expected the name of an image");
  ExpectNoLabel("a.csv", "id,x\n0,cat\n1,\n", "a.csv:3: no label for \"1\"");
  ExpectDataLoss("a.txt", "a 1\nb\n", "a.txt:2: expected \"NAME LABEL\", got \"b\"");
  ExpectDataLoss("a.txt", "a \xff\n", "a.txt:1: not UTF-8");
}

TEST_F(LabelFileTest, OtherColumnsAreFeaturesOfTheirKinds) {
  const LabelFile file = Read(
      "a.csv",
      ",label,age,weight,note,empty\nx,cat,3,1.5,\"a \"\"b\"\"\",\ny,dog,,2,7,\nz,cat,4,3,,\n");
  EXPECT_EQ(LabelIn(file, "x"), "cat");
  EXPECT_EQ(ColumnsOf(file, "x"), "age=int64[3] note=bytes[a \"b\"] weight=float[1.5]");
  EXPECT_EQ(ColumnsOf(file, "y"), "note=bytes[7] weight=float[2]");
  EXPECT_EQ(ColumnsOf(file, "z.jpg"), "age=int64[4] weight=float[3]");
  EXPECT_THAT(file.notes(),
              ElementsAre(Path("a.csv") + ": column \"empty\" is empty in every row, so no record "
                                          "has this feature"));
}

TEST_F(LabelFileTest, AColumnThatNumbersTheRowsIsLeftOut) {
  const LabelFile file = Read("a.csv", ",file,label,age\n0,x.jpg,cat,3\n1,y.jpg,dog,4\n");
  EXPECT_EQ(LabelIn(file, "y.jpg"), "dog");
  EXPECT_EQ(ColumnsOf(file, "y.jpg"), "age=int64[4]");
  EXPECT_THAT(file.notes(),
              ElementsAre(Path("a.csv") + ": the first column, which has no name and numbers the "
                                          "rows, was left out; the next one names the images"));
  // With two columns, one must be the label.
  EXPECT_EQ(LabelIn(Read("a.csv", ",label\n0,x.jpg\n"), "0"), "x.jpg");
  ExpectDataLoss("a.csv", ",file,label\n0,x.jpg,cat\ny.jpg,dog\n",
                 "a.csv:3: expected 3 cells as in the header, got 2");
}

TEST_F(LabelFileTest, TheLabelColumnCanBeChosen) {
  const std::string_view table = "id,breed,label\nx,pug,1\n";
  const LabelFile file = Read("a.csv", table, {.label_column = "breed"});
  EXPECT_THAT(file.class_names(), ElementsAre("pug"));
  EXPECT_EQ(ColumnsOf(file, "x"), "label=int64[1]");
  ExpectInvalid("a.csv", table, {.label_column = "race"},
                "a.csv: column \"race\" does not exist; the columns are \"id\", \"breed\", "
                "\"label\"");
  ExpectInvalid("a.csv", table, {.label_column = "id"},
                "column \"id\" is the first one, which names the images");
  ExpectInvalid("a.txt", "x 1\n", {.label_column = "breed"},
                "a.txt: column \"breed\" does not exist; the columns are \"x 1\"");
}

TEST_F(LabelFileTest, NumbersWithFractionsAreValuesAndNoClasses) {
  const LabelFile file =
      Read("a.csv", "id,price,age\nx,100,1\ny,100.5,2\nz,20.25,3\n", {.label_column = "price"});
  EXPECT_EQ(file.labels(), LabelFile::Labels::kValues);
  EXPECT_THAT(file.class_names(), IsEmpty());
  EXPECT_EQ(ColumnsOf(file, "y"), "age=int64[2] price=float[100.5]");
  EXPECT_THAT(file.notes(),
              ElementsAre(Path("a.csv") + ": labels are numbers with fractions (the first is "
                                          "\"100.5\" at line 3): they become the feature \"price\" "
                                          "and not classes"));
  EXPECT_EQ(ColumnsOf(Read("a.txt", "x 1\ny 0.5\n"), "x"), "label=float[1]");
}

TEST_F(LabelFileTest, IntegersAreNumbersAlsoBelowZero) {
  const LabelFile file = Read("a.txt", "x -1\ny 1\n");
  EXPECT_EQ(file.labels(), LabelFile::Labels::kNumbers);
  EXPECT_EQ(LabelIn(file, "x"), "-1");
}

TEST_F(LabelFileTest, NumbersBesideNamesAreNoted) {
  const LabelFile file = Read("a.csv", "id,label\nx,100.5\ny,7\nz,cat\n");
  EXPECT_EQ(file.labels(), LabelFile::Labels::kNames);
  EXPECT_THAT(file.notes(), ElementsAre(Path("a.csv") +
                                        ": labels are names of classes because of \"cat\" at line "
                                        "4; the other 2 are numbers"));
  EXPECT_THAT(Read("a.csv", "id,label\nw,NA\nx,cat\ny,7\n").notes(),
              ElementsAre(Path("a.csv") + ": labels are names of classes because of 2 of them, the "
                                          "first is \"NA\" at line 2; the other 1 is a number"));
}

TEST_F(LabelFileTest, NamesThatLookLikeNumbersAreNoted) {
  const auto notes = [this](const std::string& labels) {
    const LabelFile file = Read("a.txt", labels);
    EXPECT_EQ(file.labels(), LabelFile::Labels::kNames);
    return file.notes();
  };
  const std::string end = "; only integers in their plain form are numbers of classes";
  EXPECT_THAT(notes("x 01\ny 02\n"),
              ElementsAre(Path("a.txt") +
                          ": labels are names of classes, although 2 of them look "
                          "like numbers, the first is \"01\" at line 1" +
                          end));
  EXPECT_THAT(notes("x cat\ny +2\n"),
              ElementsAre(Path("a.txt") +
                          ": labels are names of classes, although 1 of them looks "
                          "like a number, the first is \"+2\" at line 2" +
                          end));
  EXPECT_THAT(notes("x 1,000\n"), testing::SizeIs(1));
  EXPECT_THAT(notes("x True\ny None\n"), IsEmpty());
}

TEST_F(LabelFileTest, AMissingLabelAmongNumbersIsAnError) {
  ExpectNoLabel("a.csv", "id,label\nx,1\ny,NA\n",
                "a.csv:3: no label for \"y\": \"NA\" means that a value is missing, since the "
                "other labels are numbers");
}

TEST_F(LabelFileTest, BlanksAroundLabelsAreLeftOut) {
  const LabelFile file = Read("a.csv", "id,label\nx,cat \ny,\" dog\"\nz,cat\n");
  EXPECT_THAT(file.class_names(), ElementsAre("cat", "dog"));
  EXPECT_THAT(file.notes(), ElementsAre(Path("a.csv") + ": blanks around 2 labels were left out, "
                                                        "first at line 2"));
  EXPECT_EQ(Read("a.csv", "id,label\nx,1 \ny,2\n").labels(), LabelFile::Labels::kNumbers);
  ExpectNoLabel("a.csv", "id,label\nx,1\ny, \n", "a.csv:3: no label for \"y\"");
}

TEST_F(LabelFileTest, TheDialectIsGuessed) {
  const LabelFile file =
      Read("a.csv", "# from the camera\nid; label; size\nx; cat; 1,5\ny; dog; 2,5\n");
  EXPECT_THAT(file.class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(ColumnsOf(file, "x"), "size=float[1.5]");
  EXPECT_EQ(file.PlaceOf(0), Path("a.csv") + ":3");
  EXPECT_THAT(file.notes(),
              ElementsAre(Path("a.csv") + ": read as CSV: delimiter ';', decimal mark ',', without "
                                          "the blanks after delimiters, without the comments at "
                                          "its beginning"));
}

TEST_F(LabelFileTest, EncodingsAreToldAndNumbersWithMarksAre) {
  const LabelFile table = Read("a.csv",
                               "id,label\nx,K\xf6ln\ny,1\xa0"
                               "000\n");
  EXPECT_THAT(table.class_names(), ElementsAre("1\u00a0000", "K\u00f6ln"));
  EXPECT_THAT(table.notes(),
              ElementsAre(Path("a.csv") + ": read as Windows-1252 (a guess: not UTF-8)",
                          HasSubstr("although 1 of them looks like a number, the first is")));
  const LabelFile lines = Read("a.txt", "x K\xf6ln\n");
  EXPECT_THAT(lines.class_names(), ElementsAre("K\u00f6ln"));
  EXPECT_THAT(lines.notes(), ElementsAre(HasSubstr("read as Windows-1252")));
  EXPECT_THAT(Read("a.csv", "id,label\nx,1'000\ny,1e40\n").notes(),
              ElementsAre(HasSubstr("although 2 of them look like numbers")));
}

TEST_F(LabelFileTest, OtherColumnsHaveMissingValuesAndNotes) {
  const LabelFile file =
      Read("a.csv", "id,label,n,f,ok\nx,1,NA,16777217.0,True\ny,2, 3,1e-400,False\n");
  EXPECT_EQ(ColumnsOf(file, "x"), "f=float[16777216] ok=int64[1]");
  const std::string at = Path("a.csv");
  EXPECT_THAT(
      file.notes(),
      ElementsAre(at + ": column \"n\": 1 value is missing, the first is \"NA\" at line 2",
                  at + ": column \"n\": blanks around 1 value were left out, first at line 3",
                  at + ": column \"f\": 2 values lose digits because floats have 32 bits, "
                       "the first is \"16777217.0\" at line 2",
                  at + ": column \"ok\": true and false became 1 and 0 (2 values)"));
}

TEST_F(LabelFileTest, AMissingHeaderIsTold) {
  ExpectDataLoss("a.csv", "x.jpg,cat\ny.jpg,dog\n",
                 "a.csv:1: the first row must name the columns, but names the image \"x.jpg\"; add "
                 "a header such as name,label");
  const LabelFile file = Read("a.csv", "x,cat\ny,dog\n");
  EXPECT_TRUE(file.HeaderNames("x"));
  EXPECT_TRUE(file.HeaderNames("x.jpg"));
  EXPECT_FALSE(file.HeaderNames("y.jpg"));
  EXPECT_FALSE(Read("a.txt", "x cat\n").HeaderNames("name"));
}

TEST_F(LabelFileTest, KindsCanBeChosen) {
  LabelFileOptions options;
  options.kinds = {
      {"age", ColumnKind::kFloat}, {"zip", ColumnKind::kBytes}, {"label", ColumnKind::kFloat}};
  const std::string_view table = "id,label,age,zip\nx,3,4,123\n";
  EXPECT_EQ(ColumnsOf(Read("a.csv", table, options), "x"),
            "age=float[4] label=float[3] zip=bytes[123]");
  ExpectError(LabelFile::Read(Write("b.csv", "id,label,age\nx,3,old\n"), options).status(),
              absl::StatusCode::kDataLoss,
              "b.csv:2: expected float in column \"age\", as the schema says, got \"old\"");
  options.kinds = {{"age", ChosenKind(ColumnKind::kFloat, "out/train@64")}};
  ExpectError(LabelFile::Read(Write("b.csv", "id,label,age\nx,3,old\n"), options).status(),
              absl::StatusCode::kDataLoss,
              "b.csv:2: expected float in column \"age\", as in out/train@64, got \"old\"");
}

TEST_F(LabelFileTest, AColumnNamesTheSplits) {
  const std::string_view table = "id,label,split\nx,1,train\ny,2,val\n";
  const LabelFile file = Read("a.csv", table, {.split_column = "split"});
  EXPECT_TRUE(file.has_splits());
  EXPECT_EQ(file.SplitOf(*file.Find("y")), "val");
  EXPECT_EQ(ColumnsOf(file, "y"), "split=bytes[val]");
  EXPECT_FALSE(Read("a.csv", table).has_splits());
  ExpectInvalid("a.csv", table, {.split_column = "fold"}, "column \"fold\" does not exist");
  ExpectInvalid("a.csv", table, {.split_column = "label"},
                "column \"label\" cannot be both the label and the split");
}

}  // namespace
}  // namespace shardfeed
