#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "decode/features/example_parser.h"
#include "fmt/format.h"
#include "pipeline/data/known_features.h"
#include "pipeline/dataset.h"
#include "pipeline/steps/columns.h"

namespace shardfeed {
namespace {

std::vector<Identity> IdentitiesOf(const std::vector<FeatureSpec>& features) {
  std::vector<Identity> identities;
  for (const FeatureSpec& feature : features) {
    Identity& identity = identities.emplace_back("feature");
    identity.Add("name", feature.name)
        .Add("dtype", DTypeName(feature.dtype))
        .Add("layout", feature.layout)
        .Add("shape", feature.shape)
        .Add("decode_raw", feature.decode_raw)
        .Add("ragged_steps", feature.ragged_steps);
    if (!feature.default_value) continue;
    std::visit([&](const auto& values) { identity.Add("default", values); },
               *feature.default_value);
  }
  return identities;
}

}  // namespace

Dataset Dataset::Parse(std::vector<FeatureSpec> features,
                       std::vector<FeatureSpec> feature_lists) const {
  if (!status_.ok()) return *this;
  Step step = Like("parse");
  step.identity.Add("features", IdentitiesOf(features))
      .Add("feature_lists", IdentitiesOf(feature_lists));
  absl::StatusOr<std::shared_ptr<const ExampleParser>> parser =
      ExampleParser::Make(std::move(features), std::move(feature_lists));
  if (!parser.ok()) {
    return Dataset(absl::Status(parser.status().code(),
                                fmt::format("parse: {}", std::string(parser.status().message()))));
  }
  if (const int record = FindColumn(spec(), "record");
      record < 0 || spec()[record].dtype != DType::kBytes || spec()[record].ragged ||
      !spec()[record].shape.empty()) {
    return Dataset(absl::InvalidArgumentError(fmt::format(
        "parse: there is no bytes column 'record'; there are: {}", RowSpecText(spec()))));
  }
  std::shared_ptr<const RowStep> row_step = MakeParseStep(*std::move(parser));
  step.text = fmt::format("parse({})", NamesText(row_step->outputs()));
  return ThenOnRows(std::move(step), std::move(row_step));
}

Dataset Dataset::ParseAll() const {
  if (!status_.ok()) return *this;
  const Step* source = step_.get();
  while (source->inputs.size() == 1) source = source->inputs[0].get();
  const ShardsWork* const shards = source->as<ShardsWork>();
  if (shards == nullptr || shards->table->set().paths.empty()) {
    return Dataset(absl::InvalidArgumentError(
        "parse: features are known only of shards that are named by a spec; "
        "name the features"));
  }
  absl::StatusOr<Schema> schema = FindSchema(shards->table->set());
  if (!schema.ok()) return Dataset(schema.status());
  KnownFeatures known = FeaturesOf(*schema);
  return Parse(std::move(known.features), std::move(known.feature_lists));
}

}  // namespace shardfeed
