// Serves a folder, with faults, until it is ended, for tests of the program and the package.
//
//   fault_server FOLDER [FAULT [EVERY]]
//
// With `--bucket NAME` before FOLDER, its files are the objects of a bucket of S3, which is also
// written (folder_bucket.h), and every request has the fault.
//
// Prints its URL. FAULT: 503, retry-after, reset, short, stall, ignore-range, wrong-range,
// other-tag, ignore-match, delay-MILLISECONDS, status-CODE. EVERY: of so many requests for ranges,
// one has it (default 1: all).

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "tests/net/fault_server.h"

int main(int argc, char** argv) {
  using shardfeed::testing::Fault;
  const bool bucket = argc > 3 && std::string_view(argv[1]) == "--bucket";
  shardfeed::testing::FaultServer server;
  if (bucket) {
    server.ServeBucket(argv[2], argv[3]);
    argc -= 2;
    argv += 2;
  } else if (argc > 1) {
    server.ServeFolder(argv[1]);
  } else {
    return 2;
  }
  const std::string name = argc > 2 ? argv[2] : "";
  const uint64_t every = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  Fault fault;
  if (name == "503") fault.kind = Fault::kStatus;
  if (name == "retry-after") {
    fault.kind = Fault::kStatus;
    fault.headers = "Retry-After: 1\r\n";
  }
  if (name == "reset") fault.kind = Fault::kReset;
  if (name == "short") fault.kind = Fault::kShort;
  if (name == "stall") {
    fault.kind = Fault::kStall;
    fault.wait = std::chrono::seconds(60);
  }
  if (name == "ignore-range") fault.kind = Fault::kIgnoreRange;
  if (name == "wrong-range") fault.kind = Fault::kWrongRange;
  if (name == "other-tag") fault.kind = Fault::kOtherTag;
  if (name == "ignore-match") fault.kind = Fault::kIgnoreMatch;
  if (name.starts_with("delay-")) {
    fault.kind = Fault::kDelay;
    fault.wait = std::chrono::milliseconds(std::atoi(name.c_str() + 6));
  }
  if (name.starts_with("status-")) {
    fault.kind = Fault::kStatus;
    fault.status = std::atoi(name.c_str() + 7);
  }
  std::atomic<uint64_t> ranges = 0;
  server.SetFaults([&](const shardfeed::testing::SeenRequest& request) {
    if (!bucket && !request.headers.contains("range")) return Fault();
    return ranges++ % every == every - 1 ? fault : Fault();
  });
  std::printf("%s\n", server.url().c_str());
  std::fflush(stdout);
  while (true) ::pause();
}
