#include "shardfeed/shardfeed_c.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shardfeed/batch.h"
#include "shardfeed/dataset.h"
#include "shardfeed/iterator.h"
#include "shardfeed/schema.h"
#include "shardfeed/version.h"

struct shardfeed_dataset {
  shardfeed::Dataset dataset;
};

struct shardfeed_iterator {
  std::unique_ptr<shardfeed::Iterator> iterator;
};

// A batch and the arrays that C needs in addition to its memory: strings as pointer and size, and
// splits that begin at 0.
struct shardfeed_batch {
  struct Column {
    std::vector<shardfeed_bytes> strings;
    std::vector<int64_t> splits;
    const void* values = nullptr;
    uint64_t num_values = 0;
  };

  explicit shardfeed_batch(shardfeed::Batch delivered);

  shardfeed::Batch batch;
  std::vector<Column> columns;
};

namespace {

using shardfeed::DType;

static_assert(SHARDFEED_UINT8 == static_cast<int>(DType::kUInt8));
static_assert(SHARDFEED_FLOAT16 == static_cast<int>(DType::kFloat16));
static_assert(SHARDFEED_FLOAT64 == static_cast<int>(DType::kFloat64));
static_assert(SHARDFEED_BYTES == static_cast<int>(DType::kBytes));
static_assert(SHARDFEED_INVALID_ARGUMENT == static_cast<int>(absl::StatusCode::kInvalidArgument));
static_assert(SHARDFEED_FAILED_PRECONDITION ==
              static_cast<int>(absl::StatusCode::kFailedPrecondition));
static_assert(SHARDFEED_DATA_LOSS == static_cast<int>(absl::StatusCode::kDataLoss));

// The message of each thread's last error. If there is no memory to store it, a fixed message takes
// its place.
thread_local std::string last_error;
thread_local bool last_error_is_lost = false;

int Report(int code, std::string_view text) noexcept {
  try {
    last_error_is_lost = false;
    last_error = text;
  } catch (...) {
    last_error_is_lost = true;
  }
  return code;
}

// Calls `work` and turns the status that it returns, or the exception that it throws, into a code.
template <typename Work>
int Guarded(Work work) noexcept {
  try {
    const absl::Status status = work();
    if (status.ok()) return SHARDFEED_OK;
    const absl::string_view text = status.message();
    return Report(static_cast<int>(status.code()), {text.data(), text.size()});
  } catch (const std::bad_alloc&) {
    return Report(SHARDFEED_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& error) {
    return Report(SHARDFEED_INTERNAL, error.what());
  } catch (...) {
    return Report(SHARDFEED_INTERNAL, "an unknown exception");
  }
}

absl::Status NullArgument(std::string_view name) {
  return absl::InvalidArgumentError(std::string(name) + " is NULL");
}

// Replaces the handle's dataset with the result of `step`, unless that is an error.
template <typename Step>
int Append(shardfeed_dataset* handle, Step step) noexcept {
  return Guarded([&]() -> absl::Status {
    if (handle == nullptr) return NullArgument("dataset");
    shardfeed::Dataset next = step(handle->dataset);
    if (!next.status().ok()) return next.status();
    handle->dataset = std::move(next);
    return absl::OkStatus();
  });
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

// Removes a word of letters and digits from the beginning of `text` and returns it.
std::string_view TakeWord(std::string_view* text) {
  *text = Trimmed(*text);
  size_t size = 0;
  while (size < text->size() && (std::isalnum(static_cast<unsigned char>((*text)[size])) != 0)) {
    ++size;
  }
  const std::string_view word = text->substr(0, size);
  *text = Trimmed(text->substr(size));
  return word;
}

std::optional<DType> DTypeNamed(std::string_view name) {
  for (int i = SHARDFEED_UINT8; i <= SHARDFEED_BYTES; ++i) {
    if (DTypeName(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// Parses the sizes of a shape, such as "[3, 224, 224]". Returns false if `text` is not a shape.
bool ParseShape(std::string_view text, std::vector<int64_t>* shape) {
  if (text.empty()) return true;
  if (text.front() != '[' || text.back() != ']' || text.size() < 2) return false;
  text = text.substr(1, text.size() - 2);
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view number = Trimmed(text.substr(0, comma));
    int64_t size = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (number.empty() || error != std::errc() || end != number.data() + number.size()) {
      return false;
    }
    shape->push_back(size);
    if (comma == text.size()) return true;
    text.remove_prefix(comma + 1);
  }
}

// Parses one column of a schema, such as "tokens: int64 ragged [2]".
absl::StatusOr<shardfeed::FeatureSpec> ParseColumn(std::string_view text) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError("schema: '" + std::string(text) + "': " + std::string(what));
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return wrong("expected 'NAME: TYPE', such as 'x: float32 [50]'");
  }
  shardfeed::FeatureSpec feature;
  feature.name = Trimmed(text.substr(0, colon));
  std::string_view rest = text.substr(colon + 1);
  const std::string_view type = TakeWord(&rest);
  const std::optional<DType> dtype = DTypeNamed(type);
  if (!dtype) return wrong("'" + std::string(type) + "' is not a type");
  feature.dtype = *dtype;
  if (rest.starts_with("ragged")) {
    TakeWord(&rest);
    feature.layout = shardfeed::Layout::kRagged;
  }
  if (!ParseShape(rest, &feature.shape)) {
    return wrong("expected the sizes of a shape, such as '[3, 224, 224]', at its end");
  }
  return feature;
}

absl::StatusOr<std::vector<shardfeed::FeatureSpec>> ParseSchema(std::string_view text) {
  std::vector<shardfeed::FeatureSpec> features;
  while (true) {
    // Find the next comma outside brackets.
    size_t end = 0;
    for (bool inside = false; end < text.size() && (inside || text[end] != ','); ++end) {
      if (text[end] == '[' || text[end] == ']') inside = text[end] == '[';
    }
    absl::StatusOr<shardfeed::FeatureSpec> feature = ParseColumn(Trimmed(text.substr(0, end)));
    if (!feature.ok()) return feature.status();
    features.push_back(*std::move(feature));
    if (end == text.size()) return features;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

shardfeed_batch::shardfeed_batch(shardfeed::Batch delivered)
    : batch(std::move(delivered)), columns(batch.columns.size()) {
  for (size_t c = 0; c < columns.size(); ++c) {
    const shardfeed::ColumnSpec& spec = (*batch.spec)[c];
    const shardfeed::Column& from = batch.columns[c];
    Column& to = columns[c];
    uint64_t first = 0;
    uint64_t elements = batch.rows;
    if (spec.ragged) {
      first = static_cast<uint64_t>(from.splits[0]);
      elements = static_cast<uint64_t>(from.splits[batch.rows]) - first;
      for (size_t row = 0; row <= batch.rows; ++row) {
        to.splits.push_back(from.splits[row] - from.splits[0]);
      }
    }
    to.num_values = elements * spec.num_values();
    to.values = from.data + first * spec.bytes();
    if (spec.dtype != DType::kBytes) continue;
    to.strings.reserve(to.num_values);
    for (const std::string_view string : batch.Values<std::string_view>(c)) {
      to.strings.push_back({string.data(), string.size()});
    }
    to.values = to.strings.data();
  }
}

extern "C" {

const char* shardfeed_version(void) { return SHARDFEED_VERSION; }

const char* shardfeed_last_error(void) {
  return last_error_is_lost ? "out of memory" : last_error.c_str();
}

int shardfeed_open(const char* spec, shardfeed_dataset** dataset) {
  return Guarded([&]() -> absl::Status {
    if (spec == nullptr || dataset == nullptr) return NullArgument("spec or dataset");
    *dataset = nullptr;
    shardfeed::Dataset opened = shardfeed::Dataset::Read(std::string(spec));
    if (!opened.status().ok()) return opened.status();
    *dataset = new shardfeed_dataset{std::move(opened)};
    return absl::OkStatus();
  });
}

void shardfeed_close(shardfeed_dataset* dataset) { delete dataset; }

int shardfeed_shuffle(shardfeed_dataset* dataset, uint64_t seed, uint64_t window) {
  return Append(dataset, [&](const shardfeed::Dataset& ds) { return ds.Shuffle(seed, window); });
}

int shardfeed_interleave(shardfeed_dataset* dataset, uint64_t cycle, uint64_t block) {
  return Append(dataset, [&](const shardfeed::Dataset& ds) { return ds.Interleave(cycle, block); });
}

int shardfeed_shard(shardfeed_dataset* dataset, uint64_t rank, uint64_t world) {
  return Append(dataset, [&](const shardfeed::Dataset& ds) { return ds.Shard(rank, world); });
}

int shardfeed_repeat(shardfeed_dataset* dataset, uint64_t epochs) {
  return Append(dataset, [&](const shardfeed::Dataset& ds) { return ds.Repeat(epochs); });
}

int shardfeed_parse(shardfeed_dataset* dataset, const char* schema) {
  return Guarded([&]() -> absl::Status {
    if (dataset == nullptr) return NullArgument("dataset");
    shardfeed::Dataset parsed = dataset->dataset;
    if (schema == nullptr) {
      parsed = parsed.Parse();
    } else {
      absl::StatusOr<std::vector<shardfeed::FeatureSpec>> features = ParseSchema(schema);
      if (!features.ok()) return features.status();
      parsed = parsed.Parse(*std::move(features));
    }
    if (!parsed.status().ok()) return parsed.status();
    dataset->dataset = std::move(parsed);
    return absl::OkStatus();
  });
}

int shardfeed_make_batches(shardfeed_dataset* dataset, uint64_t rows, int drop_remainder) {
  return Append(dataset,
                [&](const shardfeed::Dataset& ds) { return ds.Batch(rows, drop_remainder != 0); });
}

int shardfeed_start(const shardfeed_dataset* dataset, const shardfeed_run_options* options,
                    shardfeed_iterator** iterator) {
  return Guarded([&]() -> absl::Status {
    if (dataset == nullptr || iterator == nullptr) return NullArgument("dataset or iterator");
    *iterator = nullptr;
    shardfeed_run_options given = {};
    if (options != nullptr) {
      if (options->size < sizeof(options->size)) {
        return absl::InvalidArgumentError("shardfeed_run_options: size is not set");
      }
      std::memcpy(&given, options, std::min<uint64_t>(options->size, sizeof(given)));
    }
    if (given.threads > INT32_MAX) return absl::InvalidArgumentError("threads is too large");
    shardfeed::RunOptions run;
    run.threads = static_cast<int>(given.threads);
    run.budget_bytes = given.budget_bytes;
    run.epoch = given.epoch;
    absl::StatusOr<std::unique_ptr<shardfeed::Iterator>> started = dataset->dataset.Start(run);
    if (!started.ok()) return started.status();
    *iterator = new shardfeed_iterator{*std::move(started)};
    return absl::OkStatus();
  });
}

void shardfeed_iterator_free(shardfeed_iterator* iterator) { delete iterator; }

int shardfeed_next(shardfeed_iterator* iterator, shardfeed_batch** batch) {
  return Guarded([&]() -> absl::Status {
    if (iterator == nullptr || batch == nullptr) return NullArgument("iterator or batch");
    *batch = nullptr;
    shardfeed::Batch next;
    if (absl::Status status = iterator->iterator->Next(&next); !status.ok()) return status;
    if (!next.empty()) *batch = new shardfeed_batch(std::move(next));
    return absl::OkStatus();
  });
}

int shardfeed_state(const shardfeed_iterator* iterator, char** text, uint64_t* size) {
  return Guarded([&]() -> absl::Status {
    if (iterator == nullptr || text == nullptr || size == nullptr) {
      return NullArgument("iterator, text or size");
    }
    *text = nullptr;
    const absl::StatusOr<std::string> state = iterator->iterator->StateDict();
    if (!state.ok()) return state.status();
    char* copy = static_cast<char*>(std::malloc(state->size() + 1));
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, state->c_str(), state->size() + 1);
    *text = copy;
    *size = state->size();
    return absl::OkStatus();
  });
}

void shardfeed_text_free(char* text) { std::free(text); }

int shardfeed_load(shardfeed_iterator* iterator, const char* text, uint64_t size) {
  return Guarded([&]() -> absl::Status {
    if (iterator == nullptr || text == nullptr) return NullArgument("iterator or text");
    return iterator->iterator->LoadStateDict({text, size});
  });
}

void shardfeed_cancel(shardfeed_iterator* iterator) {
  if (iterator != nullptr) iterator->iterator->Cancel();
}

void shardfeed_batch_free(shardfeed_batch* batch) { delete batch; }

uint64_t shardfeed_batch_rows(const shardfeed_batch* batch) {
  return batch == nullptr ? 0 : batch->batch.rows;
}

uint64_t shardfeed_batch_columns(const shardfeed_batch* batch) {
  return batch == nullptr ? 0 : batch->columns.size();
}

int shardfeed_batch_column(const shardfeed_batch* batch, uint64_t number, shardfeed_column* column,
                           uint64_t size) {
  return Guarded([&]() -> absl::Status {
    if (batch == nullptr || column == nullptr) return NullArgument("batch or column");
    if (number >= batch->columns.size()) {
      return absl::OutOfRangeError("there is no column " + std::to_string(number) + "; there are " +
                                   std::to_string(batch->columns.size()));
    }
    const shardfeed::ColumnSpec& spec = (*batch->batch.spec)[number];
    const shardfeed_batch::Column& of = batch->columns[number];
    const shardfeed_column filled = {
        .name = spec.name.c_str(),
        .dtype = static_cast<uint32_t>(spec.dtype),
        .ragged = spec.ragged ? 1u : 0u,
        .num_dims = spec.shape.size(),
        .shape = spec.shape.data(),
        .values = of.values,
        .num_values = of.num_values,
        .splits = spec.ragged ? of.splits.data() : nullptr,
    };
    std::memcpy(column, &filled, std::min<uint64_t>(size, sizeof(filled)));
    return absl::OkStatus();
  });
}

}  // extern "C"
