// Where changes of an image move its points.

#ifndef SHARDFEED_DECODE_IMAGES_PIXELS_PROJECTION_H_
#define SHARDFEED_DECODE_IMAGES_PIXELS_PROJECTION_H_

#include <array>

namespace shardfeed {

// A projective map of the plane. Coordinates are in pixels from the upper left corner of an image;
// its first pixel reaches from 0 to 1. Immutable; begins as the identity.
class Projection {
 public:
  Projection() = default;

  // x becomes `scale_x` x + `shift_x`, and so on.
  static Projection ScaleAndShift(double scale_x, double shift_x, double scale_y, double shift_y) {
    return Projection({scale_x, 0, shift_x, 0, scale_y, shift_y, 0, 0, 1});
  }
  // The map whose inverse is x = (m[0] x + m[1] y + m[2]) / (m[6] x + m[7] y + 1), and so on for y.
  // The inverse must not map the plane to a line.
  static Projection InverseOf(const std::array<double, 8>& m) {
    // The adjugate is the inverse times the determinant, which does not change a projective map;
    // with the sign of the determinant, points in front of the horizon stay there.
    const double determinant = m[0] * (m[4] - m[5] * m[7]) - m[1] * (m[3] - m[5] * m[6]) +
                               m[2] * (m[3] * m[7] - m[4] * m[6]);
    const double factor = 1 / determinant;
    return Projection({(m[4] - m[5] * m[7]) * factor, (m[2] * m[7] - m[1]) * factor,
                       (m[1] * m[5] - m[2] * m[4]) * factor, (m[5] * m[6] - m[3]) * factor,
                       (m[0] - m[2] * m[6]) * factor, (m[2] * m[3] - m[0] * m[5]) * factor,
                       (m[3] * m[7] - m[4] * m[6]) * factor, (m[1] * m[6] - m[0] * m[7]) * factor,
                       (m[0] * m[4] - m[1] * m[3]) * factor});
  }

  // This map, and `next` after it.
  Projection Then(const Projection& next) const {
    std::array<double, 9> product = {};
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        for (int k = 0; k < 3; ++k) product[3 * i + j] += next.m_[3 * i + k] * m_[3 * k + j];
      }
    }
    return Projection(product);
  }

  // The point, and whether it lies in front of the horizon. Points behind it come out on the other
  // side of the image, so that nothing between two points on different sides lies between their
  // results. A point on the horizon has no finite result.
  struct Point {
    double x;
    double y;
    bool in_front;
  };
  Point Apply(double x, double y) const {
    const double w = m_[6] * x + m_[7] * y + m_[8];
    return {(m_[0] * x + m_[1] * y + m_[2]) / w, (m_[3] * x + m_[4] * y + m_[5]) / w, w > 0};
  }

 private:
  explicit Projection(const std::array<double, 9>& m) : m_(m) {}

  std::array<double, 9> m_ = {1, 0, 0, 0, 1, 0, 0, 0, 1};
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_PIXELS_PROJECTION_H_
