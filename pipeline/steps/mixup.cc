#include "pipeline/stages/mixup.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::Mixed(const std::string& image_column, const std::string& label_column,
                       MixOptions options) const {
  if (!status_.ok()) return *this;
  const std::string_view kind = options.kind == MixKind::kMixUp ? "mixup" : "cutmix";
  if (!batched()) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("{}: expected batches, but the elements here are rows: batch first", kind)));
  }
  const absl::StatusOr<size_t> image = NamedColumn(kind, spec(), image_column);
  if (!image.ok()) return Dataset(image.status());
  const absl::StatusOr<size_t> label = NamedColumn(kind, spec(), label_column);
  if (!label.ok()) return Dataset(label.status());
  options.image = *image;
  options.label = *label;
  absl::Status status = CheckMix(kind, spec(), options);
  if (!status.ok()) return Dataset(std::move(status));
  RowSpec mixed = spec();
  mixed[options.label] = MixedLabelSpec(mixed[options.label], options.num_classes);
  Step step = Like(std::string(kind));
  step.text = fmt::format("{}({}, {}, num_classes={}, alpha={}, seed={})", kind, image_column,
                          label_column, options.num_classes, options.alpha, options.seed);
  step.identity.Add("image", image_column)
      .Add("label", label_column)
      .Add("num_classes", options.num_classes)
      .Add("alpha", options.alpha)
      .Add("seed", options.seed);
  step.spec = std::make_shared<const RowSpec>(std::move(mixed));
  step.random = true;
  step.work = BatchFnWork{MakeMixFn(options)};
  return Then(std::move(step));
}

Dataset Dataset::MixUp(std::string image, std::string label, int64_t num_classes, double alpha,
                       uint64_t seed) const {
  return Mixed(image, label,
               {.kind = MixKind::kMixUp, .num_classes = num_classes, .alpha = alpha, .seed = seed});
}

Dataset Dataset::CutMix(std::string image, std::string label, int64_t num_classes, double alpha,
                        uint64_t seed) const {
  return Mixed(
      image, label,
      {.kind = MixKind::kCutMix, .num_classes = num_classes, .alpha = alpha, .seed = seed});
}

}  // namespace shardfeed
