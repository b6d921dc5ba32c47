// Options for decoding images, and random augmentations.
//
// The augmentations are named and defined as in torchvision.transforms.v2; docs/augment.md lists
// them in a table.
//
//   ds.DecodeImage("image/encoded", {.image = {.width = 224, .height = 224}})
//       .Augment("image", {augment::RandomHorizontalFlip{},
//                          augment::RandAugment{.magnitude = 7},
//                          augment::RandomErasing{.p = 0.25}},
//                /*seed=*/1, {.masks = {"mask"}, .boxes = {"boxes"}, .box_columns = {"labels"}})
//
// All types are plain values. Dataset checks them: a step whose options are out of range makes a
// dataset whose status() is InvalidArgument and names the option.

#ifndef SHARDFEED_IMAGES_H_
#define SHARDFEED_IMAGES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "shardfeed/schema.h"

namespace shardfeed {

// The filter of a resize.
enum class Interpolation {
  kNearest,   // the pixel under the middle of the output pixel
  kBilinear,  // a triangle, one pixel to each side
  kBicubic,   // Keys' cubic, two pixels to each side: a = -0.5 antialiased (Pillow), else -0.75
              // (OpenCV)
  kArea,      // the mean of what the output pixel covers (OpenCV's INTER_AREA when shrinking)
};

// The order of an image's values in memory, named after that of a batch of images.
enum class ImageLayout {
  kNHWC,  // height, width, channels: the channels of a pixel are beside each other
  kNCHW,  // channels, height, width: a plane for each channel
};

// Limits of the JPEG decoder.
struct JpegDecoderOptions {
  // More pixels than this in the whole image are an error. A progressive image takes up to 6 bytes
  // of memory per pixel, any other image almost none.
  uint64_t max_pixels = uint64_t{128} << 20;
  // More scans than this are an error: each may take as long as the whole of an ordinary image.
  int max_scans = 500;
  // False: any damage is an error. True: damaged or missing parts are filled in, as libjpeg does,
  // and only an image of which nothing can be decoded is an error.
  bool accept_damaged = false;
};

// The pixels that an image becomes.
struct ImageOptions {
  // Size of the result in pixels.
  uint32_t width = 224;
  uint32_t height = 224;
  int channels = 3;  // 3: RGB, 1: gray; raw: as many as the files store
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
  ImageLayout layout = ImageLayout::kNHWC;
  // False: the levels of RGB or gray. True: the samples as the file stores them, for masks, depth
  // maps and images of many channels: indices of a palette, values of 1, 2, 4 and 16 bits without
  // scaling, and alpha as one more channel. JPEGs become gray or RGB. `channels` is how many each
  // image must store, and interpolation must be kNearest. The dtype is kUInt8 (for images of at
  // most 8 bits), kUInt16, kInt32 or kFloat32, which hold the unscaled values.
  bool raw = false;
  // kUInt8, or kFloat16, kBFloat16 and kFloat32 with values (level / 255 - mean) / std.
  DType dtype = DType::kUInt8;
  // One for each channel; empty: 0 and 1.
  std::vector<float> mean;
  std::vector<float> std;
  // Whether a JPEG is decoded at 1/2, 1/4 or 1/8 of its size where its part is at least as many
  // times larger than the result, which is faster, but changes the levels a little. False: it is
  // decoded at full size and then resized, as in Pillow.
  bool dct_scaling = true;
  // Whether images whose Exif data says how the camera was held are turned upright.
  bool orient = false;
  // Limits, and whether damaged JPEGs are accepted. max_pixels applies to all formats.
  JpegDecoderOptions jpeg;
};

// The part of the image that is taken.
enum class CropKind {
  kNone,    // the whole image, stretched to the size
  kCenter,  // the middle, of the result's shape
  kRandom,  // see RandomResizedCrop
};

// What to do with an image that cannot be decoded or exceeds a limit of JpegDecoderOptions. A
// library or memory that is missing on this machine, and an image that does not store what
// ImageOptions::raw or a mask asks for, end the run in any case.
enum class OnDamage {
  kFail,     // the run ends with an error that names the record
  kReplace,  // another row of the same batch takes its place, with all its columns; if no row is
             // sound, as kZero
  kZero,     // fills the pixels with 0 (float: the value 0)
  kAccept,   // uses what libjpeg makes of a damaged JPEG; otherwise as kFail
};

// What the four numbers of a box mean. x goes right and y goes down from the upper left corner of
// the image, whose first pixel extends from 0 to 1.
enum class BoxFormat {
  kXyxy,    // left, top, right, bottom
  kYxyx,    // top, left, bottom, right, as in TensorFlow
  kXywh,    // left, top, width, height
  kCxcywh,  // x and y of the middle, width, height
};

// Other columns that belong to the image of a step, and change with it by the same draw.
struct JointColumns {
  // Images whose values are labels. Their pixels move as those of the image do, but are not
  // blended (nearest), and colors stay as they are.
  std::vector<std::string> masks;
  double mask_fill = 0;  // value of the pixels of masks that come from outside
  // More images of the same size, such as those of other cameras. All changes are made to them.
  std::vector<std::string> views;
  // Boxes: one column whose elements are 4 numbers, or four columns of one number, in the order of
  // `box_format`; they become ragged. A box becomes the smallest one that contains its four corners
  // after the change, clipped to the result. It is dropped if less than `min_area` pixels of it
  // remain there, or less than the part `min_visible` of its area before clipping.
  std::vector<std::string> boxes;
  BoxFormat box_format = BoxFormat::kXyxy;
  double min_area = 1;     // in pixels
  double min_visible = 0;  // 0 to 1
  // Columns with an element for each box, which is dropped with it; they become ragged.
  std::vector<std::string> box_columns;
  // Points: columns whose last size is 2 (x, y), or two columns for x and y. Points are never
  // dropped, unless their column is also one of `box_columns`. A uint8 column POINTS/visible (with
  // the name of the first column) is 1 for each point inside the result and 0 for each outside.
  std::vector<std::string> points;
  // Whether the numbers of boxes and points are fractions of the image's width and height, before
  // and after the step, instead of pixels.
  bool normalized = false;
};

struct DecodeImageOptions {
  ImageOptions image;
  CropKind crop = CropKind::kNone;
  // kCenter: the share of the largest part of that shape. 0.875 is 224 of 256.
  double center_fraction = 0.875;
  // kCenter, if not 0: the middle of the image whose shorter side was resized to this number of
  // pixels, at least the result's width and height. center_fraction is not used. This is
  // torchvision's Resize followed by CenterCrop, to the pixel.
  uint32_t resize_shorter = 0;
  // kRandom: the ranges of the part's share of the image's area, and of its width divided by its
  // height.
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
  // Probability of a horizontal flip.
  double flip = 0;
  OnDamage on_damage = OnDamage::kFail;
  uint64_t seed = 0;  // seed of the crop and of the flip
  // Name of the column of pixels. If it is empty, that of the encoded images without "/encoded" at
  // its end.
  std::string output;
  // Columns that are cropped, resized and flipped with the image. Masks and views are encoded
  // images of the same size, whose columns of pixels are named as the image's is by default. Masks
  // become raw samples of kUInt8 [height, width]; nothing is filled.
  JointColumns joint;
};

namespace augment {

// How a value between pixels is computed.
enum class Sampling { kNearest, kBilinear };
enum class PaddingMode { kConstant, kEdge, kReflect, kSymmetric };

// Numbers are drawn evenly from [min, max].
struct Range {
  double min = 0;
  double max = 0;
};

// A value for all channels, or one for each, 0 to 255.
using Fill = std::vector<double>;

// Brightness, contrast, saturation and hue, in random order. A `brightness` of torchvision that is
// a number b is the range {max(0, 1 - b), 1 + b} here, a `hue` h is {-h, h}. Members with their
// default values change nothing.
struct ColorJitter {
  Range brightness = {1, 1};  // factors, not negative
  Range contrast = {1, 1};
  Range saturation = {1, 1};
  Range hue = {0, 0};  // within [-0.5, 0.5]
};
struct RandomGrayscale {
  double p = 0.1;
};
struct GaussianBlur {
  std::array<int, 2> kernel_size = {3, 3};  // width, height in pixels, odd
  Range sigma = {0.1, 2};                   // standard deviation in pixels
};
// A rectangle of `scale` times the image's area and a ratio of height to width within `ratio`,
// whose logarithm is drawn evenly.
struct RandomErasing {
  double p = 0.5;
  Range scale = {0.02, 0.33};
  Range ratio = {0.3, 3.3};
  Fill value = {0};
  // Each value is drawn separately from 0 to 255. (Those of torchvision are normally distributed,
  // for images that have been normalized.)
  bool random_value = false;
};
struct RandomHorizontalFlip {
  double p = 0.5;
};
struct RandomVerticalFlip {
  double p = 0.5;
};
// The image becomes larger.
struct Pad {
  std::array<int, 4> padding = {0, 0, 0, 0};  // left, top, right, bottom, in pixels
  Fill fill = {0};
  PaddingMode padding_mode = PaddingMode::kConstant;
};
struct RandomRotation {
  Range degrees;  // counter-clockwise
  Sampling interpolation = Sampling::kNearest;
  std::optional<std::array<double, 2>> center;  // x, y; none: the middle
  Fill fill = {0};                              // empty: torchvision's None
};
struct RandomAffine {
  Range degrees;  // clockwise
  std::array<double, 2> translate = {0,
                                     0};  // largest shift, as fractions of the width and the height
  Range scale = {1, 1};
  std::array<Range, 2> shear = {};  // degrees along x and along y
  Sampling interpolation = Sampling::kNearest;
  Fill fill = {0};
  std::optional<std::array<double, 2>> center;
};
struct RandomPerspective {
  double distortion_scale = 0.5;  // 0 to 1
  double p = 0.5;
  Sampling interpolation = Sampling::kBilinear;
  Fill fill = {0};
};
struct RandomInvert {
  double p = 0.5;
};
struct RandomPosterize {
  int bits = 4;
  double p = 0.5;
};
struct RandomSolarize {
  double threshold = 128;
  double p = 0.5;
};
struct RandomAutocontrast {
  double p = 0.5;
};
struct RandomEqualize {
  double p = 0.5;
};
struct RandomAdjustSharpness {
  double sharpness_factor = 2;
  double p = 0.5;
};
// `num_ops` of 14 operations, each drawn independently, at `magnitude` of `num_magnitude_bins`
// (from 0).
struct RandAugment {
  int num_ops = 2;
  int magnitude = 9;
  int num_magnitude_bins = 31;
  Sampling interpolation = Sampling::kNearest;
  Fill fill;
};
// One of 14 operations; the operation and its magnitude are drawn.
struct TrivialAugmentWide {
  int num_magnitude_bins = 31;
  Sampling interpolation = Sampling::kNearest;
  Fill fill;
};

struct Augmentation;
// All of `transforms`, or none.
struct RandomApply {
  std::vector<Augmentation> transforms;
  double p = 0.5;
};

struct Augmentation
    : std::variant<ColorJitter, RandomGrayscale, GaussianBlur, RandomErasing, RandomHorizontalFlip,
                   RandomVerticalFlip, Pad, RandomRotation, RandomAffine, RandomPerspective,
                   RandomInvert, RandomPosterize, RandomSolarize, RandomAutocontrast,
                   RandomEqualize, RandomAdjustSharpness, RandAugment, TrivialAugmentWide,
                   RandomApply> {
  using variant::variant;
  // Out of line: as the type contains itself, compilers would take them far into their callers.
  Augmentation(const Augmentation&);
  Augmentation(Augmentation&&) noexcept;
  Augmentation& operator=(const Augmentation&);
  Augmentation& operator=(Augmentation&&) noexcept;
  ~Augmentation();
};

}  // namespace augment

using augment::Augmentation;

}  // namespace shardfeed

#endif  // SHARDFEED_IMAGES_H_
