// Starts device iterators on the device that a test has.

#ifndef SHARDFEED_TESTS_CUDA_DEVICE_ITERATOR_FIXTURE_H_
#define SHARDFEED_TESTS_CUDA_DEVICE_ITERATOR_FIXTURE_H_

#include <memory>
#include <utility>

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

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_CUDA_DEVICE_ITERATOR_FIXTURE_H_
