#include "decode/features/wav.h"

#include <bit>
#include <random>
#include <vector>

#include "base/little_endian.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;

std::string Chunk(const std::string& name, const std::string& content) {
  std::string chunk = name;
  AppendLittleEndian<uint32_t>(static_cast<uint32_t>(content.size()), &chunk);
  chunk += content;
  if (content.size() % 2 == 1) chunk += '\0';
  return chunk;
}

std::string Riff(const std::string& chunks) {
  std::string file = "RIFF";
  AppendLittleEndian<uint32_t>(static_cast<uint32_t>(chunks.size() + 4), &file);
  return file + "WAVE" + chunks;
}

std::string Format(uint16_t kind, uint16_t channels, uint16_t bits, uint32_t rate = 16000) {
  std::string content;
  AppendLittleEndian<uint16_t>(kind, &content);
  AppendLittleEndian<uint16_t>(channels, &content);
  AppendLittleEndian<uint32_t>(rate, &content);
  AppendLittleEndian<uint32_t>(rate * channels * bits / 8, &content);
  AppendLittleEndian<uint16_t>(static_cast<uint16_t>(channels * bits / 8), &content);
  AppendLittleEndian<uint16_t>(bits, &content);
  return content;
}

std::string Extensible(uint16_t kind, uint16_t channels, uint16_t bits) {
  std::string content = Format(0xfffe, channels, bits);
  AppendLittleEndian<uint16_t>(22, &content);
  AppendLittleEndian<uint16_t>(bits, &content);
  AppendLittleEndian<uint32_t>(3, &content);
  AppendLittleEndian<uint16_t>(kind, &content);
  return content + "\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"s;
}

std::string Wav(uint16_t kind, uint16_t channels, uint16_t bits, const std::string& samples) {
  return Riff(Chunk("fmt ", Format(kind, channels, bits)) + Chunk("data", samples));
}

std::vector<float> Decode(const std::string& file) {
  const absl::StatusOr<WavSound> sound = ParseWav(file);
  EXPECT_OK(sound);
  if (!sound.ok()) return {};
  std::vector<float> values(sound->frames * sound->channels);
  ToFloat(*sound, values.data());
  return values;
}

TEST(WavTest, AllFormats) {
  EXPECT_THAT(Decode(Wav(1, 1, 8, "\x80\xff\0"s)), ElementsAre(0, 127 / 128.0f, -1));
  EXPECT_THAT(Decode(Wav(1, 1, 16, "\0\0\xff\x7f\0\x80"s)), ElementsAre(0, 32767 / 32768.0f, -1));
  EXPECT_THAT(Decode(Wav(1, 1, 24, "\1\0\0\0\0\x80\xff\xff\xff"s)),
              ElementsAre(0x1p-23f, -1, -0x1p-23f));
  EXPECT_THAT(Decode(Wav(1, 1, 32, "\0\0\0\x40\0\0\0\x80"s)), ElementsAre(0.5f, -1));
  std::string floats;
  AppendLittleEndian(std::bit_cast<uint32_t>(0.3f), &floats);
  AppendLittleEndian(std::bit_cast<uint32_t>(-7.0f), &floats);
  EXPECT_THAT(Decode(Wav(3, 1, 32, floats)), ElementsAre(0.3f, -7));
  std::string doubles;
  AppendLittleEndian(std::bit_cast<uint64_t>(0.3), &doubles);
  EXPECT_THAT(Decode(Wav(3, 1, 64, doubles)), ElementsAre(0.3f));
  EXPECT_THAT(Decode(Wav(1, 1, 16, "")), ElementsAre());
}

TEST(WavTest, ChannelsRateAndOtherChunks) {
  const std::string file =
      Riff(Chunk("LIST", "odd") + Chunk("fmt ", Extensible(1, 2, 16)) + Chunk("fact", "1234") +
           Chunk("data", "\1\0\2\0\3\0\4\0"s) + Chunk("id3 ", "what follows is not looked at"));
  const absl::StatusOr<WavSound> sound = ParseWav(file);
  ASSERT_OK(sound);
  EXPECT_EQ(sound->format, SampleFormat::kInt16);
  EXPECT_EQ(sound->channels, 2);
  EXPECT_EQ(sound->sample_rate, 16000);
  EXPECT_EQ(sound->frames, 2);
  EXPECT_THAT(Decode(file), ElementsAre(0x1p-15f, 0x1p-14f, 3 * 0x1p-15f, 0x1p-13f));
}

TEST(WavTest, BadInput) {
  const auto expect = [](const std::string& file, std::string_view text) {
    EXPECT_FAILS(ParseWav(file), kDataLoss, std::string(text));
  };
  const std::string format = Chunk("fmt ", Format(1, 1, 16));
  expect("", "not a WAV file: it is empty");
  expect("RIFF", "not a WAV file: it starts with \"RIFF\"");
  expect("fLaC and so on", "it starts with \"fLaC and so \"; convert it with 'ffmpeg -i IN");
  expect("RIFX\0\0\0\0WAVE"s, "it starts with \"RIFX");
  expect("RIFF\0\0\0\0AVI "s, "not a WAV file");
  expect(Riff(""), "it ends without a chunk \"fmt \"");
  expect(Riff(format), "it ends without a chunk \"data\"");
  expect(Riff(Chunk("data", "12") + format), "its chunk \"data\" comes before \"fmt \"");
  expect(Riff(Chunk("fmt ", "12345678901234")), "\"fmt \" has 14 bytes, expected at least 16");
  expect(Riff(format + "data\4\0\0\0\1\0"s),
         "its chunk \"data\" at byte 36 has a size of 4 bytes, but 2 follow: the file is cut off");
  expect(Riff(format + "data\xff\xff\xff\xff\1\0"s), "its length is unknown");
  expect(Riff(format + Chunk("data", "123")),
         "take 3 bytes, which is not a multiple of the frame size of 2");
  expect(Riff(Chunk("fmt ", Format(2, 1, 4)) + Chunk("data", "")),
         "format 2 with 4 bits, expected PCM");
  expect(Riff(Chunk("fmt ", Format(1, 1, 12))), "format 1 with 12 bits");
  expect(Riff(Chunk("fmt ", Format(1, 0, 16))), "it has 0 channels and 16000 frames per second");
  expect(Riff(Chunk("fmt ", Format(1, 1, 16, 0))), "it has 1 channels and 0 frames");
  std::string frames = Format(1, 2, 16);
  frames[12] = 3;
  expect(Riff(Chunk("fmt ", frames)), "frames of 3 bytes, but 2 channels of 16 bits take 4");
  expect(Riff(Chunk("fmt ", Extensible(1, 1, 16).substr(0, 30))), "its extensible format is cut");
}

TEST(WavTest, AnyBytesAreSafe) {
  const std::string sound = Riff(Chunk("odd ", "x") + Chunk("fmt ", Extensible(1, 2, 24)) +
                                 Chunk("data", std::string(60, 'x')));
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = sound;
    for (int n = random() % 4; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % 2 == 0 ? bytes.size() : random() % bytes.size());
    // In memory of exactly this size, so that AddressSanitizer detects any read past the end.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const absl::StatusOr<WavSound> parsed = ParseWav({exact.data(), exact.size()});
    if (!parsed.ok()) continue;
    ASSERT_LE(parsed->frames * parsed->channels, exact.size());
    std::vector<float> values(parsed->frames * parsed->channels);
    ToFloat(*parsed, values.data());
  }
}

}  // namespace
}  // namespace shardfeed
