#include <cstdlib>
#include <new>

#include "decode/features/example_parser.h"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"

namespace {

// Counts the allocations of this program.
int64_t allocations = 0;

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace shardfeed {
namespace {

TEST(ExampleParser, NothingIsAllocatedOnceTheColumnsHaveGrown) {
  std::vector<FeatureSpec> features(42);
  features[0].name = "fixed";
  features[0].shape = {3};
  features[1].name = "missing";
  features[1].default_value = std::vector<float>{1};
  for (size_t i = 2; i < features.size(); ++i) {
    features[i].name = "ragged " + std::to_string(i);
    features[i].dtype = DType::kInt64;
    features[i].layout = Layout::kRagged;
  }
  FeatureSpec steps;
  steps.name = "steps";
  steps.dtype = DType::kBytes;
  steps.layout = Layout::kRagged;
  steps.ragged_steps = true;

  ExampleBuilder builder;
  builder.AddFloatList("fixed", {1, 2, 3});
  for (size_t i = 2; i < features.size(); ++i) {
    builder.AddInt64List(features[i].name, {1, -2, 300});
  }
  for (int i = 0; i < 5; ++i) builder.AppendBytesStep("steps", {"a", "b"});
  std::string record;
  builder.SerializeSequenceExample(&record);

  const auto parser = *ExampleParser::Make(features, {steps});
  ParsedColumns columns = parser->MakeColumns();
  std::vector<float> fixed(3);
  std::vector<float> missing(1);
  columns.SetFixed(0, reinterpret_cast<char*>(fixed.data()));
  columns.SetFixed(1, reinterpret_cast<char*>(missing.data()));
  const auto parse_batch = [&] {
    columns.Clear();
    for (int i = 0; i < 100; ++i) ASSERT_OK(parser->Parse(record, 0, &columns));
  };
  parse_batch();
  const int64_t before = allocations;
  parse_batch();
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(columns.variable(41).num_rows(), 100);
}

}  // namespace
}  // namespace shardfeed
