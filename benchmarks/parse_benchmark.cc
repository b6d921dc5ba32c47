// Measures how fast ExampleParser and libprotobuf parse records in memory into a dense batch, on
// one thread.
//
//   parse_benchmark [RECORDS]    400,000 records by default
//
// Prints one JSON object: for each kind of record, the CPU time per record in nanoseconds of both
// parsers, which alternate; medians of several rounds.
//
//   small    230 B: 50 floats and a label, batches of 1,024; ours also from records that are still
//            in the cache, as they are right after their CRC was computed
//   half     the same to float16, and the label to int32
//   ragged   the same, both features of any length
//   wide     40 features, 5 of which are requested
//   tokens   512 token ids of one to three bytes
//   image    110 KB of bytes, a label and 4 more features: views, nothing is copied

#include <google/protobuf/arena.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "decode/features/example_parser.h"
#include "fmt/format.h"
#include "shardfeed/examples.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {
namespace {

constexpr int kRounds = 7;
constexpr size_t kBatch = 1024;

// CPU time of this thread, so that other programs do not count.
double Now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

[[noreturn]] void Fail(std::string_view message) {
  fmt::print(stderr, "parse_benchmark: {}\n", message);
  std::exit(1);
}

// Records contiguous in memory, as in a block that was read.
struct Records {
  std::string bytes;
  std::vector<std::string_view> views;
};

Records MakeRecords(size_t n, const std::function<void(size_t, ExampleBuilder*)>& add) {
  Records records;
  std::vector<size_t> begins;
  for (size_t i = 0; i < n; ++i) {
    ExampleBuilder builder;
    add(i, &builder);
    begins.push_back(records.bytes.size());
    builder.SerializeExample(&records.bytes);
  }
  begins.push_back(records.bytes.size());
  for (size_t i = 0; i < n; ++i) {
    records.views.push_back(
        std::string_view(records.bytes).substr(begins[i], begins[i + 1] - begins[i]));
  }
  return records;
}

// A batch's memory for the features of `specs`.
class Batch {
 public:
  explicit Batch(std::vector<FeatureSpec> specs) {
    auto parser = ExampleParser::Make(std::move(specs));
    if (!parser.ok()) Fail(std::string(parser.status().message()));
    parser_ = *parser;
    columns_ = std::make_unique<ParsedColumns>(parser_->MakeColumns());
    for (size_t i = 0; i < parser_->num_features(); ++i) {
      memory_.emplace_back(kBatch * parser_->bytes(i) / 8 + 1);
      columns_->SetFixed(i, reinterpret_cast<char*>(memory_[i].data()));
    }
  }
  void Parse(const std::vector<std::string_view>& records) {
    for (size_t i = 0; i < records.size(); ++i) {
      if (i % kBatch == 0) columns_->Clear();
      const absl::Status status = parser_->Parse(records[i], i % kBatch, columns_.get());
      if (!status.ok()) Fail(std::string(status.message()));
    }
  }
  template <typename T>
  const T* memory(size_t feature) const {
    return reinterpret_cast<const T*>(memory_[feature].data());
  }

 private:
  std::shared_ptr<const ExampleParser> parser_;
  std::unique_ptr<ParsedColumns> columns_;
  std::vector<std::vector<uint64_t>> memory_;
};

// What a program does with libprotobuf: parse with an arena, look up, copy.
template <typename Copy>
void ParseByProtobuf(const std::vector<std::string_view>& records, const Copy& copy) {
  // The arena's memory is reused for every record.
  std::vector<char> block(1 << 20);
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  google::protobuf::Arena arena(options);
  for (size_t i = 0; i < records.size(); ++i) {
    auto* example = google::protobuf::Arena::CreateMessage<Example>(&arena);
    if (!example->ParseFromArray(records[i].data(), static_cast<int>(records[i].size()))) {
      Fail("libprotobuf refuses a record");
    }
    copy(i % kBatch, example->features().feature());
    arena.Reset();
  }
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// The nanoseconds per record of each parser, alternating.
std::string Measure(std::string_view kind, const Records& records,
                    const std::vector<std::pair<std::string, std::function<void()>>>& parsers) {
  std::vector<std::vector<double>> seconds(parsers.size());
  for (int round = 0; round <= kRounds; ++round) {
    for (size_t i = 0; i < parsers.size(); ++i) {
      const double start = Now();
      parsers[i].second();
      if (round > 0) seconds[i].push_back(Now() - start);  // the first one warms up
    }
  }
  std::string line = fmt::format("\"{}\": {{\"record_bytes\": {}", kind,
                                 records.bytes.size() / records.views.size());
  for (size_t i = 0; i < parsers.size(); ++i) {
    line += fmt::format(", \"{}_ns\": {:.1f}", parsers[i].first,
                        Median(seconds[i]) / records.views.size() * 1e9);
  }
  return line + "}";
}

FeatureSpec Spec(std::string name, DType dtype, std::vector<int64_t> shape = {},
                 Layout layout = Layout::kFixed) {
  FeatureSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  spec.layout = layout;
  return spec;
}

std::vector<std::string> Small(size_t n) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  const Records records = MakeRecords(n, [&](size_t i, ExampleBuilder* builder) {
    std::vector<float> x(50);
    for (float& value : x) value = normal(random);
    builder->AddFloatList("x", x);
    builder->AddInt64("y", static_cast<int64_t>(i % 10));
  });
  // Four batches, over and over.
  std::vector<std::string_view> cached;
  while (cached.size() < n) cached.push_back(records.views[cached.size() % (4 * kBatch)]);

  Batch batch({Spec("x", DType::kFloat32, {50}), Spec("y", DType::kInt64)});
  Batch half({Spec("x", DType::kFloat16, {50}), Spec("y", DType::kInt32)});
  Batch ragged({Spec("x", DType::kFloat32, {}, Layout::kRagged),
                Spec("y", DType::kInt64, {}, Layout::kRagged)});
  std::vector<float> x(kBatch * 50);
  std::vector<int64_t> y(kBatch);
  const auto protobuf = [&] {
    ParseByProtobuf(records.views, [&](size_t row, const auto& features) {
      const auto& floats = features.at("x").float_list().value();
      std::memcpy(&x[50 * row], floats.data(), 50 * sizeof(float));
      y[row] = features.at("y").int64_list().value(0);
    });
  };
  std::vector<std::string> lines = {Measure("small", records,
                                            {{"ours", [&] { batch.Parse(records.views); }},
                                             {"ours_cached", [&] { batch.Parse(cached); }},
                                             {"protobuf", protobuf}})};
  batch.Parse(records.views);
  if (std::memcmp(batch.memory<float>(0), x.data(), 4 * x.size()) != 0 ||
      std::memcmp(batch.memory<int64_t>(1), y.data(), 8 * y.size()) != 0) {
    Fail("the two do not agree");
  }
  lines.push_back(Measure("half", records, {{"ours", [&] { half.Parse(records.views); }}}));
  lines.push_back(Measure("ragged", records, {{"ours", [&] { ragged.Parse(records.views); }}}));
  return lines;
}

std::string Wide(size_t n) {
  constexpr size_t kFeatures = 40;
  const auto name = [](size_t f) { return fmt::format("feature/number/{}", f * 7 % kFeatures); };
  const Records records = MakeRecords(n, [&](size_t i, ExampleBuilder* builder) {
    for (size_t f = 0; f < kFeatures; ++f) builder->AddFloat(name(f), static_cast<float>(i + f));
  });
  std::vector<FeatureSpec> specs;
  std::vector<std::string> names;
  for (size_t f = 0; f < kFeatures; f += 8) {
    names.push_back(name(f));
    specs.push_back(Spec(name(f), DType::kFloat32));
  }
  Batch batch(specs);
  std::vector<float> values(names.size() * kBatch);
  const auto protobuf = [&] {
    ParseByProtobuf(records.views, [&](size_t row, const auto& features) {
      for (size_t f = 0; f < names.size(); ++f) {
        values[f * kBatch + row] = features.at(names[f]).float_list().value(0);
      }
    });
  };
  return Measure("wide", records,
                 {{"ours", [&] { batch.Parse(records.views); }}, {"protobuf", protobuf}});
}

std::string Tokens(size_t n) {
  std::mt19937_64 random(2);
  const Records records = MakeRecords(n, [&](size_t, ExampleBuilder* builder) {
    std::vector<int64_t> ids(512);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % 50000 >> random() % 12);
    builder->AddInt64List("ids", ids);
  });
  Batch batch({Spec("ids", DType::kInt64, {512})});
  Batch narrow({Spec("ids", DType::kInt32, {512})});
  std::vector<int64_t> ids(512 * kBatch);
  const auto protobuf = [&] {
    ParseByProtobuf(records.views, [&](size_t row, const auto& features) {
      const auto& values = features.at("ids").int64_list().value();
      std::copy(values.begin(), values.end(), ids.begin() + 512 * row);
    });
  };
  std::string line = Measure("tokens", records,
                             {{"ours", [&] { batch.Parse(records.views); }},
                              {"ours_int32", [&] { narrow.Parse(records.views); }},
                              {"protobuf", protobuf}});
  if (std::memcmp(batch.memory<int64_t>(0), ids.data(), 8 * ids.size()) != 0) {
    Fail("the two do not agree");
  }
  return line;
}

std::string Image(size_t n) {
  const std::string image(110'000, 'p');
  const Records records = MakeRecords(n, [&](size_t i, ExampleBuilder* builder) {
    builder->AddBorrowedBytes("image/encoded", image);
    builder->AddInt64("image/class/label", static_cast<int64_t>(i % 1000));
    builder->AddBytes("image/class/text", "a class of images");
    builder->AddBytes("image/filename", fmt::format("image-{:08}.jpg", i));
    builder->AddInt64("image/height", 375);
    builder->AddInt64("image/width", 500);
  });
  Batch batch({Spec("image/encoded", DType::kBytes), Spec("image/class/label", DType::kInt64)});
  std::vector<std::string> images(kBatch);
  std::vector<int64_t> labels(kBatch);
  return Measure("image", records,
                 {{"ours", [&] { batch.Parse(records.views); }},
                  {"protobuf", [&] {
                     ParseByProtobuf(records.views, [&](size_t row, const auto& features) {
                       images[row] = features.at("image/encoded").bytes_list().value(0);
                       labels[row] = features.at("image/class/label").int64_list().value(0);
                     });
                   }}});
}

int Run(const std::vector<std::string>& arguments) {
#ifndef NDEBUG
  fmt::print(stderr, "parse_benchmark: a debug build measures nothing; use --config=opt\n");
  return 1;
#endif
  const size_t n = arguments.empty() ? 400'000 : std::stoull(arguments[0]);
  std::vector<std::string> lines = Small(n);
  lines.push_back(Wide(n / 20 + 1));
  lines.push_back(Tokens(n / 20 + 1));
  lines.push_back(Image(n / 1000 + 1));
  fmt::print("{{{}}}\n", fmt::join(lines, ",\n "));
  return 0;
}

}  // namespace
}  // namespace shardfeed

int main(int argc, char** argv) { return shardfeed::Run({argv + 1, argv + argc}); }
