#include "net/upload.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/store.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {
namespace {

using ::testing::HasSubstr;

std::string Ok(std::string_view body, std::string_view headers = "") {
  return fmt::format("HTTP/1.1 200 OK\r\n{}Content-Length: {}\r\n\r\n{}", headers, body.size(),
                     body);
}

std::string Refused(int status, std::string_view code) {
  const std::string body = fmt::format("<Error><Code>{}</Code><Message>no</Message></Error>", code);
  return fmt::format("HTTP/1.1 {} No\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

// As much of S3's protocol as uploads need. `before` may answer a request instead.
class UploadTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, value] :
         std::map<std::string, std::string>{{"SHARDFEED_NET_SECONDS", "3"},
                                            {"AWS_ENDPOINT_URL", server_.url()},
                                            {"AWS_ACCESS_KEY_ID", "key"},
                                            {"AWS_SECRET_ACCESS_KEY", "secret"},
                                            {"AWS_REGION", "here"}}) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    server_.SetAnswers([this](const SeenRequest& request) { return Answer(request); });
  }

  std::optional<std::string> Answer(const SeenRequest& request) {
    std::function<std::optional<std::string>(const SeenRequest&)> before;
    {
      MutexLock lock(mutex_);
      before = before_;
    }
    if (before) {
      if (std::optional<std::string> answer = before(request)) return answer;
    }
    MutexLock lock(mutex_);
    const size_t question = request.target.find('?');
    const std::string key = request.target.substr(0, question);
    const std::string query =
        question == request.target.npos ? "" : request.target.substr(question);
    const size_t at = query.find("uploadId=");
    const std::string id = at == query.npos ? "" : query.substr(at + 9);
    if (request.method == "POST" && id.empty()) {
      const std::string name = fmt::format("id{}", begun_++);
      uploads_[name];
      return Ok(
          fmt::format("<InitiateMultipartUploadResult><UploadId>{}</UploadId>"
                      "</InitiateMultipartUploadResult>",
                      name));
    }
    if (!id.empty() && !uploads_.contains(id)) return Refused(404, "NoSuchUpload");
    if (request.method == "PUT" && !id.empty()) {
      const int part = std::atoi(query.c_str() + query.find("partNumber=") + 11);
      uploads_[id][part] = request.body;
      return Ok("", fmt::format("ETag: \"{}-{}\"\r\n", id, part));
    }
    if (request.method == "POST") {
      std::string all;
      for (const auto& [number, bytes] : uploads_[id]) all += bytes;
      uploads_.erase(id);
      objects_[key] = all;
      return Ok(
          "<CompleteMultipartUploadResult><ETag>\"x\"</ETag></CompleteMultipartUploadResult>");
    }
    if (request.method == "DELETE" && !id.empty()) {
      uploads_.erase(id);
      return Ok("");
    }
    if (request.method == "PUT") {
      if (request.headers.contains("if-none-match") && objects_.contains(key)) {
        return Refused(412, "PreconditionFailed");
      }
      objects_[key] = request.body;
      return Ok("", "ETag: \"x\"\r\n");
    }
    if (request.method == "DELETE") {
      objects_.erase(key);
      return Ok("");
    }
    if (!objects_.contains(key)) return Refused(404, "NoSuchKey");
    return Ok(objects_[key], "ETag: \"x\"\r\n");
  }

  void Before(std::function<std::optional<std::string>(const SeenRequest&)> answer) {
    MutexLock lock(mutex_);
    before_ = std::move(answer);
  }
  std::unique_ptr<UploadGroup> Begin() {
    absl::StatusOr<std::unique_ptr<UploadGroup>> group = UploadGroup::Begin("s3://bucket/folder");
    EXPECT_OK(group);
    return *std::move(group);
  }
  std::map<std::string, std::string> objects() {
    MutexLock lock(mutex_);
    return objects_;
  }
  size_t num_uploads() {
    MutexLock lock(mutex_);
    return uploads_.size();
  }

  Mutex mutex_;
  std::function<std::optional<std::string>(const SeenRequest&)> before_ ABSL_GUARDED_BY(mutex_);
  int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::map<int, std::string>> uploads_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> objects_ ABSL_GUARDED_BY(mutex_);
  FaultServer server_;  // destroyed first: its threads use the others
};

TEST_F(UploadTest, NothingIsSeenBeforeItIsPublished) {
  const std::unique_ptr<UploadGroup> group = Begin();
  std::vector<PendingObject> pending;
  for (size_t size : {size_t{0}, size_t{5}, UploadGroup::kPartBytes, UploadGroup::kPartBytes + 1}) {
    Upload upload(*group, fmt::format("s3://bucket/{}", size));
    ASSERT_OK(upload.Append(std::string(size, 'a')));
    absl::StatusOr<PendingObject> object = upload.Finish();
    ASSERT_OK(object);
    EXPECT_EQ(object->bytes, size);
    EXPECT_EQ(object->parts.size(), (size + UploadGroup::kPartBytes - 1) / UploadGroup::kPartBytes);
    pending.push_back(*object);
    upload.Keep();
  }
  EXPECT_TRUE(objects().empty());
  for (const PendingObject& object : pending) EXPECT_OK(Publish(object));
  EXPECT_EQ(num_uploads(), 0);
  for (const PendingObject& object : pending) {
    const std::string key = "/bucket/" + object.path.substr(object.path.rfind('/') + 1);
    EXPECT_EQ(objects().at(key), std::string(object.bytes, 'a'));
  }
}

TEST_F(UploadTest, ARequestThatChangesSomethingIsDoneToItsEnd) {
  std::stop_source stop;
  stop.request_stop();
  Before([](const SeenRequest&) -> std::optional<std::string> {
    std::this_thread::sleep_for(4 * WorkStop::kInterval);
    return std::nullopt;
  });
  const WorkStop unwanted(stop.get_token());
  EXPECT_OK(PutObject("s3://bucket/a", "one"));
  EXPECT_OK(CreateObject("s3://bucket/b", "two"));
  EXPECT_OK(RemoveObject("s3://bucket/a"));
  EXPECT_FAILS(StatObject("s3://bucket/b").status(), kCancelled, "interrupted");
}

TEST_F(UploadTest, ManyThreadsWriteAtOnceThroughFaultsThatPass) {
  std::atomic<uint64_t> seen = 0;
  Before([&seen](const SeenRequest&) -> std::optional<std::string> {
    return ++seen % 4 == 0 ? std::optional<std::string>(Refused(503, "SlowDown")) : std::nullopt;
  });
  const std::unique_ptr<UploadGroup> group = Begin();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&group, t] {
      for (int i = 0; i < 5; ++i) {
        Upload upload(*group, fmt::format("s3://bucket/{}-{}", t, i));
        for (int n = 0; n < 9; ++n) {
          ASSERT_OK(upload.Append(
              std::string(UploadGroup::kPartBytes / 8 - n, static_cast<char>('a' + t))));
        }
        if (i % 2 == 1) continue;  // abandoned
        const absl::StatusOr<PendingObject> object = upload.Finish();
        ASSERT_OK(object);
        upload.Keep();
        ASSERT_OK(Publish(*object));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto there = objects();
  EXPECT_EQ(there.size(), 12);
  for (const auto& [key, bytes] : there) {
    EXPECT_EQ(bytes, std::string(9 * UploadGroup::kPartBytes / 8 - 36, bytes[0])) << key;
  }
}

TEST_F(UploadTest, WhatIsGivenUpIsRemovedBeforeTheGroupEnds) {
  Before([](const SeenRequest& request) -> std::optional<std::string> {
    if (request.method != "DELETE") std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::nullopt;
  });
  for (int wait : {0, 5, 10, 25, 45, 80}) {
    const std::unique_ptr<UploadGroup> group = Begin();
    for (int i = 0; i < 3; ++i) {
      Upload upload(*group, fmt::format("s3://bucket/{}", i));
      ASSERT_OK(upload.Append(std::string(100, 'a')));
      ASSERT_OK(upload.Close());
      std::this_thread::sleep_for(std::chrono::milliseconds(wait));
    }
  }
  EXPECT_EQ(num_uploads(), 0);
  EXPECT_TRUE(objects().empty());
}

TEST_F(UploadTest, AnInterruptedWriterDoesNotWaitForAStoreThatDoesNotAnswer) {
  const auto asked = std::make_shared<std::atomic<bool>>(false);
  const auto answers = std::make_shared<std::atomic<bool>>(false);
  Before([=](const SeenRequest&) -> std::optional<std::string> {
    *asked = true;
    while (!*answers) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::nullopt;
  });
  {
    std::stop_source stop;
    const WorkStop unwanted(stop.get_token());
    const std::unique_ptr<UploadGroup> group = Begin();
    {
      Upload upload(*group, "s3://bucket/a");
      const std::string part(UploadGroup::kPartBytes, 'a');
      uint64_t begun = 0;
      for (; begun + part.size() <= UploadGroup::kMaxBytesInFlight; begun += part.size()) {
        ASSERT_OK(upload.Append(part));
      }
      while (!*asked) std::this_thread::yield();
      stop.request_stop();
      EXPECT_FAILS(upload.Append(part), kCancelled, "interrupted");  // there is no room
    }
  }
  EXPECT_EQ(num_uploads(), 0);  // the group has ended before the store has begun one
  *answers = true;
}

TEST_F(UploadTest, ErrorsThatStayAreTold) {
  const std::unique_ptr<UploadGroup> group = Begin();
  Before([](const SeenRequest& request) -> std::optional<std::string> {
    if (request.method == "PUT") return Refused(403, "AccessDenied");
    return std::nullopt;
  });
  {
    Upload upload(*group, "s3://bucket/a");
    ASSERT_OK(upload.Append("bytes"));
    EXPECT_FAILS(upload.Finish(), kPermissionDenied, "s3://bucket/a: ");
    EXPECT_FAILS(upload.Finish(), kPermissionDenied, "s3://bucket/a: ");
  }
  Before([](const SeenRequest& request) -> std::optional<std::string> {
    if (request.target.find("partNumber") != std::string::npos) return Ok("");
    return std::nullopt;
  });
  {
    Upload upload(*group, "s3://bucket/a");
    ASSERT_OK(upload.Append("bytes"));
    EXPECT_FAILS(upload.Finish(), kUnavailable,
                 "s3://bucket/a: the server gave no ETag for part 1");
  }
  Before([](const SeenRequest&) -> std::optional<std::string> { return Ok("hello"); });
  {
    Upload upload(*group, "s3://bucket/a");
    ASSERT_OK(upload.Append("bytes"));
    EXPECT_FAILS(upload.Finish(), kUnavailable, "answered something that is not S3's protocol");
  }
  EXPECT_FAILS(Publish({"s3://bucket/a", "id", {"x"}, 5, "me"}), kUnavailable,
               "answered something that is not S3's protocol");
  Before([](const SeenRequest&) -> std::optional<std::string> {
    return Ok("<Error><Code>InternalError</Code><Message>sorry</Message></Error>");
  });
  EXPECT_FAILS(Publish({"s3://bucket/a", "id", {"x"}, 5, "me"}), kUnavailable,
               "s3://bucket/a: InternalError: sorry");
  Before(nullptr);
  EXPECT_FAILS(Publish({"s3://bucket/a", "gone", {"x"}, 5, "me"}), kDataLoss,
               "s3://bucket/a: its uploaded parts were removed from the store");
  EXPECT_OK(Discard({"s3://bucket/a", "gone", {"x"}, 5, "me"}));
  EXPECT_FAILS(UploadGroup::Begin("http://host/x"), kInvalidArgument, "HTTP servers are only read");
}

TEST_F(UploadTest, AStopEndsTheWaiting) {
  const std::unique_ptr<UploadGroup> group = Begin();
  std::atomic<bool> held = false;
  Before([&held](const SeenRequest& request) -> std::optional<std::string> {
    if (request.method == "PUT" && !held.exchange(true)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    return std::nullopt;
  });
  Upload upload(*group, "s3://bucket/a");
  ASSERT_OK(upload.Append("bytes"));
  std::stop_source stop;
  std::thread stopping([&] {
    while (!held) std::this_thread::yield();
    stop.request_stop();
  });
  EXPECT_FAILS(upload.Finish(stop.get_token()), kCancelled, "interrupted");
  stopping.join();
  held = false;
  Upload other(*group, "s3://bucket/b");
  ASSERT_OK(other.Append("bytes"));
  const WorkStop unwanted(stop.get_token());
  EXPECT_FAILS(other.Finish(), kCancelled, "interrupted");
  while (!held) std::this_thread::yield();
}

TEST_F(UploadTest, OtherObjectsAreRemovedBeforeTheGroupEnds) {
  ASSERT_OK(PutObject("s3://bucket/a", "one"));
  Before([](const SeenRequest&) -> std::optional<std::string> {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return std::nullopt;
  });
  {
    const std::unique_ptr<UploadGroup> group = Begin();
    for (const char* name : {"a", "none"}) group->Remove(fmt::format("s3://bucket/{}", name));
  }
  EXPECT_TRUE(objects().empty());
}

TEST_F(UploadTest, OneOfTwoCreatesAnObject) {
  ASSERT_OK(CreateObject("s3://bucket/a", "one"));
  ASSERT_OK(CreateObject("s3://bucket/a", "one"));
  EXPECT_FAILS(CreateObject("s3://bucket/a", "two"), kAlreadyExists,
               "s3://bucket/a: there is one already");
  EXPECT_EQ(objects().at("/bucket/a"), "one");
  ASSERT_OK(PutObject("s3://bucket/a", "three"));
  EXPECT_EQ(objects().at("/bucket/a"), "three");
  ASSERT_OK(RemoveObject("s3://bucket/a"));
  ASSERT_OK(RemoveObject("s3://bucket/a"));
  Before([](const SeenRequest& request) -> std::optional<std::string> {
    if (request.method == "PUT") return Ok("", "ETag: \"x\"\r\n");
    return std::nullopt;
  });
  EXPECT_FAILS(CreateObject("s3://bucket/a", "two"), kUnimplemented,
               "the store replaces objects where it is asked not to (a condition of creation)");
}

}  // namespace
}  // namespace shardfeed::testing
