// Chains for tests of datasets, and helpers to run them.

#ifndef SHARDFEED_TESTS_PIPELINE_DATASET_CHAINS_H_
#define SHARDFEED_TESTS_PIPELINE_DATASET_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "pipeline/dataset.h"

namespace shardfeed::testing {

constexpr int kThreads = 4;

// Starts a run on kThreads threads.
std::unique_ptr<Iterator> Start(const Dataset& ds, bool deterministic = true);

// Returns up to `most` further elements.
std::vector<std::string> Collect(Iterator& it, size_t most = SIZE_MAX);
std::vector<std::string> Collect(const Dataset& ds);

// The status with which the run ends.
absl::Status FirstError(const Dataset& ds);

// For Range: adds a column "square"; keeps the odd values.
Dataset Square(const Dataset& ds);
Dataset Odd(const Dataset& ds);

// Row i has i mod 5 values of i.
Dataset Ragged(const Dataset& ds);

// Adds random numbers, a ragged column and bytes.
Dataset Noisy(const Dataset& ds);

// Adds a column "key": the first column modulo `of`.
Dataset Modulo(const Dataset& ds, int64_t of);

// Adds a column "total": the sum of the first column so far.
Dataset Total(const Dataset& ds);

// Fails if the first column is `remainder` modulo `of`, after some output was written.
Dataset Failing(const Dataset& ds, int64_t of, int64_t remainder, const std::string& name = "part");

// The first column modulo `of`.
NumberFn Remainder(int64_t of);

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_PIPELINE_DATASET_CHAINS_H_
