#include "pipeline/rows/row_step.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/work_stop.h"
#include "fmt/format.h"
#include "pipeline/data/random_stream.h"

namespace shardfeed {

std::string NoRoomText(const ColumnSpec& spec, size_t elements) {
  return fmt::format("column '{}': {} elements, {} bytes, do not fit into memory", spec.name,
                     elements, static_cast<unsigned __int128>(elements) * spec.bytes());
}

absl::Status NoRoom(std::string_view step, const std::bad_alloc& error) {
  if (dynamic_cast<const NoRoomError*>(&error) != nullptr) {
    return absl::ResourceExhaustedError(fmt::format("{}: {}", step, error.what()));
  }
  return absl::ResourceExhaustedError(fmt::format(
      "{}: out of memory; use fewer threads, smaller batches or a smaller budget", step));
}

void RowContext::Check(const ColumnSpec& spec, DType asked) {
  if (spec.dtype == asked || (asked == DType::kUInt16 &&
                              (spec.dtype == DType::kFloat16 || spec.dtype == DType::kBFloat16))) {
    return;
  }
  Throw(spec, fmt::format("holds {}, but was used as {}", DTypeName(spec.dtype), DTypeName(asked)));
}

void RowContext::Throw(const ColumnSpec& spec, std::string_view what) {
  throw std::invalid_argument(fmt::format("column '{}' {}", spec.name, what));
}

const char* RowContext::InVariable(const Slot& slot, size_t* elements) const {
  const absl::Span<const int64_t> ends = slot.variable->row_ends();
  const size_t row = row_ - range_->begin;
  const int64_t begin = row > 0 ? ends[row - 1] : 0;
  *elements = static_cast<size_t>(ends[row] - begin);
  return slot.variable->elements() + begin * slot.spec->bytes();
}

char* RowContext::OutVariable(const Slot& slot, size_t output, size_t elements) {
  return ExtendColumn(*slot.spec, elements, variable_[output]);
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
  return origin_.epoch + origin_.later;
}

uint64_t RowContext::position() {
  FindOrigin();
  return origin_.position;
}

Random& RowContext::random() {
  if (!has_random_) {
    FindOrigin();
    random_ = RandomOf(stream_seed_, origin_);
    has_random_ = true;
  }
  return random_;
}

namespace {

class NoMemory : public StepMemory {
 public:
  const VariableColumn* variable(size_t) const override { return nullptr; }
  void Truncate(size_t) override {}
};

class ParseMemory : public StepMemory {
 public:
  explicit ParseMemory(ParsedColumns columns) : columns(std::move(columns)) {}
  const VariableColumn* variable(size_t output) const override {
    for (const Steps& s : steps) {
      if (output == s.feature) return &s.elements;
      if (output == s.lengths_output) return &s.lengths;
    }
    return &columns.variable(output);
  }
  void Truncate(size_t rows) override {
    columns.Truncate(rows);
    for (Steps& s : steps) {
      s.elements.Truncate(std::min(rows, s.elements.num_rows()));
      s.lengths.Truncate(std::min(rows, s.lengths.num_rows()));
    }
  }

  // A feature with steps of varying length: its elements, and the lengths of its steps.
  struct Steps {
    size_t feature;
    size_t lengths_output;
    VariableColumn elements;
    VariableColumn lengths{sizeof(int64_t), false};
  };
  ParsedColumns columns;
  std::vector<Steps> steps;
};

class MapMemory : public StepMemory {
 public:
  const VariableColumn* variable(size_t output) const override { return &columns[output]; }
  std::shared_ptr<const void> kept() const override { return strings->empty() ? nullptr : strings; }
  uint64_t kept_bytes() const override {
    uint64_t bytes = 0;
    for (const auto& string : *strings) bytes += string->size();
    return bytes;
  }
  void Truncate(size_t rows) override {
    // Fixed columns have no rows here.
    for (VariableColumn& column : columns) column.Truncate(std::min(rows, column.num_rows()));
  }
  void Clear() override {
    Truncate(0);
    // A batch may still refer to the old strings.
    if (!strings->empty()) strings = std::make_shared<Strings>();
  }

  using Strings = std::vector<std::unique_ptr<std::string>>;
  std::vector<VariableColumn> columns;  // one column per output
  std::shared_ptr<Strings> strings = std::make_shared<Strings>();
};

// Begins to load a record into the processor's caches. Those of a shuffle are scattered over
// memory, and without it a quarter of the time of parsing small ones is that of waiting for them.
void Prefetch(std::string_view record) {
  constexpr size_t kLine = 64;
  constexpr size_t kMostBytes = 4096;
  const size_t bytes = std::min(record.size(), kMostBytes);
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(record.data() + at);
}

class ParseStep : public RowStep {
 public:
  explicit ParseStep(std::shared_ptr<const ExampleParser> parser) : parser_(std::move(parser)) {
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      const FeatureSpec& feature = parser_->spec(i);
      outputs_.push_back(
          {feature.name, feature.dtype, feature.shape, feature.layout != Layout::kFixed});
    }
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      if (!parser_->spec(i).ragged_steps) continue;
      steps_.emplace_back(i, outputs_.size());
      outputs_.push_back({parser_->spec(i).name + "_lengths", DType::kInt64, {}, true});
    }
    drops_ = {"record"};
  }

  std::string name() const override { return "parse"; }
  std::shared_ptr<const void> lends() const override { return parser_; }  // defaults
  std::unique_ptr<StepMemory> MakeMemory() const override {
    auto memory = std::make_unique<ParseMemory>(parser_->MakeColumns());
    for (const auto& [feature, lengths] : steps_) {
      memory->steps.push_back({feature, lengths, {parser_->bytes(feature), false}});
    }
    return memory;
  }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    ParsedColumns& columns = static_cast<ParseMemory*>(memory)->columns;
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      if (!outputs_[i].ragged) columns.SetFixed(i, range->slots[first_output + i].data);
    }
    // The dataset has checked that the column exists.
    const Slot* records = nullptr;
    for (int slot : visible) {
      if (range->slots[slot].spec->name == "record") records = &range->slots[slot];
    }
    const auto* record = reinterpret_cast<const std::string_view*>(records->data);
    absl::Status status;
    try {
      for (size_t row = range->from; row < range->end && status.ok(); ++row) {
        range->failed_row = row;
        if (row + 1 < range->end) Prefetch(record[row + 1]);
        if (range->keep[row - range->begin]) {
          status = parser_->Parse(record[row], row, &columns);
        } else {
          columns.AddEmptyRow();
        }
      }
    } catch (const std::bad_alloc& error) {
      status = NoRoom(name(), error);
    }
    if (!status.ok()) columns.Truncate(range->failed_row - range->begin);
    for (ParseMemory::Steps& steps : static_cast<ParseMemory*>(memory)->steps) {
      Flatten(columns.variable(steps.feature), &steps);
    }
    return status;
  }

 private:
  static void Flatten(const VariableColumn& column, ParseMemory::Steps* steps) {
    // The rows before a caught one have already been stored.
    steps->elements.Clear();
    steps->lengths.Clear();
    int64_t step = 0;
    int64_t element = 0;
    for (int64_t row_end : column.row_ends()) {
      const int64_t first = element;
      for (; step < row_end; ++step) {
        const int64_t end = column.step_ends()[step];
        *reinterpret_cast<int64_t*>(steps->lengths.Extend(1)) = end - element;
        element = end;
      }
      const size_t bytes = column.element_bytes();
      if (element > first) {
        std::memcpy(steps->elements.Extend(element - first), column.elements() + first * bytes,
                    (element - first) * bytes);
      }
      steps->elements.EndRow();
      steps->lengths.EndRow();
    }
  }

  const std::shared_ptr<const ExampleParser> parser_;
  // Features with steps of varying length, and the outputs of their lengths.
  std::vector<std::pair<size_t, size_t>> steps_;
};

}  // namespace

class MapStep : public RowStep {
 public:
  MapStep(RowSpec outputs, std::vector<std::string> drops, MapFn fn, uint64_t seed,
          std::string name)
      : fn_(std::move(fn)), seed_(seed), name_(std::move(name)) {
    outputs_ = std::move(outputs);
    drops_ = std::move(drops);
  }

  std::string name() const override { return name_; }
  std::unique_ptr<StepMemory> MakeMemory() const override {
    auto memory = std::make_unique<MapMemory>();
    for (const ColumnSpec& s : outputs_) memory->columns.emplace_back(s.bytes(), false);
    return memory;
  }

  absl::Status Run(absl::Span<const int> visible, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    RowContext context;
    context.range_ = range;
    context.slots_ = range->slots.data();
    context.visible_ = visible;
    context.first_output_ = first_output;
    context.stream_seed_ = StreamSeed(RandomStream::kMap, seed_);
    auto& columns = static_cast<MapMemory*>(memory)->columns;
    for (VariableColumn& column : columns) context.variable_.push_back(&column);
    context.kept_ = static_cast<MapMemory*>(memory)->strings.get();
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = range->from; row < range->end; ++row) {
      if (stop.stop_requested()) return absl::CancelledError();
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
  const std::string name_;
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
    context.slots_ = range->slots.data();
    context.visible_ = visible;
    context.first_output_ = first_output;
    context.stream_seed_ = StreamSeed(RandomStream::kFilter, seed_);
    std::vector<std::unique_ptr<std::string>> strings;
    context.kept_ = &strings;
    const std::stop_token& stop = WorkStop::Token();
    for (size_t row = range->from; row < range->end; ++row) {
      if (stop.stop_requested()) return absl::CancelledError();
      uint8_t& keep = range->keep[row - range->begin];
      if (!keep) continue;
      range->failed_row = row;
      context.row_ = row;
      context.has_origin_ = context.has_random_ = false;
      if (!fn_(context)) keep = RowRange::kDropped;
    }
    return absl::OkStatus();
  }

 private:
  const FilterFn fn_;
  const uint64_t seed_;
};

namespace {

class CatchStep : public RowStep {
 public:
  CatchStep(std::string column, ErrorText text) : text_(std::move(text)) {
    outputs_ = {{std::move(column), DType::kBytes, {}, false}};
  }

  std::string name() const override { return "ignore_errors"; }
  // Rows are dropped after it, so a repeat cannot move before it.
  bool filters() const override { return true; }
  bool catches() const override { return true; }
  std::optional<std::string> Catch(const absl::Status& error) const override {
    // This machine lacks something that the step needs, whatever the row: a library.
    if (absl::IsCancelled(error) || absl::IsFailedPrecondition(error)) return std::nullopt;
    std::optional<std::string> text = text_ ? text_(error) : std::string(error.message());
    if (text && text->empty()) text = absl::StatusCodeToString(error.code());
    return text;
  }
  std::shared_ptr<const RowStep> CatchBefore(const RowSpec& spec) const override {
    std::string column = outputs_[0].name;
    while (FindColumn(spec, column) >= 0) column = fmt::format("({})", column);
    return std::make_shared<CatchStep>(std::move(column), text_);
  }
  std::unique_ptr<StepMemory> MakeMemory() const override { return std::make_unique<MapMemory>(); }

  absl::Status Run(absl::Span<const int>, size_t first_output, RowRange* range,
                   StepMemory* memory) const override {
    auto* const errors = reinterpret_cast<std::string_view*>(range->slots[first_output].data);
    std::fill(errors + range->begin, errors + range->end, std::string_view());
    MapMemory::Strings& strings = *static_cast<MapMemory*>(memory)->strings;
    for (auto& [row, text] : range->caught) {
      if (row >= range->end) continue;
      strings.push_back(std::make_unique<std::string>(std::move(text)));
      errors[row] = *strings.back();
      range->keep[row - range->begin] = RowRange::kCaught;
    }
    return absl::OkStatus();
  }

 private:
  const ErrorText text_;
};

}  // namespace

std::shared_ptr<const RowStep> MakeParseStep(std::shared_ptr<const ExampleParser> parser) {
  return std::make_shared<ParseStep>(std::move(parser));
}

std::shared_ptr<const RowStep> MakeMapStep(RowSpec outputs, std::vector<std::string> drops,
                                           MapFn fn, uint64_t seed, std::string name) {
  return std::make_shared<MapStep>(std::move(outputs), std::move(drops), std::move(fn), seed,
                                   std::move(name));
}

std::shared_ptr<const RowStep> MakeFilterStep(FilterFn fn, uint64_t seed) {
  return std::make_shared<FilterStep>(std::move(fn), seed);
}

std::shared_ptr<const RowStep> MakeCatchStep(std::string column, ErrorText text) {
  return std::make_shared<CatchStep>(std::move(column), std::move(text));
}

}  // namespace shardfeed
