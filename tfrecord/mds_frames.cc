#include "tfrecord/mds_frames.h"

namespace shardfeed {

std::string AddMdsSample(const MdsColumns& columns, std::string_view sample,
                         FramedPayloads* payloads) {
  std::string* const bytes = payloads->Begin(sample.size(), columns.crc());
  std::string wrong = columns.AppendExample(sample, bytes);
  if (wrong.empty()) {
    payloads->End();
  } else {
    payloads->Cancel();
  }
  return wrong;
}

}  // namespace shardfeed
