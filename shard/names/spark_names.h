// Names of files written by Spark and Hadoop.

#ifndef SHARDFEED_SHARD_NAMES_SPARK_NAMES_H_
#define SHARDFEED_SHARD_NAMES_SPARK_NAMES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardfeed {

// The name of a file written by Spark or Hadoop: part-[r-]PART[-JOB][_BUCKET][-cFILE][.suffix]. One
// task may write several buckets and, beyond maxRecordsPerFile, several files.
struct SparkName {
  std::string_view job;  // A UUID; empty if Hadoop wrote the file.
  uint64_t part = 0;
  uint64_t bucket = 0;
  uint64_t file = 0;
};

// Parses a file name into views of its parts. Nullopt: not the name of such a file.
std::optional<SparkName> ParseSparkName(std::string_view name);

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_NAMES_SPARK_NAMES_H_
