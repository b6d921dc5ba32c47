#include "net/request_queue.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shardfeed::testing {
namespace {

using ::testing::ElementsAre;

class RequestQueueTest : public ::testing::Test {
 protected:
  // Adds `count` requests of the group.
  void Add(const std::string& group, int count) {
    for (int i = 0; i < count; ++i) {
      groups_[last_id_] = group;
      queue_.Add(group, last_id_++);
    }
  }
  // Starts all that may be started, and counts them by group.
  std::map<std::string, int> StartAll() {
    std::map<std::string, int> started;
    while (const auto id = queue_.Next()) ++started[groups_.at(*id)];
    return started;
  }
  // A request of the group is started and ends with this status, `count` times.
  void Answer(const std::string& group, int status, int count) {
    for (int i = 0; i < count; ++i) {
      Add(group, 1);
      ASSERT_TRUE(queue_.Next().has_value());
      EXPECT_EQ(queue_.End(group, status, now_), status == 429 || status == 503);
    }
  }

  RequestQueue queue_{12};
  RequestQueue::Clock::time_point now_ = RequestQueue::Clock::now();
  std::map<uint64_t, std::string> groups_;
  uint64_t last_id_ = 0;
};

TEST_F(RequestQueueTest, OneGroupMayHaveAllThatMayBeActive) {
  Add("a", 100);
  EXPECT_EQ(StartAll()["a"], 12);
  queue_.End("a", 206, now_);
  EXPECT_EQ(StartAll()["a"], 1);
}

TEST_F(RequestQueueTest, RequestsOfAGroupStartInTheOrderInWhichTheyCame) {
  Add("a", 4);
  EXPECT_TRUE(queue_.Remove(1));
  EXPECT_FALSE(queue_.Remove(1));
  EXPECT_EQ(queue_.Next(), 0);
  EXPECT_EQ(queue_.Next(), 2);
  EXPECT_FALSE(queue_.Remove(2));
  EXPECT_EQ(queue_.Next(), 3);
  EXPECT_EQ(queue_.Next(), std::nullopt);
}

TEST_F(RequestQueueTest, GroupsTakeTurns) {
  Add("b", 100);
  EXPECT_EQ(StartAll()["b"], 12);
  Add("a", 2);
  Add("c", 100);
  std::string order;
  for (int i = 0; i < 9; ++i) {
    queue_.End("b", 206, now_);
    order += groups_.at(*queue_.Next());
  }
  EXPECT_EQ(order, "cabcabcbc");
}

TEST_F(RequestQueueTest, AGroupThatRefusesRequestsHoldsUpNoOther) {
  Answer("a", 503, 5);
  Add("a", 100);
  Add("b", 100);
  EXPECT_EQ(StartAll(), (std::map<std::string, int>{{"a", 1}, {"b", 11}}));
}

TEST_F(RequestQueueTest, AFewRefusalsReduceNothing) {
  for (int i = 0; i < 20; ++i) {
    Answer("a", 206, 20);
    Answer("a", 503, 1);
  }
  Add("a", 100);
  EXPECT_EQ(StartAll()["a"], 12);
}

TEST_F(RequestQueueTest, TheLimitHalvesOnceASecondAndGrowsWithEachAnswer) {
  Add("a", 100);
  EXPECT_EQ(StartAll()["a"], 12);
  // Refuses so many, and says how many are started instead.
  const auto refuse = [&](int count) {
    for (int i = 0; i < count; ++i) EXPECT_TRUE(queue_.End("a", 429, now_));
    return StartAll()["a"];
  };
  EXPECT_EQ(refuse(3), 3);  // few of many
  EXPECT_EQ(refuse(1), 0);  // half of the 12 that were active
  EXPECT_EQ(refuse(8), 3);  // not reduced again within the second
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(refuse(6), 3);
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(refuse(3), 1);
  int more = 0;
  for (int i = 0; i < 50; ++i) {
    queue_.End("a", 206, now_);
    more += StartAll()["a"] - 1;
  }
  EXPECT_EQ(more, 5);
}

}  // namespace
}  // namespace shardfeed::testing
