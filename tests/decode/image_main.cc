// Decodes images and prints their raw pixels one after another, for tests that compare with other
// libraries.
//
//   image '[{"path": "a.png", "size": [224, 224], "box": [x, y, width, height], ...}, ...]'
//
// Other keys: channels, raw, interpolation, antialias, layout, dtype, mean, std, orient, flip,
// dct_scaling, accept_damaged, max_pixels. If an image cannot be decoded, the program ends with the
// error on standard error.

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "decode/images/image.h"
#include "nlohmann/json.hpp"

int main(int argc, char** argv) {
  using namespace shardfeed;
  if (argc != 2) return 2;
  for (const auto& job : nlohmann::json::parse(argv[1])) {
    std::ifstream file(job["path"].get<std::string>(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const std::map<std::string, Interpolation> interpolations = {
        {"nearest", Interpolation::kNearest},
        {"bilinear", Interpolation::kBilinear},
        {"bicubic", Interpolation::kBicubic},
        {"area", Interpolation::kArea}};
    const std::map<std::string, DType> dtypes = {
        {"uint8", DType::kUInt8},     {"uint16", DType::kUInt16},   {"int32", DType::kInt32},
        {"float16", DType::kFloat16}, {"float32", DType::kFloat32}, {"int64", DType::kInt64}};
    ImageOptions options;
    options.width = job["size"][1];
    options.height = job["size"][0];
    options.channels = job.value("channels", 3);
    options.raw = job.value("raw", false);
    options.interpolation =
        interpolations.at(job.value("interpolation", options.raw ? "nearest" : "bilinear"));
    options.antialias = job.value("antialias", true);
    options.layout =
        job.value("layout", "NHWC") == "NCHW" ? ImageLayout::kNCHW : ImageLayout::kNHWC;
    options.dtype = dtypes.at(job.value("dtype", "uint8"));
    options.mean = job.value("mean", std::vector<float>());
    options.std = job.value("std", std::vector<float>());
    options.orient = job.value("orient", false);
    options.dct_scaling = job.value("dct_scaling", true);
    options.jpeg.accept_damaged = job.value("accept_damaged", false);
    options.jpeg.max_pixels = job.value("max_pixels", options.jpeg.max_pixels);
    absl::Status status = CheckImageOptions(options);
    std::vector<char> out;
    if (status.ok()) {
      ImageDecoder decoder(options);
      const absl::StatusOr<ImageSize> size = decoder.Open(bytes);
      status = size.status();
      if (status.ok()) {
        out.resize(decoder.result_bytes());
        ImageBox box = {0, 0, size->width, size->height};
        if (job.contains("box")) {
          box = {job["box"][0], job["box"][1], job["box"][2], job["box"][3]};
        }
        status = decoder.Decode(box, job.value("flip", false), out.data());
      }
    }
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      return 1;
    }
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
  return 0;
}
