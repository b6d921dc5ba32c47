// Measures writing, verifying and indexing beside the loops and programs that bound them, and the
// reader in its orders. Each run prints one JSON object; run.py repeats runs and summarizes them.
//
//   records_benchmark make large|small FOLDER BYTES   a dataset of 16 shards
//   records_benchmark write FOLDER OUT                DatasetWriter, and cp of the result
//   records_benchmark examples FILE OUT THREADS       ExampleBuilder and DatasetWriter, for rows of
//   50
//                                                     floats in FILE, x, and their numbers, y
//   records_benchmark gzip FOLDER OUT [keep]          DatasetWriter with GZIP
//   records_benchmark verify FOLDER THREADS           Verify, and a loop that only reads and
//                                                     computes the CRCs, alternating
//   records_benchmark index FOLDER                    IndexShard on one thread
//   records_benchmark read FOLDER ORDER THREADS       Reader, and the loop, alternating
//   records_benchmark cold FOLDER ORDER THREADS       Reader, bypassing the page cache
//   records_benchmark slow FOLDER ORDER BUDGET        Reader with a consumer of 0.5 GB/s: peak
//                                                     memory of the process
//   records_benchmark open FOLDER SHARDS              from the names to the first record; makes the
//                                                     dataset with this many shards if needed
//   records_benchmark order RECORDS                   the functions of the orders, one thread

#include <isa-l/crc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fmt/format.h"
#include "io/file.h"
#include "io/page_cache.h"
#include "io/parallel.h"
#include "reader/order/order.h"
#include "reader/reader.h"
#include "reader/scan.h"
#include "reader/shards/shard_table.h"
#include "shard/indexing/index_build.h"
#include "shard/spec/spec.h"
#include "shard/writing/writer.h"
#include "shardfeed/examples.h"
#include "shardfeed/verify.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr int kRounds = 5;

// CPU time of all threads, in user and kernel mode.
double ProcessorSeconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ThreadSeconds() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <typename T>
T Value(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  fmt::print(stderr, "records_benchmark: {}\n", std::string(result.status().message()));
  std::exit(1);
}
void Check(const absl::Status& status) {
  Value(status.ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(status));
}

std::string List(const std::vector<double>& values) {
  return fmt::format("[{:.5f}]", fmt::join(values, ", "));
}

std::unique_ptr<DatasetWriter> Writer(const std::string& folder,
                                      Compression compression = Compression::kNone) {
  DatasetWriterOptions options;
  options.encode.compression = compression;
  options.overwrite = true;
  options.sync = false;
  return Value(DatasetWriter::Create(Value(ParseOutputSpec(folder + "/data@16")), options));
}

// large: 110 KB of bytes that, like images, do not compress. small: 50 floats and a label.
void Make(const std::string& kind, const std::string& folder, uint64_t bytes) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::string> records;
  for (int i = 0; i < (kind == "large" ? 200 : 4096); ++i) {
    ExampleBuilder builder;
    if (kind == "large") {
      std::string image(100000 + random() % 20000, '\0');
      for (char& c : image) c = static_cast<char>(random());
      builder.AddBytes("image/encoded", image);
      builder.AddInt64("image/class/label", i);
    } else {
      std::vector<float> x(50);
      for (float& value : x) value = normal(random);
      builder.AddFloatList("x", x);
      builder.AddInt64("y", i % 10);
    }
    builder.SerializeExample(&records.emplace_back());
  }
  auto writer = Writer(folder);
  uint64_t written = 0;
  uint64_t n = 0;
  for (; written < bytes; ++n) {
    const std::string& record = records[n % records.size()];
    Check(writer->Write(record));
    written += record.size();
  }
  Value(writer->Finish({}));
  fmt::print("{{\"records\": {}, \"bytes\": {}}}\n", n, written);
}

// Reads all records into memory, as a program that produces them would have them.
std::vector<std::string> ReadRecords(const std::string& folder) {
  std::vector<std::string> records;
  Check(ScanDataset(Value(ResolveSpec(folder + "/data@16")), {.threads = 1},
                    [&](size_t, const RecordBlock& block) {
                      for (const Record& r : block.records) records.emplace_back(r.payload);
                      return absl::OkStatus();
                    }));
  return records;
}

void Write(const std::string& folder, const std::string& out) {
  const std::vector<std::string> records = ReadRecords(folder);
  std::vector<double> write;
  std::vector<double> cp;
  for (int round = 0; round < kRounds; ++round) {
    std::filesystem::remove_all(out);
    double start = NowSeconds();
    auto writer = Writer(out + "/written");
    for (const std::string& record : records) Check(writer->Write(record));
    Value(writer->Finish({}));
    writer.reset();
    write.push_back(NowSeconds() - start);
    std::filesystem::create_directories(out + "/copied");
    const std::string command =
        fmt::format("cp --reflink=never {0}/written/data-* {0}/copied/", out);
    start = NowSeconds();
    if (std::system(command.c_str()) != 0) std::exit(1);
    cp.push_back(NowSeconds() - start);
  }
  std::filesystem::remove_all(out);
  fmt::print("{{\"records\": {}, \"write\": {}, \"cp\": {}}}\n", records.size(), List(write),
             List(cp));
}

void WriteExamples(const std::string& file, const std::string& out, int threads) {
  constexpr size_t kFloats = 50;
  const std::string bytes = Value(ReadFile(file, uint64_t{1} << 32));
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  DatasetWriterOptions options;
  options.overwrite = true;
  options.sync = false;
  options.threads = threads;
  const double start = NowSeconds();
  auto writer = Value(DatasetWriter::Create(Value(ParseOutputSpec(out)), options));
  ExampleBuilder builder;
  std::string record;
  for (size_t row = 0; row < values.size() / kFloats; ++row) {
    builder.Clear();
    builder.AddFloatList("x", absl::MakeConstSpan(values).subspan(row * kFloats, kFloats));
    builder.AddInt64("y", static_cast<int64_t>(row));
    record.clear();
    builder.SerializeExample(&record);
    Check(writer->Write(record));
  }
  const Manifest manifest = Value(writer->Finish({}));
  writer.reset();
  fmt::print("{{\"records\": {}, \"seconds\": {:.6f}}}\n", manifest.num_records(),
             NowSeconds() - start);
}

void WriteGzip(const std::string& folder, const std::string& out, bool keep) {
  const std::vector<std::string> records = ReadRecords(folder);
  std::filesystem::remove_all(out);
  const double start = NowSeconds();
  auto writer = Writer(out, Compression::kGzip);
  for (const std::string& record : records) Check(writer->Write(record));
  const Manifest manifest = Value(writer->Finish({}));
  fmt::print("{{\"records\": {}, \"bytes\": {}, \"seconds\": {}}}\n", records.size(),
             manifest.num_bytes(), NowSeconds() - start);
  writer.reset();
  if (!keep) std::filesystem::remove_all(out);
}

// The minimum for any reader: read, and compute each record's two CRCs. Returns the number of
// records.
uint64_t CrcLoop(const ShardSet& set, int threads) {
  std::atomic<uint64_t> records{0};
  Check(ParallelFor(set.paths.size(), threads, {}, [&](size_t i) -> absl::Status {
    const auto file = Value(File::Open(set.paths[i]));
    std::string buffer(1 << 20, '\0');
    const auto crc = [](const char* bytes, size_t size) {
      return ~crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(bytes)),
                          static_cast<int>(size), ~0u);
    };
    uint64_t offset = 0;
    uint64_t n = 0;
    while (offset < file->size()) {
      const size_t size = Value(file->ReadAt(offset, absl::MakeSpan(buffer)));
      size_t at = 0;
      while (size - at >= kFrameBytes) {
        const char* frame = buffer.data() + at;
        const uint64_t length = LoadLittleEndian<uint64_t>(frame);
        if (length + kFrameBytes > size - at) break;
        if (MaskCrc(crc(frame, 8)) != LoadLittleEndian<uint32_t>(frame + 8) ||
            MaskCrc(crc(frame + kHeaderBytes, length)) !=
                LoadLittleEndian<uint32_t>(frame + kHeaderBytes + length)) {
          return absl::DataLossError("wrong CRC");
        }
        at += length + kFrameBytes;
        ++n;
      }
      offset += at;
    }
    records += n;
    return absl::OkStatus();
  }));
  return records;
}

void MeasureVerify(const std::string& folder, int threads) {
  const ShardSet set = Value(ResolveSpec(folder + "/data@16"));
  std::vector<double> loop;
  std::vector<double> verify;
  uint64_t records = 0;
  for (int round = 0; round <= 2 * kRounds; ++round) {
    double start = NowSeconds();
    const uint64_t expected = CrcLoop(set, threads);
    const double loop_seconds = NowSeconds() - start;
    start = NowSeconds();
    const VerifyReport report = Value(Verify(set, {.threads = threads}));
    const double verify_seconds = NowSeconds() - start;
    records = report.num_records();
    if (report.num_defects() != 0 || records != expected) {
      fmt::print(stderr, "records_benchmark: the two do not agree\n");
      std::exit(1);
    }
    if (round == 0) continue;  // warms the page cache
    loop.push_back(loop_seconds);
    verify.push_back(verify_seconds);
  }
  fmt::print("{{\"records\": {}, \"crc_loop\": {}, \"verify\": {}}}\n", records, List(loop),
             List(verify));
}

void Index(const std::string& folder) {
  const ShardSet set = Value(ResolveSpec(folder + "/data@16"));
  std::vector<double> seconds;
  uint64_t records = 0;
  uint64_t bytes = 0;
  std::atomic<uint64_t> bytes_read{0};
  for (int round = 0; round < kRounds; ++round) {
    records = bytes = bytes_read = 0;
    const double start = NowSeconds();
    for (const std::string& path : set.paths) {
      const IndexSummary summary = Value(IndexShard(path, {.bytes_read = &bytes_read}));
      records += summary.records;
      bytes += summary.shard_bytes;
    }
    seconds.push_back(NowSeconds() - start);
  }
  fmt::print("{{\"records\": {}, \"bytes\": {}, \"bytes_read\": {}, \"index\": {}}}\n", records,
             bytes, bytes_read.load(), List(seconds));
}

OrderSpec ParseOrder(const std::string& name) {
  OrderSpec order;
  if (name == "interleave") order.kind = OrderSpec::Kind::kInterleave;
  if (name == "shuffle" || name == "exact") order.kind = OrderSpec::Kind::kShuffle;
  if (name == "exact") order.window = OrderSpec::kAll;
  return order;
}

// Returns the seconds to deliver every record `epochs` times; counts the records.
double Drain(const std::shared_ptr<const ShardTable>& table, const std::string& order, int threads,
             CacheUse cache, uint64_t epochs, uint64_t* records, ReaderStats* stats) {
  ReaderOptions options;
  options.epochs = epochs;
  options.order = ParseOrder(order);
  options.threads = threads;
  options.page_cache = cache;
  const double start = NowSeconds();
  const auto reader = Value(Reader::Open(table, options));
  *records = 0;
  for (ReadBlock block;;) {
    Check(reader->Next(&block));
    if (block.records.empty()) break;
    *records += block.records.size();
  }
  const double seconds = NowSeconds() - start;
  *stats = reader->stats();
  return seconds;
}

void Read(const std::string& folder, const std::string& order, int threads) {
  const ShardSet set = Value(ResolveSpec(folder + "/data@16"));
  const auto table = Value(ShardTable::Open(set));
  std::vector<double> loop;
  std::vector<double> read;
  std::vector<double> loop_processor;
  std::vector<double> read_processor;
  uint64_t records = 0;
  ReaderStats stats;
  constexpr uint64_t kEpochs = 4;
  for (int round = 0; round <= kRounds; ++round) {
    const double start = NowSeconds();
    const double processor = ProcessorSeconds();
    uint64_t expected = 0;
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      expected += table->summary(0).compression == Compression::kNone ? CrcLoop(set, threads)
                                                                      : table->num_records();
    }
    const double loop_seconds = NowSeconds() - start;
    const double between = ProcessorSeconds();
    const double read_seconds =
        Drain(table, order, threads, CacheUse::kAuto, kEpochs, &records, &stats);
    if (records != expected) {
      fmt::print(stderr, "records_benchmark: the two do not agree\n");
      std::exit(1);
    }
    if (round == 0) continue;  // warms the page cache
    loop.push_back(loop_seconds);
    read.push_back(read_seconds);
    loop_processor.push_back(between - processor);
    read_processor.push_back(ProcessorSeconds() - between);
  }
  fmt::print(
      "{{\"records\": {}, \"io\": \"{}\", \"crc_loop\": {}, \"read\": {}, "
      "\"crc_loop_processor\": {}, \"read_processor\": {}}}\n",
      records / kEpochs, stats.io, List(loop), List(read), List(loop_processor),
      List(read_processor));
}

void Cold(const std::string& folder, const std::string& order, int threads) {
  const ShardSet set = Value(ResolveSpec(folder + "/data@16"));
  const auto table = Value(ShardTable::Open(set));
  std::vector<double> read;
  std::vector<double> cpu;
  uint64_t records = 0;
  ReaderStats stats;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < table->num_shards(); ++i) DropFromCache(*Value(table->OpenFile(i)));
    const double before = ProcessorSeconds();
    read.push_back(Drain(table, order, threads, CacheUse::kBypass, 1, &records, &stats));
    cpu.push_back(ProcessorSeconds() - before);
  }
  fmt::print(
      "{{\"records\": {}, \"bytes\": {}, \"io\": \"{}\", \"registered\": \"{}\", \"read\": {}, "
      "\"processor\": {}}}\n",
      records, stats.bytes, stats.io, stats.io_registered, List(read), List(cpu));
}

void Slow(const std::string& folder, const std::string& order, uint64_t budget) {
  constexpr double kBytesPerSecond = 500e6;
  const ShardSet set = Value(ResolveSpec(folder + "/data@16"));
  const auto table = Value(ShardTable::Open(set));
  ReaderOptions options;
  options.order = ParseOrder(order);
  options.threads = 2;
  options.budget_bytes = budget;
  const auto reader = Value(Reader::Open(table, options));
  const double start = NowSeconds();
  uint64_t bytes = 0;
  for (ReadBlock block;;) {
    Check(reader->Next(&block));
    if (block.records.empty()) break;
    for (std::string_view record : block.records) bytes += record.size();
    const double ahead = static_cast<double>(bytes) / kBytesPerSecond - (NowSeconds() - start);
    if (ahead > 0) std::this_thread::sleep_for(std::chrono::duration<double>(ahead));
  }
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("{{\"budget_mib\": {}, \"resident_mib\": {}, \"buffers_mib\": {}}}\n", budget >> 20,
             usage.ru_maxrss >> 10, reader->stats().peak_buffer_bytes >> 20);
}

void Open(const std::string& folder, uint64_t shards) {
  const std::string spec = fmt::format("{}/data@{}", folder, shards);
  if (!std::filesystem::exists(folder)) {
    DatasetWriterOptions options;
    options.sync = false;
    auto writer = Value(DatasetWriter::Create(Value(ParseOutputSpec(spec)), options));
    const uint64_t records = std::max<uint64_t>(10 * shards, 1'000'000);
    for (uint64_t i = 0; i < records; ++i) Check(writer->Write(std::string(230, 'x')));
    Value(writer->Finish({}));
  }
  std::vector<double> open;
  std::vector<double> first;
  for (int round = 0; round < kRounds; ++round) {
    double start = NowSeconds();
    const auto table = Value(ShardTable::Open(Value(ResolveSpec(spec))));
    open.push_back(NowSeconds() - start);
    const auto reader = Value(Reader::Open(table, ReaderOptions()));
    ReadBlock block;
    Check(reader->Next(&block));
    first.push_back(NowSeconds() - start);
  }
  fmt::print("{{\"open\": {}, \"first_record\": {}}}\n", List(open), List(first));
}

void Orders(uint64_t records) {
  // Shards whose sizes differ a little, as real ones do.
  std::vector<uint64_t> begins = {0};
  for (uint64_t shard = 1; shard <= 100; ++shard) {
    begins.push_back(shard == 100 ? records : records * shard / 100 + shard % 3);
  }
  // Random positions in the epoch, computed beforehand, because a division takes as long as some of
  // the functions.
  constexpr uint64_t kCalls = 100'000;
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < kCalls; ++i) numbers.push_back(i * 2654435761 % records);
  uint64_t sum = 0;
  // The nanoseconds of one call, in CPU time of this thread: the median of some rounds.
  const auto nanoseconds = [&](const std::function<void()>& work) {
    std::vector<double> seconds;
    for (int round = 0; round < 3 * kRounds; ++round) {
      const double start = ThreadSeconds();
      work();
      seconds.push_back(ThreadSeconds() - start);
    }
    std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
    return seconds[seconds.size() / 2] / kCalls * 1e9;
  };
  std::string lines;
  for (const char* name : {"sequential", "interleave", "shuffle", "exact"}) {
    const auto order = Value(Order::Make(ParseOrder(name), begins, 230));
    const double at = nanoseconds([&] {
      for (uint64_t number : numbers) sum += order->ItemAt(1, number);
    });
    const double of = nanoseconds([&] {
      for (uint64_t number : numbers) sum += order->PositionOf(1, number);
    });
    std::vector<uint64_t> items(std::min<uint64_t>(records, 4096));
    const double fill = nanoseconds([&] {
      for (uint64_t i = 0; i + items.size() <= kCalls; i += items.size()) {
        order->Fill(1, i % (records - items.size() + 1), 1, absl::MakeSpan(items));
        sum += items[0];
      }
    });
    lines += fmt::format("{}\"{}\": {{\"at_ns\": {:.1f}, \"of_ns\": {:.1f}, \"fill_ns\": {:.1f}}}",
                         lines.empty() ? "" : ", ", name, at, of, fill);
  }
  if (sum == 0) std::exit(1);  // keeps the compiler from dropping the calls
  fmt::print("{{{}}}\n", lines);
}

int Run(const std::vector<std::string>& arguments) {
#ifndef NDEBUG
  fmt::print(stderr, "records_benchmark: a debug build measures nothing; use --config=opt\n");
  return 1;
#endif
  const auto is = [&](std::string_view command, size_t count) {
    return arguments.size() == count + 1 && arguments[0] == command;
  };
  if (is("make", 3)) {
    Make(arguments[1], arguments[2], std::stoull(arguments[3]));
  } else if (is("write", 2)) {
    Write(arguments[1], arguments[2]);
  } else if (is("examples", 3)) {
    WriteExamples(arguments[1], arguments[2], std::stoi(arguments[3]));
  } else if (is("gzip", 2)) {
    WriteGzip(arguments[1], arguments[2], false);
  } else if (is("gzip", 3) && arguments[3] == "keep") {
    WriteGzip(arguments[1], arguments[2], true);
  } else if (is("verify", 2)) {
    MeasureVerify(arguments[1], std::stoi(arguments[2]));
  } else if (is("read", 3)) {
    Read(arguments[1], arguments[2], std::stoi(arguments[3]));
  } else if (is("cold", 3)) {
    Cold(arguments[1], arguments[2], std::stoi(arguments[3]));
  } else if (is("slow", 3)) {
    Slow(arguments[1], arguments[2], std::stoull(arguments[3]));
  } else if (is("open", 2)) {
    Open(arguments[1], std::stoull(arguments[2]));
  } else if (is("order", 1)) {
    Orders(std::stoull(arguments[1]));
  } else if (is("index", 1)) {
    Index(arguments[1]);
  } else {
    fmt::print(stderr, "usage: see the top of records_benchmark.cc, or run.py --help\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) { return shardfeed::Run({argv + 1, argv + argc}); }
