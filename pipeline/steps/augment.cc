#include "pipeline/rows/augment.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/augment_identity.h"
#include "pipeline/rows/augment_step.h"
#include "pipeline/rows/joint_columns.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {

Dataset Dataset::Augment(std::string column, std::vector<Augmentation> steps, uint64_t seed,
                         const JointColumns& joint) const {
  if (!status_.ok()) return *this;
  constexpr int64_t kMostPixels = 1 << 20;  // largest number of pixels per side
  const absl::StatusOr<size_t> number = NamedColumn("augment", spec(), column);
  if (!number.ok()) return Dataset(number.status());
  const ColumnSpec& s = spec()[*number];
  const std::vector<int64_t>& shape = s.shape;
  if (s.dtype != DType::kUInt8 || s.ragged || shape.size() != 3 ||
      std::min({shape[0], shape[1], shape[2]}) < 1 || std::max(shape[0], shape[1]) > kMostPixels ||
      (shape[2] != 1 && shape[2] != 3)) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "augment: expected uint8 images of [height, width, 1 or 3], got {}", RowSpecText({s}))));
  }
  const std::vector<Identity> identities = IdentitiesOf(steps);
  absl::StatusOr<std::shared_ptr<const ImageAugmenter>> augmenter =
      ImageAugmenter::Make(std::move(steps), static_cast<int>(shape[0]), static_cast<int>(shape[1]),
                           static_cast<int>(shape[2]));
  if (!augmenter.ok()) {
    return Dataset(absl::InvalidArgumentError(
        fmt::format("augment: {}", std::string(augmenter.status().message()))));
  }
  Step step = Like("augment");
  step.text = fmt::format("augment({}, [{}], seed={}{})", column, (*augmenter)->text(), seed,
                          JointText(joint));
  step.identity.Add("column", column).Add("steps", identities).Add("seed", seed);
  AddJointColumns(joint, &step.identity);
  step.random = true;
  absl::StatusOr<std::shared_ptr<const RowStep>> row_step =
      MakeAugmentStep(column, spec(), *std::move(augmenter), seed, joint);
  if (!row_step.ok()) return Dataset(row_step.status());
  return ThenOnRows(std::move(step), *std::move(row_step));
}

}  // namespace shardfeed
