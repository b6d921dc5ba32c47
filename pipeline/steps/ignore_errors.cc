#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/hidden.h"

namespace shardfeed {
namespace {

// Drops the rows that have an error in their last column, and drops that column.
class IgnoreErrorsStage : public Stage {
 public:
  IgnoreErrorsStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec,
                    SkipCeiling ceiling, std::shared_ptr<RunContext> context)
      : queue_(std::move(input)),
        spec_(std::move(spec)),
        ceiling_(ceiling),
        context_(std::move(context)) {}

  absl::Status Next(Batch* out) override {
    *out = Batch();
    while (true) {
      absl::Status status = queue_.Fill();
      if (!status.ok() || queue_.ended()) return status;
      const auto* const errors =
          reinterpret_cast<const std::string_view*>(queue_.head().columns.back().data);
      const std::string_view* const first = errors + queue_.at();
      const size_t rows = std::find_if(first, first + queue_.left(),
                                       [](std::string_view error) { return !error.empty(); }) -
                          first;
      if (rows > 0) {
        rows_ += rows;
        status = queue_.Take(rows, out);
        DropLastColumn(spec_, out);
        return status;
      }
      if (status = Ignore(*first); !status.ok()) return status;
      queue_.Advance(1);
    }
  }
  void Save(StateWords* words) const override {
    words->push_back(rows_);
    words->push_back(ignored_);
    queue_.Save(words);
  }
  absl::Status Load(StateReader* words) override {
    rows_ = words->Read();
    ignored_ = words->ReadUpTo(rows_);
    first_.clear();
    return queue_.Load(words);
  }

 private:
  // Counts the queue's next row.
  absl::Status Ignore(std::string_view error) {
    std::string what = context_->Prefix(queue_.head(), queue_.at());
    what += error;
    ++rows_;
    ++ignored_;
    if (first_.empty()) first_ = what;
    const uint64_t allowed = ceiling_.Of(rows_);
    if (ignored_ > allowed) {
      return absl::DataLossError(fmt::format(
          "ignore_errors: {} of the first {} rows failed, but at most {} may be dropped "
          "(max_ignored); the last one is {}{}{}",
          ignored_, rows_, allowed, what, first_ == what ? "" : "; the first one was ",
          first_ == what ? "" : first_));
    }
    context_->AddIgnored(std::move(what));
    return absl::OkStatus();
  }

  ElementQueue queue_;
  const std::shared_ptr<const RowSpec> spec_;
  const SkipCeiling ceiling_;
  const std::shared_ptr<RunContext> context_;
  uint64_t rows_ = 0;     // rows of the epoch, including those that failed
  uint64_t ignored_ = 0;  // how many of these failed
  std::string first_;     // first error since Load
};

}  // namespace

Dataset Dataset::IgnoreErrors(SkipCeiling max_ignored, ErrorText text) const {
  if (!status_.ok()) return *this;
  if (step_->as<RowWork>() == nullptr) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "ignore_errors: it must directly follow the steps on rows whose errors it ignores, such as "
        "parse, decode_image, map and filter; '{}' is not one of them",
        step_->name)));
  }
  if (!(max_ignored.share >= 0 && max_ignored.share <= 1)) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "ignore_errors: the share must be between 0 and 1, got {}", max_ignored.share)));
  }
  Step step = Like("ignore_errors");
  step.length = [](const std::vector<Length>&) {
    return Length::Unknown("ignore_errors drops elements");
  };
  step.sharing = Sharing::kUneven;
  step.in_order = true;
  // Like a reader's limit, `max_ignored` is not part of the identity: after an error, the run can
  // resume from its state with a higher one.
  step.work = StageWork{[spec = step.spec, max_ignored](
                            const StageInputs& inputs) -> absl::StatusOr<std::unique_ptr<Stage>> {
    absl::StatusOr<std::unique_ptr<Stage>> input = inputs.factories[0](inputs.epoch);
    if (!input.ok()) return input;
    return std::make_unique<IgnoreErrorsStage>(*std::move(input), spec, max_ignored,
                                               inputs.context);
  }};
  Step caught = Like("ignore_errors");
  caught.text.clear();
  return ThenOnRows(std::move(caught),
                    MakeCatchStep(HiddenName(spec(), "ignore_errors"), std::move(text)))
      .Then(std::move(step));
}

}  // namespace shardfeed
