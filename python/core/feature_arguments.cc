#include "python/core/feature_arguments.h"

#include "decode/features/feature_spec.h"
#include "fmt/format.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/vector.h"
#include "python/core/batches.h"

namespace shardfeed::python {
namespace {

namespace nb = nanobind;

FeatureSpec FeatureFromPython(nb::tuple t) {
  FeatureSpec feature;
  feature.name = nb::cast<std::string>(t[0]);
  feature.dtype = DTypeFromName(nb::cast<std::string>(t[1]));
  feature.shape = nb::cast<std::vector<int64_t>>(t[2]);
  feature.layout = nb::cast<bool>(t[3]) ? Layout::kRagged : Layout::kFixed;
  feature.decode_raw = nb::cast<bool>(t[5]);
  feature.ragged_steps = nb::cast<bool>(t[6]);
  if (!t[4].is_none()) {
    switch (ListKind(feature)) {
      case FeatureKind::kInt64:
        feature.default_value = nb::cast<std::vector<int64_t>>(t[4]);
        break;
      case FeatureKind::kFloat:
        feature.default_value = nb::cast<std::vector<float>>(t[4]);
        break;
      default: {
        std::vector<std::string> values;
        for (nb::handle value : nb::borrow<nb::sequence>(t[4])) {
          const nb::bytes bytes = nb::cast<nb::bytes>(value);
          values.emplace_back(bytes.c_str(), bytes.size());
        }
        feature.default_value = std::move(values);
      }
    }
  }
  return feature;
}

}  // namespace

std::vector<FeatureSpec> FeaturesFromPython(nb::sequence features) {
  std::vector<FeatureSpec> specs;
  for (nb::handle f : features) specs.push_back(FeatureFromPython(nb::borrow<nb::tuple>(f)));
  return specs;
}

std::map<std::string, Padding> PaddingOf(
    const std::map<std::string, std::pair<int64_t, nb::object>>& padding) {
  std::map<std::string, Padding> result;
  for (const auto& [name, how] : padding) {
    Padding& made = result[name];
    made.length = how.first;
    const nb::object& value = how.second;
    if (PyBytes_Check(value.ptr())) {
      const nb::bytes bytes = nb::borrow<nb::bytes>(value);
      made.value = std::string(bytes.c_str(), bytes.size());
    } else if (PyLong_Check(value.ptr())) {
      int overflow = 0;
      made.value = static_cast<int64_t>(PyLong_AsLongLongAndOverflow(value.ptr(), &overflow));
      if (overflow != 0) {
        throw nb::value_error(fmt::format("pad: column '{}' cannot hold the padding value {}", name,
                                          nb::cast<std::string>(nb::str(value)))
                                  .c_str());
      }
    } else {
      made.value = nb::cast<double>(value);
    }
  }
  return result;
}

}  // namespace shardfeed::python
