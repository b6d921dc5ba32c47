// Measures delivery to the GPU beside its upper bounds. Each run prints one JSON object.
//
//   cuda_benchmark copy       batches of 38.5 MB (256 x 224 x 224 x 3 bytes), and a bare loop of
//                             cuMemcpyHtoDAsync from pinned memory, in turn
//   cuda_benchmark normalize  the same with normalization to float16, and without, in turn
//   cuda_benchmark feed       a consumer at 80 % of the feed's rate: does it wait?
//   cuda_benchmark lost       the time that the feed adds to a step of a consumer that is slower
//                             than the bus
//   cuda_benchmark overlap    decoding and computing, both longer than the copy: is it hidden?
//   cuda_benchmark all        all of these
//   cuda_benchmark device     measures nothing: prints the device, or why there is none
//
// Uses device 0. SHARDFEED_CUDA_DRIVER may name tests/cuda's stand-in driver, whose times are
// meaningful only for `overlap`.

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cuda/device.h"
#include "cuda/pinned_pool.h"
#include "fmt/format.h"
#include "shardfeed/cuda.h"

namespace shardfeed {
namespace {

constexpr char kSpinPtx[] =
#include "benchmarks/spin.ptx.inc"
    ;

constexpr int kRounds = 5;
constexpr int kBatches = 100;
constexpr int64_t kRows = 256;
constexpr size_t kBatchBytes = kRows * 224 * 224 * 3;

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  fmt::print(stderr, "cuda_benchmark: {}\n", std::string(result.status().message()));
  std::exit(1);
}
void Check(const absl::Status& status) {
  Value(status.ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(status));
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}
std::string List(const std::vector<double>& values) {
  return fmt::format("[{:.6g}]", fmt::join(values, ", "));
}

// A function of the stand-in driver, or null.
template <typename F>
F StandIn(const char* name) {
  const char* path = std::getenv("SHARDFEED_CUDA_DRIVER");
  void* library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<F>(dlsym(library, name));
}

// A device, and a consumer on it.
class Consumer {
 public:
  Consumer() : device(Value(CudaDevice::Open(0))), driver(device->driver()), scope_(*device) {
    Ok(driver.StreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
    Ok(driver.ModuleLoadData(&module_, kSpinPtx), "cuModuleLoadData");
    Ok(driver.ModuleGetFunction(&spin_, module_, "spin"), "cuModuleGetFunction");
    Ok(driver.EventCreate(&begin_, 0), "cuEventCreate");
    Ok(driver.EventCreate(&end_, 0), "cuEventCreate");
    // The stand-in's copies take no CPU time.
    if (auto work = StandIn<void (*)(int)>("StandInSetWork")) work(0);
  }
  ~Consumer() {
    driver.EventDestroy(begin_);
    driver.EventDestroy(end_);
    driver.ModuleUnload(module_);
    driver.StreamDestroy(stream);
  }

  void Ok(CuResult result, const char* call) { Check(driver.Check(result, call)); }
  // Keeps the device busy.
  void Spin(double seconds) {
    auto nanoseconds = static_cast<uint64_t>(seconds * 1e9);
    void* params[] = {&nanoseconds};
    Ok(driver.LaunchKernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr), "cuLaunchKernel");
  }
  // The seconds of what `steps` enqueues on the stream, by the device's clock.
  double Seconds(const std::function<void()>& steps) {
    Ok(driver.EventRecord(begin_, stream), "cuEventRecord");
    steps();
    Ok(driver.EventRecord(end_, stream), "cuEventRecord");
    Ok(driver.EventSynchronize(end_), "cuEventSynchronize");
    float milliseconds = 0;
    Ok(driver.EventElapsedTime(&milliseconds, begin_, end_), "cuEventElapsedTime");
    return milliseconds * 1e-3;
  }

  const std::shared_ptr<const CudaDevice> device;
  const CudaDriver& driver;
  CuStream stream = nullptr;

 private:
  const CudaContextScope scope_;
  CuModule module_ = nullptr;
  CuFunction spin_ = nullptr;
  CuEvent begin_ = nullptr;
  CuEvent end_ = nullptr;
};

// One batch of images, delivered over and over, so that only delivery to the device is measured.
std::unique_ptr<DeviceIterator> Images(bool normalize) {
  const Dataset ds = Dataset::Range(0, kRows)
                         .Map({{"image", DType::kUInt8, {224, 224, 3}}},
                              [](RowContext& row) {
                                for (uint8_t& out : row.Out<uint8_t>(0)) out = 7;
                                return absl::OkStatus();
                              },
                              {"value"})
                         .Batch(kRows);
  DeviceOptions options;
  if (normalize) {
    options.normalize["image"] = {.mean = {0.485f, 0.456f, 0.406f},
                                  .std = {0.229f, 0.224f, 0.225f}};
  }
  return Value(DeviceIterator::Start(ds, options, {.headspace = true}));
}

void Take(Consumer& consumer, DeviceIterator& it, int batches, double spin = 0) {
  DeviceBatch batch;
  for (int i = 0; i < batches; ++i) {
    Check(it.Next(&batch, consumer.stream));
    if (spin > 0) consumer.Spin(spin);
  }
}

// The seconds of one batch when nothing else is done.
double FeedSeconds(Consumer& consumer, bool normalize) {
  const auto it = Images(normalize);
  Take(consumer, *it, 5);
  return consumer.Seconds([&] { Take(consumer, *it, kBatches); }) / kBatches;
}

void Copy(Consumer& consumer) {
  auto pool = PinnedPool::Create(consumer.device, 0);
  std::shared_ptr<char> host[2];
  CuDevicePtr memory[2];
  for (int i : {0, 1}) {
    host[i] = Value(pool->AllocatePinned(kBatchBytes));
    consumer.Ok(consumer.driver.MemAlloc(&memory[i], kBatchBytes), "cuMemAlloc");
  }
  const auto bare = [&] {
    return consumer.Seconds([&] {
      for (int i = 0; i < kBatches; ++i) {
        consumer.Ok(consumer.driver.MemcpyHtoDAsync(memory[i % 2], host[i % 2].get(), kBatchBytes,
                                                    consumer.stream),
                    "cuMemcpyHtoDAsync");
      }
    }) / kBatches;
  };
  bare();
  std::vector<double> ours;
  std::vector<double> loop;
  for (int i = 0; i < kRounds; ++i) {
    ours.push_back(FeedSeconds(consumer, false));
    loop.push_back(bare());
  }
  for (CuDevicePtr m : memory) consumer.driver.MemFree(m);
  fmt::print(
      "{{\"benchmark\": \"copy\", \"loop_gb_per_second\": {:.2f}, \"ours_over_loop\": {:.4f}, "
      "\"ours\": {}, \"loop\": {}}}\n",
      kBatchBytes * 1e-9 / Median(loop), Median(loop) / Median(ours), List(ours), List(loop));
}

void NormalizeToFloat16(Consumer& consumer) {
  std::vector<double> with;
  std::vector<double> without;
  for (int i = 0; i < kRounds; ++i) {
    with.push_back(FeedSeconds(consumer, true));
    without.push_back(FeedSeconds(consumer, false));
  }
  fmt::print(
      "{{\"benchmark\": \"normalize\", \"with_over_without\": {:.4f}, \"with\": {}, \"without\": "
      "{}}}\n",
      Median(with) / Median(without), List(with), List(without));
}

void Feed(Consumer& consumer) {
  const double step = FeedSeconds(consumer, true) / 0.8;
  const auto it = Images(true);
  Take(consumer, *it, 5, step);
  consumer.Ok(consumer.driver.StreamSynchronize(consumer.stream), "cuStreamSynchronize");
  const DeviceStats before = it->stats();
  const double seconds = consumer.Seconds([&] { Take(consumer, *it, kBatches, step); });
  const DeviceStats after = it->stats();
  fmt::print(
      "{{\"benchmark\": \"feed\", \"step_seconds\": {:.6f}, \"seconds_per_step\": {:.6f}, "
      "\"waited_seconds\": {:.6f}, \"verdict\": \"{}\"}}\n",
      step, seconds / kBatches, after.exposed_seconds - before.exposed_seconds, after.verdict);
}

void Lost(Consumer& consumer) {
  const double step = 2 * FeedSeconds(consumer, true);
  std::vector<double> lost;
  for (int i = 0; i < kRounds; ++i) {
    const double alone = consumer.Seconds([&] {
      for (int b = 0; b < kBatches; ++b) consumer.Spin(step);
    });
    const auto it = Images(true);
    Take(consumer, *it, 5, step);
    const double fed = consumer.Seconds([&] { Take(consumer, *it, kBatches, step); });
    lost.push_back((fed - alone) / kBatches);
  }
  fmt::print(
      "{{\"benchmark\": \"lost\", \"step_seconds\": {:.6f}, \"lost_microseconds_per_step\": "
      "{:.2f}, \"lost\": {}}}\n",
      step, 1e6 * Median(lost), List(lost));
}

// Decoding takes `decode` seconds per batch, computing `compute`.
DeviceStats Overlap(Consumer& consumer, int batches, double decode, double compute,
                    double* seconds) {
  constexpr int64_t kPerBatch = 8;
  const Dataset ds =
      Dataset::Range(0, batches * kPerBatch)
          .Map({{"image", DType::kUInt8, {static_cast<int64_t>(kBatchBytes) / kPerBatch}}},
               [=](RowContext&) {
                 std::this_thread::sleep_for(std::chrono::duration<double>(decode / kPerBatch));
                 return absl::OkStatus();
               },
               {"value"})
          .Batch(kPerBatch);
  const auto it = Value(DeviceIterator::Start(ds, {}, {.threads = 1}));
  const double start = NowSeconds();
  DeviceBatch batch;
  do {
    Check(it->Next(&batch, consumer.stream));
    if (!batch.empty()) consumer.Spin(compute);
  } while (!batch.empty());
  consumer.Ok(consumer.driver.StreamSynchronize(consumer.stream), "cuStreamSynchronize");
  *seconds = NowSeconds() - start;
  return it->stats();
}

// Three cases: decoding limits, computing limits, and both take the same time.
void OverlapAll(Consumer& consumer) {
  constexpr int kSteps = 50;
  const auto set_speed = StandIn<void (*)(double, double)>("StandInSetSpeed");
  constexpr double kCopy = 0.01;
  for (const auto& [decode, compute] :
       std::vector<std::pair<double, double>>{{0.03, 0.015}, {0.015, 0.03}, {0.02, 0.02}}) {
    if (set_speed) set_speed(kBatchBytes / kCopy, 1e-4);
    double seconds = 0;
    const DeviceStats stats = Overlap(consumer, kSteps, decode, compute, &seconds);
    std::string whole = "null";
    if (set_speed) {
      // The same with instantaneous copies.
      set_speed(1e18, 0);
      double free_seconds = 0;
      Overlap(consumer, kSteps, decode, compute, &free_seconds);
      // Nothing can hide the first copy.
      const double more = seconds - free_seconds - kCopy;
      whole = fmt::format("{:.4f}", 1 - std::max(0.0, more) / (kCopy * (kSteps - 1)));
    }
    fmt::print(
        "{{\"benchmark\": \"overlap\", \"decode_seconds\": {}, \"compute_seconds\": {}, "
        "\"copy_seconds\": {:.4f}, \"hidden\": {:.4f}, \"hidden_by_run_time\": {}, "
        "\"verdict\": \"{}\"}}\n",
        decode, compute, static_cast<double>(kBatchBytes) / stats.bytes_per_second, stats.hidden,
        whole, stats.verdict);
  }
}

int Main(int argc, char** argv) {
  const std::vector<std::pair<std::string, void (*)(Consumer&)>> benchmarks = {
      {"copy", Copy},
      {"normalize", NormalizeToFloat16},
      {"feed", Feed},
      {"lost", Lost},
      {"overlap", OverlapAll}};
  const std::string name = argc == 2 ? argv[1] : "";
  bool known = name == "all" || name == "device";
  for (const auto& [n, unused] : benchmarks) known |= n == name;
  if (!known) {
    fmt::print(stderr, "usage: cuda_benchmark copy|normalize|feed|lost|overlap|all|device\n");
    return 2;
  }
#ifndef NDEBUG
  fmt::print(stderr, "cuda_benchmark: a debug build measures nothing; use --config=opt\n");
  return 2;
#endif
  Consumer consumer;
  fmt::print("{{\"device\": \"{}\", \"driver\": {}, \"numa_node\": {}}}\n", consumer.device->name(),
             consumer.driver.version, consumer.device->numa_node());
  for (const auto& [n, run] : benchmarks) {
    if (name == n || name == "all") run(consumer);
  }
  return 0;
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) { return shardfeed::Main(argc, argv); }
