#include "pipeline/dataset.h"
#include "tests/pipeline/element_text.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::shardfeed::testing::ElementText;
using ::testing::ElementsAre;

// One row for each value, in the column "x".
Dataset Bytes(std::vector<std::string> values) {
  auto kept = std::make_shared<const std::vector<std::string>>(std::move(values));
  return Dataset::Range(0, static_cast<int64_t>(kept->size()))
      .Map({{"x", DType::kBytes, {}}},
           [kept](RowContext& row) {
             row.Out<std::string_view>(0)[0] = (*kept)[row.In<int64_t>(0)[0]];
             return absl::OkStatus();
           },
           {"value"});
}

std::vector<std::string> Collect(const Dataset& ds) {
  std::vector<std::string> elements;
  auto it = ds.Start({.threads = 2});
  EXPECT_OK(it);
  while (it.ok()) {
    Batch batch;
    absl::Status status = (*it)->Next(&batch);
    EXPECT_OK(status);
    if (!status.ok() || batch.empty()) break;
    elements.push_back(ElementText(batch));
  }
  return elements;
}

absl::Status FirstError(const Dataset& ds) {
  auto it = ds.Start({.threads = 2});
  if (!it.ok()) return it.status();
  while (true) {
    Batch batch;
    absl::Status status = (*it)->Next(&batch);
    if (!status.ok() || batch.empty()) return status;
  }
}

std::string Npy(const std::string& shape, const std::string& values) {
  const std::string text = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return "\x93NUMPY\1\0"s + static_cast<char>(text.size()) + '\0' + text + values;
}

// Two channels of 16 bits, 8,000 frames per second.
std::string Wav(const std::string& samples) {
  return "RIFF\0\0\0\0WAVEfmt \x10\0\0\0\1\0\2\0\x40\x1f\0\0\0\x7d\0\0\4\0\x10\0data"s +
         static_cast<char>(samples.size()) + "\0\0\0"s + samples;
}

TEST(DecodersTest, RawTensors) {
  const Dataset ds = Bytes({"\1\0\0\0\2\0\0\0"s, "\3\0\0\0\xff\xff\xff\xff"s});
  EXPECT_THAT(Collect(ds.DecodeRaw("x", DType::kInt32, {2}).Batch(2)),
              ElementsAre(R"({"x":[[1,2],[3,-1]]})"));
  EXPECT_THAT(Collect(ds.DecodeRaw("x", DType::kUInt8, {2, 4}).Take(1)),
              ElementsAre(R"({"x":[[1,0,0,0],[2,0,0,0]]})"));
  EXPECT_EQ(RowSpecText(ds.DecodeRaw("x", DType::kInt32, {-1}).spec()), "x: int32 ragged");
  EXPECT_THAT(Collect(Bytes({"\1"s, "", "\2\3"s}).DecodeRaw("x", DType::kUInt8, {-1}).Batch(3)),
              ElementsAre(R"({"x":[[1],[],[2,3]]})"));
  EXPECT_FAILS(FirstError(ds.DecodeRaw("x", DType::kInt32, {3})), kInvalidArgument,
               "column 'x' has 8 bytes; int32 [3] takes 12");
  EXPECT_FAILS(FirstError(ds.DecodeRaw("x", DType::kInt16, {-1, 3})), kInvalidArgument,
               "column 'x' has 8 bytes; int16 [3] takes a multiple of 6");
  EXPECT_FAILS(ds.DecodeRaw("y", DType::kInt16, {3}).status(), kInvalidArgument,
               "decode_raw: there is no column 'y' with one bytes value per row; there are: x");
  EXPECT_FAILS(ds.DecodeRaw("x", DType::kInt16, {3, -1}).status(), kInvalidArgument,
               "decode_raw: expected numbers with sizes of at least 1 and at most 2 GiB per row");
  EXPECT_FAILS(ds.DecodeRaw("x", DType::kInt16, {1 << 20, 1 << 20}).status(), kInvalidArgument,
               "got x: int16 [1048576, 1048576]");
  EXPECT_FAILS(ds.DecodeRaw("x", DType::kBytes, {}).status(), kInvalidArgument, "decode_raw");
}

TEST(DecodersTest, NumpyArrays) {
  const Dataset ds = Bytes({Npy("(2, 2)", "\1\2\3\4"), Npy("(1, 2)", "\5\6")});
  EXPECT_THAT(Collect(ds.Take(1).DecodeNpy("x", DType::kUInt8, {2, 2})),
              ElementsAre(R"({"x":[[1,2],[3,4]]})"));
  EXPECT_THAT(Collect(ds.DecodeNpy("x", DType::kUInt8, {-1, 2}).Batch(2)),
              ElementsAre(R"({"x":[[[1,2],[3,4]],[[5,6]]]})"));
  EXPECT_FAILS(FirstError(ds.DecodeNpy("x", DType::kUInt8, {2, 2})), kInvalidArgument,
               "column 'x' holds uint8 [1, 2], expected uint8 [2, 2]");
  EXPECT_FAILS(FirstError(ds.DecodeNpy("x", DType::kInt8, {-1, 2})), kInvalidArgument,
               "column 'x' holds uint8 [2, 2], expected int8 [any, 2]");
  EXPECT_FAILS(FirstError(Bytes({Npy("()", "\1")}).DecodeNpy("x", DType::kUInt8, {-1})),
               kInvalidArgument, "column 'x' holds uint8 [], expected uint8 [any]");
  EXPECT_FAILS(FirstError(Bytes({"text"}).DecodeNpy("x", DType::kUInt8, {2})), kDataLoss,
               "column 'x': not a .npy file: it starts with \"text\"");
}

TEST(DecodersTest, Text) {
  const Dataset ds = Bytes({"plain", "\xc3\xa9t\xc3\xa9"}).DecodeText("x");
  EXPECT_THAT(Collect(ds.Batch(2)), ElementsAre(R"({"x":["plain","été"]})"));
  EXPECT_FAILS(FirstError(Bytes({"fine", "caf\xe9!"}).DecodeText("x")), kDataLoss,
               "column 'x': the text is not UTF-8: byte 3 of 5 begins \"\\xe9!\"");
}

TEST(DecodersTest, Sound) {
  const Dataset ds = Bytes({Wav("\0\0\0\x40\0\x80\0\0"s), Wav("")});
  EXPECT_EQ(RowSpecText(ds.DecodeWav("x", 2).spec()), "x: float32 ragged [2], sample_rate: int32");
  EXPECT_THAT(Collect(ds.DecodeWav("x", 2).Batch(2)),
              ElementsAre(R"({"sample_rate":[8000,8000],"x":[[[0.0,0.5],[-1.0,0.0]],[]]})"));
  EXPECT_FAILS(FirstError(ds.DecodeWav("x")), kInvalidArgument,
               "column 'x': the sound has 2 channels, expected 1");
  EXPECT_FAILS(FirstError(Bytes({"RIFF"}).DecodeWav("x")), kDataLoss,
               "column 'x': not a WAV file: it starts with \"RIFF\"");
  EXPECT_FAILS(ds.DecodeWav("x", 0).status(), kInvalidArgument,
               "decode_wav: channels must be from 1 to 65535");
  EXPECT_FAILS(ds.DecodeWav("x", 1, "x").status(), kInvalidArgument,
               "and the rate must be another column");
}

TEST(DecodersTest, TextOfTheChain) {
  const Dataset ds = Bytes({""});
  EXPECT_EQ(ds.DecodeRaw("x", DType::kInt16, {-1, 2}).Text(),
            "range(0, 1, 1).map(x).decode_raw(x: int16 ragged [2])");
  EXPECT_EQ(ds.DecodeText("x").DecodeWav("x", 2, "rate").Text(),
            "range(0, 1, 1).map(x).decode_text(x).decode_wav(x, channels=2, rate=rate)");
}

}  // namespace
}  // namespace shardfeed
