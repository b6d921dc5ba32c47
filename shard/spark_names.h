// What Spark and Hadoop call the files that they write.

#ifndef SHARDFEED_SHARD_SPARK_NAMES_H_
#define SHARDFEED_SHARD_SPARK_NAMES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardfeed {

// A file that Spark or Hadoop wrote: part-[r-]PART[-JOB][_BUCKET][-cFILE][.suffix]. One task writes
// several buckets and, past maxRecordsPerFile, several files.
struct SparkName {
  std::string_view job;  // a UUID, empty where Hadoop wrote the file
  uint64_t part = 0;
  uint64_t bucket = 0;
  uint64_t file = 0;
};

// The parts of a file name, as views into it. Nullopt: not the name of such a file.
std::optional<SparkName> ParseSparkName(std::string_view name);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_SPARK_NAMES_H_
