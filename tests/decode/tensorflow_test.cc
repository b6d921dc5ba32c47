// Compares batches with those that TensorFlow's parse_example and parse_sequence_example made of
// the same records, which testdata/make.py recorded.

#include <cstring>
#include <fstream>

#include "decode/features/example_parser.h"
#include "nlohmann/json.hpp"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (unsigned char c : bytes) {
    hex += "0123456789abcdef"[c >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  return hex;
}

FeatureSpec SpecOf(const Json& json, bool is_list) {
  FeatureSpec spec;
  spec.name = json["name"];
  const std::string dtype = json["dtype"];
  const std::string layout = json["layout"];
  spec.dtype = dtype == "int64"     ? DType::kInt64
               : dtype == "float32" ? DType::kFloat32
                                    : DType::kBytes;
  spec.layout = layout == "fixed"    ? Layout::kFixed
                : layout == "ragged" ? Layout::kRagged
                : layout == "padded" ? Layout::kPadded
                                     : Layout::kSparse;
  if (json.contains("shape")) spec.shape = json["shape"].get<std::vector<int64_t>>();
  // TensorFlow's padded lists have steps of one shape, while its ragged and sparse ones have any
  // length.
  spec.ragged_steps = is_list && spec.layout != Layout::kPadded;
  if (json.contains("default")) {
    const Json values =
        json["default"].is_array() ? json["default"] : Json::array({json["default"]});
    if (spec.dtype == DType::kInt64) {
      spec.default_value = values.get<std::vector<int64_t>>();
    } else {
      spec.default_value = values.get<std::vector<float>>();
    }
  }
  return spec;
}

// Values of a batch as testdata/make.py writes them.
Json Values(DType dtype, const std::vector<char>& memory) {
  Json values = Json::array();
  for (size_t at = 0; at < memory.size(); at += DTypeSize(dtype)) {
    const char* value = memory.data() + at;
    if (dtype == DType::kInt64) values.push_back(*reinterpret_cast<const int64_t*>(value));
    if (dtype == DType::kFloat32) values.push_back(*reinterpret_cast<const float*>(value));
    if (dtype == DType::kBytes) {
      values.push_back(ToHex(*reinterpret_cast<const std::string_view*>(value)));
    }
  }
  return values;
}

// The feature's part of the batch, from the rows in `pieces`.
Json Variable(const FeatureSpec& spec, Pieces pieces, std::string_view padding) {
  const VariableSize size = Measure(pieces);
  const size_t element_bytes = pieces[0]->element_bytes();
  Json json;
  if (spec.layout == Layout::kPadded) {
    std::vector<char> memory(size.rows * size.longest_row * element_bytes);
    FillPadded(pieces, size.longest_row, size.longest_step, padding, memory.data());
    json["values"] = Values(spec.dtype, memory);
    json["shape"] = {size.rows, size.longest_row};
    for (int64_t dimension : spec.shape) json["shape"].push_back(dimension);
    return json;
  }
  std::vector<char> memory(size.elements * element_bytes);
  FillElements(pieces, memory.data());
  json["values"] = Values(spec.dtype, memory);
  if (spec.layout == Layout::kRagged) {
    std::vector<int64_t> splits(size.rows + 1);
    FillRowSplits(pieces, splits.data());
    json["splits"] = {splits};
    if (spec.ragged_steps) {
      splits.resize(size.steps + 1);
      FillStepSplits(pieces, splits.data());
      json["splits"].push_back(splits);
    }
    return json;
  }
  std::vector<int64_t> indices(size.elements * (spec.ragged_steps ? 3 : 2));
  FillIndices(pieces, indices.data());
  json["indices"] = indices;
  json["shape"] = {size.rows, size.longest_row};
  if (spec.ragged_steps) json["shape"].push_back(size.longest_step);
  return json;
}

// The "results" of testdata; null if a record is refused.
Json Parse(const Json& test) {
  std::vector<FeatureSpec> features;
  std::vector<FeatureSpec> lists;
  for (const Json& spec : test["features"]) features.push_back(SpecOf(spec, false));
  for (const Json& spec : test["feature_lists"]) lists.push_back(SpecOf(spec, true));
  const auto parser = *ExampleParser::Make(features, lists);
  std::vector<std::string> records;
  for (const Json& record : test["records"]) records.push_back(FromHex(record));

  std::vector<std::vector<char>> memory;
  for (size_t i = 0; i < parser->num_features(); ++i) {
    memory.emplace_back(records.size() * parser->bytes(i));
  }
  // Two workers: one takes the first row, the other one the rest.
  std::vector<ParsedColumns> workers;
  for (int w = 0; w < 2; ++w) {
    workers.push_back(parser->MakeColumns());
    for (size_t i = 0; i < memory.size(); ++i) workers[w].SetFixed(i, memory[i].data());
  }
  for (size_t row = 0; row < records.size(); ++row) {
    if (!parser->Parse(records[row], row, &workers[row > 0]).ok()) return Json();
  }
  Json results = Json::array({Json::object()});
  if (!lists.empty()) results.push_back(Json::object());
  for (size_t i = 0; i < parser->num_features(); ++i) {
    const FeatureSpec& spec = parser->spec(i);
    Json& result = results[i < features.size() ? 0 : 1][spec.name];
    if (spec.layout == Layout::kFixed) {
      result["values"] = Values(spec.dtype, memory[i]);
      result["shape"] = {records.size()};
      for (int64_t dimension : spec.shape) result["shape"].push_back(dimension);
      continue;
    }
    const VariableColumn* pieces[] = {&workers[0].variable(i), &workers[1].variable(i)};
    result = Variable(spec, pieces, parser->padding(i));
  }
  return results;
}

TEST(TensorFlow, MakesTheSameBatches) {
  std::ifstream file("testdata/tensorflow/parsed.json");
  ASSERT_TRUE(file.good());
  const Json tests = Json::parse(file);
  ASSERT_GT(tests.size(), 40);
  for (const Json& test : tests) EXPECT_EQ(Parse(test), test["results"]) << test["case"];
}

}  // namespace
}  // namespace shardfeed
