#include "pipeline/steps/columns.h"

#include <utility>

#include "fmt/format.h"
#include "pipeline/data/nearest_column.h"

namespace shardfeed {

std::string NamesText(const RowSpec& spec) {
  std::string text;
  for (const ColumnSpec& s : spec) text += (text.empty() ? "" : ", ") + s.name;
  return text;
}

absl::StatusOr<size_t> NamedColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name) {
  const int column = FindColumn(spec, name);
  if (column < 0) {
    return absl::InvalidArgumentError(fmt::format("{}: there is no column '{}'; there are: {}{}",
                                                  step, name, RowSpecText(spec),
                                                  NearestColumn(name, spec)));
  }
  return static_cast<size_t>(column);
}

absl::StatusOr<size_t> BytesColumn(std::string_view step, const RowSpec& spec,
                                   const std::string& name) {
  const int column = FindColumn(spec, name);
  if (column < 0 || spec[column].dtype != DType::kBytes || spec[column].ragged ||
      !spec[column].shape.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there is no column '{}' with one bytes value per row; there are: {}{}",
                    step, name, RowSpecText(spec), column < 0 ? NearestColumn(name, spec) : ""));
  }
  return static_cast<size_t>(column);
}

absl::StatusOr<size_t> RowColumn(std::string_view step, const RowSpec& spec,
                                 const std::string& name, bool batched) {
  if (batched) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected rows, but the elements here are batches: unbatch first", step));
  }
  return NamedColumn(step, spec, name);
}

absl::Status CheckNames(std::string_view step, const RowSpec& spec) {
  for (size_t i = 0; i < spec.size(); ++i) {
    if (FindColumn(spec, spec[i].name) == static_cast<int>(i)) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: column '{}' would appear twice", step, spec[i].name));
  }
  return absl::OkStatus();
}

absl::StatusOr<ColumnSpec> DecodedColumn(std::string_view step, std::string name, DType dtype,
                                         std::vector<int64_t> shape) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  ColumnSpec spec = {std::move(name), dtype, std::move(shape), false};
  if (!spec.shape.empty() && spec.shape[0] == -1) {
    spec.ragged = true;
    spec.shape.erase(spec.shape.begin());
  }
  uint64_t bytes = DTypeSize(dtype);
  for (int64_t size : spec.shape) {
    bytes = size < 1 || size > kMostBytes ? kMostBytes + 1 : bytes * size;
    if (bytes > kMostBytes) break;
  }
  if (dtype == DType::kBytes || bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected numbers with sizes of at least 1 and at most 2 GiB per row, got "
                    "{}",
                    step, RowSpecText({spec})));
  }
  return spec;
}

absl::StatusOr<size_t> RowLengthColumn(std::string_view step, const RowSpec& spec,
                                       const std::string& name, bool batched) {
  absl::StatusOr<size_t> column = RowColumn(step, spec, name, batched);
  if (!column.ok()) return column;
  const ColumnSpec& found = spec[*column];
  if (!found.ragged && (found.dtype != DType::kBytes || !found.shape.empty())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: all rows of column '{}' have the same length", step, name));
  }
  return column;
}

}  // namespace shardfeed
