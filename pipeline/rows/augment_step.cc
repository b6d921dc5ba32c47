#include "pipeline/rows/augment_step.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/work_stop.h"
#include "decode/images/pixels/moved_pixels.h"
#include "fmt/format.h"
#include "pipeline/data/nearest_column.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/rows/boxes_and_points.h"
#include "pipeline/rows/joint_columns.h"

namespace shardfeed {
namespace {

// A column of the input, by its number in the spec. The outputs that replace images and masks come
// in this order: the image, views, masks.
struct Mask {
  size_t input;
  size_t pixel_bytes;
  std::string fill;  // a pixel
};

class AugmentMemory : public StepMemory {
 public:
  explicit AugmentMemory(BoxesAndPoints::Memory boxes) : boxes(std::move(boxes)) {}

  const VariableColumn* variable(size_t output) const override {
    return &boxes.columns[output - first_box_output];
  }
  void Truncate(size_t rows) override {
    for (VariableColumn& column : boxes.columns) {
      column.Truncate(std::min(rows, column.num_rows()));
    }
  }

  size_t first_box_output = 0;
  ImageAugmenter::Memory images;
  augment::MovedPixels moved;
  std::vector<char> mask;
  BoxesAndPoints::Memory boxes;
};

class AugmentStep : public RowStep {
 public:
  AugmentStep(std::shared_ptr<const ImageAugmenter> augmenter, uint64_t seed,
              std::vector<size_t> images, std::vector<Mask> masks, BoxesAndPoints boxes,
              const RowSpec& spec)
      : augmenter_(std::move(augmenter)),
        seed_(seed),
        images_(std::move(images)),
        masks_(std::move(masks)),
        boxes_(std::move(boxes)) {
    const std::array<int64_t, 3> shape = augmenter_->output_shape();
    for (size_t image : images_) {
      outputs_.push_back({spec[image].name, DType::kUInt8, {shape.begin(), shape.end()}, false});
    }
    for (const Mask& mask : masks_) {
      outputs_.push_back(spec[mask.input]);
      std::copy(shape.begin(), shape.begin() + 2, outputs_.back().shape.begin());
    }
    outputs_.insert(outputs_.end(), boxes_.outputs().begin(), boxes_.outputs().end());
  }

  std::string name() const override { return "augment"; }
  bool in_place() const override { return true; }
  std::unique_ptr<StepMemory> MakeMemory() const override {
    auto memory = std::make_unique<AugmentMemory>(boxes_.MakeMemory());
    memory->first_box_output = images_.size() + masks_.size();
    return memory;
  }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    auto* const m = static_cast<AugmentMemory*>(memory);
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = range->from; row < range->end; ++row) {
      range->failed_row = row;
      if (stop.stop_requested()) return absl::CancelledError();
      if (range->keep[row - range->begin]) {
        absl::Status status = RunRow({*range, row, visible, first_output}, m);
        if (!status.ok()) return status;
      }
      boxes_.EndRow(&m->boxes);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status RunRow(const BoxesAndPoints::Row& row, AugmentMemory* memory) const {
    RowOrigin origin;
    // Rows without an origin use their number in the batch.
    if (!row.range.input->OriginOf(row.number, &origin)) origin = {.position = row.number};
    const Random random = RandomOf(StreamSeed(RandomStream::kAugment, seed_), origin);
    memory->moved.Begin(augmenter_->height(), augmenter_->width(), !masks_.empty());
    for (size_t i = 0; i < images_.size(); ++i) {
      Random draws = random;  // every view draws what the image draws
      augmenter_->Run(reinterpret_cast<const uint8_t*>(Input(row, images_[i])),
                      reinterpret_cast<uint8_t*>(Output(row, i)), draws, &memory->images,
                      i == 0 ? &memory->moved : nullptr);
    }
    for (size_t i = 0; i < masks_.size(); ++i) {
      const char* from = Input(row, masks_[i].input);
      char* const to = Output(row, images_.size() + i);
      if (from == to) {
        memory->mask.assign(from, from + outputs_[images_.size() + i].bytes());
        from = memory->mask.data();
      }
      memory->moved.Gather(from, masks_[i].pixel_bytes, masks_[i].fill.data(), to);
    }
    if (boxes_.outputs().empty()) return absl::OkStatus();
    const ImageChange change = {.projection = memory->moved.projection(),
                                .from_width = double{1} * augmenter_->width(),
                                .from_height = double{1} * augmenter_->height(),
                                .to_width = double{1} * memory->moved.width(),
                                .to_height = double{1} * memory->moved.height()};
    return boxes_.Run(
        {row.range, row.number, row.visible, row.first_output + images_.size() + masks_.size()},
        change, &memory->boxes);
  }

  static const char* Input(const BoxesAndPoints::Row& row, size_t number) {
    const Slot& slot = row.range.slots[row.visible[number]];
    return slot.data + row.number * slot.spec->bytes();
  }
  char* Output(const BoxesAndPoints::Row& row, size_t output) const {
    return row.range.slots[row.first_output + output].data + row.number * outputs_[output].bytes();
  }

  const std::shared_ptr<const ImageAugmenter> augmenter_;
  const uint64_t seed_;
  const std::vector<size_t> images_;  // the image and the views, by their numbers in the spec
  const std::vector<Mask> masks_;
  const BoxesAndPoints boxes_;
};

absl::Status Error(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("augment: {}", what));
}

absl::StatusOr<size_t> Find(std::string_view what, const std::string& name, const RowSpec& spec) {
  const int column = FindColumn(spec, name);
  if (column >= 0) return static_cast<size_t>(column);
  return Error(fmt::format("{}: there is no column '{}'; there are: {}{}", what, name,
                           RowSpecText(spec), NearestColumn(name, spec)));
}

absl::StatusOr<std::vector<Mask>> FindMasks(const JointColumns& joint, const ImageAugmenter& images,
                                            const RowSpec& spec) {
  std::vector<Mask> masks;
  for (const std::string& name : joint.masks) {
    const absl::StatusOr<size_t> number = Find("masks", name, spec);
    if (!number.ok()) return number.status();
    const ColumnSpec& column = spec[*number];
    const std::vector<int64_t>& shape = column.shape;
    if (column.ragged || (shape.size() != 2 && shape.size() != 3) || shape[0] != images.height() ||
        shape[1] != images.width()) {
      return Error(
          fmt::format("masks: expected [{0}, {1}] or [{0}, {1}, channels] as the image, "
                      "got {2}",
                      images.height(), images.width(), RowSpecText({column})));
    }
    const size_t values = shape.size() == 3 ? shape[2] : 1;
    absl::StatusOr<std::string> fill = MaskPixel("augment", column.dtype, values, joint.mask_fill);
    if (!fill.ok()) return fill.status();
    masks.push_back({*number, fill->size(), *std::move(fill)});
  }
  const std::array<int64_t, 3> result = images.output_shape();
  const int64_t pixels =
      std::max(int64_t{1} * images.height() * images.width(), result[0] * result[1]);
  if (!masks.empty() && pixels > INT32_MAX) {
    return Error(fmt::format("masks: images of {} pixels are too large", pixels));
  }
  return masks;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RowStep>> MakeAugmentStep(
    const std::string& column, const RowSpec& spec, std::shared_ptr<const ImageAugmenter> augmenter,
    uint64_t seed, const JointColumns& joint) {
  if (absl::Status status = CheckJointNames("augment", column, joint); !status.ok()) return status;
  std::vector<size_t> images;
  for (const std::vector<std::string>& names : {std::vector{column}, joint.views}) {
    for (const std::string& name : names) {
      const absl::StatusOr<size_t> number = Find("views", name, spec);
      if (!number.ok()) return number.status();
      images.push_back(*number);
      const ColumnSpec& view = spec[*number];
      const ColumnSpec& image = spec[images[0]];
      if (view.dtype == image.dtype && view.shape == image.shape && !view.ragged) continue;
      return Error(fmt::format("views: expected the type and shape of the image, {}, got {}",
                               RowSpecText({image}), RowSpecText({view})));
    }
  }
  absl::StatusOr<std::vector<Mask>> masks = FindMasks(joint, *augmenter, spec);
  if (!masks.ok()) return masks.status();
  absl::StatusOr<BoxesAndPoints> boxes = BoxesAndPoints::Make("augment", joint, spec);
  if (!boxes.ok()) return boxes.status();
  return std::make_shared<const AugmentStep>(std::move(augmenter), seed, std::move(images),
                                             *std::move(masks), *std::move(boxes), spec);
}

}  // namespace shardfeed
