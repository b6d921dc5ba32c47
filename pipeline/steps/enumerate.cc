#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class EnumerateStage : public Stage {
 public:
  EnumerateStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec, int64_t start)
      : input_(std::move(input)), spec_(std::move(spec)), start_(start) {}

  absl::Status Next(Batch* out) override {
    absl::Status status = input_->Next(out);
    if (!status.ok() || out->empty()) return status;
    int64_t first = 0;
    int64_t last = 0;
    if (__builtin_add_overflow(start_, number_, &first) ||
        __builtin_add_overflow(first, out->rows - 1, &last)) {
      return absl::InvalidArgumentError(
          fmt::format("enumerate: the number of element {}, counted from {}, does not fit int64",
                      number_ + out->rows - 1, start_));
    }
    Batch numbers;
    numbers.rows = out->rows;
    numbers.spec = std::make_shared<const RowSpec>(RowSpec{spec_->back()});
    AllocateFixedColumns(&numbers);
    auto* values = reinterpret_cast<int64_t*>(numbers.columns[0].data);
    for (size_t r = 0; r < out->rows; ++r) values[r] = first + static_cast<int64_t>(r);
    number_ += out->rows;
    out->columns.push_back(numbers.columns[0]);
    out->memory.push_back(std::move(numbers.memory[0]));
    out->spec = spec_;
    return absl::OkStatus();
  }
  void Save(StateWords* words) const override {
    words->push_back(number_ - input_->Beyond());
    input_->Save(words);
  }
  uint64_t Beyond() const override { return input_->Beyond(); }
  absl::Status Load(StateReader* words) override {
    number_ = words->Read();
    return input_->Load(words);
  }

 private:
  const std::unique_ptr<Stage> input_;
  const std::shared_ptr<const RowSpec> spec_;
  const int64_t start_;
  uint64_t number_ = 0;
};

}  // namespace

Dataset Dataset::Enumerate(std::string name, int64_t start) const {
  if (!status_.ok()) return *this;
  if (batched()) {
    return Dataset(absl::InvalidArgumentError(
        "enumerate: expected rows, but the elements here are batches: put it before batch"));
  }
  if (FindColumn(spec(), name) >= 0) {
    return Dataset(
        absl::InvalidArgumentError(fmt::format("enumerate: column '{}' already exists", name)));
  }
  Step step = Like("enumerate");
  step.text = fmt::format("enumerate({}, {})", name, start);
  step.identity.Add("start", start);
  RowSpec with = spec();
  with.push_back({std::move(name), DType::kInt64, {}, false});
  step.spec = std::make_shared<const RowSpec>(std::move(with));
  step.counts = true;
  step.sharing = Sharing::kUneven;  // the step counts the elements of the rank
  step.work = OnInput([spec = step.spec, start](std::unique_ptr<Stage> input, uint64_t /*epoch*/) {
    return std::make_unique<EnumerateStage>(std::move(input), spec, start);
  });
  return Then(std::move(step));
}

}  // namespace shardfeed
