#include "tfrecord/inflate_blocks.h"

#include <zlib.h>

#include <cstring>
#include <functional>
#include <random>

#include "tests/testing/deflate.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::Deflate;

constexpr int kRaw = -15;  // zlib's window bits for deflated data without a header

// Bytes that hardly repeat, with repeats of all lengths and distances between them.
std::string Noise(size_t size, double repeats = 0.002) {
  std::mt19937 random(5);
  std::string content;
  while (content.size() < size) {
    if (content.size() > 10 && random() < repeats * std::mt19937::max()) {
      const size_t distance = 1 + random() % std::min<size_t>(content.size(), 32768);
      const size_t length = 3 + random() % 300;
      for (size_t i = 0; i < length; ++i) content.push_back(content[content.size() - distance]);
    } else {
      // Some bytes are rare, so that their codes are long.
      const uint32_t byte = random() % 300;
      content.push_back(static_cast<char>(byte < 256 ? byte : byte % 8));
    }
  }
  content.resize(size);
  return content;
}

// Few symbols, each half as frequent as the one before: codes of all lengths up to 15 bits.
std::string Skewed(size_t size) {
  std::mt19937 random(6);
  std::string content;
  while (content.size() < size) {
    content.push_back(static_cast<char>(__builtin_ctz(random() | 1U << 20)));
  }
  return content;
}

// All places where zlib finds the start of a block, and the end.
std::vector<DeflateBlock> BlocksOf(std::string_view data) {
  std::vector<DeflateBlock> blocks = {{0, 0}};
  std::string out(1 << 16, '\0');
  z_stream stream = {};
  inflateInit2(&stream, kRaw);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = data.size();
  int result = Z_OK;
  while (result == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = out.size();
    result = inflate(&stream, Z_BLOCK);
    if (result == Z_OK && (stream.data_type & 128) != 0 && (stream.data_type & 64) == 0) {
      blocks.push_back({8 * stream.total_in - (stream.data_type & 7), stream.total_out});
    }
  }
  EXPECT_EQ(result, Z_STREAM_END);
  blocks.push_back({8 * data.size(), stream.total_out});
  inflateEnd(&stream);
  return blocks;
}

// The result of InflateBlocks, or "bad" if it fails.
std::string Inflate(std::string_view data, absl::Span<const DeflateBlock> blocks, size_t size,
                    bool ends_stream = true, std::string_view dictionary = "") {
  const std::string with_slack = std::string(data) + std::string(kInflateBlocksSlack, '\xff');
  std::string content(dictionary);
  content.resize(dictionary.size() + size, 'x');
  if (!InflateBlocks(std::string_view(with_slack).substr(0, data.size()), blocks, ends_stream,
                     absl::MakeSpan(content), dictionary.size())) {
    return "bad";
  }
  return content.substr(dictionary.size());
}

struct Data {
  std::string name;
  std::function<std::string()> content;
  int memory_level = 9;
  int strategy = Z_DEFAULT_STRATEGY;
};

class InflateBlocksOf : public ::testing::TestWithParam<Data> {};

INSTANTIATE_TEST_SUITE_P(
    Each, InflateBlocksOf,
    ::testing::Values(Data{"Noise", [] { return Noise(1'000'000); }},
                      Data{"NoiseInSmallBlocks", [] { return Noise(300'000); }, 1},
                      Data{"NoiseWithMoreRepeats", [] { return Noise(1'000'000, 0.01); }, 8},
                      Data{"LiteralsOnly", [] { return Noise(500'000); }, 9, Z_HUFFMAN_ONLY},
                      Data{"Runs", [] { return std::string(500'000, 'a') + Noise(10'000); }, 1,
                           Z_RLE},
                      Data{"FixedCodes", [] { return Noise(300'000); }, 4, Z_FIXED},
                      Data{"LongCodes", [] { return Skewed(3'000'000); }, 9, Z_HUFFMAN_ONLY},
                      Data{"LongCodesAndRepeats", [] { return Noise(200'000) + Skewed(2'000); }},
                      Data{"OneByte", [] { return std::string("a"); }},
                      Data{"Nothing", [] { return std::string(); }}),
    [](const auto& info) { return info.param.name; });

TEST_P(InflateBlocksOf, GivesTheContentBack) {
  const std::string content = GetParam().content();
  const std::string data = Deflate(content, kRaw, GetParam().memory_level, GetParam().strategy);
  const std::vector<DeflateBlock> blocks = BlocksOf(data);
  const size_t size = blocks.back().offset;
  ASSERT_EQ(size, content.size());
  EXPECT_TRUE(Inflate(data, blocks, size) == content);
  // Any number of blocks may lie between two places.
  for (const size_t step : {2, 7, 1000}) {
    std::vector<DeflateBlock> some;
    for (size_t i = 0; i + 1 < blocks.size(); i += step) some.push_back(blocks[i]);
    some.push_back(blocks.back());
    EXPECT_TRUE(Inflate(data, some, size) == content) << step;
  }
}

// With many copies, libdeflate is faster, so there is no reason to go on.
TEST(InflateBlocks, GivesUpWhereMuchRepeats) {
  const std::string noise = Noise(300'000);
  for (const std::string& content :
       {Noise(1'000'000, 0.1), Skewed(1'000'000), noise + Skewed(900'000)}) {
    const std::string data = Deflate(content, kRaw);
    EXPECT_EQ(Inflate(data, BlocksOf(data), content.size()), "bad");
  }
  const std::string content = noise + Skewed(20'000) + noise;
  const std::string data = Deflate(content, kRaw);
  EXPECT_TRUE(Inflate(data, BlocksOf(data), content.size()) == content);
}

// From one block to another, with the preceding content as the dictionary.
TEST_P(InflateBlocksOf, StartsAndEndsAtAnyBlock) {
  const std::string content = GetParam().content();
  const std::string data = Deflate(content, kRaw, GetParam().memory_level, GetParam().strategy);
  const std::vector<DeflateBlock> blocks = BlocksOf(data);
  std::mt19937 random(1);
  for (int times = 0; times < 40 && blocks.size() > 2; ++times) {
    const size_t from = random() % (blocks.size() - 1);
    const size_t to = from + 1 + random() % (blocks.size() - 1 - from);
    const uint64_t byte = blocks[from].bit / 8;
    std::vector<DeflateBlock> some;
    for (size_t i = from; i <= to; ++i) {
      some.push_back({blocks[i].bit - 8 * byte, blocks[i].offset - blocks[from].offset});
    }
    const size_t before = std::min<uint64_t>(blocks[from].offset, kDictionaryBytes);
    const std::string_view all = content;
    const std::string_view expected =
        all.substr(blocks[from].offset, blocks[to].offset - blocks[from].offset);
    EXPECT_TRUE(Inflate(std::string_view(data).substr(byte, (blocks[to].bit + 7) / 8 - byte), some,
                        expected.size(), to + 1 == blocks.size(),
                        all.substr(blocks[from].offset - before, before)) == expected)
        << from << " to " << to;
  }
}

// No matter what is wrong, nothing outside is accessed (which AddressSanitizer checks), and the
// result has the right size.
TEST_P(InflateBlocksOf, DamageIsFoundOrShows) {
  const std::string content = GetParam().content().substr(0, 60'000);
  const std::string data = Deflate(content, kRaw, 1, GetParam().strategy);
  const std::vector<DeflateBlock> blocks = BlocksOf(data);
  const size_t size = blocks.back().offset;
  std::mt19937 random(2);
  for (int times = 0; times < 300; ++times) {
    std::string damaged = data;
    for (int i = 0; i < 1 + times % 3; ++i) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
    }
    const std::string found = Inflate(damaged, blocks, size);
    EXPECT_TRUE(found == "bad" || found.size() == size);
    damaged.resize(random() % damaged.size());
    EXPECT_EQ(Inflate(damaged, blocks, size), "bad");
  }
  for (int times = 0; times < 100; ++times) {
    std::string noise(200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    const std::vector<DeflateBlock> whole = {{0, 0}, {8 * noise.size(), 1000}};
    (void)Inflate(noise, whole, 1000);
  }
}

TEST(InflateBlocks, WrongPlacesAreBad) {
  const std::string content = Noise(300'000);
  const std::string data = Deflate(content, kRaw, 4);
  const std::vector<DeflateBlock> blocks = BlocksOf(data);
  const size_t size = blocks.back().offset;
  ASSERT_GT(blocks.size(), 10);
  EXPECT_EQ(Inflate(data, {}, size), "bad");
  EXPECT_EQ(Inflate(data, {blocks.data(), 1}, 0), "bad");
  EXPECT_EQ(Inflate(data, blocks, size, /*ends_stream=*/false), "bad");
  EXPECT_EQ(Inflate(data, blocks, size - 1), "bad");
  EXPECT_EQ(Inflate(data, blocks, size + 1), "bad");
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const int64_t by : {-800'000, -1000, -1, 1, 1000, 800'000}) {
      std::vector<DeflateBlock> lie = blocks;
      lie[i].bit += by;
      // The bits before a stored block's size may be skipped.
      const std::string found = Inflate(data, lie, size);
      EXPECT_TRUE(found == "bad" || (by == 1 && found == content)) << i << " by " << by;
      lie = blocks;
      lie[i].offset += by;
      EXPECT_EQ(Inflate(data, lie, size), "bad") << i << " by " << by;
    }
  }
  // The stream ends before the last of the places.
  const std::string twice = data + data;
  std::vector<DeflateBlock> more = blocks;
  for (const DeflateBlock& block : blocks) {
    if (block.bit > 0) more.push_back({8 * data.size() + block.bit, size + block.offset});
  }
  EXPECT_EQ(Inflate(twice, more, 2 * size), "bad");
}

// Many blocks without content, each of which is a place here.
TEST(InflateBlocks, EmptyBlocks) {
  constexpr std::string_view kStored("\0\0\0\xff\xff", 5);
  std::string data;
  std::vector<DeflateBlock> blocks;
  for (int i = 0; i < 200'000; ++i) {
    blocks.push_back({8 * data.size(), 0});
    data += kStored;
  }
  blocks.push_back({8 * data.size(), 0});
  data += std::string("\x01\x03\0\xfc\xff", 5) + "abc";
  blocks.push_back({8 * data.size(), 3});
  EXPECT_EQ(Inflate(data, blocks, 3), "abc");
}

// A single code of two bits leaves meaningless bits, which zlib treats as damage too.
TEST(InflateBlocks, IncompleteCodesAreBad) {
  const auto with_distance_code = [](int bits) {
    std::string data(20, '\0');
    int at = 0;
    const auto put = [&](uint64_t value, int count) {
      for (int i = 0; i < count; ++i, ++at) data[at / 8] |= (value >> i & 1) << at % 8;
    };
    put(1, 1), put(2, 2), put(0, 5), put(0, 5), put(14, 4);
    // Codes of two bits for 0, 1, 2 and 18: their places in the order of code lengths.
    for (const int symbol : {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1}) {
      put(symbol <= 2 || symbol == 18 ? 2 : 0, 3);
    }
    const auto code = [&](int code_bits) { put((code_bits & 1) << 1 | code_bits >> 1, 2); };
    code(1);                    // literal 0: a code of one bit
    code(3), put(138 - 11, 7);  // 138 without
    code(3), put(117 - 11, 7);  // and 117
    code(1);                    // the end of a block: one bit
    code(bits);                 // one distance
    put(0, 1), put(1, 1);       // literal 0, the end
    data.resize((at + 7) / 8);
    return data;
  };
  for (const int bits : {0, 1, 2}) {
    const std::string data = with_distance_code(bits);
    EXPECT_EQ(Inflate(data, {{{0, 0}, {8 * data.size(), 1}}}, 1),
              bits == 2 ? "bad" : std::string(1, '\0'))
        << bits;
    z_stream stream = {};
    inflateInit2(&stream, kRaw);
    char out;
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream.avail_in = data.size();
    stream.next_out = reinterpret_cast<Bytef*>(&out);
    stream.avail_out = 1;
    EXPECT_EQ(inflate(&stream, Z_FINISH), bits == 2 ? Z_DATA_ERROR : Z_STREAM_END) << bits;
    inflateEnd(&stream);
  }
}

// A copy may reach back to the first byte of the dictionary and no further.
TEST(InflateBlocks, CopiesFromTheDictionary) {
  const std::string dictionary = Noise(32'000, 0);  // zlib's deflate goes back at most 32,506 bytes
  const std::string all = dictionary + dictionary.substr(0, 200) + Noise(5000, 0).substr(4000);
  const std::string data = Deflate(all, kRaw, 1);
  const std::vector<DeflateBlock> blocks = BlocksOf(data);
  size_t last = 0;  // block that starts inside the dictionary
  while (blocks[last + 1].offset <= dictionary.size()) ++last;
  const uint64_t byte = blocks[last].bit / 8;
  std::vector<DeflateBlock> rest;
  for (size_t i = last; i < blocks.size(); ++i) {
    rest.push_back({blocks[i].bit - 8 * byte, blocks[i].offset - blocks[last].offset});
  }
  const std::string_view content = std::string_view(all).substr(blocks[last].offset);
  const std::string_view before = std::string_view(all).substr(0, blocks[last].offset);
  EXPECT_TRUE(Inflate(std::string_view(data).substr(byte), rest, content.size(), true, before) ==
              content);
  EXPECT_EQ(
      Inflate(std::string_view(data).substr(byte), rest, content.size(), true, before.substr(200)),
      "bad");
}

}  // namespace
}  // namespace shardfeed
