// Measures images to batches: random crops of 224 x 224, randomly mirrored, 256 per batch. Prints
// one JSON object with the images per second of each round, and CPU seconds for 1,000 images.
//
//   image_benchmark SPEC [IMAGES]   the chain with 1 and 2 threads, and a bare loop of the same
//                                     kernels over records in memory with 2; antialiased, plain,
//                                     and as float16 in planes, normalized

#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "decode/images/image.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "pipeline/dataset.h"
#include "pipeline/rows/decode_image.h"

namespace shardfeed {
namespace {

constexpr int kRounds = 5;
constexpr size_t kBatch = 256;

double CpuSeconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  fmt::print(stderr, "image_benchmark: {}\n", std::string(result.status().message()));
  std::exit(1);
}
void Check(const absl::Status& status) {
  Value(status.ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(status));
}

struct Rates {
  std::vector<double> per_second;
  std::vector<double> cpu_seconds;  // for 1,000

  std::string Json() const {
    return fmt::format("{{\"per_second\": [{:.1f}], \"cpu_seconds\": [{:.4f}]}}",
                       fmt::join(per_second, ", "), fmt::join(cpu_seconds, ", "));
  }
};

// Measures from its construction to Stop.
class Timer {
 public:
  void Stop(uint64_t images, Rates* rates) const {
    const auto n = static_cast<double>(images);
    rates->per_second.push_back(n / (NowSeconds() - start_));
    rates->cpu_seconds.push_back(1000 * (CpuSeconds() - cpu_) / n);
  }

 private:
  const double start_ = NowSeconds();
  const double cpu_ = CpuSeconds();
};

// Timing begins once the chain has used all the memory that it keeps, because kernels, and virtual
// machines even more, take long to provide memory for the first time.
constexpr uint64_t kUntimedBatches = 6;

void RunChain(const std::string& spec, const DecodeImageOptions& options, int threads,
              uint64_t images, Rates* rates) {
  const Dataset ds = Dataset::Read(spec)
                         .Shuffle(1)
                         .Parse({{.name = "image/encoded", .dtype = DType::kBytes},
                                 {.name = "image/class/label", .dtype = DType::kInt64}})
                         .DecodeImage("image/encoded", options)
                         .Repeat()
                         .Batch(kBatch)
                         .Take(images / kBatch + kUntimedBatches);
  const auto it = Value(ds.Start({.threads = threads}));
  Batch batch;
  for (uint64_t i = 0; i < kUntimedBatches; ++i) Check(it->Next(&batch));
  const Timer timer;
  uint64_t rows = 0;
  while (true) {
    Check(it->Next(&batch));
    if (batch.empty()) break;
    rows += batch.rows;
  }
  timer.Stop(rows, rates);
}

void RunLoop(const std::vector<std::string>& jpegs, const DecodeImageOptions& options, int threads,
             uint64_t images, Rates* rates) {
  std::atomic<uint64_t> next = 0;
  std::vector<std::thread> running;
  // Cycles through as many batches as a chain keeps.
  ImageDecoder one(options.image);
  std::vector<char> memory(4 * kBatch * one.result_bytes(), 1);
  const Timer timer;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&] {
      ImageDecoder decoder(options.image);
      for (uint64_t i = next++; i < images; i = next++) {
        const ImageSize size = Value(decoder.Open(jpegs[i % jpegs.size()]));
        Random random(0, 0, 0, i);
        const ImageBox box = RandomResizedCrop(size, options.scale, options.ratio, random);
        Check(decoder.Decode(box, random.Uniform() < options.flip,
                             &memory[i % (4 * kBatch) * decoder.result_bytes()]));
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  timer.Stop(images, rates);
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: image_benchmark SPEC [IMAGES]\n");
    return 2;
  }
  const std::string spec = argv[1];
  const uint64_t images = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2048;
  std::vector<std::string> jpegs;
  {
    const auto it = Value(
        Dataset::Read(spec).Parse({{.name = "image/encoded", .dtype = DType::kBytes}}).Start());
    for (Batch batch; Check(it->Next(&batch)), !batch.empty();) {
      for (size_t r = 0; r < batch.rows; ++r) {
        jpegs.emplace_back(batch.Row<std::string_view>(0, r)[0]);
      }
    }
  }
  DecodeImageOptions antialiased;
  antialiased.crop = CropKind::kRandom;
  antialiased.flip = 0.5;
  DecodeImageOptions plain = antialiased;
  plain.image.antialias = false;
  DecodeImageOptions half = antialiased;
  half.image.layout = ImageLayout::kNCHW;
  half.image.dtype = DType::kFloat16;
  half.image.mean = {0.485f, 0.456f, 0.406f};
  half.image.std = {0.229f, 0.224f, 0.225f};
  Rates chain, chain_1, chain_plain, chain_half, loop;
  for (int round = 0; round < kRounds; ++round) {
    RunChain(spec, antialiased, 2, images, &chain);
    RunLoop(jpegs, antialiased, 2, images, &loop);
    RunChain(spec, plain, 2, images, &chain_plain);
    RunChain(spec, half, 2, images, &chain_half);
    RunChain(spec, antialiased, 1, images / 2, &chain_1);
  }
  fmt::print(
      "{{\"antialiased\": {}, \"loop\": {}, \"plain\": {}, \"float16_planes\": {}, "
      "\"one_thread\": {}}}\n",
      chain.Json(), loop.Json(), chain_plain.Json(), chain_half.Json(), chain_1.Json());
  return 0;
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) { return shardfeed::Main(argc, argv); }
