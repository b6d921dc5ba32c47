// Seekable JPEG: an ordinary JPEG that can be decoded from several points in each row.
// docs/seekable_jpeg.md defines it and says how to read it.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_SEEKABLE_JPEG_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_SEEKABLE_JPEG_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

struct SeekableJpegOptions {
  // Larger images are not rewritten. Rewriting takes 2 bytes of memory for each sample, which is 3
  // to 6 bytes for each pixel.
  uint64_t max_pixels = uint64_t{64} << 20;
  // Images of more scans are not rewritten, since time grows with the number of scans.
  int max_scans = 500;
};

struct SeekableJpeg {
  enum class Outcome {
    kRewritten,
    kAlready,      // already seekable
    kUnsupported,  // cannot be rewritten losslessly
    kDamaged,      // cut off or corrupt: libjpeg warns of it
  };
  Outcome outcome = Outcome::kRewritten;
  // Why the image is not rewritten. For kUnsupported one of a few phrases, such as "arithmetic
  // coding"; for kDamaged a sentence, without the file's name; otherwise empty.
  std::string reason;
};

// Rewrites `jpeg` losslessly and, if the outcome is kRewritten, sets `*seekable`; with another
// outcome its content is unspecified. The coefficients do not change, so every decoder produces the
// same pixels, bit for bit. All APPn and COM segments are kept in their order, and so is any data
// after the end of the image. The result depends on `jpeg` alone.
//
// Thread-safe. Reuse `seekable` for several calls: it keeps its memory.
//
// ResourceExhausted: there is not enough memory.
absl::StatusOr<SeekableJpeg> MakeSeekable(std::string_view jpeg, const SeekableJpegOptions& options,
                                          std::string* seekable);

// The restart interval of a seekable JPEG whose rows have `mcus_per_row` (at least 1) MCUs: the
// largest divisor up to 4, or if that is 1, the smallest above; for a prime the whole row.
uint32_t SeekableRestartInterval(uint32_t mcus_per_row);

// Whether `jpeg` is laid out as by MakeSeekable, or finer: one scan, a restart interval that
// divides the row and is no longer than SeekableRestartInterval, and all its markers up to the end
// of the image. Decodes nothing, so damage within an interval is not noticed. Thread-safe.
bool IsSeekable(std::string_view jpeg);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_SEEKABLE_JPEG_H_
