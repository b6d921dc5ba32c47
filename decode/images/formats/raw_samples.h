// Samples of an image as its file stores them.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_RAW_SAMPLES_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_RAW_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace shardfeed {

// What the samples of an image must be.
struct RawFormat {
  int channels = 1;
  int max_bits = 16;        // bits of a sample: 8 or 16
  uint64_t max_bytes = -1;  // size of all samples
};

// Holds the samples of one image after another, reusing its memory: [height, width, channels]
// values of 8 bits, or of 16 bits in the order of the machine. A reader of a format calls Start
// and fills the rows. Not thread-safe.
class RawSamples {
 public:
  explicit RawSamples(const RawFormat& format) : format_(format) {}

  // Prepares for an image of `channels` channels of `bits` (1 to 16) bits; `name` is that of its
  // file's format. The samples are 0.
  //
  // InvalidArgument: the image does not have the expected format. ResourceExhausted: its samples
  // take more than max_bytes. Throws std::bad_alloc.
  absl::Status Start(std::string_view name, uint32_t width, uint32_t height, uint32_t channels,
                     int bits);

  int channels() const { return format_.channels; }
  int sample_bytes() const { return sample_bytes_; }
  size_t row_bytes() const { return row_bytes_; }
  uint8_t* row(uint32_t y) { return samples_.data() + y * row_bytes_; }
  const uint8_t* data() const { return samples_.data(); }
  size_t size() const { return samples_.size(); }
  size_t kept_bytes() const { return samples_.capacity(); }

 private:
  const RawFormat format_;
  int sample_bytes_ = 1;
  size_t row_bytes_ = 0;
  std::vector<uint8_t> samples_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_RAW_SAMPLES_H_
