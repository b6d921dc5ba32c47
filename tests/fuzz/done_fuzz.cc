// What an earlier writer recorded about a finished shard is trusted only if it matches the shard.

#include <filesystem>
#include <fstream>
#include <string>

#include "shard/names/names.h"
#include "shard/writing/writer.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {
namespace {

namespace fs = std::filesystem;

struct Finished {
  std::string shard;
  std::string index;
  std::string plan;
  uint64_t bytes;
};

std::string Get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void Put(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), bytes.size());
}

absl::StatusOr<std::unique_ptr<DatasetWriter>> Resume(const std::string& folder) {
  DatasetWriterOptions options;
  options.threads = 1;
  options.sync = false;
  options.resume = true;
  options.fingerprint = "fuzz";
  return DatasetWriter::Create(*ParseOutputSpec(folder + "/t@1"), options);
}

// A shard of three records, as left by a writer that was stopped before the end.
Finished MakeFinished() {
  const testing::FuzzFile file("a", "");
  const std::string folder = fs::path(file.path()).parent_path().string() + "/first";
  fs::create_directories(folder);
  const std::string staging = StagingPath(folder, "t");
  {
    const auto writer = Resume(folder);
    FUZZ_EXPECT(writer.ok());
    for (const char* record : {"one", "two", "three"}) FUZZ_EXPECT((*writer)->Write(record).ok());
    FUZZ_EXPECT((*writer)->CloseShard(0).ok());
    FUZZ_EXPECT((*writer)->WaitForAll().ok());
  }
  FUZZ_EXPECT(fs::exists(staging + "/00000.done"));
  const std::string shard = Get(staging + "/00000.shard");
  return {shard, Get(staging + "/00000.index"), Get(staging + "/plan"), shard.size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* finished = new Finished(MakeFinished());
  const testing::FuzzFile file("a", "");
  const std::string folder = fs::path(file.path()).parent_path().string() + "/data";
  const std::string staging = StagingPath(folder, "t");
  fs::create_directories(staging);
  Put(staging + "/00000.shard", finished->shard);
  Put(staging + "/00000.index", finished->index);
  Put(staging + "/plan", finished->plan);
  Put(staging + "/00000.done", testing::View(data, size));
  const auto writer = Resume(folder);
  FUZZ_EXPECT(writer.ok());
  if (!(*writer)->is_taken_over(0)) {
    FUZZ_EXPECT((*writer)->records_written() == 0 && (*writer)->bytes_written() == 0);
    return 0;
  }
  FUZZ_EXPECT((*writer)->records_written() == 3);
  FUZZ_EXPECT((*writer)->bytes_written() == finished->bytes);
  const auto manifest = (*writer)->Finish({});
  FUZZ_EXPECT(manifest.ok());
  FUZZ_EXPECT(manifest->num_records() == 3);
  FUZZ_EXPECT(ReadManifest(ManifestPath(folder, "t")).ok());
  return 0;
}

}  // namespace shardfeed
