// Resizing of images, antialiased as Pillow, torchvision and DALI do it, or plain as OpenCV does.
//
// Each output pixel is a weighted mean of the source pixels under it, computed first along the
// columns, then along the rows. The weights are those of Pillow's resampling: the filter is
// stretched by the factor by which the image shrinks, and weights of pixels outside the image are
// given to those inside. Between the two passes values have 6 fractional bits, where Pillow rounds
// to whole levels, so results occasionally differ by one level. Cubic filters leave the range of
// the levels, where it matters that Pillow clips between the passes: antialiased, they are computed
// in its order and rounded as it does. An image that shrinks so much that rounding errors would add
// up is resized in floating point.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_RESAMPLE_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_RESAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shardfeed/images.h"

namespace shardfeed {

// Rows of interleaved 8-bit channels.
struct PixelRows {
  const uint8_t* data = nullptr;
  size_t row_bytes = 0;  // distance between rows, in bytes
  uint32_t width = 0;
  uint32_t height = 0;
};

struct ResampleOptions {
  Interpolation interpolation = Interpolation::kBilinear;
  // Whether the filter is stretched where the image shrinks. kNearest and kArea ignore it.
  bool antialias = true;
  // The part of the source that becomes the output, in pixels from its corner; it may begin and end
  // within a pixel. If empty, the whole source.
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  // Exchanges left and right.
  bool flip = false;
  // kNearest: whether of two pixels at equal distances the earlier one is taken, in each row and in
  // each column. An image that is turned around afterwards needs it to get the same pixels.
  bool earlier_in_row = false;
  bool earlier_in_column = false;
};

// Reuses its working memory. Not thread-safe: use one for each thread.
class Resampler {
 public:
  // Writes `height` rows of `width` pixels to `out`, `row_bytes` apart. Source and output have
  // `channels` (1 or 3) channels and are at least 1 x 1; the part of the source given in the
  // options lies inside it.
  void Resize(const PixelRows& source, int channels, const ResampleOptions& options, uint32_t width,
              uint32_t height, uint8_t* out, size_t row_bytes);

 private:
  // The source pixels that make up each output pixel along one axis, and their weights.
  struct Taps {
    std::vector<uint32_t> first;   // first source pixel of each output pixel
    std::vector<uint32_t> count;   // number of source pixels of each output pixel
    std::vector<uint32_t> offset;  // offset of its weights in `weights`
    // Fixed-point numbers. The weights of a pixel sum to 1, unless the largest is at its maximum.
    std::vector<int16_t> weights;
    // The same weights, not rounded; only for ResizeInFloat.
    std::vector<float> exact;
  };
  static void FindTaps(uint32_t source, double begin, double size, uint32_t out,
                       const ResampleOptions& options, bool earlier, bool keep_exact, Taps* taps);
  void SpreadWeights(int channels, uint32_t width, bool flip);
  // Prepares MixColumns; returns the first of the `n` values of a row that it reads.
  size_t StartColumns(const PixelRows& source, int channels, uint32_t width, bool flip, size_t* n);
  // Sets exact_row_ to output row y; `from` is the first of the rows that make it up.
  void MixRowsInFloat(const uint8_t* from, size_t row_bytes, uint32_t y);
  template <typename Value>
  void MixColumnsInFloat(const Value* row, int channels, bool flip, uint32_t width,
                         uint8_t* out) const;
  void ResizeInFloat(const PixelRows& source, int channels, bool flip, uint32_t width,
                     uint32_t height, uint8_t* out, size_t row_bytes);
  void ResizeRowsFirst(const PixelRows& source, int channels, bool flip, bool in_float,
                       uint32_t width, uint32_t height, uint8_t* out, size_t row_bytes);

  Taps columns_;
  Taps rows_;
  // Weights along a row in the order in which the loop reads them, two output pixels at a time.
  std::vector<int16_t> spread_;
  std::vector<uint32_t> starts_;  // offset in the row of the values of each output pixel
  uint32_t steps_ = 0;            // steps per pair of output pixels
  std::vector<int16_t> row_;      // one row between the passes
  std::vector<float> exact_row_;
  std::vector<uint8_t> between_;  // all rows between the passes
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_RESAMPLE_H_
