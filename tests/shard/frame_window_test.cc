#include "shard/frame_window.h"

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

TEST(FrameWindow, MovesOverItsSource) {
  const std::string frames = Frames({"abc", "defg"});
  MemorySource source(frames);
  FrameWindow window(&source, 100, frames.size());
  EXPECT_TRUE(*window.HeaderAt(0));
  EXPECT_TRUE(window.PayloadFits(0, 3));
  EXPECT_FALSE(*window.HeaderAt(1));
  window.Consume(3 + kFrameBytes);
  EXPECT_EQ(window.offset(), 100 + 3 + kFrameBytes);
  EXPECT_TRUE(*window.EnsureFrame(0, 4));
  EXPECT_EQ(window.view(), Frames({"defg"}));
  EXPECT_FALSE(*window.EndsAt(window.size() - 1));
  EXPECT_TRUE(*window.EndsAt(window.size()));
  EXPECT_FALSE(*window.Ensure(window.size() + 1));
  window.Restart(7);
  EXPECT_EQ(window.offset(), 7);
  EXPECT_EQ(window.size(), 0);
}

TEST(FrameWindow, ReadsNothingForAFrameThatIsTooLarge) {
  const std::string frames = Frames({"abc"});
  MemorySource source(frames);
  FrameWindow window(&source, 0, frames.size());
  EXPECT_FALSE(*window.EnsureFrame(0, 4));
  EXPECT_FALSE(*window.EnsureFrame(0, UINT64_MAX));
  EXPECT_EQ(window.size(), 0);
  EXPECT_TRUE(*window.EnsureFrame(0, 3));
}

TEST(FrameWindow, MendsOneByteOfAHeader) {
  const std::string frames = Frames({"abc", "defg"});
  for (size_t i = 0; i < kHeaderBytes; ++i) {
    std::string damaged = frames;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
    MemorySource source(damaged);
    FrameWindow window(&source, 0, damaged.size());
    EXPECT_FALSE(*window.HeaderAt(0)) << i;
    EXPECT_TRUE(*window.MendHeaderAt(0, std::nullopt)) << i;
    EXPECT_EQ(window.view(), frames) << i;
  }
}

TEST(FrameWindow, MendsAnyHeaderOfAKnownFrame) {
  const std::string frames = Frames({"abc", "defg"});
  const std::string damaged = std::string(kHeaderBytes, 'x') + frames.substr(kHeaderBytes);
  MemorySource source(damaged);
  FrameWindow window(&source, 0, damaged.size());
  EXPECT_FALSE(*window.MendHeaderAt(0, std::nullopt));
  EXPECT_FALSE(*window.MendHeaderAt(0, 4 + kFrameBytes));
  EXPECT_FALSE(*window.MendHeaderAt(0, 3));
  EXPECT_TRUE(*window.MendHeaderAt(0, 3 + kFrameBytes));
  EXPECT_EQ(window.view(), frames);
}

TEST(FrameWindow, FollowsFramesToTheirEnd) {
  const auto follow = [](const std::string& bytes, size_t* end) {
    MemorySource source(bytes);
    FrameWindow window(&source, 0, bytes.size());
    return *window.FollowChain(0, end);
  };
  const std::string frames = Frames({"abc", "defg"});
  size_t end = 0;
  EXPECT_EQ(follow(frames, &end), FrameWindow::Chain::kStrong);
  EXPECT_EQ(end, frames.size());
  EXPECT_EQ(follow(frames + std::string(100, 'x'), &end), FrameWindow::Chain::kWeak);
  EXPECT_EQ(end, frames.size());
  // Of a record that ends with these frames, the footer follows.
  EXPECT_EQ(follow(frames + "1234", &end), FrameWindow::Chain::kNested);
  EXPECT_EQ(follow(frames + "1234" + frames, &end), FrameWindow::Chain::kNested);
  EXPECT_EQ(end, frames.size());
  // A run too long to be within a record.
  const std::string large(100'000, 'x');
  EXPECT_EQ(follow(Frames({large}) + "1234", &end), FrameWindow::Chain::kStrong);
}

}  // namespace
}  // namespace shardfeed
