// Linked into a suite, this makes its TestFolders a part of a bucket of S3, whose server is in the
// same process and takes 2 ms for each answer: what the suite tests, it then tests over the
// network.

#include <chrono>
#include <cstdlib>

#include "gtest/gtest.h"
#include "tests/net/fault_server.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {
namespace {

constexpr std::chrono::milliseconds kLatency(2);

class StoreOfFolders : public ::testing::Environment {
 public:
  void SetUp() override {
    server_.ServeBucket("folders", "/");
    server_.SetFaults(
        [](const SeenRequest&) { return Fault{.kind = Fault::kDelay, .wait = kLatency}; });
    for (const char* name : {"AWS_ENDPOINT_URL_S3", "AWS_PROFILE", "AWS_SESSION_TOKEN"}) {
      ::unsetenv(name);
    }
    ::setenv("AWS_ENDPOINT_URL", server_.url().c_str(), 1);
    ::setenv("AWS_NO_SIGN_REQUEST", "1", 1);
    ::setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
    ::setenv("SHARDFEED_NET_SECONDS", "10", 1);
    FolderPrefix() = "s3://folders";
  }
  // Whether the suite asked the store for anything is a part of its result: it would test folders
  // again if it did not.
  void TearDown() override { EXPECT_FALSE(server_.requests().empty()); }

 private:
  FaultServer server_;
};

[[maybe_unused]] const auto* const kStore =
    ::testing::AddGlobalTestEnvironment(new StoreOfFolders());

}  // namespace
}  // namespace shardfeed::testing
