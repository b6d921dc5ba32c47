// Conversion of planes of YCbCr to RGB.

#ifndef SHARDFEED_DECODE_IMAGES_FORMATS_YCBCR_H_
#define SHARDFEED_DECODE_IMAGES_FORMATS_YCBCR_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardfeed {

// Rows of samples of 8 bits, or of up to 16 in two bytes in the order of the machine. Borrows them.
struct SamplePlane {
  const uint8_t* data = nullptr;
  size_t row_bytes = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  int bits = 8;

  uint32_t max() const { return (uint32_t{1} << bits) - 1; }
  uint32_t At(uint32_t x, uint32_t y) const;
};

struct YcbcrImage {
  SamplePlane y;
  // The chroma planes have the size of `y`, or half of it, rounded up, in one or both directions.
  // The image is gray if they have no data.
  SamplePlane cb;
  SamplePlane cr;
  // MatrixCoefficients of ITU-T H.273: 0 RGB itself, 1 BT.709, 5 and 6 BT.601, 9 BT.2020 ...
  int matrix = 6;
  bool full_range = true;  // false: black is 16 of 255, white 235
};

// Whether it is one of the matrices that YcbcrRows knows.
bool IsKnownMatrix(int matrix);

// Converts rows of one image. Chroma of half the size is interpolated linearly: its samples lie
// between the pixels. Not thread-safe.
class YcbcrRows {
 public:
  // The matrix must be known. The image's samples must outlive the object.
  explicit YcbcrRows(const YcbcrImage& image);

  // Writes red, green and blue of each pixel of row `y`, 0 to 1 except for rounding.
  void Convert(uint32_t y, float* rgb);

 private:
  void ReadChroma(const SamplePlane& plane, uint32_t y, std::vector<float>* row);

  const YcbcrImage image_;
  float kr_ = 0;
  float kb_ = 0;
  std::vector<float> halved_;
  std::vector<float> cb_;
  std::vector<float> cr_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_FORMATS_YCBCR_H_
