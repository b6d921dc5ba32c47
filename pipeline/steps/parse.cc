#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "decode/features/example_parser.h"
#include "fmt/format.h"
#include "pipeline/data/known_features.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/tfds_values.h"
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

// Completes the step, whose input has the columns `spec`.
absl::StatusOr<std::shared_ptr<const RowStep>> PrepareParse(const RowSpec& spec,
                                                            KnownFeatures wanted, Step* step) {
  step->identity.Add("features", IdentitiesOf(wanted.features))
      .Add("feature_lists", IdentitiesOf(wanted.feature_lists));
  absl::StatusOr<std::shared_ptr<const ExampleParser>> parser = ExampleParser::Make(
      std::move(wanted.features), std::move(wanted.feature_lists), std::move(wanted.origin));
  if (!parser.ok()) {
    return absl::Status(parser.status().code(),
                        fmt::format("parse: {}", std::string(parser.status().message())));
  }
  if (const int record = FindColumn(spec, "record");
      record < 0 || spec[record].dtype != DType::kBytes || spec[record].ragged ||
      !spec[record].shape.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("parse: there is no bytes column 'record'; there are: {}", RowSpecText(spec)));
  }
  std::shared_ptr<const RowStep> row_step = MakeParseStep(*std::move(parser));
  std::set<std::string_view> names;
  for (const ColumnSpec& output : row_step->outputs()) {
    if (names.insert(output.name).second) continue;
    return absl::InvalidArgumentError(fmt::format(
        "parse: there are two columns '{0}': a feature list whose steps vary in length also "
        "becomes a column with its name and '_lengths'; name the features to parse, without one of "
        "them",
        output.name));
  }
  for (const ColumnSpec& output : row_step->outputs()) {
    if (output.name == "record" || FindColumn(spec, output.name) < 0) continue;
    return absl::InvalidArgumentError(fmt::format(
        "parse: there is already a column '{}', which is not a feature: give it another name",
        output.name));
  }
  step->text = fmt::format("parse({})", NamesText(row_step->outputs()));
  return row_step;
}

}  // namespace

Dataset Dataset::Parse(std::vector<FeatureSpec> features,
                       std::vector<FeatureSpec> feature_lists) const {
  if (!status_.ok()) return *this;
  Step step = Like("parse");
  absl::StatusOr<std::shared_ptr<const RowStep>> row_step = PrepareParse(
      spec(), {.features = std::move(features), .feature_lists = std::move(feature_lists)}, &step);
  if (!row_step.ok()) return Dataset(row_step.status());
  return ThenOnRows(std::move(step), *std::move(row_step));
}

Dataset Dataset::Parse() const {
  if (!status_.ok()) return *this;
  const Step* source = step_.get();
  while (source->inputs.size() == 1) source = source->inputs[0].get();
  const ShardsWork* const shards = source->as<ShardsWork>();
  if (shards == nullptr || shards->table->set().paths.empty()) {
    return Dataset(absl::InvalidArgumentError(
        "parse: features are known only of shards that are named by a spec; "
        "name the features"));
  }
  const ShardTable* table = nullptr;
  absl::StatusOr<std::shared_ptr<const ShardTable>> made;
  if (shards->table->made()) {
    made = shards->table->Get();
    if (made.ok()) table = made->get();
  }
  absl::StatusOr<KnownFeatures> known = FindFeatures(shards->table->set(), table);
  if (!known.ok()) {
    return Dataset(absl::Status(known.status().code(),
                                fmt::format("parse: {}", std::string(known.status().message()))));
  }
  std::vector<TfdsColumn> tfds_columns = std::move(known->tfds_columns);
  Step step = Like("parse");
  absl::StatusOr<std::shared_ptr<const RowStep>> row_step =
      PrepareParse(spec(), *std::move(known), &step);
  if (!row_step.ok()) return Dataset(row_step.status());
  Dataset parsed = ThenOnRows(std::move(step), *std::move(row_step));
  if (tfds_columns.empty() || !parsed.status().ok()) return parsed;
  Step restore = parsed.Like("parse_tfds");
  std::vector<size_t> numbers;
  RowSpec outputs;
  for (const TfdsColumn& column : tfds_columns) {
    absl::StatusOr<size_t> number = NamedColumn("parse", parsed.spec(), column.output.name);
    if (!number.ok()) return Dataset(number.status());
    numbers.push_back(*number);
    outputs.push_back(column.output);
    restore.identity.Add("output", column.output)
        .Add("dtype", column.dtype)
        .Add("encoding", static_cast<uint64_t>(column.encoding))
        .Add("array_values", static_cast<uint64_t>(column.array_values));
  }
  restore.text = fmt::format("parse_tfds({})", RowSpecText(outputs));
  return parsed.ThenOnRows(std::move(restore),
                           MakeTfdsStep(std::move(tfds_columns), std::move(numbers)));
}

}  // namespace shardfeed
