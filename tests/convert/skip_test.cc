// Tests what each kind of source leaves out when broken records are to be skipped.

#include "convert/sources/captions.h"
#include "convert/sources/cifar.h"
#include "convert/sources/csv.h"
#include "convert/sources/images.h"
#include "convert/sources/json.h"
#include "convert/sources/tar.h"
#include "convert/sources/text_lines.h"
#include "convert/sources/tfrecord.h"
#include "tests/convert/source_fixture.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\4\x08\2\0\0\0"s;

class SkipTest : public SourceTest {
 protected:
  // Returns the records that are built, as text, without those that turn out to be broken only
  // then. `defects_` gets the defects, without the folder's name.
  std::vector<std::string> Read(Source& source) {
    defects_.clear();
    const auto note = [this](const absl::Status& defect, uint64_t records) {
      EXPECT_EQ(records, 1);
      std::string message(defect.message());
      const std::string folder = Path("");
      for (size_t at = 0; (at = message.find(folder, at)) != message.npos;) {
        message.erase(at, folder.size());
      }
      defects_.push_back(message);
    };
    source.SkipDefects(note);
    const absl::Status status = Scan(source);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<std::string> records;
    if (!status.ok()) return records;
    const std::vector<Kept> items = Items(source);
    EXPECT_EQ(items.size(), source.num_records());
    for (const Kept& item : items) {
      absl::StatusOr<Example> example = BuildItem(source, item);
      if (example.ok()) {
        records.push_back(Text(*example));
      } else {
        EXPECT_EQ(example.status().code(), absl::StatusCode::kDataLoss);
        note(example.status(), 1);
      }
    }
    return records;
  }

  std::vector<std::string> defects_;
};

TEST_F(SkipTest, RowsOfTables) {
  auto source = *MakeCsvSource(
      {Write("a.csv", "a,b\n1,2\n\n1,2,3\n\n\n\"x\"y,2\n3,\xff\n\"5\n\",6\n7,8\n\"9,\n10,11\n")});
  EXPECT_THAT(Read(*source), ElementsAre("a=bytes[1] b=int64[2]", "a=bytes[5\n] b=int64[6]",
                                         "a=bytes[7] b=int64[8]", "a=bytes[10] b=int64[11]"));
  EXPECT_THAT(defects_,
              ElementsAre(HasSubstr("a.csv:4: expected 2 cells as in the header, got 3"),
                          HasSubstr("a.csv:7: expected a delimiter"),
                          "a.csv:8: the row is not UTF-8 or contains a NUL byte",
                          HasSubstr("a.csv:12: the quote that opens here is never closed")));
}

TEST_F(SkipTest, RowsThatAQuoteMakesTooLong) {
  std::string rows = "a\n\"open\n";
  for (int i = 0; i < 3000000; ++i) rows += "1\n";
  auto source = *MakeCsvSource({Write("a.csv", rows)}, {.max_row_bytes = 2 << 20});
  source->SkipDefects([this](const absl::Status& defect, uint64_t) {
    defects_.push_back(std::string(defect.message()));
  });
  ASSERT_TRUE(Scan(*source).ok());
  EXPECT_EQ(source->num_records(), 3000000);
  EXPECT_THAT(defects_, ElementsAre(HasSubstr("a.csv:2: the record is longer than 2097152 bytes")));
}

TEST_F(SkipTest, RowsThatDoNotFitTheSchema) {
  CsvOptions options;
  options.choice.kinds = {{"a", ColumnKind::kInt64}, {"b", ColumnKind::kFloat}};
  auto source =
      *MakeCsvSource({Write("a.csv", "a,b\n007,+1.5\nx,2\n3,y\n4,\n,5\n")}, std::move(options));
  EXPECT_THAT(Read(*source), ElementsAre("a=int64[7] b=float[1.5]", "a=int64[4]", "b=float[5]"));
  EXPECT_THAT(
      defects_,
      ElementsAre("a.csv:3: expected int64 in column \"a\", as the schema says, got \"x\"",
                  "a.csv:4: expected float in column \"b\", as the schema says, got \"y\""));
}

TEST_F(SkipTest, JsonLines) {
  auto source = *MakeJsonSource(
      {Write("a.jsonl",
             "{\"a\": 1}\n{\"a\": tru}\n[]\n{\"a\": \"x\", \"new\": \"y\"}\n{\"new\": 3, "
             "\"a\": 2}\n{\"b\": \"\xff\"}\n")},
      JsonLayout::kLines);
  // What a skipped line says about types is forgotten: "new" is a number.
  EXPECT_THAT(Read(*source), ElementsAre("a=int64[1]", "a=int64[2] new=int64[3]"));
  EXPECT_THAT(defects_,
              ElementsAre(HasSubstr("a.jsonl:2:10: invalid JSON"),
                          HasSubstr("a.jsonl:3: got an array, but each line must be"),
                          HasSubstr("a.jsonl:4: \"a\": text here, but a number at a.jsonl:1"),
                          HasSubstr("a.jsonl:6:")));
  EXPECT_THAT(source->notes(), IsEmpty());
}

TEST_F(SkipTest, JsonKeysOfSkippedRecordsAreForgotten) {
  auto source = *MakeJsonSource(
      {Write("a.jsonl",
             "{\"o\": {\"x\": 1}, \"n\": null, \"l\": [[null]]}\n{\"o\": 2}\n{\"l\": 1}\n")},
      JsonLayout::kLines);
  EXPECT_THAT(Read(*source), ElementsAre("o=int64[2]", "l=int64[1]"));
  EXPECT_THAT(defects_, ElementsAre(HasSubstr("a.jsonl:1: \"l\": null in a list")));
  EXPECT_THAT(source->notes(), IsEmpty());
}

TEST_F(SkipTest, JsonArrayThatBreaksOff) {
  const std::string a = Write("a.json", "[{\"a\": 1}, 2, {\"a\": 3}\n, {\"a\": ");
  const std::string b = Write("b.json", "[{\"a\": 4}]");
  EXPECT_THAT(Read(**MakeJsonSource({a, b}, JsonLayout::kArray)),
              ElementsAre("a=int64[1]", "a=int64[3]", "a=int64[4]"));
  EXPECT_THAT(
      defects_,
      ElementsAre(HasSubstr("a.json:1: got a number, but each element"),
                  HasSubstr("a.json:2: the file ends inside the element that starts here")));
}

TEST_F(SkipTest, LinesOfText) {
  auto source = *MakeTextLinesSource({Write("a", "one\n\xff\n\ntwo\0\nthree"s)});
  EXPECT_THAT(Read(*source), ElementsAre("text=bytes[one]", "text=bytes[]", "text=bytes[three]"));
  EXPECT_THAT(defects_, ElementsAre("a:2: the line is not UTF-8 or contains a NUL byte",
                                    "a:4: the line is not UTF-8 or contains a NUL byte"));
}

TEST_F(SkipTest, Images) {
  Write("in/a.png", kPng);
  Write("in/b.png", "");
  Write("in/c.png", "text");
  Write("in/d.png", kPng);
  std::filesystem::create_symlink("nowhere", Path("in/e.png"));
  ImagesOptions options;
  options.labels = *LabelFile::Read(Write("labels.txt", "a 1\nb 1\nc 1\n"));
  auto source = *MakeImagesSource({Path("in")}, std::move(options));
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("image/filename=bytes[a.png]")));
  EXPECT_THAT(defects_, ElementsAre("in/e.png: the target of the link does not exist",
                                    HasSubstr("in/b.png: "), HasSubstr("in/c.png: "),
                                    HasSubstr("in/d.png: labels.txt has no label for \"d.png\"")));
}

TEST_F(SkipTest, Captions) {
  for (const char* name : {"a", "b", "c", "d", "e"}) Write("in/"s + name + ".png", kPng);
  Write("in/a.txt", "x");
  Write("in/c.json", "{");
  Write("in/d.jpg", kPng);
  Write("in/e.txt", "\xff");
  auto source = *MakeCaptionsSource({Path("in")});
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("image/filename=bytes[a.png]")));
  EXPECT_THAT(defects_, ElementsAre(HasSubstr("in/b.png: the image has no text"),
                                    HasSubstr("in/c.json:1:2: invalid JSON"),
                                    HasSubstr("in/d.jpg: d.png has the same name"),
                                    HasSubstr("in/e.txt: not UTF-8")));
}

TEST_F(SkipTest, LabelsOfCifar) {
  const std::string pixels(3072, 'x');
  auto source = *MakeCifarSource({Write("a.bin", "\1"s + pixels + "\x0b" + pixels)});
  EXPECT_THAT(Read(*source), ElementsAre(HasSubstr("image/class/label=int64[1]")));
  EXPECT_THAT(defects_, ElementsAre(HasSubstr("a.bin: record 1 at byte 3073: the label 11 is")));
}

// A member's header and content, without the fields that TarReader ignores.
std::string Member(const std::string& name, std::string_view content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char number[12];
  std::snprintf(number, sizeof(number), "%011zo", content.size());
  header.replace(124, 11, number);
  header.replace(148, 8, "        ");
  header[156] = type;
  uint32_t sum = 0;
  for (char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(number, sizeof(number), "%06o", sum);
  header.replace(148, 7, std::string(number) + '\0');
  header.append(content);
  header.resize((header.size() + 511) / 512 * 512);
  return header;
}

TEST_F(SkipTest, RecordsOfTars) {
  const std::string a =
      Write("a.tar", Member("a.txt", "1") + Member("b.txt", "2") + Member("b.png", "", '2') +
                         Member("../c.txt", "3") + Member("c.txt", "4") + Member("c.txt", "5") +
                         Member("d.txt", "6") + Member("a.png", "7") + Member("e.txt", "8") +
                         Member("pipe", "", '6') + Member("f.txt", "9") + std::string(1024, '\0'));
  const std::string b =
      Write("b.tar", Member("g.txt", "10") + Member("h.txt", "cut").substr(0, 700));
  const std::string c = Write("c.tar", Member("i.txt", "11") + std::string(1024, '\0'));
  EXPECT_THAT(Read(**MakeTarSource({a, b, c})),
              ElementsAre("__key__=bytes[a] txt=bytes[1]", "__key__=bytes[d] txt=bytes[6]",
                          "__key__=bytes[e] txt=bytes[8]", "__key__=bytes[f] txt=bytes[9]",
                          "__key__=bytes[g] txt=bytes[10]", "__key__=bytes[i] txt=bytes[11]"));
  EXPECT_THAT(defects_,
              ElementsAre(HasSubstr("a.tar: \"b.png\" at byte 2048 is a link"),
                          HasSubstr("a.tar: \"../c.txt\" at byte 2560 leads outside"),
                          HasSubstr("a.tar: \"c.txt\" at byte 4608 appears twice"),
                          HasSubstr("a.tar: \"a.png\" at byte 6656 is not next to the other"),
                          HasSubstr("a.tar: \"pipe\" at byte 8704 is a pipe"),
                          HasSubstr("b.tar: the archive is cut off: it ends in the padding")));
}

TEST_F(SkipTest, JsonOfTars) {
  const std::string a = Write(
      "a.tar", Member("a.json", "{\"x\": 1}") + Member("b.json", "{\"x\": \"1\"}") +
                   Member("c.json", "{") + Member("c.cls", "text") +
                   Member("d.json", "{\"x\": 2}") + Member("d.cls", "3") + std::string(1024, '\0'));
  EXPECT_THAT(Read(**MakeTarSource({a}, {.parse_json = true})),
              ElementsAre("__key__=bytes[a] json.x=int64[1]",
                          "__key__=bytes[d] cls=int64[3] json.x=int64[2]"));
  EXPECT_THAT(defects_, ElementsAre(HasSubstr("a.tar: the JSON of \"b\" at byte 1024: \"json.x\""),
                                    HasSubstr("a.tar: the JSON of \"c\": byte 2")));
}

TEST_F(SkipTest, DamagedTfrecords) {
  std::string bytes;
  std::vector<size_t> begins;
  for (const char* record : {"one", "two", "three", "four"}) {
    begins.push_back(bytes.size());
    AppendFrame(record, &bytes);
  }
  bytes[begins[1] + 13] ^= 1;  // a payload
  bytes[begins[2]] ^= 1;       // a length, which its CRC repairs
  auto source = *MakeTfrecordSource({Write("a", bytes)});
  source->SkipDefects([this](const absl::Status& defect, uint64_t) {
    defects_.push_back(std::string(defect.message()));
  });
  ASSERT_TRUE(Scan(*source).ok());
  std::vector<std::string> records;
  for (const Kept& item : Items(*source)) records.push_back(item.bytes);
  EXPECT_THAT(records, ElementsAre("one", "three", "four"));
  EXPECT_THAT(defects_, ElementsAre(HasSubstr("a: record 1 at byte 19: payload CRC")));
}

}  // namespace
}  // namespace shardfeed
