#include "net/transfers.h"

#include <atomic>
#include <cstdlib>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/open.h"
#include "net/store.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 + i / 251);
  return bytes;
}

class TransfersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("SHARDFEED_NET_SECONDS", "3", 1);
    server_.Put("/object", bytes_);
  }
  std::string path() const { return server_.url() + "/object"; }
  // Reads all but the first ten bytes.
  absl::StatusOr<std::string> Read(std::string version = "") {
    std::string into(bytes_.size() - 10, '\0');
    absl::StatusOr<std::shared_ptr<const Store>> store = Store::Of(path());
    if (!store.ok()) return store.status();
    absl::StatusOr<std::string> read =
        ReadNow(*store, {path(), 10, absl::MakeSpan(into), std::move(version)});
    if (!read.ok()) return read.status();
    version_ = *read;
    return into;
  }
  // The first `count` requests have the fault.
  void Fail(Fault fault, uint64_t count = 1) {
    const uint64_t first = server_.requests().size();
    server_.SetFaults([=](const SeenRequest& request) {
      return request.number < first + count ? fault : Fault();
    });
  }

  FaultServer server_;
  const std::string bytes_ = Bytes(300'000);
  std::string version_;
};

TEST_F(TransfersTest, ARangeIsRead) {
  const absl::StatusOr<std::string> read = Read();
  ASSERT_OK(read);
  EXPECT_EQ(*read, bytes_.substr(10));
  EXPECT_FALSE(version_.empty());
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 1);
  EXPECT_EQ(requests[0].headers.at("range"), "bytes=10-299999");
  EXPECT_EQ(requests[0].headers.at("accept-encoding"), "identity");
  EXPECT_FALSE(requests[0].headers.contains("if-match"));
}

TEST_F(TransfersTest, WhatPassesIsRepeated) {
  for (const Fault& fault :
       {Fault{.kind = Fault::kStatus, .status = 503}, Fault{.kind = Fault::kStatus, .status = 500},
        Fault{.kind = Fault::kStatus, .status = 429}, Fault{.kind = Fault::kStatus, .status = 408},
        Fault{.kind = Fault::kStatus, .status = 520}, Fault{.kind = Fault::kReset},
        Fault{.kind = Fault::kShort}, Fault{.kind = Fault::kGarbage}}) {
    Fail(fault, 2);
    const absl::StatusOr<std::string> read = Read();
    SCOPED_TRACE(static_cast<int>(fault.kind));
    ASSERT_OK(read);
    EXPECT_EQ(*read, bytes_.substr(10));
  }
}

TEST_F(TransfersTest, ARangeGoesOnAtTheByteItHasReached) {
  Fail({.kind = Fault::kShort});
  const absl::StatusOr<std::string> read = Read();
  ASSERT_OK(read);
  EXPECT_EQ(*read, bytes_.substr(10));
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[1].headers.at("range"), "bytes=150005-299999");
  // And only the same version is accepted.
  EXPECT_EQ(requests[1].headers.at("if-match"), version_);
}

TEST_F(TransfersTest, AnObjectThatIsReplacedInTheMiddleIsAnError) {
  server_.SetFaults([this](const SeenRequest& request) {
    if (request.number > 0) return Fault();
    server_.Put("/object", Bytes(400'000));  // while the first half of the old one is in transfer
    return Fault{.kind = Fault::kShort};
  });
  // The server looks up the object after the fault was decided, so both halves are of the new one.
  ASSERT_OK(Read());
  server_.SetFaults(nullptr);
  EXPECT_FAILS(Read("\"earlier\"").status(), kAborted,
               "/object: the object was replaced since the dataset was opened; open it again");
  server_.SetFaults([](const SeenRequest& request) {
    return request.headers.contains("if-match") ? Fault{.kind = Fault::kOtherTag}
                                                : Fault{.kind = Fault::kShort};
  });
  EXPECT_FAILS(Read().status(), kAborted, "the object was replaced");
}

TEST_F(TransfersTest, AServerThatIgnoresIfMatchMixesNoVersions) {
  ASSERT_OK(Read());
  const std::string version = version_;
  Fail({.kind = Fault::kIgnoreMatch});
  EXPECT_FAILS(Read(version).status(), kAborted,
               "/object: the object was replaced since the dataset was opened; open it again");
  // Nor does a range that goes on at the byte that it has reached.
  const uint64_t first = server_.requests().size();
  server_.SetFaults([=](const SeenRequest& request) {
    return request.number == first ? Fault{.kind = Fault::kShort}
                                   : Fault{.kind = Fault::kIgnoreMatch};
  });
  EXPECT_FAILS(Read().status(), kAborted, "the object was replaced");
  EXPECT_EQ(server_.requests().size(), first + 2);
  // A server that sends no tags tells no versions apart.
  server_.SetFaults([](const SeenRequest&) { return Fault{.kind = Fault::kNoTag}; });
  EXPECT_OK(Read());
}

TEST_F(TransfersTest, AStallIsEndedAndGoesOn) {
  setenv("SHARDFEED_NET_SECONDS", "30", 1);
  Fail({.kind = Fault::kStall, .wait = std::chrono::seconds(40)});
  const absl::StatusOr<std::string> read = Read();
  ASSERT_OK(read);
  EXPECT_EQ(*read, bytes_.substr(10));
}

TEST_F(TransfersTest, RetryAfterIsHonored) {
  Fail({.kind = Fault::kStatus, .headers = "Retry-After: 1\r\n"});
  const auto start = std::chrono::steady_clock::now();
  ASSERT_OK(Read());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(990));
  Fail({.kind = Fault::kStatus, .headers = "Retry-After: 3600\r\n"});
  EXPECT_FAILS(Read().status(), kUnavailable, "/object: the server answered 503");
}

TEST_F(TransfersTest, WhatStaysIsAnErrorAtOnce) {
  const auto expect = [&](Fault fault, absl::StatusCode code, const std::string& message) {
    server_.ForgetRequests();
    Fail(fault, 1000);
    const absl::Status status = Read().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path()));
    EXPECT_EQ(server_.requests().size(), 1) << message;
  };
  const auto status = [](int code) { return Fault{.kind = Fault::kStatus, .status = code}; };
  expect(status(403), absl::StatusCode::kPermissionDenied, "the server does not allow it");
  expect(status(404), absl::StatusCode::kNotFound, "no such object");
  expect(status(416), absl::StatusCode::kAborted, "the object was replaced");
  expect(status(400), absl::StatusCode::kUnavailable, "the server answered 400");
  expect({.kind = Fault::kEncoded}, absl::StatusCode::kFailedPrecondition,
         "encodes the object as gzip; store it without Content-Encoding");
  expect({.kind = Fault::kIgnoreRange}, absl::StatusCode::kFailedPrecondition,
         "does not serve parts of objects: it answered 200 to a range");
}

TEST_F(TransfersTest, RedirectsToOtherProtocolsAreErrorsAtOnce) {
  for (const char* to : {"ftp://u:SECRET@host/x?token=SECRET", "file:///etc/x?SECRET"}) {
    server_.ForgetRequests();
    Fail({.kind = Fault::kStatus, .status = 302, .headers = fmt::format("Location: {}\r\n", to)},
         1000);
    const absl::Status status = Read().status();
    EXPECT_FAILS(
        status, kFailedPrecondition,
        fmt::format("the server redirects to {}, and only http:// and https:// are followed",
                    to[1] == 't' ? "ftp://...@host/x" : "file:///etc/x"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("SECRET")));
    EXPECT_EQ(server_.requests().size(), 1);
  }
}

TEST_F(TransfersTest, SettingsThatAreNoNumbersAreErrors) {
  for (const char* text : {"abc", "-5", "0", "1.5", "10s", "99999999999"}) {
    setenv("SHARDFEED_NET_SECONDS", text, 1);
    EXPECT_FAILS(Read().status(), kInvalidArgument,
                 fmt::format("SHARDFEED_NET_SECONDS: expected a number of seconds, 1 or more, got "
                             "'{}'",
                             text));
  }
  unsetenv("SHARDFEED_NET_SECONDS");
  setenv("SHARDFEED_NET_HEDGED_PERCENT", "101", 1);
  EXPECT_FAILS(Read().status(), kInvalidArgument,
               "SHARDFEED_NET_HEDGED_PERCENT: expected a number from 0 to 100, got '101'");
  unsetenv("SHARDFEED_NET_HEDGED_PERCENT");
  EXPECT_OK(Read());
}

// Requests that the server refuses until the store has learned something.
class LearningStore : public Store {
 public:
  explicit LearningStore(std::string url) : url_(std::move(url)) {}

  absl::StatusOr<HttpRequest> Request(
      std::string_view method, std::string_view /*path*/,
      const std::map<std::string, std::string>& /*query*/,
      const std::map<std::string, std::string>& /*headers*/) const override {
    return HttpRequest{.method = std::string(method),
                       .url = url_,
                       .headers = {fmt::format("X-Knows: {}", knows_ ? "yes" : "no")}};
  }

 private:
  bool LearnFrom(const HttpResponse& /*response*/) const override { return !knows_.exchange(true); }

  const std::string url_;
  mutable std::atomic<bool> knows_ = false;
};

TEST_F(TransfersTest, WhatAnotherResponseTaughtTheStoreCountsToo) {
  const auto store = std::make_shared<LearningStore>(path());
  std::latch signed_both(1);
  server_.SetFaults([&](const SeenRequest& request) {
    signed_both.wait();
    return request.headers.at("x-knows") == "no" ? Fault{.kind = Fault::kStatus, .status = 403}
                                                 : Fault();
  });
  std::vector<std::string> into(2, std::string(1000, '\0'));
  std::vector<std::promise<absl::Status>> done(2);
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (int i = 0; i < 2; ++i) {
    transfers.push_back(StartRead(store, {path(), 0, absl::MakeSpan(into[i])},
                                  [&done, i](absl::Status status, const ReadVersion&) {
                                    done[i].set_value(std::move(status));
                                  }));
  }
  signed_both.count_down();
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(done[i].get_future().get());
    EXPECT_EQ(into[i], bytes_.substr(0, 1000));
  }
  EXPECT_EQ(server_.requests().size(), 4);
}

TEST_F(TransfersTest, AnotherRangeThanAskedForIsNeverTaken) {
  std::string small = "0123456789abcdef";
  server_.Put("/object", small);
  std::string into(4, '-');
  const auto store = Store::Of(path());
  ASSERT_OK(store);
  Fail({.kind = Fault::kWrongRange}, 1000);
  EXPECT_FAILS(ReadNow(*store, {path(), 4, absl::MakeSpan(into), ""}).status(), kDataLoss,
               "expected bytes 4-7, got 'bytes 5-8/16'");
  Fail({.kind = Fault::kLongBody}, 1000);
  EXPECT_FAILS(ReadNow(*store, {path(), 4, absl::MakeSpan(into), ""}).status(), kDataLoss,
               "longer than the requested 4 bytes");
  Fail({.kind = Fault::kIgnoreRange}, 1000);
  EXPECT_FAILS(ReadNow(*store, {path(), 4, absl::MakeSpan(into), ""}).status(), kFailedPrecondition,
               "does not serve parts of objects: it answered 200 to a range");
}

TEST_F(TransfersTest, PatienceEnds) {
  Fail({.kind = Fault::kStatus}, 1000);
  const absl::Status status = Read().status();
  EXPECT_FAILS(status, kUnavailable, "the server answered 503 (the last of ");
  EXPECT_GT(server_.requests().size(), 2);
}

TEST_F(TransfersTest, AServerThatIsNotThereIsToldSoon) {
  absl::StatusOr<std::shared_ptr<File>> file = OpenFile("http://127.0.0.1:1/x");
  EXPECT_FAILS(file.status(), kUnavailable,
               "http://127.0.0.1:1/x: http://127.0.0.1:1: Failed to connect");
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("the last of 4 attempts"));
}

TEST_F(TransfersTest, AReadMayBeCancelled) {
  Fail({.kind = Fault::kStall, .wait = std::chrono::seconds(60)}, 1000);
  std::string into(1000, '-');
  const auto store = Store::Of(path());
  ASSERT_OK(store);
  std::promise<absl::Status> promise;
  const auto transfer = StartRead(
      *store, {path(), 0, absl::MakeSpan(into), ""},
      [&](absl::Status status, const ReadVersion&) { promise.set_value(std::move(status)); });
  transfer->Cancel();
  EXPECT_FAILS(promise.get_future().get(), kCancelled, "cancelled");
  transfer->Cancel();  // it has ended already
}

TEST_F(TransfersTest, AReadMayBeDelayed) {
  std::string into(1000, '-');
  const auto store = Store::Of(path());
  ASSERT_OK(store);
  std::promise<absl::Status> late;
  std::promise<absl::Status> soon;
  const auto start = [&](std::chrono::milliseconds delay, std::promise<absl::Status>& done) {
    return StartRead(
        *store, {path(), 0, absl::MakeSpan(into), "", 0, delay},
        [&](absl::Status status, const ReadVersion&) { done.set_value(std::move(status)); });
  };
  const auto delayed = start(std::chrono::hours(1), late);
  start(std::chrono::milliseconds(1), soon);
  EXPECT_OK(soon.get_future().get());
  EXPECT_EQ(into, bytes_.substr(0, 1000));
  EXPECT_EQ(server_.requests().size(), 1);
  delayed->Cancel();
  EXPECT_FAILS(late.get_future().get(), kCancelled, "cancelled");
  EXPECT_EQ(server_.requests().size(), 1);
}

// The server does not answer, and from the first request on nobody needs that it does.
TEST_F(TransfersTest, AWaitEndsOnceItIsNotNeeded) {
  std::stop_source stop;
  server_.SetFaults([stop](const SeenRequest& request) mutable {
    stop.request_stop();
    return request.method == "GET" ? Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(60)}
                                   : Fault{.kind = Fault::kDelay, .wait = std::chrono::seconds(2)};
  });
  server_.Put("/token", "a token");
  HttpRequest request;
  request.url = server_.url() + "/token";
  const WorkStop wanted(stop.get_token());
  EXPECT_FAILS(Read().status(), kCancelled, "interrupted");
  EXPECT_FAILS(ReadObject(path(), 1 << 20).status(), kCancelled, "interrupted");
  EXPECT_FAILS(StatObject(path()).status(), kCancelled, "interrupted");
  EXPECT_FAILS(CallServer(request, "a server").status(), kCancelled, "interrupted");
  // Within a WorkStop that never stops, they are done to their end.
  const WorkStop whole{std::stop_token()};
  EXPECT_OK(StatObject(path()));
}

TEST_F(TransfersTest, AWaitEndsOnceItIsInterrupted) {
  Fail({.kind = Fault::kStall, .wait = std::chrono::seconds(60)}, 1000);
  WorkStop::SetInterruptCheck([] { return true; });
  EXPECT_FAILS(Read().status(), kCancelled, "interrupted");
  WorkStop::SetInterruptCheck(nullptr);
}

// No matter what the late request does meanwhile or afterwards.
TEST_F(TransfersTest, ALateRangeIsAskedForASecondTime) {
  const auto store = Store::Of(path());
  ASSERT_OK(store);
  const absl::StatusOr<std::string> version = Read();
  ASSERT_OK(version);
  for (int i = 0; i < 40; ++i) ASSERT_OK(Read(version_));
  for (const Fault& fault : {Fault{.kind = Fault::kDelay, .wait = std::chrono::seconds(2)},
                             Fault{.kind = Fault::kStall, .wait = std::chrono::seconds(2)}}) {
    const TransferStats before = GetTransferStats();
    Fail(fault);
    const absl::StatusOr<std::string> read = Read(version_);
    ASSERT_OK(read);
    EXPECT_EQ(*read, bytes_.substr(10));
    EXPECT_EQ(GetTransferStats().hedges_won, before.hedges_won + 1);
  }
  // The second request fails, and the first is awaited.
  const uint64_t first = server_.requests().size();
  server_.SetFaults([=](const SeenRequest& request) {
    if (request.number == first) {
      return Fault{.kind = Fault::kDelay, .wait = std::chrono::milliseconds(800)};
    }
    return Fault{.kind = Fault::kStatus};
  });
  const TransferStats before = GetTransferStats();
  const absl::StatusOr<std::string> read = Read(version_);
  ASSERT_OK(read);
  EXPECT_EQ(*read, bytes_.substr(10));
  EXPECT_EQ(GetTransferStats().hedges, before.hedges + 1);
  EXPECT_EQ(GetTransferStats().hedges_won, before.hedges_won);
  // Both fail: the first one's error counts, and is repeated.
  const uint64_t next = server_.requests().size();
  server_.SetFaults([=](const SeenRequest& request) {
    if (request.number == next) {
      return Fault{.kind = Fault::kStall, .wait = std::chrono::milliseconds(800)};
    }
    return request.number == next + 1 ? Fault{.kind = Fault::kReset} : Fault();
  });
  const absl::StatusOr<std::string> again = Read(version_);
  ASSERT_OK(again);
  EXPECT_EQ(*again, bytes_.substr(10));
}

TEST_F(TransfersTest, TheLatencyOfAStoreIsItsTimeToAnswer) {
  const auto store = Store::Of(path());
  ASSERT_OK(store);
  EXPECT_EQ((*store)->latency().count(), 0);
  const auto delay = [&](int milliseconds, Fault::Kind kind = Fault::kDelay) {
    server_.SetFaults([=](const SeenRequest&) {
      return Fault{.kind = kind, .wait = std::chrono::milliseconds(milliseconds)};
    });
  };
  delay(150);
  for (int i = 0; i < 2; ++i) ASSERT_OK(Read());
  ASSERT_OK(ReadObject(path(), 1 << 20));
  EXPECT_GE((*store)->latency(), std::chrono::milliseconds(150));
  // What comes later is the body's time, and other requests and errors do not count.
  delay(300, Fault::kSlow);
  for (int i = 0; i < 2; ++i) ASSERT_OK(Read());
  delay(0);
  for (int i = 0; i < 20; ++i) ASSERT_OK(StatObject(path()));
  Fail({.kind = Fault::kStatus, .status = 404}, 20);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Read().ok());
  EXPECT_GE((*store)->latency(), std::chrono::milliseconds(150));
  // Ranges that others may have delayed do not, either.
  std::vector<std::string> parts(40, std::string(1000, '\0'));
  std::vector<std::promise<absl::Status>> done(parts.size());
  delay(600);
  for (size_t i = 0; i < parts.size(); ++i) {
    StartRead(*store, {path(), 0, absl::MakeSpan(parts[i])},
              [&done, i](absl::Status status, const ReadVersion&) {
                done[i].set_value(std::move(status));
              });
  }
  for (auto& one : done) EXPECT_OK(one.get_future().get());
  EXPECT_LT((*store)->latency(), std::chrono::milliseconds(1000));
  // The last answers count.
  delay(0);
  for (int i = 0; i < 15; ++i) ASSERT_OK(Read());
  EXPECT_LT((*store)->latency(), std::chrono::milliseconds(100));
}

TEST_F(TransfersTest, ManyAtOnceShareConnections) {
  server_.SetFaults([](const SeenRequest& request) {
    return request.number % 7 == 3 ? Fault{.kind = Fault::kStatus} : Fault();
  });
  const auto store = Store::Of(path());
  ASSERT_OK(store);
  const uint64_t before = HttpClient::Get().stats().connections;
  constexpr int kReads = 300;
  std::vector<std::string> parts(kReads, std::string(1000, '\0'));
  std::vector<std::promise<absl::Status>> done(kReads);
  for (int i = 0; i < kReads; ++i) {
    StartRead(*store, {path(), i * uint64_t{1000}, absl::MakeSpan(parts[i]), ""},
              [&done, i](absl::Status status, const ReadVersion&) {
                done[i].set_value(std::move(status));
              });
  }
  for (int i = 0; i < kReads; ++i) {
    ASSERT_OK(done[i].get_future().get());
    ASSERT_EQ(parts[i], bytes_.substr(i * 1000, 1000));
  }
  EXPECT_LE(HttpClient::Get().stats().connections - before, HttpClient::kMaxConnections);
  EXPECT_GT(HttpClient::Get().stats().throttled, 0);
}

bool SignsRequests() {
  const auto store = Store::Of("s3://bucket/a");
  return store.ok() && (*store)->Request("GET", "s3://bucket/a").ok();
}

// The client's thread may repeat a request of which nobody waits for the answer.
TEST(StoreDeathTest, RequestsAreSignedUntilTheProcessHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // OpenSSL is new to that process
  setenv("AWS_ACCESS_KEY_ID", "key", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  const auto end = [] {
    // Called after what the library has registered by then.
    std::atexit([] { std::_Exit(SignsRequests() ? 7 : 8); });
    std::exit(SignsRequests() ? 0 : 9);
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace shardfeed::testing
