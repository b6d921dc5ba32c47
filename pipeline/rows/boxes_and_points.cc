#include "pipeline/rows/boxes_and_points.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/count_text.h"
#include "fmt/format.h"
#include "pipeline/data/nearest_column.h"

namespace shardfeed {
namespace {

// A row of a column: `count` elements of `values` values.
struct Elements {
  const ColumnSpec* spec;
  const char* data;
  size_t count;
  size_t values;
};

// `fixed_count`: number of elements if the column is fixed.
Elements ElementsOf(const Slot& slot, const RowRange& range, size_t row, size_t fixed_count) {
  const size_t bytes = slot.spec->bytes();
  const size_t values = slot.spec->num_values();
  if (slot.variable != nullptr) {
    const absl::Span<const int64_t> ends = slot.variable->row_ends();
    const size_t r = row - range.begin;
    const int64_t begin = r > 0 ? ends[r - 1] : 0;
    return {slot.spec, slot.variable->elements() + begin * bytes,
            static_cast<size_t>(ends[r] - begin), values};
  }
  if (slot.splits != nullptr) {
    return {slot.spec, slot.data + slot.splits[row] * bytes,
            static_cast<size_t>(slot.splits[row + 1] - slot.splits[row]), values};
  }
  return {slot.spec, slot.data + row * bytes, fixed_count,
          fixed_count > 0 ? values / fixed_count : 0};
}

template <typename T>
double Read(const char* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

double NumberOf(const Elements& elements, size_t i) {
  switch (elements.spec->dtype) {
    case DType::kFloat64:
      return Read<double>(elements.data, i);
    case DType::kInt32:
      return Read<int32_t>(elements.data, i);
    case DType::kInt64:
      return Read<int64_t>(elements.data, i);
    default:
      return Read<float>(elements.data, i);
  }
}

bool AreNumbers(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kInt32 ||
         dtype == DType::kInt64;
}

// `to` holds numbers of the type of an output.
void SetNumber(const ColumnSpec& spec, char* to, size_t i, double value) {
  if (spec.dtype == DType::kFloat64) {
    std::memcpy(to + i * sizeof(double), &value, sizeof(double));
  } else {
    const auto number = static_cast<float>(value);
    std::memcpy(to + i * sizeof(float), &number, sizeof(float));
  }
}

// The edges of a box: left, top, right, bottom.
std::array<double, 4> EdgesOf(const std::array<double, 4>& box, BoxFormat format) {
  const auto [a, b, c, d] = box;
  switch (format) {
    case BoxFormat::kXyxy:
      return box;
    case BoxFormat::kYxyx:
      return {b, a, d, c};
    case BoxFormat::kXywh:
      return {a, b, a + c, b + d};
    case BoxFormat::kCxcywh:
      return {a - c / 2, b - d / 2, a + c / 2, b + d / 2};
  }
  return box;
}

std::array<double, 4> BoxOf(const std::array<double, 4>& edges, BoxFormat format) {
  const auto [left, top, right, bottom] = edges;
  switch (format) {
    case BoxFormat::kXyxy:
      return edges;
    case BoxFormat::kYxyx:
      return {top, left, bottom, right};
    case BoxFormat::kXywh:
      return {left, top, right - left, bottom - top};
    case BoxFormat::kCxcywh:
      return {(left + right) / 2, (top + bottom) / 2, right - left, bottom - top};
  }
  return edges;
}

double Area(const std::array<double, 4>& edges) {
  return (edges[2] - edges[0]) * (edges[3] - edges[1]);
}

// The edges of the smallest box around the results of the corners. If nothing finite contains the
// results of all its points, because the horizon crosses the box, it is the whole image.
std::array<double, 4> Surround(const std::array<double, 4>& edges, const ImageChange& change) {
  std::array<double, 4> around = {};
  int in_front = 0;
  bool finite = true;
  for (int i = 0; i < 4; ++i) {
    const Projection::Point p =
        change.projection.Apply(edges[i % 2 == 0 ? 0 : 2], edges[i < 2 ? 1 : 3]);
    in_front += p.in_front;
    finite = finite && std::isfinite(p.x) && std::isfinite(p.y);
    around = i == 0 ? std::array{p.x, p.y, p.x, p.y}
                    : std::array{std::min(around[0], p.x), std::min(around[1], p.y),
                                 std::max(around[2], p.x), std::max(around[3], p.y)};
  }
  if (finite && in_front % 4 == 0) return around;
  return {0, 0, change.to_width, change.to_height};
}

absl::Status CountsDiffer(std::string_view name, size_t count, std::string_view other,
                          size_t others) {
  return absl::InvalidArgumentError(fmt::format("column '{}' has {}, but '{}' has {}", name,
                                                CountText(count, "element"), other, others));
}

}  // namespace

absl::StatusOr<BoxesAndPoints> BoxesAndPoints::Make(std::string_view step,
                                                    const JointColumns& columns,
                                                    const RowSpec& spec) {
  BoxesAndPoints made;
  made.step_ = step;
  made.options_ = columns;
  if (!(columns.min_area >= 0 && std::isfinite(columns.min_area))) {
    return made.Error(fmt::format("min_area must be a number of pixels, got {}", columns.min_area));
  }
  if (!(columns.min_visible >= 0 && columns.min_visible <= 1)) {
    return made.Error(fmt::format("min_visible must be from 0 to 1, got {}", columns.min_visible));
  }
  if (absl::Status status = made.AddBoxes(spec); !status.ok()) return status;
  if (absl::Status status = made.AddPoints(spec); !status.ok()) return status;
  if (absl::Status status = made.AddBoxColumns(spec); !status.ok()) return status;
  return made;
}

absl::Status BoxesAndPoints::Error(std::string_view what) const {
  return absl::InvalidArgumentError(fmt::format("{}: {}", step_, what));
}

bool BoxesAndPoints::Follows(const std::string& name) const {
  return std::find(options_.box_columns.begin(), options_.box_columns.end(), name) !=
         options_.box_columns.end();
}

absl::StatusOr<BoxesAndPoints::Replaced> BoxesAndPoints::AddNumbers(std::string_view what,
                                                                    const std::string& name,
                                                                    const RowSpec& spec) {
  const int input = FindColumn(spec, name);
  if (input < 0) {
    return Error(fmt::format("{}: there is no column '{}'; there are: {}{}", what, name,
                             RowSpecText(spec), NearestColumn(name, spec)));
  }
  ColumnSpec output = spec[input];
  if (!AreNumbers(output.dtype)) {
    return Error(fmt::format("{}: expected float32, float64, int32 or int64, got {}", what,
                             RowSpecText({output})));
  }
  if (output.dtype != DType::kFloat64) output.dtype = DType::kFloat32;
  outputs_.push_back(std::move(output));
  return Replaced{static_cast<size_t>(input), outputs_.size() - 1};
}

absl::Status BoxesAndPoints::AddBoxes(const RowSpec& spec) {
  const std::vector<std::string>& names = options_.boxes;
  if (names.empty() && !options_.box_columns.empty()) {
    return Error("box_columns are columns with an element for each box, but no boxes are named");
  }
  if (names.size() > 1 && names.size() != 4) {
    return Error(fmt::format("boxes are one column or four, got {}", names.size()));
  }
  for (const std::string& name : names) {
    absl::StatusOr<Replaced> column = AddNumbers("boxes", name, spec);
    if (!column.ok()) return column.status();
    const ColumnSpec& input = spec[column->input];
    // An element; a fixed column has one, or a number of them first in its shape.
    const std::vector<int64_t> shape =
        names.size() == 4 ? std::vector<int64_t>() : std::vector<int64_t>{4};
    const size_t more = input.shape.size() - std::min(input.shape.size(), shape.size());
    if (more > (input.ragged ? 0 : 1) ||
        !std::equal(shape.begin(), shape.end(), input.shape.begin() + more, input.shape.end())) {
      return Error(fmt::format("boxes: expected {}, got {}",
                               names.size() == 4 ? "columns with one number for each box"
                                                 : "a column with elements [4], or four columns",
                               RowSpecText({input})));
    }
    if (!input.ragged) {
      fixed_boxes_.emplace(input.shape.begin(), input.shape.begin() + more);
      column->fixed_count = more > 0 ? input.shape[0] : 1;
    }
    outputs_.back().shape = shape;
    outputs_.back().ragged = true;
    boxes_.push_back(*column);
  }
  return absl::OkStatus();
}

absl::Status BoxesAndPoints::AddPoints(const RowSpec& spec) {
  const std::vector<std::string>& names = options_.points;
  for (size_t i = 0; i < names.size();) {
    absl::StatusOr<Replaced> column = AddNumbers("points", names[i], spec);
    if (!column.ok()) return column.status();
    Points points = {.columns = {*column}, .visible = 0, .follows = Follows(names[i])};
    ColumnSpec visible = spec[column->input];
    const bool pairs = !visible.shape.empty() && visible.shape.back() == 2;
    if (pairs) {
      visible.shape.pop_back();
    } else if (i + 1 < names.size()) {
      column = AddNumbers("points", names[i + 1], spec);
      if (!column.ok()) return column.status();
      points.columns.push_back(*column);
    }
    const ColumnSpec& last = spec[points.columns.back().input];
    if (!pairs && (points.columns.size() == 1 || last.ragged != visible.ragged ||
                   last.shape != visible.shape || Follows(last.name) != points.follows)) {
      return Error(fmt::format(
          "points: expected a column whose last size is 2, or two columns of one shape for x and "
          "y, got {}",
          RowSpecText(points.columns.size() == 1 ? RowSpec{visible} : RowSpec{visible, last})));
    }
    if (points.follows && !visible.ragged) {
      return Error(fmt::format("box_columns: expected ragged points, got {}",
                               RowSpecText({spec[points.columns[0].input]})));
    }
    visible.name = names[i] + "/visible";
    visible.dtype = DType::kUInt8;
    points.visible = outputs_.size();
    outputs_.push_back(std::move(visible));
    i += points.columns.size();
    points_.push_back(std::move(points));
  }
  return absl::OkStatus();
}

absl::Status BoxesAndPoints::AddBoxColumns(const RowSpec& spec) {
  for (const std::string& name : options_.box_columns) {
    const auto is_it = [&](const ColumnSpec& output) { return output.name == name; };
    if (std::any_of(outputs_.begin(), outputs_.end(), is_it)) continue;
    const int input = FindColumn(spec, name);
    if (input < 0) {
      return Error(fmt::format("box_columns: there is no column '{}'; there are: {}{}", name,
                               RowSpecText(spec), NearestColumn(name, spec)));
    }
    Replaced column = {static_cast<size_t>(input), outputs_.size()};
    ColumnSpec output = spec[input];
    if (!output.ragged) {
      const size_t more = fixed_boxes_ ? fixed_boxes_->size() : 0;
      if (!fixed_boxes_ || output.shape.size() < more ||
          !std::equal(fixed_boxes_->begin(), fixed_boxes_->end(), output.shape.begin())) {
        return Error(
            fmt::format("box_columns: expected columns with an element for each box, got "
                        "{} for {}",
                        RowSpecText({output}), RowSpecText({spec[boxes_[0].input]})));
      }
      column.fixed_count = more > 0 ? output.shape[0] : 1;
      output.shape.erase(output.shape.begin(), output.shape.begin() + more);
      output.ragged = true;
    }
    box_columns_.push_back(column);
    outputs_.push_back(std::move(output));
  }
  return absl::OkStatus();
}

BoxesAndPoints::Memory BoxesAndPoints::MakeMemory() const {
  Memory memory;
  for (const ColumnSpec& output : outputs_) memory.columns.emplace_back(output.bytes(), false);
  return memory;
}

void BoxesAndPoints::Clear(const Row& row) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].ragged) continue;
    const size_t bytes = outputs_[i].bytes();
    std::memset(row.range.slots[row.first_output + i].data + row.number * bytes, 0, bytes);
  }
}

void BoxesAndPoints::EndRow(Memory* memory) const {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].ragged) memory->columns[i].EndRow();
  }
}

char* BoxesAndPoints::OutputOf(size_t output, size_t elements, const Row& row,
                               Memory* memory) const {
  const ColumnSpec& spec = outputs_[output];
  if (spec.ragged) return ExtendColumn(spec, elements, &memory->columns[output]);
  return row.range.slots[row.first_output + output].data + row.number * spec.bytes();
}

absl::Status BoxesAndPoints::CheckCount(const ColumnSpec& column, size_t elements,
                                        const Memory& memory) const {
  if (elements == memory.keep.size()) return absl::OkStatus();
  return CountsDiffer(column.name, elements, options_.boxes[0], memory.keep.size());
}

absl::Status BoxesAndPoints::Run(const Row& row, const ImageChange& change, Memory* memory) const {
  if (!boxes_.empty()) {
    if (absl::Status status = MoveBoxes(row, change, memory); !status.ok()) return status;
  }
  for (const Points& points : points_) {
    if (absl::Status status = MovePoints(points, row, change, memory); !status.ok()) return status;
  }
  for (const Replaced& column : box_columns_) {
    if (absl::Status status = CopyKept(column, row, memory); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BoxesAndPoints::MoveBoxes(const Row& row, const ImageChange& change,
                                       Memory* memory) const {
  std::vector<Elements> columns;
  for (const Replaced& column : boxes_) {
    columns.push_back(ElementsOf(row.range.slots[row.visible[column.input]], row.range, row.number,
                                 column.fixed_count));
    if (columns.size() == 1) memory->keep.resize(columns[0].count);
    absl::Status status = CheckCount(*columns.back().spec, columns.back().count, *memory);
    if (!status.ok()) return status;
  }
  const bool whole = columns.size() == 1;
  std::vector<double>& kept = memory->boxes;
  kept.clear();
  for (size_t i = 0; i < memory->keep.size(); ++i) {
    Box box;
    for (size_t k = 0; k < 4; ++k) {
      box[k] = whole ? NumberOf(columns[0], 4 * i + k) : NumberOf(columns[k], i);
      if (std::isfinite(box[k])) continue;
      return absl::InvalidArgumentError(fmt::format("column '{}': box {} has the coordinate {}",
                                                    columns[whole ? 0 : k].spec->name, i, box[k]));
    }
    const std::optional<Box> moved = MoveBox(box, change);
    memory->keep[i] = moved.has_value();
    if (moved) kept.insert(kept.end(), moved->begin(), moved->end());
  }
  const size_t num_kept = kept.size() / 4;
  for (size_t c = 0; c < boxes_.size(); ++c) {
    const size_t output = boxes_[c].output;
    char* const to = OutputOf(output, num_kept, row, memory);
    for (size_t i = 0; i < (whole ? kept.size() : num_kept); ++i) {
      SetNumber(outputs_[output], to, i, kept[whole ? i : 4 * i + c]);
    }
  }
  return absl::OkStatus();
}

std::optional<BoxesAndPoints::Box> BoxesAndPoints::MoveBox(const Box& box,
                                                           const ImageChange& change) const {
  Box edges = EdgesOf(box, options_.box_format);
  const bool fractions = options_.normalized;
  for (int k = 0; k < 4 && fractions; ++k) {
    edges[k] *= k % 2 == 0 ? change.from_width : change.from_height;
  }
  // A box whose edges are in the wrong order has no area.
  edges[2] = std::max(edges[0], edges[2]);
  edges[3] = std::max(edges[1], edges[3]);
  edges = Surround(edges, change);
  const double before = Area(edges);
  for (int k = 0; k < 4; ++k) {
    edges[k] = std::clamp(edges[k], 0.0, k % 2 == 0 ? change.to_width : change.to_height);
  }
  const double area = Area(edges);
  if (!(area >= options_.min_area && area >= options_.min_visible * before)) return std::nullopt;
  for (int k = 0; k < 4 && fractions; ++k) {
    edges[k] /= k % 2 == 0 ? change.to_width : change.to_height;
  }
  return BoxOf(edges, options_.box_format);
}

absl::Status BoxesAndPoints::MovePoints(const Points& points, const Row& row,
                                        const ImageChange& change, Memory* memory) const {
  std::vector<Elements> columns;
  for (const Replaced& column : points.columns) {
    columns.push_back(ElementsOf(row.range.slots[row.visible[column.input]], row.range, row.number,
                                 column.fixed_count));
    const Elements& elements = columns.back();
    if (elements.count != columns[0].count) {
      return CountsDiffer(elements.spec->name, elements.count, columns[0].spec->name,
                          columns[0].count);
    }
    if (!points.follows) continue;
    absl::Status status = CheckCount(*elements.spec, elements.count, *memory);
    if (!status.ok()) return status;
  }
  const bool fractions = options_.normalized;
  const bool pairs = columns.size() == 1;
  const size_t per_element = columns[0].values / (pairs ? 2 : 1);
  auto& [xs, ys, inside] = memory->points;
  xs.clear();
  ys.clear();
  inside.clear();
  size_t elements = 0;
  for (size_t e = 0; e < columns[0].count; ++e) {
    if (points.follows && !memory->keep[e]) continue;
    ++elements;
    for (size_t i = e * per_element; i < (e + 1) * per_element; ++i) {
      const double x = NumberOf(columns[0], pairs ? 2 * i : i);
      const double y = pairs ? NumberOf(columns[0], 2 * i + 1) : NumberOf(columns[1], i);
      const auto p = change.projection.Apply(fractions ? x * change.from_width : x,
                                             fractions ? y * change.from_height : y);
      inside.push_back(p.x >= 0 && p.x <= change.to_width && p.y >= 0 && p.y <= change.to_height);
      xs.push_back(fractions ? p.x / change.to_width : p.x);
      ys.push_back(fractions ? p.y / change.to_height : p.y);
    }
  }
  // All numbers have been read, as an output may use the memory of its input.
  for (size_t c = 0; c < columns.size(); ++c) {
    const size_t output = points.columns[c].output;
    char* const to = OutputOf(output, elements, row, memory);
    for (size_t i = 0; i < xs.size(); ++i) {
      SetNumber(outputs_[output], to, pairs ? 2 * i : i, c == 0 ? xs[i] : ys[i]);
      if (pairs) SetNumber(outputs_[output], to, 2 * i + 1, ys[i]);
    }
  }
  char* const visible = OutputOf(points.visible, elements, row, memory);
  std::copy(inside.begin(), inside.end(), visible);
  return absl::OkStatus();
}

absl::Status BoxesAndPoints::CopyKept(const Replaced& column, const Row& row,
                                      Memory* memory) const {
  const Elements elements = ElementsOf(row.range.slots[row.visible[column.input]], row.range,
                                       row.number, column.fixed_count);
  absl::Status status = CheckCount(*elements.spec, elements.count, *memory);
  if (!status.ok()) return status;
  const size_t bytes = outputs_[column.output].bytes();
  const auto kept = std::count(memory->keep.begin(), memory->keep.end(), 1);
  char* to = OutputOf(column.output, kept, row, memory);
  for (size_t i = 0; i < elements.count; ++i) {
    if (!memory->keep[i]) continue;
    std::memcpy(to, elements.data + i * bytes, bytes);
    to += bytes;
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
