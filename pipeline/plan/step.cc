#include "pipeline/plan/step.h"

#include "fmt/format.h"

namespace shardfeed {

std::string ChainText(const Step& step) {
  if (step.inputs.empty()) return step.text;
  if (step.text.empty()) return ChainText(*step.inputs[0]);  // part of the following step
  if (step.inputs.size() == 1) return ChainText(*step.inputs[0]) + "." + step.text;
  std::string all;
  for (const StepPtr& input : step.inputs) all += (all.empty() ? "" : ", ") + ChainText(*input);
  return fmt::format("{}[{}]", step.text, all);
}

Length SumOfLengths(const std::vector<Length>& inputs) {
  uint64_t elements = 0;
  for (const Length& length : inputs) {
    if (!length.known()) return length;
    elements += length.elements;
  }
  return Length::Of(elements);
}

}  // namespace shardfeed
