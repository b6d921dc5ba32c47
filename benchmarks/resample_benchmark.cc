// Measures resizing of crops of images, beside OpenCV on the same pixels. Prints one JSON object
// with the seconds of each round.
//
//   resample_benchmark FILE [SIZE]
//
// FILE contains crops, each of which is a line "width height" and width * height * 3 bytes, as
// run.py writes them. The antialiased results, SIZE x SIZE (default 224), are written to FILE.out,
// which run.py checks.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "decode/images/pixels/resample.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "opencv2/imgproc.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const uint32_t size = argc > 2 ? std::atoi(argv[2]) : 224;
  cv::setNumThreads(1);
  struct Crop {
    uint32_t width = 0;
    uint32_t height = 0;
    std::string pixels;
  };
  std::vector<Crop> crops;
  std::ifstream in(argv[1], std::ios::binary);
  Crop crop;
  while (in >> crop.width >> crop.height) {
    in.get();
    crop.pixels.resize(size_t{crop.width} * crop.height * 3);
    in.read(crop.pixels.data(), crop.pixels.size());
    crops.push_back(crop);
  }
  std::vector<uint8_t> out(size_t{size} * size * 3);
  shardfeed::Resampler resampler;
  std::vector<double> ours[2], area, linear;
  const auto resize = [&](const Crop& c, bool antialias) {
    const auto* pixels = reinterpret_cast<const uint8_t*>(c.pixels.data());
    resampler.Resize({pixels, size_t{3} * c.width, c.width, c.height}, 3, {.antialias = antialias},
                     size, size, out.data(), size_t{3} * size);
  };
  const auto timed = [&](std::vector<double>& seconds, auto&& run) {
    const auto start = std::chrono::steady_clock::now();
    for (const Crop& c : crops) run(c);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  for (int round = 0; round < 5; ++round) {
    for (bool antialias : {false, true}) {
      timed(ours[antialias], [&](const Crop& c) { resize(c, antialias); });
    }
    cv::Mat to(size, size, CV_8UC3, out.data());
    for (int method : {cv::INTER_AREA, cv::INTER_LINEAR}) {
      timed(method == cv::INTER_AREA ? area : linear, [&](const Crop& c) {
        const cv::Mat from(c.height, c.width, CV_8UC3, const_cast<char*>(c.pixels.data()));
        cv::resize(from, to, to.size(), 0, 0, method);
      });
    }
  }
  std::ofstream result(std::string(argv[1]) + ".out", std::ios::binary);
  for (const Crop& c : crops) {
    resize(c, true);
    result.write(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
  }
  fmt::print(
      "{{\"crops\": {}, \"size\": {}, \"antialiased\": [{:.5f}], \"plain\": [{:.5f}], "
      "\"opencv_area\": [{:.5f}], \"opencv_linear\": [{:.5f}]}}\n",
      crops.size(), size, fmt::join(ours[1], ", "), fmt::join(ours[0], ", "), fmt::join(area, ", "),
      fmt::join(linear, ", "));
}
