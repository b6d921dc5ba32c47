// Device iterators on the device of the test, and batches for them.

#ifndef SHARDFEED_TESTS_CUDA_DEVICE_ITERATOR_FIXTURE_H_
#define SHARDFEED_TESTS_CUDA_DEVICE_ITERATOR_FIXTURE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/cuda.h"
#include "tests/cuda/cuda_fixture.h"

namespace shardfeed::testing {

class DeviceIteratorFixture : public CudaTest {
 protected:
  std::unique_ptr<DeviceIterator> Start(const Dataset& ds, DeviceOptions options = {},
                                        RunOptions run = {}) {
    if (run.threads == 0) run.threads = 2;
    absl::StatusOr<std::unique_ptr<DeviceIterator>> it =
        DeviceIterator::Start(ds, std::move(options), run);
    EXPECT_OK(it);
    return it.ok() ? *std::move(it) : nullptr;
  }
  absl::Status StartError(const Dataset& ds, DeviceOptions options = {}) {
    return DeviceIterator::Start(ds, std::move(options)).status();
  }
};

// Row i: "value" int64 i; "x" int32 [1000] of i, i + 1, ...; "ragged" int64, i mod 5 of i.
inline Dataset Numbers(int64_t rows) {
  return Dataset::Range(0, rows).Map(
      {{"x", DType::kInt32, {1000}}, {"ragged", DType::kInt64, {}, true}}, [](RowContext& row) {
        const int64_t value = row.In<int64_t>(0)[0];
        int64_t next = value;
        for (int32_t& out : row.Out<int32_t>(0)) out = static_cast<int32_t>(next++);
        for (int64_t& out : row.Extend<int64_t>(1, value % 5)) out = value;
        return absl::OkStatus();
      });
}

// A batch of Numbers that a stream reads; valid once the stream is done.
struct NumbersRead {
  size_t rows;
  std::shared_ptr<std::vector<int64_t>> value;
  std::shared_ptr<std::vector<int32_t>> x;
  std::shared_ptr<std::vector<int64_t>> ragged;
  std::shared_ptr<std::vector<int64_t>> splits;
};

inline NumbersRead ReadNumbers(const DeviceBatch& batch, TestStream& stream) {
  const auto tensor = [&](const std::string& name) -> const DeviceTensor& {
    return *std::find_if(batch.tensors.begin(), batch.tensors.end(),
                         [&](const DeviceTensor& t) { return t.name == name; });
  };
  return {batch.rows, stream.Read<int64_t>(tensor("value").data, batch.rows),
          stream.Read<int32_t>(tensor("x").data, batch.rows * 1000),
          stream.Read<int64_t>(tensor("ragged").data, tensor("ragged").shape[0]),
          stream.Read<int64_t>(tensor("ragged").splits, batch.rows + 1)};
}

// The rows are first, first + 1 ...
inline void ExpectNumbers(const NumbersRead& read, int64_t first) {
  ASSERT_EQ((*read.splits)[0], 0);
  for (size_t r = 0; r < read.rows; ++r) {
    const int64_t value = first + static_cast<int64_t>(r);
    ASSERT_EQ((*read.value)[r], value);
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ((*read.x)[r * 1000 + i], value + static_cast<int64_t>(i)) << r;
    }
    ASSERT_EQ((*read.splits)[r + 1] - (*read.splits)[r], value % 5);
    for (int64_t i = (*read.splits)[r]; i < (*read.splits)[r + 1]; ++i) {
      ASSERT_EQ((*read.ragged)[i], value);
    }
  }
}

inline void ExpectNumbers(const std::vector<NumbersRead>& all, int64_t first = 0) {
  for (const NumbersRead& read : all) {
    ExpectNumbers(read, first);
    first += static_cast<int64_t>(read.rows);
  }
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_CUDA_DEVICE_ITERATOR_FIXTURE_H_
