#include "tfrecord/wire.h"

#include "tests/testing/files.h"
#include "tfrecord/example.pb.h"
#include "tfrecord/example_reader.h"

namespace shardfeed {
namespace {

// Whether the fields of `message` can be read, in which Protocol Buffers must agree: all of the
// fields used here are unknown to an Example.
bool Sound(const std::string& message) {
  WireFields fields(message, 0);
  while (fields.Next()) {
  }
  Example parsed;
  EXPECT_EQ(fields.failed() == nullptr, parsed.ParseFromString(message))
      << ::testing::PrintToString(message);
  return fields.failed() == nullptr;
}

std::string Repeated(std::string_view bytes, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += bytes;
  return all;
}

TEST(WireFields, GivesFieldsOfEveryType) {
  using namespace std::string_view_literals;
  const std::string message(
      "\x08\x96\x01"  // 1: 150
      "\x11"
      "12345678"  // 2: eight bytes
      "\x1a\x03"
      "abc"  // 3: "abc"
      "\x25"
      "1234"              // 4: four bytes
      "\x2b\x08\x00\x2c"  // 5: a group with a varint in it
      "\xc2\x3e\x00"sv);  // 1000: no bytes
  ASSERT_TRUE(Sound(message));
  WireFields fields(message, 0);
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Is(1, WireType::kVarint));
  EXPECT_EQ(fields.bytes(), "\x96\x01");
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Is(2, WireType::kFixed64));
  EXPECT_EQ(fields.bytes(), "12345678");
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Is(3, WireType::kBytes));
  EXPECT_EQ(fields.bytes(), "abc");
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Is(4, WireType::kFixed32));
  EXPECT_EQ(fields.bytes(), "1234");
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Is(5, WireType::kStartGroup));
  ASSERT_TRUE(fields.Next());
  EXPECT_TRUE(fields.Is(1000, WireType::kBytes));
  EXPECT_EQ(fields.field(), 1000);
  EXPECT_EQ(fields.bytes(), "");
  EXPECT_FALSE(fields.Next());
  EXPECT_EQ(fields.failed(), nullptr);
}

TEST(WireFields, EmptyMessageHasNoFields) {
  EXPECT_TRUE(Sound(""));
  WireFields fields({}, 0);
  EXPECT_FALSE(fields.Next());
}

TEST(WireFields, StopsWhereAFieldCannotBeRead) {
  const std::string message =
      "\x1a\x01"
      "a"
      "\x1a\x09"
      "b";
  EXPECT_FALSE(Sound(message));
  WireFields fields(message, 0);
  EXPECT_TRUE(fields.Next());
  EXPECT_FALSE(fields.Next());
  EXPECT_EQ(fields.failed(), message.data() + 3);
  EXPECT_FALSE(fields.Next());
}

TEST(WireFields, NumbersMayBeLongerThanNeeded) {
  const std::string more = "\x80";
  for (size_t n = 0; n < 12; ++n) {
    // A tag of 1 + n bytes, a varint of 1 + n bytes, a length of 1 + n bytes.
    const std::string padding = n == 0 ? "" : Repeated(more, n - 1) + '\0';
    const auto padded = [&](char c) {
      return std::string(1, static_cast<char>(n == 0 ? c : c | 0x80)) + padding;
    };
    EXPECT_EQ(Sound(padded('\x20') + '\x01'), n < 5) << n;
    EXPECT_EQ(Sound('\x20' + padded('\x01')), n < 10) << n;
    EXPECT_EQ(Sound('\x22' + padded('\x01') + "a"), n < 5) << n;
  }
}

TEST(WireFields, BitsOfNumbersThatDoNotFit) {
  // In a tag the excess bits are ignored, and a length is refused.
  EXPECT_TRUE(Sound("\xa0\x80\x80\x80\x7f\x01"));
  EXPECT_TRUE(Sound(std::string("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")));
  EXPECT_FALSE(Sound(std::string("\x22\x81\x80\x80\x80\x08") + "a"));
  EXPECT_FALSE(Sound(std::string("\x22\x81\x80\x80\x80\x10") + "a"));
  EXPECT_FALSE(Sound("\x22\xff\xff\xff\xff\x07"));
}

TEST(WireFields, FieldZeroAndUnknownTypesAreRefused) {
  for (int tag = 0; tag < 256; ++tag) {
    std::string message(1, static_cast<char>(tag));
    if (tag >= 0x80) message += '\x01';
    Sound(message + std::string(8, '\x01'));
    Sound(message + std::string(8, '\0'));
  }
}

TEST(WireFields, GroupsEndWithTheirOwnTag) {
  EXPECT_TRUE(Sound("\x23\x24"));
  EXPECT_TRUE(Sound("\x23\x2b\x2c\x24"));
  EXPECT_FALSE(Sound("\x23"));
  EXPECT_FALSE(Sound("\x24"));
  EXPECT_FALSE(Sound("\x23\x2c"));
  EXPECT_FALSE(Sound("\x23\x2b\x24\x2c"));
  EXPECT_FALSE(Sound(std::string("\x23\x00\x24", 3)));
}

TEST(WireFields, GroupsNestUpToTheLimit) {
  for (size_t n : {99, 100, 101, 150}) {
    EXPECT_EQ(Sound(Repeated("\x23", n) + Repeated("\x24", n)), n <= kMaxWireDepth) << n;
  }
}

// The more deeply a message is nested, the fewer groups may be nested in it.
TEST(VisitFeatures, GroupsInEveryMessageNestUpToTheLimit) {
  const auto field = [](char tag, const std::string& content) {
    std::string bytes(1, tag);
    size_t size = content.size();
    for (; size >= 0x80; size >>= 7) bytes += static_cast<char>(size | 0x80);
    return bytes + static_cast<char>(size) + content;
  };
  const auto agree = [](const std::string& message) {
    SequenceExample parsed;
    const bool sound = parsed.ParseFromString(message);
    EXPECT_EQ(VisitFeatures(message, [](const FeatureSummary&) {}).ok(), sound);
    return sound;
  };
  for (const std::vector<char>& tags : {
           std::vector<char>{'\x1a', '\x12', '\x0a', '\x0a'},  // list, value, entry, context
           std::vector<char>{'\x12', '\x0a', '\x0a'},          // value, entry, context
           std::vector<char>{'\x1a', '\x0a', '\x12', '\x0a',
                             '\x12'},                  // list, step, value, entry, lists
           std::vector<char>{'\x12', '\x0a', '\x12'},  // value, entry, lists
       }) {
    for (size_t n = 90; n <= 101; ++n) {
      std::string message = Repeated("\x23", n) + Repeated("\x24", n);
      for (char tag : tags) message = field(tag, message);
      EXPECT_EQ(agree(message), n + tags.size() <= kMaxWireDepth) << n;
    }
  }
}

}  // namespace
}  // namespace shardfeed
