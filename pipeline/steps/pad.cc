#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "pipeline/dataset.h"
#include "pipeline/stages/batching.h"
#include "pipeline/stages/padding_value.h"

namespace shardfeed {
namespace {

// The padding of each ragged column, whether named or not.
std::vector<Identity> IdentitiesOf(const RowSpec& spec,
                                   const std::map<std::string, Padding>& padding) {
  std::vector<Identity> identities;
  for (const ColumnSpec& column : spec) {
    if (!column.ragged) continue;
    const auto named = padding.find(column.name);
    const Padding& how = named == padding.end() ? Padding() : named->second;
    Identity& identity = identities.emplace_back("padding");
    identity.Add("column", column.name).Add("length", how.length);
    std::visit([&](const auto& value) { identity.Add("value", value); }, how.value);
  }
  return identities;
}

}  // namespace

Dataset Dataset::Pad(std::map<std::string, Padding> padding) const {
  if (!status_.ok()) return *this;
  if (!batched()) {
    return Dataset(absl::InvalidArgumentError("pad: the elements here are rows: batch first"));
  }
  auto padded = std::make_shared<RowSpec>(spec());
  for (ColumnSpec& s : *padded) {
    if (!s.ragged) continue;
    const auto it = padding.find(s.name);
    s.ragged = false;
    // 0 stands for a length that differs from batch to batch.
    s.shape.insert(s.shape.begin(), it == padding.end() ? 0 : it->second.length);
  }
  for (const auto& [name, how] : padding) {
    const int column = FindColumn(spec(), name);
    if (column < 0 || !spec()[column].ragged) {
      return Dataset(absl::InvalidArgumentError(fmt::format(
          "pad: there is no ragged column '{}'; there are: {}", name, RowSpecText(spec()))));
    }
    if (how.length < 0 || how.length > kMaxLength) {
      return Dataset(absl::InvalidArgumentError(
          fmt::format("pad: column '{}': the length must lie between 0 and {}, got {}", name,
                      kMaxLength, how.length)));
    }
    const absl::StatusOr<PaddingValue> value = PaddingValueOf("pad", spec()[column], how);
    if (!value.ok()) return Dataset(value.status());
  }
  Step step = Like("pad");
  step.identity.Add("columns", IdentitiesOf(*step.spec, padding));
  step.spec = std::move(padded);
  step.work = BatchFnWork{MakePadFn(std::move(padding))};
  return Then(std::move(step));
}

Dataset Dataset::PaddedBatch(uint64_t size, std::map<std::string, Padding> padding,
                             bool drop_remainder) const {
  return Batch(size, drop_remainder).Pad(std::move(padding));
}

}  // namespace shardfeed
