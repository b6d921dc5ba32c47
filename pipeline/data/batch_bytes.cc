#include "pipeline/data/batch_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/little_endian.h"

namespace shardfeed {
namespace {

// Alignment of each column's pieces, relative to the batch's first byte. Buffers are aligned to
// more.
constexpr size_t kAlignment = 64;
constexpr uint64_t kBatched = 1;
constexpr size_t kMaxDimensions = 64;

void AppendNumber(uint64_t number, std::string* out) { AppendLittleEndian(number, out); }

void Align(size_t begin, std::string* out) {
  out->append((kAlignment - (out->size() - begin) % kAlignment) % kAlignment, '\0');
}

// Takes pieces from the front of a string of bytes.
class Cursor {
 public:
  Cursor(char* begin, size_t size) : begin_(begin), size_(size) {}

  bool ok() const { return ok_; }
  void Fail() { ok_ = false; }
  uint64_t Number() {
    const char* at = Take(1, sizeof(uint64_t));
    return at == nullptr ? 0 : LoadLittleEndian<uint64_t>(at);
  }
  // Takes `count` times `each` bytes. If there are fewer, returns null and is not ok() any more.
  char* Take(uint64_t count, uint64_t each) {
    if (each != 0 && count > (size_ - at_) / each) ok_ = false;
    if (!ok_) return nullptr;
    char* piece = begin_ + at_;
    at_ += count * each;
    return piece;
  }
  void Align() { Take((kAlignment - at_ % kAlignment) % kAlignment, 1); }

 private:
  char* begin_;
  size_t size_;
  size_t at_ = 0;
  bool ok_ = true;
};

// Parses a column's type into `spec`, except its name.
void ParseType(Cursor& bytes, ColumnSpec* spec) {
  const uint64_t dtype = bytes.Number();
  if (dtype > static_cast<uint64_t>(DType::kBytes)) return bytes.Fail();
  spec->dtype = static_cast<DType>(dtype);
  spec->ragged = bytes.Number() != 0;
  const uint64_t dimensions = bytes.Number();
  if (dimensions > kMaxDimensions) return bytes.Fail();
  spec->shape.clear();
  int64_t size = static_cast<int64_t>(DTypeSize(spec->dtype));
  for (uint64_t i = 0; i < dimensions && bytes.ok(); ++i) {
    const auto dimension = static_cast<int64_t>(bytes.Number());
    // Padded rows may have a length of 0.
    if (dimension < 0 || __builtin_mul_overflow(size, dimension, &size)) bytes.Fail();
    spec->shape.push_back(dimension);
  }
}

void ParseColumn(Cursor& bytes, const ColumnSpec& spec, size_t rows, Column* column,
                 std::vector<std::shared_ptr<const void>>* memory) {
  uint64_t elements = rows;
  if (spec.ragged) {
    bytes.Align();
    const auto* splits = reinterpret_cast<const int64_t*>(bytes.Take(rows + 1, sizeof(int64_t)));
    if (splits == nullptr) return;
    if (splits[0] != 0 || !std::is_sorted(splits, splits + rows + 1)) return bytes.Fail();
    column->splits = splits;
    elements = splits[rows];
  }
  bytes.Align();
  if (spec.dtype != DType::kBytes) {
    column->data = bytes.Take(elements, spec.bytes());
    return;
  }
  const size_t each = spec.num_values();
  const char* ends = bytes.Take(elements, each * sizeof(uint64_t));
  if (ends == nullptr) return;
  const size_t count = elements * each;
  std::shared_ptr<Buffer> views = Buffer::Allocate(count * sizeof(std::string_view));
  auto* view = reinterpret_cast<std::string_view*>(views->data());
  uint64_t begin = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto end = LoadLittleEndian<uint64_t>(ends + i * sizeof(uint64_t));
    if (end < begin) return bytes.Fail();
    const char* text = bytes.Take(end - begin, 1);
    if (text == nullptr) return;
    view[i] = {text, end - begin};
    begin = end;
  }
  column->data = views->data();
  memory->push_back(std::move(views));
}

}  // namespace

void AppendBatch(const Batch& batch, std::string* out) {
  const size_t begin = out->size();
  for (uint64_t number : {uint64_t{batch.rows}, batch.batched ? kBatched : 0,
                          uint64_t{batch.padded}, uint64_t{batch.damaged.size()},
                          uint64_t{batch.origins.size()}, uint64_t{batch.columns.size()}}) {
    AppendNumber(number, out);
  }
  for (uint32_t row : batch.damaged) AppendNumber(row, out);
  for (const RowOrigin& o : batch.origins) {
    for (uint64_t number :
         {uint64_t{o.first}, uint64_t{o.source}, o.epoch, o.position, o.stride, o.later}) {
      AppendNumber(number, out);
    }
  }
  for (const ColumnSpec& s : *batch.spec) {
    AppendNumber(static_cast<uint64_t>(s.dtype), out);
    AppendNumber(s.ragged, out);
    AppendNumber(s.shape.size(), out);
    for (int64_t dimension : s.shape) AppendNumber(dimension, out);
  }
  for (size_t c = 0; c < batch.columns.size(); ++c) {
    const ColumnSpec& s = (*batch.spec)[c];
    const Column& column = batch.columns[c];
    size_t first = 0;
    size_t last = batch.rows;
    if (s.ragged) {
      Align(begin, out);
      first = column.splits[0];
      last = column.splits[batch.rows];
      for (size_t r = 0; r <= batch.rows; ++r) AppendNumber(column.splits[r] - first, out);
    }
    Align(begin, out);
    if (s.dtype != DType::kBytes) {
      if (last > first) out->append(column.data + first * s.bytes(), (last - first) * s.bytes());
      continue;
    }
    const auto* view = reinterpret_cast<const std::string_view*>(column.data);
    uint64_t end = 0;
    for (size_t i = first * s.num_values(); i < last * s.num_values(); ++i) {
      end += view[i].size();
      AppendNumber(end, out);
    }
    for (size_t i = first * s.num_values(); i < last * s.num_values(); ++i) out->append(view[i]);
  }
}

absl::StatusOr<Batch> ParseBatch(std::shared_ptr<Buffer> buffer, size_t size,
                                 const std::shared_ptr<const RowSpec>& names) {
  Cursor bytes(buffer->data(), size);
  Batch batch;
  batch.rows = bytes.Number();
  batch.batched = bytes.Number() == kBatched;
  batch.padded = bytes.Number();
  const uint64_t num_damaged = bytes.Number();
  const uint64_t num_origins = bytes.Number();
  const uint64_t num_columns = bytes.Number();
  const auto failed = [] { return absl::DataLossError("its bytes are not a batch"); };
  // Bounds the number of rows, since columns whose rows are empty would allow any number.
  if (batch.rows > UINT32_MAX || batch.padded > batch.rows || num_columns != names->size()) {
    return failed();
  }
  for (uint64_t i = 0; i < num_damaged && bytes.ok(); ++i) {
    const uint64_t row = bytes.Number();
    if (row >= batch.rows || (i > 0 && row <= batch.damaged.back())) return failed();
    batch.damaged.push_back(static_cast<uint32_t>(row));
  }
  for (uint64_t i = 0; i < num_origins && bytes.ok(); ++i) {
    RowOrigin o;
    o.first = bytes.Number();
    o.source = static_cast<uint32_t>(bytes.Number());
    o.epoch = bytes.Number();
    o.position = bytes.Number();
    o.stride = bytes.Number();
    o.later = bytes.Number();
    if (i > 0 && o.first <= batch.origins.back().first) return failed();
    batch.origins.push_back(o);
  }
  RowSpec spec = *names;
  for (ColumnSpec& s : spec) {
    if (bytes.ok()) ParseType(bytes, &s);
  }
  batch.columns.resize(spec.size());
  for (size_t c = 0; c < spec.size() && bytes.ok(); ++c) {
    ParseColumn(bytes, spec[c], batch.rows, &batch.columns[c], &batch.memory);
  }
  if (!bytes.ok()) return failed();
  batch.spec = spec == *names ? names : std::make_shared<const RowSpec>(std::move(spec));
  batch.memory.push_back(std::move(buffer));
  return batch;
}

}  // namespace shardfeed
