#include "tests/pipeline/dataset_chains.h"

#include <utility>

#include "gtest/gtest.h"
#include "tests/pipeline/element_text.h"
#include "tests/testing/files.h"

namespace shardfeed::testing {

std::unique_ptr<Iterator> Start(const Dataset& ds, bool deterministic) {
  absl::StatusOr<std::unique_ptr<Iterator>> it =
      ds.Start({.threads = kThreads, .deterministic = deterministic});
  EXPECT_OK(it);
  return it.ok() ? *std::move(it) : nullptr;
}

std::vector<std::string> Collect(Iterator& it, size_t most) {
  std::vector<std::string> elements;
  while (elements.size() < most) {
    Batch batch;
    absl::Status status = it.Next(&batch);
    EXPECT_OK(status);
    if (!status.ok() || batch.empty()) break;
    elements.push_back(ElementText(batch));
  }
  return elements;
}

std::vector<std::string> Collect(const Dataset& ds) { return Collect(*Start(ds)); }

absl::Status FirstError(const Dataset& ds) {
  absl::StatusOr<std::unique_ptr<Iterator>> it = ds.Start({.threads = kThreads});
  if (!it.ok()) return it.status();
  while (true) {
    Batch batch;
    absl::Status status = (*it)->Next(&batch);
    if (!status.ok() || batch.empty()) return status;
  }
}

Dataset Square(const Dataset& ds) {
  return ds.Map({{"square", DType::kInt64, {}}}, [](RowContext& row) {
    const int64_t value = row.In<int64_t>(0)[0];
    row.Out<int64_t>(0)[0] = value * value;
    return absl::OkStatus();
  });
}

Dataset Odd(const Dataset& ds) {
  return ds.Filter([](RowContext& row) { return row.In<int64_t>(0)[0] % 2 == 1; });
}

Dataset Ragged(const Dataset& ds) {
  return ds.Map({{"values", DType::kInt64, {}, true}}, [](RowContext& row) {
    const int64_t value = row.In<int64_t>(0)[0];
    for (int64_t& out : row.Extend<int64_t>(0, value % 5)) out = value;
    return absl::OkStatus();
  });
}

Dataset Noisy(const Dataset& ds) {
  return Ragged(ds).Map({{"noise", DType::kFloat64, {2}}, {"text", DType::kBytes, {2}}},
                        [](RowContext& row) {
                          for (double& noise : row.Out<double>(0)) noise = row.random().Uniform();
                          const auto text = row.Out<std::string_view>(1);
                          text[0] = row.In<int64_t>(0)[0] % 2 == 0 ? "even" : "";
                          text[1] = "some text";
                          return absl::OkStatus();
                        });
}

Dataset Modulo(const Dataset& ds, int64_t of) {
  return ds.Map({{"key", DType::kInt64, {}}}, [of](RowContext& row) {
    row.Out<int64_t>(0)[0] = row.In<int64_t>(0)[0] % of;
    return absl::OkStatus();
  });
}

Dataset Total(const Dataset& ds) {
  return ds.Scan({{"total", DType::kInt64, {}}}, []() -> FlatMapFn {
    return [total = std::make_shared<int64_t>(0)](const Batch& in, size_t row, RowEmitter& out) {
      *total += in.Row<int64_t>(0, row)[0];
      out.Begin();
      out.Out<int64_t>(0)[0] = *total;
      return absl::OkStatus();
    };
  });
}

Dataset Failing(const Dataset& ds, int64_t of, int64_t remainder, const std::string& name) {
  return ds.Map({{name, DType::kInt64, {}, true}, {name + " of", DType::kInt64, {}}},
                [of, remainder](RowContext& row) -> absl::Status {
                  const int64_t value = row.In<int64_t>(0)[0];
                  for (int64_t& out : row.Extend<int64_t>(0, value % 3)) out = value;
                  row.Out<int64_t>(1)[0] = value;
                  if (value % of != remainder) return absl::OkStatus();
                  return absl::DataLossError("value " + std::to_string(value) + " fails");
                });
}

NumberFn Remainder(int64_t of) {
  return [of](RowContext& row) { return row.In<int64_t>(0)[0] % of; };
}

}  // namespace shardfeed::testing
