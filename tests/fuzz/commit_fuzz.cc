// Whatever a commit record says, only files of its dataset are moved or removed, and a record that
// was followed is gone. Its CRC is corrected first, unless the first byte is odd.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "shard/commit/staging.h"
#include "shard/names/names.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

// Names that a record could be made to touch.
constexpr const char* kPrecious[] = {"thesis.tex", "other-00000-of-00002", "t.txt"};

void Put(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
}

std::string Get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string record(testing::View(data + 1, size - 1));
  if (data[0] % 2 == 0) record += fmt::format("crc32c {:08x}\n", Crc32c(record));

  const testing::FuzzFile precious("precious", "my only copy");
  const std::string above = fs::path(precious.path()).parent_path().string();
  const std::string folder = above + "/data";
  const std::string staging = StagingPath(folder, "t");
  fs::create_directories(staging);
  for (const char* name : kPrecious) Put(JoinPath(folder, name), name);
  Put(staging + "/00000.shard", "0123456789");
  Put(staging + "/00000.index", "index");
  Put(staging + "/00001.shard", "");
  Put(staging + "/manifest", "{}");
  Put(folder + "/t-00000-of-00003", "old");
  Put(CommitPath(folder, "t"), record);

  const absl::Status status = FinishCommit(folder, "t");
  FUZZ_EXPECT(Get(precious.path()) == "my only copy");
  for (const char* name : kPrecious) FUZZ_EXPECT(Get(JoinPath(folder, name)) == name);
  FUZZ_EXPECT(fs::exists(CommitPath(folder, "t")) == !status.ok());
  if (!status.ok()) FUZZ_EXPECT(Get(CommitPath(folder, "t")) == record);
  return 0;
}

}  // namespace shardfeed
