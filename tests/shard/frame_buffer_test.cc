#include "shard/verify/frame_buffer.h"

#include <string>

#include "io/byte_source.h"
#include "tests/testing/files.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

std::string Frames(std::initializer_list<std::string_view> payloads) {
  std::string frames;
  for (std::string_view payload : payloads) AppendFrame(payload, &frames);
  return frames;
}

TEST(FrameBuffer, MovesOverItsSource) {
  const std::string frames = Frames({"abc", "defg"});
  MemorySource source(frames);
  FrameBuffer frame_buffer(&source, 100, frames.size());
  EXPECT_TRUE(*frame_buffer.HeaderAt(0));
  EXPECT_TRUE(frame_buffer.PayloadFits(0, 3));
  EXPECT_FALSE(*frame_buffer.HeaderAt(1));
  frame_buffer.Consume(3 + kFrameBytes);
  EXPECT_EQ(frame_buffer.offset(), 100 + 3 + kFrameBytes);
  EXPECT_TRUE(*frame_buffer.EnsureFrame(0, 4));
  EXPECT_EQ(frame_buffer.view(), Frames({"defg"}));
  EXPECT_FALSE(*frame_buffer.EndsAt(frame_buffer.size() - 1));
  EXPECT_TRUE(*frame_buffer.EndsAt(frame_buffer.size()));
  EXPECT_FALSE(*frame_buffer.Ensure(frame_buffer.size() + 1));
  frame_buffer.Restart(7);
  EXPECT_EQ(frame_buffer.offset(), 7);
  EXPECT_EQ(frame_buffer.size(), 0);
}

TEST(FrameBuffer, ReadsNothingForAFrameThatIsTooLarge) {
  const std::string frames = Frames({"abc"});
  MemorySource source(frames);
  FrameBuffer frame_buffer(&source, 0, frames.size());
  EXPECT_FALSE(*frame_buffer.EnsureFrame(0, 4));
  EXPECT_FALSE(*frame_buffer.EnsureFrame(0, UINT64_MAX));
  EXPECT_EQ(frame_buffer.size(), 0);
  EXPECT_TRUE(*frame_buffer.EnsureFrame(0, 3));
}

TEST(FrameBuffer, MendsOneByteOfAHeader) {
  const std::string frames = Frames({"abc", "defg"});
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    std::string damaged = frames;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
    MemorySource source(damaged);
    FrameBuffer frame_buffer(&source, 0, damaged.size());
    EXPECT_FALSE(*frame_buffer.HeaderAt(0)) << i;
    EXPECT_TRUE(*frame_buffer.MendHeaderAt(0, std::nullopt)) << i;
    EXPECT_EQ(frame_buffer.view(), frames) << i;
  }
}

TEST(FrameBuffer, MendsAnyHeaderOfAKnownFrame) {
  const std::string frames = Frames({"abc", "defg"});
  const std::string damaged = std::string(kHeaderBytes, 'x') + frames.substr(kHeaderBytes);
  MemorySource source(damaged);
  FrameBuffer frame_buffer(&source, 0, damaged.size());
  EXPECT_FALSE(*frame_buffer.MendHeaderAt(0, std::nullopt));
  EXPECT_FALSE(*frame_buffer.MendHeaderAt(0, 4 + kFrameBytes));
  EXPECT_FALSE(*frame_buffer.MendHeaderAt(0, 3));
  EXPECT_TRUE(*frame_buffer.MendHeaderAt(0, 3 + kFrameBytes));
  EXPECT_EQ(frame_buffer.view(), frames);
}

TEST(FrameBuffer, FollowsFramesToTheirEnd) {
  const auto follow = [](const std::string& bytes, size_t* end) {
    MemorySource source(bytes);
    FrameBuffer frame_buffer(&source, 0, bytes.size());
    return *frame_buffer.FollowChain(0, end);
  };
  const std::string frames = Frames({"abc", "defg"});
  size_t end = 0;
  EXPECT_EQ(follow(frames, &end), FrameBuffer::Chain::kStrong);
  EXPECT_EQ(end, frames.size());
  EXPECT_EQ(follow(frames + std::string(100, 'x'), &end), FrameBuffer::Chain::kWeak);
  EXPECT_EQ(end, frames.size());
  // The footer of a record that ends with these frames follows.
  EXPECT_EQ(follow(frames + "1234", &end), FrameBuffer::Chain::kNested);
  EXPECT_EQ(follow(frames + "1234" + frames, &end), FrameBuffer::Chain::kNested);
  EXPECT_EQ(end, frames.size());
  // A run too long to be within a record.
  const std::string large(100'000, 'x');
  EXPECT_EQ(follow(Frames({large}) + "1234", &end), FrameBuffer::Chain::kStrong);
}

}  // namespace
}  // namespace shardfeed
