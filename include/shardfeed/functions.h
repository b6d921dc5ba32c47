// User functions: their types, and what they are called with.
//
// Functions are called by several threads at the same time unless their step says otherwise, so
// what they share must be thread-safe. An error that a function returns, or an exception that it
// throws, ends the run with an error that names the record.

#ifndef SHARDFEED_FUNCTIONS_H_
#define SHARDFEED_FUNCTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardfeed/batch.h"

namespace shardfeed {

class VariableColumn;
struct RowRange;

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) on a
// counter that starts at a hash of its key: the same key gives the same numbers on every machine
// and for any number of threads. A UniformRandomBitGenerator, so the standard's distributions take
// it; those differ between standard libraries, Uniform does not.
class Random {
 public:
  using result_type = uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT64_MAX; }

  explicit Random(uint64_t seed, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0)
      : state_(Mix(Mix(Mix(Mix(seed) ^ a) ^ b) ^ c)) {}

  uint64_t operator()() { return Mix(state_ += 0x9e3779b97f4a7c15); }
  // Uniform in [0, 1), with 53 random bits.
  double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  // Uniform in [0, n); n is at least 1. (Lemire's multiplication; the bias is below n / 2^64.)
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>((*this)()) * n >> 64);
  }

 private:
  static constexpr uint64_t Mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t state_;
};

// Internal: the rows of one column while steps run. The columns of the input batch and those that
// the steps add are numbered consecutively as slots.
struct Slot {
  const ColumnSpec* spec = nullptr;
  char* data = nullptr;
  const int64_t* splits = nullptr;  // set for ragged columns of the input batch
  const VariableColumn* variable =
      nullptr;  // set for ragged columns of this range; row 0 is `begin`
};

// The row that a user function is called for. Columns are numbered as in the spec of the step's
// input, outputs in the order of their declaration. Valid only during the call, on the calling
// thread.
class RowContext {
 public:
  // The row's values in a column, as Batch::Row returns them.
  template <typename T>
  absl::Span<const T> In(size_t column) const {
    const Slot& slot = slots_[visible_[column]];
    Check(*slot.spec, Batch::DTypeOf<T>());
    const size_t values = slot.spec->num_values();
    const T* data = reinterpret_cast<const T*>(slot.data);
    if (slot.variable != nullptr) {
      size_t elements = 0;
      const char* first = InVariable(slot, &elements);
      return {reinterpret_cast<const T*>(first), elements * values};
    }
    if (slot.splits != nullptr) {
      return {data + slot.splits[row_] * values,
              (slot.splits[row_ + 1] - slot.splits[row_]) * values};
    }
    return {data + row_ * values, values};
  }

  // Memory for the row's values in an output that is not ragged. It is uninitialized, and the
  // function must write all of it.
  template <typename T>
  absl::Span<T> Out(size_t output) {
    const Slot& slot = slots_[first_output_ + output];
    Check(*slot.spec, Batch::DTypeOf<T>());
    if (slot.spec->ragged) Throw(*slot.spec, "is ragged: use Extend");
    const size_t values = slot.spec->num_values();
    return {reinterpret_cast<T*>(slot.data) + row_ * values, values};
  }
  // Appends `elements` elements to the row in a ragged output, and returns their memory. Valid
  // until the next call.
  template <typename T>
  absl::Span<T> Extend(size_t output, size_t elements) {
    const Slot& slot = slots_[first_output_ + output];
    Check(*slot.spec, Batch::DTypeOf<T>());
    if (!slot.spec->ragged) Throw(*slot.spec, "is not ragged: use Out");
    return {reinterpret_cast<T*>(OutVariable(slot, output, elements)),
            elements * slot.spec->num_values()};
  }

  // Keeps a string alive as long as the batch (in a filter: for the call), for bytes outputs that
  // are not part of the input row.
  std::string_view Keep(std::string bytes) {
    return kept_->emplace_back(std::make_unique<std::string>(std::move(bytes))).operator*();
  }

  // Random numbers that depend only on the step's seed, the epoch and the row's position.
  Random& random();
  uint64_t epoch();
  // The row's position in the epoch, or its number in the batch if it does not come from a source.
  uint64_t position();

 private:
  friend class MapStep;
  friend class FilterStep;

  static void Check(const ColumnSpec& spec, DType asked);
  [[noreturn]] static void Throw(const ColumnSpec& spec, std::string_view what);
  // The row's elements in a ragged column written by an earlier step.
  const char* InVariable(const Slot& slot, size_t* elements) const;
  char* OutVariable(const Slot& slot, size_t output, size_t elements);
  void FindOrigin();

  const RowRange* range_ = nullptr;
  const Slot* slots_ = nullptr;  // slots of range_
  absl::Span<const int> visible_;
  size_t first_output_ = 0;
  std::vector<VariableColumn*> variable_;
  std::vector<std::unique_ptr<std::string>>* kept_ = nullptr;
  uint64_t stream_seed_ = 0;
  size_t row_ = 0;
  bool has_origin_ = false;
  bool has_random_ = false;
  RowOrigin origin_;
  Random random_{0};
};

// Works on a whole batch, or on several rows if elements are rows. It may change or replace them.
using BatchFn = std::function<absl::Status(Batch&)>;

// Takes the rows that a FlatMapFn makes. Valid during the call, on the calling thread.
class RowEmitter {
 public:
  // Begins a row.
  void Begin();
  // The outputs of the current row, as RowContext::Out and Extend. An output is zero if Out is not
  // called for it.
  template <typename T>
  absl::Span<T> Out(size_t output) {
    return {reinterpret_cast<T*>(Fixed(output, Batch::DTypeOf<T>())), spec_[output].num_values()};
  }
  template <typename T>
  absl::Span<T> Extend(size_t output, size_t elements) {
    return {reinterpret_cast<T*>(Ragged(output, Batch::DTypeOf<T>(), elements)),
            elements * spec_[output].num_values()};
  }
  // Keeps a string alive as long as the batch, for bytes that are not part of the input row.
  std::string_view Keep(std::string bytes);

 private:
  friend BatchFn MakeFlatMapFn(std::shared_ptr<const RowSpec>,
                               std::function<absl::Status(const Batch&, size_t, RowEmitter&)>);
  char* Fixed(size_t output, DType asked);
  char* Ragged(size_t output, DType asked, size_t elements);

  struct Rows;
  RowEmitter(const RowSpec& spec, Rows* rows) : spec_(spec), rows_(rows) {}

  const RowSpec& spec_;
  Rows* const rows_;
};

// Writes the outputs of a row.
using MapFn = std::function<absl::Status(RowContext&)>;
// Whether the row is kept.
using FilterFn = std::function<bool(RowContext&)>;
// An integer for a row, such as its length or its class.
using NumberFn = std::function<absl::StatusOr<int64_t>(RowContext&)>;
// A key for a row: rows of equal keys belong together.
using KeyFn = std::function<absl::StatusOr<std::string>(RowContext&)>;
// Called for row `row` of `in`, with Batch::Row to read its values.
using FlatMapFn = std::function<absl::Status(const Batch& in, size_t row, RowEmitter& out)>;
// Each call returns the next rows, or a batch without rows at the end. Called by one thread at a
// time.
using Generator = std::function<absl::StatusOr<Batch>()>;
// Renders the error of a row as text, or returns nullopt for an error that ends the run.
using ErrorText = std::function<std::optional<std::string>(const absl::Status&)>;

}  // namespace shardfeed

#endif  // SHARDFEED_FUNCTIONS_H_
