#include "decode/arrow/export.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "fmt/format.h"

namespace shardfeed {
namespace {

using Form = ArrowField::Form;

constexpr std::string_view kRawName = "record";
constexpr size_t kAlignment = 64;
constexpr uint64_t kMaxOffset = INT32_MAX;

// ---- memory of a batch

struct Freed {
  void operator()(char* data) const { ::operator delete[](data, std::align_val_t(kAlignment)); }
};
using Memory = std::unique_ptr<char[], Freed>;

// Never null, because some libraries read an empty buffer's address.
Memory Allocate(size_t bytes) {
  return Memory(static_cast<char*>(
      ::operator new[](std::max(bytes, kAlignment), std::align_val_t(kAlignment))));
}

// An array and what it owns. Consumers may take children out of it, which live on by themselves.
struct Owned {
  std::vector<Memory> memory;
  std::vector<const void*> buffers;
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> child_pointers;
};

void ReleaseArray(ArrowArray* array) {
  auto* owned = static_cast<Owned*>(array->private_data);
  for (const std::unique_ptr<ArrowArray>& child : owned->children) {
    if (child->release != nullptr) child->release(child.get());
  }
  delete owned;
  array->release = nullptr;
}

void Finish(std::unique_ptr<Owned> owned, int64_t length, int64_t nulls, ArrowArray* out) {
  for (const std::unique_ptr<ArrowArray>& child : owned->children) {
    owned->child_pointers.push_back(child.get());
  }
  *out = {};
  out->length = length;
  out->null_count = nulls;
  out->n_buffers = static_cast<int64_t>(owned->buffers.size());
  out->buffers = owned->buffers.data();
  out->n_children = static_cast<int64_t>(owned->children.size());
  out->children = owned->child_pointers.data();
  out->release = &ReleaseArray;
  out->private_data = owned.release();
}

// Adds a buffer to an array.
char* AddBuffer(Owned& owned, size_t bytes) {
  owned.memory.push_back(Allocate(bytes));
  owned.buffers.push_back(owned.memory.back().get());
  return owned.memory.back().get();
}

// ---- schemas

struct OwnedSchema {
  std::string format;
  std::string name;
  std::vector<std::unique_ptr<ArrowSchema>> children;
  std::vector<ArrowSchema*> child_pointers;
};

void ReleaseSchema(ArrowSchema* schema) {
  auto* owned = static_cast<OwnedSchema*>(schema->private_data);
  for (const std::unique_ptr<ArrowSchema>& child : owned->children) {
    if (child->release != nullptr) child->release(child.get());
  }
  delete owned;
  schema->release = nullptr;
}

void MakeSchema(std::string format, std::string name, int64_t flags,
                std::vector<std::unique_ptr<ArrowSchema>> children, ArrowSchema* out) {
  auto owned = std::make_unique<OwnedSchema>();
  owned->format = std::move(format);
  owned->name = std::move(name);
  owned->children = std::move(children);
  for (const std::unique_ptr<ArrowSchema>& child : owned->children) {
    owned->child_pointers.push_back(child.get());
  }
  *out = {};
  out->format = owned->format.c_str();
  out->name = owned->name.c_str();
  out->flags = flags;
  out->n_children = static_cast<int64_t>(owned->children.size());
  out->children = owned->child_pointers.data();
  out->release = &ReleaseSchema;
  out->private_data = owned.release();
}

std::string FormatOf(FeatureKind kind) {
  return kind == FeatureKind::kInt64 ? "l" : kind == FeatureKind::kFloat ? "f" : "z";
}

// ---- columns

DType DTypeOf(FeatureKind kind) {
  return kind == FeatureKind::kInt64   ? DType::kInt64
         : kind == FeatureKind::kFloat ? DType::kFloat32
                                       : DType::kBytes;
}

// Which rows have a value.
class Validity {
 public:
  explicit Validity(size_t rows) : bits_(Allocate((rows + 7) / 8)), bytes_((rows + 7) / 8) {
    std::memset(bits_.get(), 0xff, bytes_);
  }
  void SetNull(size_t row) {
    bits_[row / 8] = static_cast<char>(bits_[row / 8] & ~(1 << row % 8));
    ++nulls_;
  }
  int64_t nulls() const { return nulls_; }
  // Appends the buffer, which is absent if no row is null.
  void AddTo(Owned& owned) {
    owned.buffers.push_back(nulls_ == 0 ? nullptr : bits_.get());
    if (nulls_ != 0) owned.memory.push_back(std::move(bits_));
  }

 private:
  Memory bits_;
  const size_t bytes_;
  int64_t nulls_ = 0;
};

// Appends the buffers of strings: offsets and bytes.
absl::Status AddStrings(absl::Span<const std::string_view> strings, std::string_view name,
                        Owned& owned) {
  uint64_t total = 0;
  for (std::string_view string : strings) total += string.size();
  if (total > kMaxOffset) {
    return absl::InvalidArgumentError(
        fmt::format("feature '{}': its {} bytes do not fit into one batch of Arrow (2 GiB); ask "
                    "for fewer rows in a batch",
                    name, total));
  }
  auto* offsets =
      reinterpret_cast<int32_t*>(AddBuffer(owned, (strings.size() + 1) * sizeof(int32_t)));
  char* bytes = AddBuffer(owned, total);
  int32_t at = 0;
  for (size_t i = 0; i < strings.size(); ++i) {
    offsets[i] = at;
    if (!strings[i].empty()) std::memcpy(bytes + at, strings[i].data(), strings[i].size());
    at += static_cast<int32_t>(strings[i].size());
  }
  offsets[strings.size()] = at;
  return absl::OkStatus();
}

// Makes the array of a field's elements, without nulls. Numbers stay in `memory`; strings are
// copied from it.
absl::Status MakeElements(const ArrowField& field, Memory memory, size_t elements,
                          std::unique_ptr<ArrowArray>* out) {
  auto owned = std::make_unique<Owned>();
  owned->buffers.push_back(nullptr);
  if (field.kind == FeatureKind::kBytes) {
    const auto* strings = reinterpret_cast<const std::string_view*>(memory.get());
    if (absl::Status status = AddStrings({strings, elements}, field.name, *owned); !status.ok()) {
      return status;
    }
  } else {
    owned->buffers.push_back(memory.get());
    owned->memory.push_back(std::move(memory));
  }
  *out = std::make_unique<ArrowArray>();
  Finish(std::move(owned), static_cast<int64_t>(elements), 0, out->get());
  return absl::OkStatus();
}

absl::Status MakeScalars(const ArrowField& field, Memory memory, size_t rows, Validity validity,
                         ArrowArray* out) {
  auto owned = std::make_unique<Owned>();
  const int64_t nulls = validity.nulls();
  validity.AddTo(*owned);
  if (field.kind == FeatureKind::kBytes) {
    const auto* strings = reinterpret_cast<const std::string_view*>(memory.get());
    if (absl::Status status = AddStrings({strings, rows}, field.name, *owned); !status.ok()) {
      return status;
    }
  } else {
    owned->buffers.push_back(memory.get());
    owned->memory.push_back(std::move(memory));
  }
  Finish(std::move(owned), static_cast<int64_t>(rows), nulls, out);
  return absl::OkStatus();
}

absl::Status MakeFixedLists(const ArrowField& field, Memory memory, size_t rows, Validity validity,
                            ArrowArray* out) {
  auto owned = std::make_unique<Owned>();
  const int64_t nulls = validity.nulls();
  validity.AddTo(*owned);
  owned->children.resize(1);
  absl::Status status = MakeElements(field, std::move(memory),
                                     rows * static_cast<size_t>(field.width), &owned->children[0]);
  if (!status.ok()) return status;
  Finish(std::move(owned), static_cast<int64_t>(rows), nulls, out);
  return absl::OkStatus();
}

absl::Status MakeLists(const ArrowField& field, const VariableColumn& column, Validity validity,
                       ArrowArray* out) {
  const auto elements = static_cast<size_t>(column.num_elements());
  if (elements > kMaxOffset) {
    return absl::InvalidArgumentError(
        fmt::format("feature '{}': its {} values do not fit into one batch of Arrow (2^31 - 1); "
                    "ask for fewer rows in a batch",
                    field.name, elements));
  }
  auto owned = std::make_unique<Owned>();
  const int64_t nulls = validity.nulls();
  validity.AddTo(*owned);
  const absl::Span<const int64_t> ends = column.row_ends();
  auto* offsets =
      reinterpret_cast<int32_t*>(AddBuffer(*owned, (ends.size() + 1) * sizeof(int32_t)));
  offsets[0] = 0;
  for (size_t i = 0; i < ends.size(); ++i) offsets[i + 1] = static_cast<int32_t>(ends[i]);
  Memory memory = Allocate(elements * column.element_bytes());
  if (elements > 0) {
    std::memcpy(memory.get(), column.elements(), elements * column.element_bytes());
  }
  owned->children.resize(1);
  absl::Status status = MakeElements(field, std::move(memory), elements, &owned->children[0]);
  if (!status.ok()) return status;
  Finish(std::move(owned), static_cast<int64_t>(ends.size()), nulls, out);
  return absl::OkStatus();
}

FeatureSpec SpecOf(const ArrowField& field) {
  FeatureSpec spec;
  spec.name = field.name;
  spec.dtype = DTypeOf(field.kind);
  if (field.form == Form::kList) {
    spec.layout = Layout::kRagged;
    return spec;
  }
  if (field.form == Form::kFixedList) spec.shape = {field.width};
  // What is missing gets a value, but is null.
  switch (field.kind) {
    case FeatureKind::kInt64:
      spec.default_value = std::vector<int64_t>{0};
      break;
    case FeatureKind::kFloat:
      spec.default_value = std::vector<float>{0};
      break;
    default:
      spec.default_value = std::vector<std::string>{""};
  }
  return spec;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ArrowExporter>> ArrowExporter::Make(
    std::vector<ArrowField> fields, bool raw, bool sampled) {
  std::vector<FeatureSpec> specs;
  for (const ArrowField& field : fields) {
    if (field.form == Form::kFixedList && field.width < 1) {
      return absl::InvalidArgumentError(fmt::format(
          "feature '{}': expected lists of at least 1 value, got {}", field.name, field.width));
    }
    if (field.kind == FeatureKind::kNone) {
      return absl::InvalidArgumentError(
          fmt::format("feature '{}': no record tells its kind", field.name));
    }
    specs.push_back(SpecOf(field));
  }
  auto exporter = std::shared_ptr<ArrowExporter>(new ArrowExporter(std::move(fields), raw));
  if (!specs.empty()) {
    absl::StatusOr<std::shared_ptr<const ExampleParser>> parser =
        ExampleParser::Make(std::move(specs), {},
                            sampled ? "The features were found in some of the records, since the "
                                      "dataset has no manifest (which 'shardfeed index' can write)"
                                    : "");
    if (!parser.ok()) return parser.status();
    exporter->parser_ = *std::move(parser);
  }
  return exporter;
}

void ArrowExporter::GetSchema(ArrowSchema* out) const {
  std::vector<std::unique_ptr<ArrowSchema>> children;
  if (raw_) {
    children.push_back(std::make_unique<ArrowSchema>());
    MakeSchema("z", std::string(kRawName), 0, {}, children.back().get());
  }
  for (const ArrowField& field : fields_) {
    std::vector<std::unique_ptr<ArrowSchema>> elements;
    std::string format = FormatOf(field.kind);
    if (field.form != Form::kScalar) {
      elements.push_back(std::make_unique<ArrowSchema>());
      MakeSchema(std::move(format), "item", kArrowNullable, {}, elements.back().get());
      format = field.form == Form::kList ? "+l" : fmt::format("+w:{}", field.width);
    }
    children.push_back(std::make_unique<ArrowSchema>());
    MakeSchema(std::move(format), field.name, kArrowNullable, std::move(elements),
               children.back().get());
  }
  MakeSchema("+s", "", 0, std::move(children), out);
}

ArrowFailure ArrowExporter::Convert(absl::Span<const std::string_view> records,
                                    ArrowArray* out) const {
  const size_t rows = records.size();
  auto owned = std::make_unique<Owned>();
  owned->buffers.push_back(nullptr);
  if (raw_) {
    auto column = std::make_unique<Owned>();
    column->buffers.push_back(nullptr);
    if (absl::Status status = AddStrings(records, kRawName, *column); !status.ok()) {
      return {status};
    }
    owned->children.push_back(std::make_unique<ArrowArray>());
    Finish(std::move(column), static_cast<int64_t>(rows), 0, owned->children.back().get());
  }
  if (parser_ != nullptr) {
    ParsedColumns columns = parser_->MakeColumns();
    std::vector<Memory> memory(fields_.size());
    std::vector<Validity> validity;
    for (size_t i = 0; i < fields_.size(); ++i) {
      validity.emplace_back(rows);
      if (fields_[i].form == Form::kList) continue;
      memory[i] = Allocate(rows * parser_->bytes(i));
      columns.SetFixed(i, memory[i].get());
    }
    for (size_t row = 0; row < rows; ++row) {
      if (absl::Status status = parser_->Parse(records[row], row, &columns); !status.ok()) {
        return {std::move(status), row};
      }
      for (size_t i = 0; i < fields_.size(); ++i) {
        if (parser_->IsMissing(columns, i)) validity[i].SetNull(row);
      }
    }
    for (size_t i = 0; i < fields_.size(); ++i) {
      owned->children.push_back(std::make_unique<ArrowArray>());
      ArrowArray* column = owned->children.back().get();
      *column = {};
      absl::Status status;
      switch (fields_[i].form) {
        case Form::kScalar:
          status =
              MakeScalars(fields_[i], std::move(memory[i]), rows, std::move(validity[i]), column);
          break;
        case Form::kFixedList:
          status = MakeFixedLists(fields_[i], std::move(memory[i]), rows, std::move(validity[i]),
                                  column);
          break;
        case Form::kList:
          status = MakeLists(fields_[i], columns.variable(i), std::move(validity[i]), column);
      }
      if (status.ok()) continue;
      for (const std::unique_ptr<ArrowArray>& child : owned->children) {
        if (child->release != nullptr) child->release(child.get());
      }
      return {std::move(status)};
    }
  }
  Finish(std::move(owned), static_cast<int64_t>(rows), 0, out);
  return {};
}

}  // namespace shardfeed
