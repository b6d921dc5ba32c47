// The header of a .npy file.

#ifndef SHARDFEED_DECODE_FEATURES_NPY_HEADER_H_
#define SHARDFEED_DECODE_FEATURES_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace shardfeed {

struct NpyHeader {
  std::string descr;  // the type as NumPy spells it: "<f4", "|u1", "<U12"; a list for structures
  bool fortran_order = false;
  std::vector<uint64_t> shape;
  uint64_t data_offset = 0;  // offset of the values, in bytes
};

// The longest prefix of a file that ParseNpyHeader needs.
inline constexpr uint64_t kMaxNpyHeaderBytes = 1 << 20;

// Reads the header of versions 1, 2 and 3 from the first bytes of a file. Nothing is believed: any
// bytes are safe to pass.
//
// DataLoss: not a .npy file, or a header that is cut off or cannot be parsed. The message does not
// name the file.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view first_bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_NPY_HEADER_H_
