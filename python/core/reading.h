// The sources of chains that read shards, for the bindings of Dataset. All raise the errors of the
// dataset.

#ifndef SHARDFEED_PYTHON_CORE_READING_H_
#define SHARDFEED_PYTHON_CORE_READING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pipeline/dataset.h"

namespace shardfeed::python {

// Raises the error of the dataset, if it has one.
Dataset Made(Dataset ds);

// A number of `of` or a share, such as "5%". Raises ValueError, which names the argument.
SkipCeiling CeilingOf(const char* argument, const char* of, const std::string& text);

// (first record, count) of each range; nullopt: all records.
using Ranges = std::optional<std::vector<std::pair<uint64_t, uint64_t>>>;

Dataset ReadShards(const std::vector<std::string>& specs, const Ranges& records, uint64_t batch,
                   const std::string& end, bool check_crc, bool skip_damaged,
                   const std::optional<std::string>& max_skipped, const std::string& io,
                   int threads, uint64_t budget_bytes, uint64_t block_records,
                   const std::string& cache, uint64_t cache_size, const std::string& number);
// `sources` are (name, specs, records), and `schedule` has (position, weights). With a `seed`,
// sources are drawn at random.
Dataset ReadMixture(
    const std::vector<std::tuple<std::string, std::vector<std::string>, Ranges>>& sources,
    const std::vector<std::pair<uint64_t, std::vector<double>>>& schedule, uint64_t length,
    std::optional<uint64_t> seed, uint64_t batch, const std::string& end, bool check_crc,
    bool skip_damaged, const std::optional<std::string>& max_skipped, const std::string& io,
    int threads, uint64_t budget_bytes, uint64_t block_records, const std::string& cache,
    uint64_t cache_size, const std::string& number, const std::string& source);

}  // namespace shardfeed::python

#endif  // SHARDFEED_PYTHON_CORE_READING_H_
