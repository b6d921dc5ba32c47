// MDS shards for tests, made of their samples.

#ifndef SHARDFEED_TESTS_TESTING_MDS_SHARDS_H_
#define SHARDFEED_TESTS_TESTING_MDS_SHARDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/little_endian.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed::testing {

struct MdsColumnText {
  std::string name;
  std::string encoding;
  uint32_t size = 0;  // 0: null, so each sample has it
};

// The description of the columns, as MosaicML's writer formats it.
inline std::string MdsConfig(const std::vector<MdsColumnText>& columns) {
  std::vector<std::string> names;
  std::vector<std::string> encodings;
  std::vector<std::string> sizes;
  for (const MdsColumnText& column : columns) {
    names.push_back(fmt::format("\"{}\"", column.name));
    encodings.push_back(fmt::format("\"{}\"", column.encoding));
    sizes.push_back(column.size == 0 ? "null" : std::to_string(column.size));
  }
  return fmt::format(
      R"({{"column_encodings": [{}], "column_names": [{}], "column_sizes": [{}], )"
      R"("compression": null, "format": "mds", "hashes": [], "size_limit": 67108864, )"
      R"("version": 2}})",
      fmt::join(encodings, ", "), fmt::join(names, ", "), fmt::join(sizes, ", "));
}

// Little-endian numbers, one after the other.
template <typename T>
std::string Bytes(const std::vector<T>& numbers) {
  std::string bytes;
  for (const T number : numbers) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return bytes;
}

// A sample: sizes of the columns that have none that is fixed, and the values.
inline std::string MdsSample(const std::vector<uint32_t>& sizes,
                             const std::vector<std::string>& values) {
  std::string sample = Bytes(sizes);
  for (const std::string& value : values) sample += value;
  return sample;
}

inline std::string MdsShard(const std::string& config, const std::vector<std::string>& samples) {
  std::vector<uint32_t> numbers = {static_cast<uint32_t>(samples.size())};
  auto offset = static_cast<uint32_t>(4 * (samples.size() + 2) + config.size());
  numbers.push_back(offset);
  for (const std::string& sample : samples) {
    numbers.push_back(offset += static_cast<uint32_t>(sample.size()));
  }
  std::string shard = Bytes(numbers) + config;
  for (const std::string& sample : samples) shard += sample;
  return shard;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_MDS_SHARDS_H_
