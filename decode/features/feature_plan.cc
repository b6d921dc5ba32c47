#include "decode/features/feature_plan.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "decode/features/feature_spec.h"
#include "decode/features/float16.h"
#include "shardfeed/examples.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

Conversion ConversionOf(const FeatureSpec& spec) {
  if (spec.decode_raw) return Conversion::kRaw;
  switch (spec.dtype) {
    case DType::kUInt8:
      return Conversion::kUInt8;
    case DType::kInt8:
      return Conversion::kInt8;
    case DType::kUInt16:
      return Conversion::kUInt16;
    case DType::kInt16:
      return Conversion::kInt16;
    case DType::kInt32:
      return Conversion::kInt32;
    case DType::kInt64:
      return Conversion::kInt64;
    case DType::kFloat16:
      return Conversion::kFloat16;
    case DType::kBFloat16:
      return Conversion::kBFloat16;
    case DType::kFloat32:
      return Conversion::kFloat32;
    case DType::kFloat64:
      return Conversion::kFloat64;
    default:
      return Conversion::kBytes;
  }
}

template <typename T, typename From>
void AppendValue(From from, std::string* fill) {
  const T value = static_cast<T>(from);
  fill->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The values in their memory layout. Values of bytes features are views of `values`.
std::string InMemory(const FeatureValues& values, Conversion conversion) {
  std::string memory;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) {
    for (int64_t value : *ints) {
      if (conversion == Conversion::kInt64) AppendValue<int64_t>(value, &memory);
      if (conversion == Conversion::kInt32) AppendValue<int32_t>(value, &memory);
      if (conversion == Conversion::kUInt8) AppendValue<uint8_t>(value, &memory);
      if (conversion == Conversion::kInt8) AppendValue<int8_t>(value, &memory);
      if (conversion == Conversion::kUInt16) AppendValue<uint16_t>(value, &memory);
      if (conversion == Conversion::kInt16) AppendValue<int16_t>(value, &memory);
    }
  } else if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    for (float value : *floats) {
      if (conversion == Conversion::kFloat32) AppendValue<float>(value, &memory);
      if (conversion == Conversion::kFloat64) AppendValue<double>(value, &memory);
      if (conversion == Conversion::kFloat16) AppendValue<uint16_t>(ToFloat16(value), &memory);
      if (conversion == Conversion::kBFloat16) AppendValue<uint16_t>(ToBFloat16(value), &memory);
    }
  } else {
    for (const std::string& value : std::get<std::vector<std::string>>(values)) {
      if (conversion == Conversion::kRaw) {
        memory += value;
      } else {
        AppendValue<std::string_view>(std::string_view(value), &memory);
      }
    }
  }
  return memory;
}

void SetEntryHeader(FeaturePlan* plan) {
  // In larger features, reading the header takes little of the time.
  constexpr size_t kMaxBytes = 4096;
  if (plan->values > kMaxBytes || plan->bytes > kMaxBytes) return;
  ExampleBuilder builder;
  if (plan->kind == FeatureKind::kFloat) {
    builder.AddFloatList(plan->spec.name, std::vector<float>(plan->values));
    plan->entry_values_bytes = plan->values * sizeof(float);
  } else if (plan->kind == FeatureKind::kInt64 && plan->values == 1) {
    builder.AddInt64(plan->spec.name, 0);
    plan->entry_values_bytes = 1;
  } else if (plan->conversion == Conversion::kRaw) {
    builder.AddBytes(plan->spec.name, std::string(plan->bytes, '\0'));
    plan->entry_values_bytes = plan->bytes;
  } else {
    return;
  }
  std::string example;
  builder.SerializeExample(&example);
  WireFields message(example, 0);
  message.Next();
  plan->entry_header = message.bytes().substr(0, message.bytes().size() - plan->entry_values_bytes);
}

}  // namespace

FeaturePlan MakePlan(FeatureSpec spec, bool is_list) {
  FeaturePlan plan;
  plan.spec = std::move(spec);
  plan.is_list = is_list;
  plan.whole_steps = is_list && !plan.spec.ragged_steps;
  plan.fixed = plan.spec.layout == Layout::kFixed;
  plan.conversion = ConversionOf(plan.spec);
  plan.kind = ListKind(plan.spec);
  plan.values = static_cast<size_t>(NumValues(plan.spec));
  plan.bytes = plan.values * DTypeSize(plan.spec.dtype);
  if (plan.spec.default_value) {
    // A single default value is repeated.
    const std::string memory = InMemory(*plan.spec.default_value, plan.conversion);
    while (plan.fill.size() < plan.bytes) plan.fill += memory;
  } else if (plan.spec.layout == Layout::kPadded) {
    plan.fill.assign(plan.bytes, '\0');
  }
  if (plan.fixed) SetEntryHeader(&plan);
  return plan;
}

}  // namespace shardfeed
