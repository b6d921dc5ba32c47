#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/hidden.h"
#include "pipeline/steps/keys.h"
#include "shardfeed/functions.h"

namespace shardfeed {
namespace {

// This many rows of each class count as seen at the start, as in tf.data, since early estimates
// would otherwise rest on a few rows.
constexpr uint64_t kSeenBefore = 10;
constexpr size_t kMaxClasses = 1 << 20;

template <typename T>
int64_t NumberAt(const Column& column, size_t row) {
  const T number = reinterpret_cast<const T*>(column.data)[row];
  return std::in_range<int64_t>(number) ? static_cast<int64_t>(number) : -1;
}

int64_t ClassOf(const Batch& batch, size_t column, size_t row) {
  const Column& c = batch.columns[column];
  switch ((*batch.spec)[column].dtype) {
    case DType::kUInt8:
      return NumberAt<uint8_t>(c, row);
    case DType::kInt8:
      return NumberAt<int8_t>(c, row);
    case DType::kUInt16:
      return NumberAt<uint16_t>(c, row);
    case DType::kInt16:
      return NumberAt<int16_t>(c, row);
    case DType::kInt32:
      return NumberAt<int32_t>(c, row);
    default:
      return NumberAt<int64_t>(c, row);
  }
}

bool IsWhole(DType dtype) {
  return dtype == DType::kUInt8 || dtype == DType::kInt8 || dtype == DType::kUInt16 ||
         dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
}

struct Resampling {
  size_t column = 0;
  std::vector<double> target;
  std::vector<double> initial;  // estimated if empty
  uint64_t seed = 0;
};

class ResampleStage : public Stage {
 public:
  ResampleStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> input_spec,
                std::shared_ptr<const RowSpec> spec, Resampling how, uint64_t epoch,
                std::shared_ptr<RunContext> context)
      : queue_(std::move(input)),
        input_spec_(std::move(input_spec)),
        spec_(std::move(spec)),
        how_(std::move(how)),
        epoch_(epoch),
        context_(std::move(context)),
        seen_(how_.initial.empty() ? how_.target.size() : 0) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    BatchBuilder builder(input_spec_);
    while (builder.rows() == 0) {
      absl::Status status = queue_.Fill();
      if (!status.ok()) return status;
      if (queue_.ended()) return absl::OkStatus();
      const Batch& head = queue_.head();
      builder.Append(head, 0, 0);
      size_t row = queue_.at();
      for (; row < head.rows; ++row) {
        const bool damaged = std::binary_search(head.damaged.begin(), head.damaged.end(), row);
        if (damaged) {
          ++context_->dropped_damaged;
        } else {
          const int64_t kind = ClassOf(head, how_.column, row);
          if (kind < 0 || kind >= how_.target.size()) {
            // Deliver the rows before it first.
            if (builder.rows() > 0) break;
            return OutOfRange(row);
          }
          if (Accept(kind)) builder.AppendMore(row, 1);
        }
        ++number_;
      }
      queue_.Advance(row - queue_.at());
    }
    *out = builder.Finish(/*batched=*/false);
    if (input_spec_->size() > spec_->size()) DropLastColumn(spec_, out);
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(number_);
    words->insert(words->end(), seen_.begin(), seen_.end());
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    number_ = words->Read();
    for (uint64_t& seen : seen_) seen = words->ReadUpTo(number_);
    scarcest_ = -1;
    return queue_.Load(words);
  }

 private:
  // The ratio of the target share of a class to its share in the input.
  double Wanted(size_t kind) const {
    if (how_.target[kind] == 0) return 0;
    const double there =
        how_.initial.empty() ? static_cast<double>(seen_[kind] + kSeenBefore) : how_.initial[kind];
    return how_.target[kind] / there;
  }
  // Whether to keep row number_, which has this class. All rows of the scarcest class are kept.
  bool Accept(size_t kind) {
    if (!seen_.empty()) ++seen_[kind];
    // A row makes only its own class less scarce.
    if (scarcest_ < 0 || (!seen_.empty() && kind == scarcest_)) {
      scarcest_ = 0;
      most_ = Wanted(0);
      for (size_t i = 1; i < how_.target.size(); ++i) {
        if (Wanted(i) <= most_) continue;
        scarcest_ = static_cast<int64_t>(i);
        most_ = Wanted(i);
      }
    }
    return Random(StreamSeed(RandomStream::kRejectionResample, how_.seed), epoch_, number_)
                   .Uniform() *
               most_ <
           Wanted(kind);
  }
  absl::Status OutOfRange(size_t row) const {
    return absl::InvalidArgumentError(
        fmt::format("{}rejection_resample: class {} does not exist: there are {}, numbered from 0",
                    context_->Prefix(queue_.head(), row), ClassOf(queue_.head(), how_.column, row),
                    how_.target.size()));
  }

  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> input_spec_;
  const std::shared_ptr<const RowSpec> spec_;
  const Resampling how_;
  const uint64_t epoch_;
  const std::shared_ptr<RunContext> context_;
  uint64_t number_ = 0;         // number of the queue's next row
  std::vector<uint64_t> seen_;  // rows of each class, if their shares are estimated
  int64_t scarcest_ = -1;       // the class with the largest ratio; -1 if unknown
  double most_ = 0;             // ratio of the scarcest class
};

absl::Status CheckShares(std::string_view name, const std::vector<double>& shares) {
  double total = 0;
  bool good = !shares.empty() && shares.size() <= kMaxClasses;
  for (double share : shares) {
    good &= share >= 0 && std::isfinite(share);
    total += share;
  }
  if (good && total > 0 && std::isfinite(total)) return absl::OkStatus();
  std::vector<double> first(shares.begin(), shares.begin() + std::min<size_t>(shares.size(), 20));
  return absl::InvalidArgumentError(fmt::format(
      "rejection_resample: {} must have a share for each class, none below 0 and not all "
      "0; it is [{}{}]",
      name, fmt::join(first, ", "), first.size() < shares.size() ? ", ..." : ""));
}

}  // namespace

Dataset Dataset::ResampleBy(size_t column, std::shared_ptr<const RowSpec> spec,
                            const std::string& name, std::vector<double> target,
                            std::vector<double> initial, uint64_t seed) const {
  if (!status_.ok()) return *this;
  absl::Status status = CheckShares("target_dist", target);
  if (status.ok() && !initial.empty()) status = CheckShares("initial_dist", initial);
  if (!status.ok()) return Dataset(std::move(status));
  if (!initial.empty() && initial.size() != target.size()) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("rejection_resample: target_dist has {} classes, but initial_dist has {}",
                    target.size(), initial.size())));
  }
  for (size_t i = 0; i < initial.size(); ++i) {
    if (initial[i] > 0 || target[i] == 0) continue;
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "rejection_resample: class {} has a share in target_dist but none in initial_dist", i)));
  }
  Step step = Like("rejection_resample");
  step.text = fmt::format("rejection_resample({}{}seed={})", name, name.empty() ? "" : ", ", seed);
  step.identity.Add("column", name)
      .Add("target", target)
      .Add("initial", initial)
      .Add("seed", StreamSeed(RandomStream::kRejectionResample, seed));
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("rejection_resample drops elements");
  };
  step.random = true;
  step.counts = true;
  step.sharing = Sharing::kUneven;
  step.work = StageWork{[rows = step_->spec, spec,
                         how = Resampling{column, std::move(target), std::move(initial), seed}](
                            const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> stage = inputs.factories[0](inputs.epoch);
    if (!stage.ok()) return stage;
    return std::make_unique<ResampleStage>(*std::move(stage), rows, spec, how, inputs.epoch,
                                           inputs.context);
  }};
  step.spec = std::move(spec);
  return Then(std::move(step));
}

Dataset Dataset::RejectionResample(std::string classes, std::vector<double> target_dist,
                                   std::vector<double> initial_dist, uint64_t seed) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<size_t> number = KeyColumn("rejection_resample", spec(), classes, batched());
  if (!number.ok()) return Dataset(number.status());
  if (!IsWhole(spec()[*number].dtype)) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "rejection_resample: column '{}' must have the number of a class in each row; it "
        "is {}",
        classes, RowSpecText({spec()[*number]}))));
  }
  return ResampleBy(*number, step_->spec, classes, std::move(target_dist), std::move(initial_dist),
                    seed);
}

Dataset Dataset::RejectionResample(NumberFn classes, std::vector<double> target_dist,
                                   std::vector<double> initial_dist, uint64_t seed,
                                   std::string version) const {
  if (!status_.ok()) return *this;
  MapFn kinds = [classes = std::move(classes)](RowContext& row) -> absl::Status {
    const absl::StatusOr<int64_t> made = classes(row);
    if (!made.ok()) return made.status();
    row.Out<int64_t>(0)[0] = *made;
    return absl::OkStatus();
  };
  return WithHidden("rejection_resample", DType::kInt64, std::move(kinds), std::move(version))
      .ResampleBy(spec().size(), step_->spec, "", std::move(target_dist), std::move(initial_dist),
                  seed);
}

}  // namespace shardfeed
