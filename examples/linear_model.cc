// Trains a linear model on a table: a city's population from its area and the year it was founded.
//
//   shardfeed convert csv cities.csv out/cities@2
//   linear_model out/cities@2
//
// The chain shuffles the records in each epoch, takes three columns, drops rows with a missing
// cell, and delivers batches of 32 rows.

#include <cmath>
#include <cstdio>
#include <string>

#include "shardfeed/shardfeed.h"

using shardfeed::Batch;
using shardfeed::Dataset;
using shardfeed::DType;

namespace {

// y = w0 + w1 x0 + w2 x1, on standardized features.
struct Model {
  double w[3] = {};

  double Predict(const float* x) const { return w[0] + w[1] * x[0] + w[2] * x[1]; }

  // Takes one step of gradient descent and returns the mean squared error before it.
  double Step(absl::Span<const float> x, absl::Span<const float> y, double rate) {
    double gradient[3] = {};
    double loss = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double error = Predict(&x[2 * i]) - y[i];
      loss += error * error;
      gradient[0] += error;
      gradient[1] += error * x[2 * i];
      gradient[2] += error * x[2 * i + 1];
    }
    const double n = static_cast<double>(y.size());
    for (int j = 0; j < 3; ++j) w[j] -= rate * 2 / n * gradient[j];
    return loss / n;
  }
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "linear_model: %s\n", std::string(status.message()).c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: linear_model DATASET\n");
    return 2;
  }
  constexpr uint64_t kEpochs = 200;
  const Dataset ds =
      Dataset::Read(std::string(argv[1]))
          .Shuffle(/*seed=*/1)
          .Repeat(kEpochs)
          .Parse({{.name = "area", .layout = shardfeed::Layout::kRagged},
                  {.name = "founded", .dtype = DType::kInt64, .layout = shardfeed::Layout::kRagged},
                  {.name = "population",
                   .dtype = DType::kInt64,
                   .layout = shardfeed::Layout::kRagged}})
          .Filter([](shardfeed::RowContext& row) {
            return !row.In<float>(0).empty() && !row.In<int64_t>(1).empty() &&
                   !row.In<int64_t>(2).empty() && row.In<int64_t>(2)[0] > 0;
          })
          .Map({{"x", DType::kFloat32, {2}}, {"y", DType::kFloat32, {}}},
               [](shardfeed::RowContext& row) {
                 row.Out<float>(0)[0] = (row.In<float>(0)[0] - 500) / 300;
                 row.Out<float>(0)[1] = (static_cast<float>(row.In<int64_t>(1)[0]) - 1600) / 300;
                 row.Out<float>(1)[0] = std::log10(static_cast<float>(row.In<int64_t>(2)[0])) - 6;
                 return absl::OkStatus();
               },
               /*drops=*/{"area", "founded", "population"})
          .Batch(32);
  if (!ds.status().ok()) return Fail(ds.status());
  std::printf("%s\n", ds.Text().c_str());

  absl::StatusOr<std::unique_ptr<shardfeed::Iterator>> it = ds.Start();
  if (!it.ok()) return Fail(it.status());
  Model model;
  double first = 0;
  double mean = 0;
  int steps = 0;
  for (Batch batch;; ++steps) {
    const absl::Status status = (*it)->Next(&batch);
    if (!status.ok()) return Fail(status);
    if (batch.empty()) break;
    const double loss = model.Step(batch.Values<float>(0), batch.Values<float>(1), 0.02);
    if (steps == 0) first = mean = loss;
    mean += 0.02 * (loss - mean);
  }
  std::printf("%d steps; mean squared error %.4f at first, %.4f at last\n", steps, first, mean);
  std::printf("y = %.3f %+.3f area %+.3f founded\n", model.w[0], model.w[1], model.w[2]);
  return mean < first ? 0 : 1;
}
