// Measures random crops of JPEGs, and making JPEGs seekable, beside libjpeg. Each run prints one
// JSON object.
//
//   jpeg_benchmark crop FOLDER THREADS      crops as torchvision's RandomResizedCrop draws them:
//                                           the whole image by libjpeg, rows and columns skipped
//                                           by libjpeg, DecodeCrop, DecodeCrop of seekable images
//   jpeg_benchmark rewrite FOLDER THREADS   a bare loop of libjpeg's lossless transcoding, and
//                                           MakeSeekable
//
// FOLDER holds images at any depth. Crops are not resized.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "decode/images/jpeg/jpeg.h"
#include "decode/images/jpeg/seekable_jpeg.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "jpeglib.h"
#include "media/image_header.h"

namespace shardfeed {
namespace {

constexpr int kRounds = 7;
constexpr size_t kMinDecoded = 1000;  // images per round

[[noreturn]] void Fail(const std::string& message) {
  fmt::print(stderr, "jpeg_benchmark: {}\n", message);
  std::exit(1);
}

std::string List(const std::vector<double>& values) {
  return fmt::format("[{:.5f}]", fmt::join(values, ", "));
}

std::vector<std::string> ReadImages(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> images;
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    const absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes);
    // Only images that can be made seekable count, because libjpeg ends the program at damaged
    // ones.
    std::string seekable;
    if (header.ok() && header->format == "jpeg" && header->channels != 4 &&
        MakeSeekable(bytes, {}, &seekable)->outcome != SeekableJpeg::Outcome::kDamaged) {
      images.push_back(std::move(bytes));
    }
  }
  if (images.empty()) Fail("no JPEGs in " + folder);
  return images;
}

// Runs a worker for each of the numbers, with one worker per thread. Returns the seconds.
double Timed(int threads, size_t count,
             const std::function<std::function<void(size_t)>()>& make_worker) {
  std::vector<std::function<void(size_t)>> workers;
  for (int t = 0; t < threads; ++t) workers.push_back(make_worker());
  std::atomic<size_t> next{0};
  const double start = NowSeconds();
  std::vector<std::thread> running;
  for (const auto& worker : workers) {
    running.emplace_back([&] {
      for (size_t i = next++; i < count; i = next++) worker(i);
    });
  }
  for (std::thread& thread : running) thread.join();
  return NowSeconds() - start;
}

// Draws a crop as torchvision does with its defaults.
JpegCrop RandomResizedCrop(std::mt19937& random, uint32_t width, uint32_t height) {
  std::uniform_real_distribution<double> scale(0.08, 1);
  std::uniform_real_distribution<double> log_ratio(std::log(3.0 / 4), std::log(4.0 / 3));
  JpegCrop crop;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = scale(random) * width * height;
    const double ratio = std::exp(log_ratio(random));
    crop.width = static_cast<uint32_t>(std::lround(std::sqrt(area * ratio)));
    crop.height = static_cast<uint32_t>(std::lround(std::sqrt(area / ratio)));
    if (crop.width == 0 || crop.height == 0 || crop.width > width || crop.height > height) continue;
    crop.x = random() % (width - crop.width + 1);
    crop.y = random() % (height - crop.height + 1);
    return crop;
  }
  crop.width = std::min(width, height * 4 / 3);
  crop.height = std::min(height, width * 4 / 3);
  crop.x = (width - crop.width) / 2;
  crop.y = (height - crop.height) / 2;
  return crop;
}

// libjpeg, used as in its manual; errors end the program.
class PlainDecoder {
 public:
  PlainDecoder() {
    decoder_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&decoder_);
  }
  ~PlainDecoder() { jpeg_destroy_decompress(&decoder_); }
  PlainDecoder(const PlainDecoder&) = delete;
  PlainDecoder& operator=(const PlainDecoder&) = delete;

  // Returns the beginning of the crop, whose rows are `row_bytes` apart.
  const uint8_t* Whole(const std::string& jpeg, const JpegCrop& crop, size_t* row_bytes) {
    Start(jpeg);
    ReadRows(decoder_.output_height);
    *row_bytes = size_t{decoder_.output_width} * 3;
    return pixels_.data() + crop.y * *row_bytes + crop.x * 3;
  }

  void CropAndSkip(const std::string& jpeg, const JpegCrop& crop) {
    Start(jpeg);
    JDIMENSION x = crop.x;
    JDIMENSION width = crop.width;
    jpeg_crop_scanline(&decoder_, &x, &width);
    jpeg_skip_scanlines(&decoder_, crop.y);
    ReadRows(crop.y + crop.height);
  }

 private:
  void Start(const std::string& jpeg) {
    jpeg_mem_src(&decoder_, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&decoder_, TRUE);
    decoder_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&decoder_);
  }

  void ReadRows(JDIMENSION end) {
    const size_t row_bytes = size_t{decoder_.output_width} * 3;
    const size_t size = (end - decoder_.output_scanline) * row_bytes;
    if (pixels_.size() < size) pixels_.resize(size);
    uint8_t* out = pixels_.data();
    while (decoder_.output_scanline < end) {
      JSAMPROW rows[4];
      for (int i = 0; i < 4; ++i) rows[i] = out + i * row_bytes;
      out += jpeg_read_scanlines(&decoder_, rows,
                                 std::min<JDIMENSION>(4, end - decoder_.output_scanline)) *
             row_bytes;
    }
    jpeg_abort_decompress(&decoder_);
  }

  jpeg_error_mgr errors_;
  jpeg_decompress_struct decoder_;
  std::vector<uint8_t> pixels_;
};

// Calls DecodeCrop for one crop after another in the same memory.
class CropDecoder {
 public:
  const std::vector<uint8_t>& Decode(const std::string& jpeg, const JpegCrop& crop) {
    const size_t size = size_t{crop.width} * crop.height * 3;
    if (pixels_.size() < size) pixels_.resize(size);
    const absl::Status status = decoder_.DecodeCrop(jpeg, crop, pixels_.data(), crop.width * 3);
    if (!status.ok()) Fail(std::string(status.message()));
    return pixels_;
  }

 private:
  JpegDecoder decoder_;
  std::vector<uint8_t> pixels_;
};

void Crop(const std::string& folder, int threads) {
  const std::vector<std::string> images = ReadImages(folder);
  std::vector<std::string> seekable(images.size());
  size_t bytes = 0;
  size_t seekable_bytes = 0;
  for (size_t i = 0; i < images.size(); ++i) {
    if (MakeSeekable(images[i], {}, &seekable[i])->outcome != SeekableJpeg::Outcome::kRewritten) {
      seekable[i] = images[i];
    }
    bytes += images[i].size();
    seekable_bytes += seekable[i].size();
  }
  const size_t count = std::max<size_t>(1, kMinDecoded / images.size()) * images.size();
  std::mt19937 random(1);
  std::vector<JpegCrop> crops;
  double share = 0;
  for (size_t i = 0; i < count; ++i) {
    const ImageHeader header = *ReadImageHeader(images[i % images.size()]);
    crops.push_back(RandomResizedCrop(random, header.width, header.height));
    share += 1.0 * crops[i].width * crops[i].height / header.width / header.height;
  }

  // All decoders must produce the same pixels.
  PlainDecoder plain;
  CropDecoder ours;
  for (size_t i = 0; i < count; ++i) {
    const size_t n = i % images.size();
    size_t row_bytes;
    const uint8_t* expected = plain.Whole(images[n], crops[i], &row_bytes);
    for (const std::string* jpeg : {&images[n], static_cast<const std::string*>(&seekable[n])}) {
      const std::vector<uint8_t>& pixels = ours.Decode(*jpeg, crops[i]);
      for (size_t y = 0; y < crops[i].height; ++y) {
        if (!std::equal(expected + y * row_bytes, expected + y * row_bytes + crops[i].width * 3,
                        pixels.data() + y * crops[i].width * 3)) {
          Fail(fmt::format("the pixels of image {} differ", n));
        }
      }
    }
  }

  const auto by_libjpeg = [&](bool whole) {
    return [&, whole] {
      auto decoder = std::make_shared<PlainDecoder>();
      return std::function<void(size_t)>([&, whole, decoder](size_t i) {
        const std::string& jpeg = images[i % images.size()];
        size_t row_bytes;
        if (whole) {
          decoder->Whole(jpeg, crops[i], &row_bytes);
        } else {
          decoder->CropAndSkip(jpeg, crops[i]);
        }
      });
    };
  };
  const auto by_us = [&](const std::vector<std::string>& jpegs) {
    return [&] {
      auto decoder = std::make_shared<CropDecoder>();
      return std::function<void(size_t)>(
          [&, decoder](size_t i) { decoder->Decode(jpegs[i % jpegs.size()], crops[i]); });
    };
  };
  std::vector<double> seconds[4];
  for (int round = 0; round <= kRounds; ++round) {
    const double taken[4] = {
        Timed(threads, count, by_libjpeg(true)), Timed(threads, count, by_libjpeg(false)),
        Timed(threads, count, by_us(images)), Timed(threads, count, by_us(seekable))};
    if (round == 0) continue;  // warms up
    for (int i = 0; i < 4; ++i) seconds[i].push_back(taken[i]);
  }
  fmt::print(
      "{{\"images\": {}, \"crops\": {}, \"area\": {:.3f}, \"bytes\": {}, \"seekable_bytes\": {}, "
      "\"whole\": {}, \"crop_and_skip\": {}, \"decode_crop\": {}, \"decode_crop_seekable\": {}}}\n",
      images.size(), count, share / static_cast<double>(count), bytes, seekable_bytes,
      List(seconds[0]), List(seconds[1]), List(seconds[2]), List(seconds[3]));
}

// The minimum of any lossless rewriting by libjpeg: coefficients in, coefficients out, with
// optimized tables.
class PlainTranscoder {
 public:
  PlainTranscoder() {
    decoder_.err = encoder_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&decoder_);
    jpeg_create_compress(&encoder_);
  }
  ~PlainTranscoder() {
    jpeg_destroy_compress(&encoder_);
    jpeg_destroy_decompress(&decoder_);
  }
  PlainTranscoder(const PlainTranscoder&) = delete;
  PlainTranscoder& operator=(const PlainTranscoder&) = delete;

  void Rewrite(const std::string& jpeg) {
    jpeg_mem_src(&decoder_, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&decoder_, TRUE);
    jvirt_barray_ptr* coefficients = jpeg_read_coefficients(&decoder_);
    out_.resize(jpeg.size() * 2 + 65536);
    unsigned char* out = out_.data();
    unsigned long size = out_.size();
    jpeg_mem_dest(&encoder_, &out, &size);
    jpeg_copy_critical_parameters(&decoder_, &encoder_);
    encoder_.optimize_coding = TRUE;
    jpeg_write_coefficients(&encoder_, coefficients);
    jpeg_finish_compress(&encoder_);
    jpeg_finish_decompress(&decoder_);
    if (out != out_.data()) Fail("an image grew too much");
  }

 private:
  jpeg_error_mgr errors_;
  jpeg_decompress_struct decoder_;
  jpeg_compress_struct encoder_;
  std::vector<unsigned char> out_;
};

void Rewrite(const std::string& folder, int threads) {
  const std::vector<std::string> images = ReadImages(folder);
  std::vector<double> loop;
  std::vector<double> ours;
  for (int round = 0; round <= kRounds; ++round) {
    const double loop_seconds = Timed(threads, images.size(), [&] {
      auto transcoder = std::make_shared<PlainTranscoder>();
      return std::function<void(size_t)>(
          [&, transcoder](size_t i) { transcoder->Rewrite(images[i]); });
    });
    const double our_seconds = Timed(threads, images.size(), [&] {
      auto out = std::make_shared<std::string>();
      return std::function<void(size_t)>([&, out](size_t i) {
        const absl::StatusOr<SeekableJpeg> result = MakeSeekable(images[i], {}, out.get());
        if (!result.ok()) Fail(std::string(result.status().message()));
      });
    });
    if (round == 0) continue;
    loop.push_back(loop_seconds);
    ours.push_back(our_seconds);
  }
  fmt::print("{{\"images\": {}, \"transcode_loop\": {}, \"make_seekable\": {}}}\n", images.size(),
             List(loop), List(ours));
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) {
#ifndef __OPTIMIZE__
  fmt::print(stderr, "jpeg_benchmark: a debug build measures nothing; use --config=opt\n");
  return 1;
#endif
  const std::string mode = argc == 4 ? argv[1] : "";
  if (mode == "crop") {
    shardfeed::Crop(argv[2], std::atoi(argv[3]));
  } else if (mode == "rewrite") {
    shardfeed::Rewrite(argv[2], std::atoi(argv[3]));
  } else {
    fmt::print(stderr, "usage: jpeg_benchmark crop|rewrite FOLDER THREADS\n");
    return 2;
  }
}
