// Seekable JPEG: an ordinary JPEG that a decoder can enter in the middle of any row. What makes it
// one, and how to read it: docs/seekable_jpeg.md.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_SEEKABLE_JPEG_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_SEEKABLE_JPEG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct SeekableJpegOptions {
  // Larger images are kept as they are. Rewriting one takes 2 bytes of memory for each sample: 3
  // to 6 for each pixel.
  uint64_t max_pixels = uint64_t{64} << 20;
  // Images of more scans are kept as they are: time grows with their number.
  int max_scans = 500;
};

struct SeekableJpeg {
  enum class Outcome {
    kRewritten,
    kAlready,      // already seekable
    kUnsupported,  // of a kind that cannot be rewritten losslessly
    kDamaged,      // cut off or corrupt: libjpeg warns of it
  };
  Outcome outcome = Outcome::kRewritten;
  // Why it is kept as it is. Of kUnsupported one of a few phrases, such as "arithmetic coding"; of
  // kDamaged a sentence, without the file's name; else empty.
  std::string reason;
};

// Rewrites `jpeg` losslessly and, if the outcome is kRewritten, sets `*seekable`; with another
// outcome it holds nothing of use. The coefficients are those of `jpeg`, so the pixels are, too,
// bit for bit in every decoder; all APPn and COM segments are kept in their order, and so is what
// stands behind the end of the image. The bytes depend on `jpeg` alone.
//
// Thread safe. Reuse `seekable` from call to call: it keeps its memory.
//
// ResourceExhausted: there is not enough memory.
absl::StatusOr<SeekableJpeg> MakeSeekable(std::string_view jpeg, const SeekableJpegOptions& options,
                                          std::string* seekable);

// The restart interval of a seekable JPEG with rows of so many MCUs (at least 1): the largest
// divisor up to 4, or where that is 1, the smallest above; for a prime the whole row.
uint32_t SeekableRestartInterval(uint32_t mcus_per_row);

// Whether `jpeg` is laid out as MakeSeekable does it, or finer: one scan, a restart interval that
// divides the row and is no longer than SeekableRestartInterval, and all its markers up to the end
// of the image. Decodes nothing, so damage inside of an interval is not seen. Thread safe.
bool IsSeekable(std::string_view jpeg);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_SEEKABLE_JPEG_H_
