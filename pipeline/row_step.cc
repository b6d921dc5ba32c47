#include "pipeline/row_step.h"

#include <utility>

#include "fmt/format.h"

namespace shardfeed {

void RowContext::Check(const ColumnSpec& spec, DType asked) {
  if (spec.dtype == asked || (asked == DType::kUInt16 &&
                              (spec.dtype == DType::kFloat16 || spec.dtype == DType::kBFloat16))) {
    return;
  }
  Throw(spec, fmt::format("holds {}, not {}", DTypeName(spec.dtype), DTypeName(asked)));
}

void RowContext::Throw(const ColumnSpec& spec, std::string_view what) {
  throw std::invalid_argument(fmt::format("column '{}' {}", spec.name, what));
}

void RowContext::FindOrigin() {
  if (has_origin_) return;
  has_origin_ = true;
  if (range_->input->OriginOf(row_, &origin_)) return;
  origin_ = RowOrigin();
  origin_.position = row_;
}

uint64_t RowContext::epoch() {
  FindOrigin();
  return origin_.epoch;
}

uint64_t RowContext::position() {
  FindOrigin();
  return origin_.position;
}

Random& RowContext::random() {
  if (!has_random_) {
    FindOrigin();
    random_ = Random(seed_, origin_.source, origin_.epoch, origin_.position);
    has_random_ = true;
  }
  return random_;
}

namespace {

class NoMemory : public StepMemory {
 public:
  const VariableColumn* variable(size_t) const override { return nullptr; }
  void Clear() override {}
};

class ParseMemory : public StepMemory {
 public:
  explicit ParseMemory(ParsedColumns columns) : columns(std::move(columns)) {}
  const VariableColumn* variable(size_t output) const override { return &columns.variable(output); }
  void Clear() override { columns.Clear(); }

  ParsedColumns columns;
};

class MapMemory : public StepMemory {
 public:
  const VariableColumn* variable(size_t output) const override { return &columns[output]; }
  void Clear() override {
    for (VariableColumn& column : columns) column.Clear();
  }

  std::vector<VariableColumn> columns;  // one for each output
};

class ParseStep : public RowStep {
 public:
  explicit ParseStep(std::shared_ptr<const ExampleParser> parser) : parser_(std::move(parser)) {
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      const FeatureSpec& feature = parser_->spec(i);
      outputs_.push_back(
          {feature.name, feature.dtype, feature.shape, feature.layout != Layout::kFixed});
    }
    drops_ = {"record"};
  }

  std::string name() const override { return "parse"; }
  std::shared_ptr<const void> lends() const override { return parser_; }  // defaults
  std::unique_ptr<StepMemory> MakeMemory() const override {
    return std::make_unique<ParseMemory>(parser_->MakeColumns());
  }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    ParsedColumns& columns = static_cast<ParseMemory*>(memory)->columns;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].ragged) columns.SetFixed(i, range->slots[first_output + i].data);
    }
    // The dataset has made sure that it is there.
    const Slot* records = nullptr;
    for (int slot : visible) {
      if (range->slots[slot].spec->name == "record") records = &range->slots[slot];
    }
    const auto* record = reinterpret_cast<const std::string_view*>(records->data);
    for (size_t row = range->begin; row < range->end; ++row) {
      // What a filter has dropped is parsed all the same, so that ragged rows keep their numbers.
      absl::Status status = parser_->Parse(record[row], row, &columns);
      if (!status.ok()) {
        range->failed_row = row;
        return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const ExampleParser> parser_;
};

}  // namespace

class MapStep : public RowStep {
 public:
  MapStep(RowSpec outputs, std::vector<std::string> drops, MapFn fn, uint64_t seed)
      : fn_(std::move(fn)), seed_(seed) {
    outputs_ = std::move(outputs);
    drops_ = std::move(drops);
  }

  std::string name() const override { return "map"; }
  std::unique_ptr<StepMemory> MakeMemory() const override {
    auto memory = std::make_unique<MapMemory>();
    for (const ColumnSpec& s : outputs_) memory->columns.emplace_back(s.bytes(), false);
    return memory;
  }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    RowContext context;
    context.range_ = range;
    context.visible_ = visible;
    context.first_output_ = first_output;
    context.seed_ = seed_;
    auto& columns = static_cast<MapMemory*>(memory)->columns;
    for (VariableColumn& column : columns) context.variable_.push_back(&column);
    for (size_t row = range->begin; row < range->end; ++row) {
      range->failed_row = row;
      context.row_ = row;
      context.has_origin_ = context.has_random_ = false;
      if (range->keep[row - range->begin]) {
        absl::Status status = fn_(context);
        if (!status.ok()) return status;
      }
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (outputs_[i].ragged) columns[i].EndRow();
      }
    }
    return absl::OkStatus();
  }

 private:
  const MapFn fn_;
  const uint64_t seed_;
};

class FilterStep : public RowStep {
 public:
  FilterStep(FilterFn fn, uint64_t seed) : fn_(std::move(fn)), seed_(seed) {}

  std::string name() const override { return "filter"; }
  bool filters() const override { return true; }
  std::unique_ptr<StepMemory> MakeMemory() const override { return std::make_unique<NoMemory>(); }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory*) const override {
    RowContext context;
    context.range_ = range;
    context.visible_ = visible;
    context.first_output_ = first_output;
    context.seed_ = seed_;
    for (size_t row = range->begin; row < range->end; ++row) {
      uint8_t& keep = range->keep[row - range->begin];
      if (!keep) continue;
      range->failed_row = row;
      context.row_ = row;
      context.has_origin_ = context.has_random_ = false;
      keep = fn_(context);
    }
    return absl::OkStatus();
  }

 private:
  const FilterFn fn_;
  const uint64_t seed_;
};

std::shared_ptr<const RowStep> MakeParseStep(std::shared_ptr<const ExampleParser> parser) {
  return std::make_shared<ParseStep>(std::move(parser));
}

std::shared_ptr<const RowStep> MakeMapStep(RowSpec outputs, std::vector<std::string> drops,
                                           MapFn fn, uint64_t seed) {
  return std::make_shared<MapStep>(std::move(outputs), std::move(drops), std::move(fn), seed);
}

std::shared_ptr<const RowStep> MakeFilterStep(FilterFn fn, uint64_t seed) {
  return std::make_shared<FilterStep>(std::move(fn), seed);
}

}  // namespace shardfeed
