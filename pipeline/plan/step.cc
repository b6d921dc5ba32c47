#include "pipeline/plan/step.h"

namespace shardfeed {

Length SumOfLengths(const std::vector<Length>& inputs) {
  uint64_t elements = 0;
  for (const Length& length : inputs) {
    if (!length.known()) return length;
    elements += length.elements;
  }
  return Length::Of(elements);
}

}  // namespace shardfeed
