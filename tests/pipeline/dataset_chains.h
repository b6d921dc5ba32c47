// Chains for tests of datasets, and what they give.

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

// A run on kThreads threads.
std::unique_ptr<Iterator> Start(const Dataset& ds, bool deterministic = true);

// Up to `most` further elements.
std::vector<std::string> Collect(Iterator& it, size_t most = SIZE_MAX);
std::vector<std::string> Collect(const Dataset& ds);

// What the run ends with: an error, or OK.
absl::Status FirstError(const Dataset& ds);

// Of Range: a column "square"; the odd values alone.
Dataset Square(const Dataset& ds);
Dataset Odd(const Dataset& ds);

// Row i has i mod 5 values of i.
Dataset Ragged(const Dataset& ds);

// Random numbers, a ragged column and bytes.
Dataset Noisy(const Dataset& ds);

// A column "key": the first column modulo `of`.
Dataset Modulo(const Dataset& ds, int64_t of);

// A column "total" of the sum of the first column so far.
Dataset Total(const Dataset& ds);

// Fails where the first column is `remainder` modulo `of`, with something written already.
Dataset Failing(const Dataset& ds, int64_t of, int64_t remainder, const std::string& name = "part");

// The first column modulo `of`.
NumberFn Remainder(int64_t of);

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_PIPELINE_DATASET_CHAINS_H_
