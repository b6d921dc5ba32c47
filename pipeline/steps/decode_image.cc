#include "pipeline/rows/decode_image.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "pipeline/data/random_stream.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/joint_columns.h"

namespace shardfeed {
namespace {

bool IsRandom(const DecodeImageOptions& options) {
  return options.crop == CropKind::kRandom || options.flip > 0;
}

Identity IdentityOf(const std::string& feature, const DecodeImageOptions& options) {
  const ImageOptions& image = options.image;
  Identity identity("decode_image");
  identity.Add("feature", feature)
      .Add("height", image.height)
      .Add("width", image.width)
      .Add("channels", image.channels)
      .Add("interpolation", image.interpolation)
      .Add("antialias", image.antialias)
      .Add("layout", image.layout)
      .Add("dtype", DTypeName(image.dtype))
      .Add("mean", image.mean)
      .Add("std", image.std)
      .Add("orient", image.orient)
      .Add("max_pixels", image.jpeg.max_pixels)
      .Add("max_scans", image.jpeg.max_scans)
      .Add("crop", options.crop)
      .Add("flip", options.flip)
      .Add("on_damage", options.on_damage)
      .Add("output", options.output);
  if (options.crop == CropKind::kCenter) {
    const bool resized = options.resize_shorter > 0;
    identity.AddIf(!resized, "center_fraction", options.center_fraction)
        .AddIf(resized, "resize_shorter", options.resize_shorter);
  }
  if (options.crop == CropKind::kRandom) {
    identity.Add("scale", std::vector<double>(options.scale, options.scale + 2))
        .Add("ratio", std::vector<double>(options.ratio, options.ratio + 2));
  }
  identity.AddIf(image.raw, "raw", image.raw)
      .AddIf(!image.dct_scaling, "dct_scaling", image.dct_scaling);
  AddJointColumns(options.joint, &identity);
  return identity.Add("seed", IsRandom(options)
                                  ? StreamSeed(RandomStream::kDecodeImage, options.seed)
                                  : options.seed);
}

}  // namespace

Dataset Dataset::DecodeImage(const std::string& feature, const DecodeImageOptions& options) const {
  if (!status_.ok()) return *this;
  absl::StatusOr<std::shared_ptr<const RowStep>> row_step =
      MakeDecodeImageStep(feature, spec(), options);
  if (!row_step.ok()) return Dataset(row_step.status());
  for (const std::string& name : (*row_step)->drops()) {
    const int column = FindColumn(spec(), name);
    if (column < 0) continue;  // ThenOnRows says so
    const ColumnSpec& encoded = spec()[column];
    if (encoded.dtype != DType::kBytes || encoded.ragged || encoded.num_values() != 1) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "decode_image: column '{}' does not have one bytes value per row; the columns are: {}",
          name, RowSpecText(spec()))));
    }
  }
  Step step = Like("decode_image");
  step.text = fmt::format("decode_image({})", DecodeImageText(feature, options));
  step.identity = IdentityOf(feature, options);
  step.random = IsRandom(options);
  return ThenOnRows(std::move(step), *std::move(row_step));
}

}  // namespace shardfeed
