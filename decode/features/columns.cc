#include "decode/features/columns.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace shardfeed {
namespace {

// Copies `n` elements and returns where the next ones go. memcpy must not be called with null.
char* Copy(const char* from, int64_t n, size_t element_bytes, char* to) {
  const size_t bytes = n * element_bytes;
  if (bytes > 0) std::memcpy(to, from, bytes);
  return to + bytes;
}

char* Fill(std::string_view element, int64_t n, char* to) {
  const bool zero = std::all_of(element.begin(), element.end(), [](char c) { return c == 0; });
  if (zero) {
    std::memset(to, 0, n * element.size());
    return to + n * element.size();
  }
  for (int64_t i = 0; i < n; ++i) to = Copy(element.data(), 1, element.size(), to);
  return to;
}

// One of several adjacent ranges that are given by their ends.
struct Range {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};
Range RangeOf(absl::Span<const int64_t> ends, int64_t i) {
  return {i == 0 ? 0 : ends[i - 1], ends[i]};
}

int64_t Longest(absl::Span<const int64_t> ends) {
  int64_t longest = 0;
  for (size_t i = 0; i < ends.size(); ++i) longest = std::max(longest, RangeOf(ends, i).size());
  return longest;
}

// Appends the ends of a piece to the splits, offset by the total of the pieces before it.
int64_t* AppendSplits(absl::Span<const int64_t> ends, int64_t* splits) {
  const int64_t before = splits[-1];
  for (int64_t end : ends) *splits++ = before + end;
  return splits;
}

}  // namespace

// Grows to a capacity of at least `elements`.
void VariableColumn::Grow(size_t elements) {
  const size_t capacity = std::max({elements, 2 * capacity_, size_t{64}});
  size_t bytes = 0;
  if (__builtin_mul_overflow(capacity, element_bytes_, &bytes)) throw std::bad_alloc();
  std::unique_ptr<char[]> data(new char[bytes]);
  Copy(data_.get(), num_elements_, element_bytes_, data.get());
  data_ = std::move(data);
  // Set last, so that the column is unchanged if an allocation fails.
  capacity_ = capacity;
}

void VariableColumn::Truncate(size_t rows) {
  row_ends_.resize(rows);
  const int64_t end = rows == 0 ? 0 : row_ends_.back();
  if (has_steps_) step_ends_.resize(end);
  num_elements_ = !has_steps_ ? end : step_ends_.empty() ? 0 : step_ends_.back();
}

VariableSize Measure(Pieces pieces) {
  VariableSize size;
  for (const VariableColumn* piece : pieces) {
    size.rows += static_cast<int64_t>(piece->num_rows());
    size.steps += piece->num_steps();
    size.elements += piece->num_elements();
    size.longest_row = std::max(size.longest_row, Longest(piece->row_ends()));
    size.longest_step = std::max(size.longest_step, Longest(piece->step_ends()));
  }
  return size;
}

void FillElements(Pieces pieces, char* elements) {
  for (const VariableColumn* piece : pieces) {
    elements = Copy(piece->elements(), piece->num_elements(), piece->element_bytes(), elements);
  }
}

void FillRowSplits(Pieces pieces, int64_t* splits) {
  *splits++ = 0;
  for (const VariableColumn* piece : pieces) splits = AppendSplits(piece->row_ends(), splits);
}

void FillStepSplits(Pieces pieces, int64_t* splits) {
  *splits++ = 0;
  for (const VariableColumn* piece : pieces) splits = AppendSplits(piece->step_ends(), splits);
}

void FillPadded(Pieces pieces, int64_t row_length, int64_t step_length, std::string_view padding,
                char* elements) {
  for (const VariableColumn* piece : pieces) {
    // One range of elements, followed by the padding that it lacks.
    const auto append = [&](Range range, int64_t length) {
      elements = Copy(piece->elements() + range.begin * padding.size(), range.size(),
                      padding.size(), elements);
      elements = Fill(padding, length - range.size(), elements);
    };
    for (size_t r = 0; r < piece->num_rows(); ++r) {
      const Range row = RangeOf(piece->row_ends(), r);
      if (!piece->has_steps()) {
        append(row, row_length);
        continue;
      }
      for (int64_t s = row.begin; s < row.end; ++s) {
        append(RangeOf(piece->step_ends(), s), step_length);
      }
      elements = Fill(padding, (row_length - row.size()) * step_length, elements);
    }
  }
}

void FillIndices(Pieces pieces, int64_t* indices) {
  int64_t row_number = 0;
  for (const VariableColumn* piece : pieces) {
    for (size_t r = 0; r < piece->num_rows(); ++r, ++row_number) {
      const Range row = RangeOf(piece->row_ends(), r);
      for (int64_t i = row.begin; i < row.end; ++i) {
        if (!piece->has_steps()) {
          *indices++ = row_number;
          *indices++ = i - row.begin;
          continue;
        }
        const int64_t step_size = RangeOf(piece->step_ends(), i).size();
        for (int64_t position = 0; position < step_size; ++position) {
          *indices++ = row_number;
          *indices++ = i - row.begin;
          *indices++ = position;
        }
      }
    }
  }
}

size_t TotalBytes(absl::Span<const std::string_view> strings) {
  size_t bytes = 0;
  for (std::string_view string : strings) bytes += string.size();
  return bytes;
}

void CopyBytes(absl::Span<const std::string_view> strings, char* bytes, int64_t* offsets) {
  int64_t offset = 0;
  *offsets++ = 0;
  for (std::string_view string : strings) {
    Copy(string.data(), static_cast<int64_t>(string.size()), 1, bytes + offset);
    offset += static_cast<int64_t>(string.size());
    *offsets++ = offset;
  }
}

}  // namespace shardfeed
