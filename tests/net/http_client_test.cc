#include "net/http_client.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "gtest/gtest.h"
#include "net/store.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {
namespace {

constexpr int kMost = HttpClient::kMaxConnections;

// A server whose requests wait until they are let go.
class HeldServer {
 public:
  HeldServer() {
    server_.Put("/object", "bytes");
    server_.SetFaults([this](const SeenRequest&) {
      MutexLock lock(mutex_);
      ++seen_;
      changed_.NotifyAll();
      changed_.Wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return allowed_ > 0; });
      --allowed_;
      return Fault();
    });
  }
  ~HeldServer() { LetGo(1 << 30); }

  FaultServer& server() { return server_; }
  std::string url() const { return server_.url() + "/object"; }
  // How many requests have come so far.
  int seen() {
    MutexLock lock(mutex_);
    return seen_;
  }
  void LetGo(int count) {
    MutexLock lock(mutex_);
    allowed_ += count;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int seen_ ABSL_GUARDED_BY(mutex_) = 0;
  int allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  FaultServer server_;
};

class HttpClientTest : public ::testing::Test {
 protected:
  ~HttpClientTest() override {
    Await([this] { return done_ == started_; });
  }

  // Starts `count` requests like this one.
  void Start(const HttpRequest& request, int count) {
    started_ += count;
    for (int i = 0; i < count; ++i) {
      HttpRequest copy = request;
      last_id_ = HttpClient::Get().Start(std::move(copy), [this](const HttpResponse& response) {
        if (response.status == 200) ++answered_;
        if (absl::IsCancelled(response.transport)) ++cancelled_;
        ++done_;
      });
    }
  }
  void Start(const std::string& url, int count) {
    HttpRequest request;
    request.url = url;
    Start(request, count);
  }
  static void Await(const std::function<bool()>& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!what()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  // Time in which requests that must not be started would be.
  static void Linger() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

  std::atomic<int> started_ = 0;
  std::atomic<int> done_ = 0;
  std::atomic<int> answered_ = 0;
  std::atomic<int> cancelled_ = 0;
  uint64_t last_id_ = 0;
};

TEST_F(HttpClientTest, NeverMoreThanTheMostAtOnceOverAllHosts) {
  HeldServer a;
  HeldServer b;
  for (int i = 0; i < 150; ++i) {
    Start(a.url(), 1);
    Start(b.url(), 1);
  }
  Await([&] { return a.seen() + b.seen() == kMost; });
  Linger();
  EXPECT_EQ(a.seen() + b.seen(), kMost);
  EXPECT_NEAR(a.seen(), kMost / 2, 1);
  EXPECT_EQ(HttpClient::Get().stats().active, kMost);
  // One that waits is cancelled without a slot.
  HttpClient::Get().Cancel(last_id_);
  Await([&] { return cancelled_ == 1; });
  a.LetGo(1 << 20);
  b.LetGo(1 << 20);
  Await([&] { return done_ == started_; });
  EXPECT_EQ(answered_, started_ - 1);
}

TEST_F(HttpClientTest, HostsTakeTurnsAndShareTheConnections) {
  HeldServer a;
  HeldServer b;
  Start(a.url(), kMost + 100);
  Await([&] { return a.seen() == kMost; });
  Start(b.url(), 10);
  Linger();
  EXPECT_EQ(b.seen(), 0);
  a.LetGo(20);
  Await([&] { return a.seen() + b.seen() == kMost + 20; });
  EXPECT_EQ(b.seen(), 10);
  a.LetGo(1 << 20);
  b.LetGo(1 << 20);
  Await([&] { return done_ == started_; });
  // The connections to one host that nobody uses are closed when others are needed.
  HeldServer c;
  Start(c.url(), kMost);
  Await([&] { return c.seen() == kMost; });
  Await([&] {
    return a.server().connections() + b.server().connections() + c.server().connections() <= kMost;
  });
  c.LetGo(1 << 20);
}

// A request to each of two buckets, as their stores make it.
void ExpectGroups(const std::string& one, const std::string& two) {
  const auto group = [](const std::string& url) {
    const auto store = Store::Of(url);
    if (!store.ok()) return store.status().ToString();
    const auto request = (*store)->Request("GET", url);
    return request.ok() ? request->group : request.status().ToString();
  };
  EXPECT_EQ(group(one + "/a"), group(one + "/b/c"));
  EXPECT_NE(group(one + "/a"), group(two + "/a"));
  EXPECT_TRUE(group(one + "/a").starts_with("http")) << group(one + "/a");
}

TEST_F(HttpClientTest, BucketsOfOneHostArePacedApart) {
  HeldServer server;
  setenv("AWS_ENDPOINT_URL", server.server().url().c_str(), 1);
  setenv("AWS_NO_SIGN_REQUEST", "1", 1);
  setenv("GS_NO_SIGN_REQUEST", "1", 1);
  setenv("AZURE_SKIP_SIGNATURE", "1", 1);
  setenv("AZURE_STORAGE_ACCOUNT", "account", 1);
  ExpectGroups("s3://one", "s3://two");
  ExpectGroups("gs://one", "gs://two");
  ExpectGroups("az://one", "az://two");
  const auto request = [](const std::string& url) {
    return (*Store::Of(url))->Request("GET", url).value();
  };
  server.server().Put("/one/object", "bytes");
  server.server().Put("/two/object", "bytes");
  // One bucket refuses what it gets, which then is one request at a time.
  server.server().SetAnswers([](const SeenRequest& request) -> std::optional<std::string> {
    if (request.target != "/one/refused") return std::nullopt;
    return "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n";
  });
  for (int i = 1; i <= 6; ++i) {
    Start(request("s3://one/refused"), 1);
    Await([&] { return done_ == i; });
  }
  server.server().ForgetRequests();
  Start(request("s3://one/object"), 10);
  Start(request("s3://two/object"), 10);
  Await([&] { return server.seen() == 11; });
  Linger();
  std::multiset<std::string> seen;
  for (const SeenRequest& request : server.server().requests()) seen.insert(request.target);
  EXPECT_EQ(seen.count("/one/object"), 1);
  EXPECT_EQ(seen.count("/two/object"), 10);
  server.LetGo(1 << 20);
  Await([&] { return done_ == started_; });
  EXPECT_EQ(answered_, 20);
}

}  // namespace
}  // namespace shardfeed::testing
