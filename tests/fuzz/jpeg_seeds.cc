// Makes seeds of the jpeg target, one for each kind of JPEG that testdata lacks.
//
//   bazel run //tests/fuzz:jpeg_seeds -- $PWD/testdata/fuzz/jpeg

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/decode/jpeg_images.h"

int main(int argc, char** argv) {
  using shardfeed::testing::JpegSpec;
  if (argc != 2) {
    std::fprintf(stderr, "usage: jpeg_seeds FOLDER\n");
    return 2;
  }
  const std::vector<std::pair<int, int>> full = {{1, 1}, {1, 1}, {1, 1}};
  // Exif: little-endian, one entry, orientation 6.
  const std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
                         32);
  const std::vector<std::pair<std::string, JpegSpec>> specs = {
      {"420", {.optimized = true}},
      {"444", {.sampling = full}},
      {"422", {.sampling = {{2, 1}, {1, 1}, {1, 1}}, .quality = 40}},
      {"gray", {.sampling = {{1, 1}}}},
      {"rgb", {.sampling = full, .rgb = true}},
      {"cmyk", {.sampling = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"progressive", {.progressive = true}},
      {"progressive_444_restart", {.sampling = full, .progressive = true, .restart_rows = 1}},
      {"restart", {.restart_interval = 2}},
      {"separate", {.sampling = full, .separate_scans = true}},
      {"exif", {.segments = {{0xe1, exif}}}},
  };
  for (auto [name, spec] : specs) {
    spec.width = 37;
    spec.height = 29;
    std::ofstream file(std::string(argv[1]) + "/made_" + name, std::ios::binary);
    file << std::string("\x02\x03\x05\x14\x10", 5) << shardfeed::testing::MakeJpeg(spec);
    if (!file.flush()) {
      std::fprintf(stderr, "jpeg_seeds: cannot write to %s\n", argv[1]);
      return 3;
    }
  }
  return 0;
}
