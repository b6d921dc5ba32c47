#include "pipeline/steps/hidden.h"

#include <optional>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"

namespace shardfeed {
namespace {

class DropLastColumnStage : public Stage {
 public:
  DropLastColumnStage(std::unique_ptr<Stage> input, std::shared_ptr<const RowSpec> spec)
      : input_(std::move(input)), spec_(std::move(spec)) {}

  absl::Status Next(Batch* out) override {
    absl::Status status = input_->Next(out);
    DropLastColumn(spec_, out);
    return status;
  }
  std::optional<bool> Await(std::chrono::nanoseconds most) override { return input_->Await(most); }
  void Save(StateWords* words) const override { input_->Save(words); }
  uint64_t Beyond() const override { return input_->Beyond(); }
  absl::Status Load(StateReader* words) override { return input_->Load(words); }

 private:
  const std::unique_ptr<Stage> input_;
  const std::shared_ptr<const RowSpec> spec_;
};

}  // namespace

std::string HiddenName(const RowSpec& spec, std::string_view step) {
  std::string name = fmt::format("({})", step);
  while (FindColumn(spec, name) >= 0) name = fmt::format("({})", name);
  return name;
}

void DropLastColumn(std::shared_ptr<const RowSpec> spec, Batch* batch) {
  if (batch->columns.empty()) return;
  batch->columns.pop_back();
  batch->spec = std::move(spec);
}

std::unique_ptr<Stage> MakeDropLastColumnStage(std::unique_ptr<Stage> input,
                                               std::shared_ptr<const RowSpec> spec) {
  return std::make_unique<DropLastColumnStage>(std::move(input), std::move(spec));
}

Dataset Dataset::WithHidden(std::string step, DType dtype, MapFn fn, std::string version) const {
  if (!status_.ok()) return *this;
  Step made = Like(step);
  made.text.clear();
  made.identity.AddIf(!version.empty(), "version", version);
  RowSpec output = {{HiddenName(spec(), step), dtype, {}, false}};
  return ThenOnRows(std::move(made),
                    MakeMapStep(std::move(output), {}, std::move(fn), 0, std::move(step)));
}

}  // namespace shardfeed
