#include "pipeline/rows/row_program.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "pipeline/data/batch_builder.h"
#include "pipeline/data/nearest_column.h"

namespace shardfeed {

absl::StatusOr<std::shared_ptr<const RowProgram>> RowProgram::Make(
    std::shared_ptr<const RowSpec> input, std::vector<std::shared_ptr<const RowStep>> steps,
    bool carries_errors) {
  std::shared_ptr<RowProgram> program(new RowProgram());
  program->input_ = std::move(input);
  program->steps_ = std::move(steps);
  program->carries_errors_ = carries_errors;
  RowSpec& slots = program->slots_;
  slots = *program->input_;
  std::vector<int> visible;
  for (size_t c = 0; c < slots.size(); ++c) {
    program->places_.push_back({Place::kInput, c, 0});
    visible.push_back(static_cast<int>(c));
  }
  if (carries_errors) visible.pop_back();
  RowSpec fixed;
  for (size_t s = 0; s < program->steps_.size(); ++s) {
    const RowStep& step = *program->steps_[s];
    if (program->replaces_ && !step.catches()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the rows before it are still to be replaced", step.name()));
    }
    const auto hide = [&](const std::string& name) {
      return std::erase_if(visible, [&](int slot) { return slots[slot].name == name; }) > 0;
    };
    program->plans_.push_back({visible, slots.size()});
    for (const std::string& name : step.drops()) {
      if (!hide(name)) {
        RowSpec now;
        for (int slot : visible) now.push_back(slots[slot]);
        return absl::InvalidArgumentError(
            fmt::format("{}: there is no column '{}'; there are: {}{}", step.name(), name,
                        now.empty() ? "none" : RowSpecText(now), NearestColumn(name, now)));
      }
    }
    for (size_t o = 0; o < step.outputs().size(); ++o) {
      const ColumnSpec& output = step.outputs()[o];
      const auto replaced = std::find_if(visible.begin(), visible.end(),
                                         [&](int slot) { return slots[slot].name == output.name; });
      const int before = replaced == visible.end() ? -1 : *replaced;
      hide(output.name);
      visible.push_back(static_cast<int>(slots.size()));
      if (output.ragged) {
        program->places_.push_back({Place::kRagged, s, o});
      } else if (step.in_place() && before >= 0 && slots[before] == output &&
                 program->places_[before].kind == Place::kFixed) {
        program->places_.push_back(program->places_[before]);
      } else {
        program->places_.push_back({Place::kFixed, fixed.size(), 0});
        fixed.push_back(output);
        program->fixed_steps_.push_back(s);
        program->fixed_row_bytes_ += output.bytes();
      }
      slots.push_back(output);
    }
    if (step.catches()) program->catching_ = s;
    program->filters_ |= step.filters();
    program->replaces_ |= step.replaces();
  }
  RowSpec output;
  for (int slot : visible) {
    output.push_back(slots[slot]);
    program->keeps_input_ |=
        slots[slot].dtype == DType::kBytes || program->places_[slot].kind == Place::kInput;
  }
  for (size_t s = 0; s < program->steps_.size(); ++s) {
    const int valid = program->steps_[s]->valid_output();
    if (valid < 0 || !program->steps_[s]->replaces()) continue;
    const auto column = std::find(visible.begin(), visible.end(),
                                  static_cast<int>(program->plans_[s].first_output) + valid);
    program->valid_ = static_cast<int>(column - visible.begin());
  }
  program->result_ = std::move(visible);
  program->fixed_ = std::make_shared<const RowSpec>(std::move(fixed));
  program->output_ = std::make_shared<const RowSpec>(std::move(output));
  return program;
}

Batch RowProgram::AllocateFixed(const Batch& input, const HostAllocator& allocator) const {
  Batch fixed;
  fixed.spec = fixed_;
  fixed.rows = input.rows;
  try {
    size_t bytes = 0;
    if (__builtin_mul_overflow(fixed_row_bytes_, input.rows, &bytes) ||
        bytes > static_cast<size_t>(PTRDIFF_MAX) / 2) {
      throw std::bad_alloc();
    }
    AllocateFixedColumns(&fixed, allocator);
  } catch (const std::bad_alloc&) {
    const auto largest =
        std::max_element(fixed_->begin(), fixed_->end(),
                         [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); });
    throw NoRoomError(
        fmt::format("{}: column '{}': rows of {} bytes, {} in all, do not fit into memory; "
                    "make the rows or the batch smaller",
                    steps_[fixed_steps_[largest - fixed_->begin()]]->name(), largest->name,
                    largest->bytes(), input.rows));
  }
  return fixed;
}

std::unique_ptr<RangeMemory> RowProgram::MakeMemory() const {
  auto memory = std::make_unique<RangeMemory>();
  for (const auto& step : steps_) memory->steps.push_back(step->MakeMemory());
  return memory;
}

absl::Status RowProgram::Run(const Batch& input, const Batch& fixed, size_t begin, size_t end,
                             RangeMemory* memory) const {
  RowRange& range = memory->range;
  range.input = &input;
  range.begin = range.failed_row = begin;
  range.caught.clear();
  range.end = end;
  range.keep.assign(end - begin, 1);
  range.invalid.assign(end - begin, 0);
  range.slots.resize(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Place& place = places_[i];
    Slot& slot = range.slots[i];
    slot = {&slots_[i]};
    if (place.kind == Place::kInput) {
      slot.data = input.columns[place.number].data;
      slot.splits = input.columns[place.number].splits;
    } else if (place.kind == Place::kFixed) {
      slot.data = fixed.columns[place.number].data;
    } else {
      slot.variable = memory->steps[place.number]->variable(place.output);
    }
  }
  for (auto it = std::lower_bound(input.damaged.begin(), input.damaged.end(), begin);
       it != input.damaged.end() && *it < end; ++it) {
    range.keep[*it - begin] = RowRange::kDropped;
    ClearFixed(*it, &range);
  }
  if (carries_errors_) {
    const auto* errors = reinterpret_cast<const std::string_view*>(input.columns.back().data);
    for (size_t row = begin; row < end; ++row) {
      if (errors[row].empty()) continue;
      range.keep[row - begin] = RowRange::kDropped;
      range.caught.emplace_back(row, errors[row]);
      ClearFixed(row, &range);
    }
  }
  absl::Status failed;
  size_t failed_row = begin;
  for (size_t s = 0; s < steps_.size(); ++s) {
    memory->steps[s]->Clear();
    range.from = begin;
    absl::Status status = RunStep(s, memory);
    while (!status.ok() && s < catching_) {
      uint8_t& keep = range.keep[range.failed_row - begin];
      if (keep == RowRange::kDropped) break;  // the step failed as a whole
      std::optional<std::string> text = steps_[catching_]->Catch(status);
      if (!text) break;
      keep = RowRange::kDropped;
      range.from = range.failed_row;
      range.caught.emplace_back(range.failed_row, *std::move(text));
      memory->steps[s]->Truncate(range.from - begin);
      ClearFixed(range.from, &range);
      status = RunStep(s, memory);
    }
    if (status.ok()) continue;
    // The rows before it continue as if it did not exist.
    failed = std::move(status);
    failed_row = range.end = range.failed_row;
    range.keep.resize(range.end - begin);
    range.invalid.resize(range.end - begin);
    for (size_t before = 0; before <= s; ++before) {
      memory->steps[before]->Truncate(range.end - begin);
    }
  }
  range.failed_row = failed_row;
  return failed;
}

absl::Status RowProgram::RunStep(size_t step, RangeMemory* memory) const {
  const RowStep& s = *steps_[step];
  memory->range.failed_row = memory->range.from;
  try {
    return s.Run(plans_[step].visible, plans_[step].first_output, &memory->range,
                 memory->steps[step].get());
  } catch (const std::bad_alloc& error) {
    return NoRoom(s.name(), error);
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("{}: {}", s.name(), e.what()));
  }
}

void RowProgram::ClearFixed(size_t row, RowRange* range) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (places_[i].kind != Place::kFixed) continue;
    std::memset(range->slots[i].data + row * slots_[i].bytes(), 0, slots_[i].bytes());
  }
}

uint64_t RowProgram::VariableBytes(const RangeMemory& memory) const {
  uint64_t bytes = 0;
  for (const Place& place : places_) {
    if (place.kind != Place::kRagged) continue;
    const VariableColumn& column = *memory.steps[place.number]->variable(place.output);
    bytes += column.num_elements() * column.element_bytes() + column.num_rows() * sizeof(int64_t);
  }
  for (const auto& step : memory.steps) bytes += step->kept_bytes();
  return bytes;
}

Batch RowProgram::Finish(Batch input, Batch fixed,
                         absl::Span<const std::unique_ptr<RangeMemory>> ranges,
                         const HostAllocator& allocator, uint64_t* num_invalid) const {
  *num_invalid = 0;
  Batch out;
  out.spec = output_;
  out.rows = input.rows;
  out.batched = input.batched;
  out.origins = std::move(input.origins);
  out.reordered = std::move(input.reordered);
  out.padded = input.padded;
  out.damaged = std::move(input.damaged);
  out.columns.resize(result_.size());
  std::vector<const VariableColumn*> pieces(ranges.size());
  for (size_t c = 0; c < result_.size(); ++c) {
    const Place& place = places_[result_[c]];
    if (place.kind == Place::kInput) {
      out.columns[c] = input.columns[place.number];
    } else if (place.kind == Place::kFixed) {
      out.columns[c] = fixed.columns[place.number];
    } else {
      for (size_t i = 0; i < ranges.size(); ++i) {
        pieces[i] = ranges[i]->steps[place.number]->variable(place.output);
      }
      const VariableSize size = Measure(pieces);
      const size_t splits_bytes = ((out.rows + 1) * sizeof(int64_t) + 63) / 64 * 64;
      const size_t bytes = splits_bytes + size.elements * slots_[result_[c]].bytes() + 1;
      std::shared_ptr<char> memory;
      try {
        memory = AllocateValues(bytes, allocator);
      } catch (const std::bad_alloc&) {
        throw NoRoomError(fmt::format(
            "{}: column '{}': {} bytes of {} rows do not fit into memory; make the rows or the "
            "batch smaller",
            steps_[place.number]->name(), slots_[result_[c]].name, bytes, out.rows));
      }
      int64_t* splits = reinterpret_cast<int64_t*>(memory.get());
      FillRowSplits(pieces, splits);
      out.columns[c].splits = splits;
      out.columns[c].data = memory.get() + splits_bytes;
      FillElements(pieces, out.columns[c].data);
      out.memory.push_back(std::move(memory));
    }
  }
  for (auto& memory : fixed.memory) out.memory.push_back(std::move(memory));
  for (const auto& range : ranges) {
    for (const auto& step : range->steps) {
      if (auto kept = step->kept()) out.memory.push_back(std::move(kept));
    }
  }
  if (keeps_input_) {
    for (auto& memory : input.memory) out.memory.push_back(std::move(memory));
    for (const auto& step : steps_) {
      if (auto lent = step->lends()) out.memory.push_back(std::move(lent));
    }
  }
  for (const auto& range : ranges) {
    const std::vector<uint8_t>& invalid = range->range.invalid;
    *num_invalid += std::count(invalid.begin(), invalid.end(), 1);
  }
  if (!filters_ && !replaces_) return out;
  std::vector<uint8_t> keep;
  keep.reserve(out.rows);
  for (const auto& range : ranges) {
    keep.insert(keep.end(), range->range.keep.begin(), range->range.keep.end());
  }
  // Without a filter, only damaged records are not kept, and those stay in place.
  if (std::all_of(keep.begin(), keep.end(), [&](uint8_t k) {
        return k == RowRange::kKept || k == RowRange::kCaught ||
               (k == RowRange::kDropped && !filters_);
      })) {
    return out;
  }
  return Gather(out, keep, allocator);
}

// Returns the rows that are kept, with copies of others in place of those to be replaced.
Batch RowProgram::Gather(const Batch& rows, const std::vector<uint8_t>& keep,
                         const HostAllocator& allocator) const {
  const auto good = std::find(keep.begin(), keep.end(), RowRange::kKept) - keep.begin();
  size_t stand_in = good;  // the previous kept row, or the first
  BatchBuilder builder(output_, allocator);
  builder.Append(rows, 0, 0);
  std::vector<size_t> replaced;  // rows of the result
  size_t begin = 0;              // rows [begin, row) are still to be copied
  for (size_t row = 0; row < rows.rows; ++row) {
    if (keep[row] == RowRange::kKept) stand_in = row;
    if (keep[row] == RowRange::kKept || keep[row] == RowRange::kCaught ||
        (keep[row] == RowRange::kDropped && !filters_)) {
      continue;
    }
    builder.AppendMore(begin, row - begin);
    begin = row + 1;
    if (keep[row] == RowRange::kDropped) continue;
    replaced.push_back(builder.rows());
    // If no row was kept, the row is not replaced.
    builder.AppendInPlaceOf(row, stand_in < rows.rows ? stand_in : row);
  }
  builder.AppendMore(begin, rows.rows - begin);
  Batch out = builder.Finish(rows.batched);
  if (valid_ >= 0) {
    for (size_t row : replaced) out.columns[valid_].data[row] = 0;
  }
  return out;
}

}  // namespace shardfeed
