#include "pipeline/data/known_features.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/index.h"
#include "shard/manifest.h"
#include "shard/shard_reader.h"

namespace shardfeed {
namespace {

// A dataset of at most so many bytes is read completely. Of a larger one, less will do. In stores,
// reading takes longer than the first batch should.
constexpr uint64_t kWholeBytes = 64 << 20;
constexpr uint64_t kWholeBytesInStore = 4 << 20;
constexpr uint64_t kSampleBytes = 16 << 20;
constexpr uint64_t kSampleBytesInStore = 4 << 20;
constexpr size_t kSampledShards = 64;
constexpr uint64_t kLeastBytes = 64 << 10;  // of a place

// The records of one shard that were looked at.
struct ShardSample {
  std::unique_ptr<ShardReader> reader;
  Schema schema;
  absl::Status damage;
  bool whole = false;
};

// Adds records of the reader up to `most` bytes, and returns whether they were all.
absl::StatusOr<bool> AddRecords(const std::string& path, ShardReader& reader, uint64_t most,
                                ShardSample* sample) {
  for (uint64_t bytes = 0; bytes < most;) {
    RecordBlock block;
    absl::Status status = reader.Next(&block);
    // Damage is left to the reader to report or to skip.
    if (absl::IsDataLoss(status)) {
      sample->damage = std::move(status);
      return false;
    }
    if (!status.ok()) return status;
    if (block.records.empty()) return true;
    for (const Record& record : block.records) {
      bytes += record.payload.size() + kFrameBytes;
      status = sample->schema.AddRecord(record.payload);
      if (status.ok()) continue;
      return absl::InvalidArgumentError(fmt::format("{}: record at byte {}: {}", path,
                                                    record.offset, std::string(status.message())));
    }
  }
  return false;
}

// Adds records in the middle and at the end of a shard.
absl::Status AddFurtherRecords(const ShardTable& table, size_t shard, uint64_t most,
                               ShardSample* sample) {
  const absl::StatusOr<std::shared_ptr<const ShardIndex>> index = table.Index(shard);
  if (!index.ok()) return index.status();
  const uint64_t end = (*index)->summary().stream_bytes;
  if (end < 3 * most) return absl::OkStatus();
  for (const uint64_t byte : {end / 2, end - most}) {
    const uint64_t record = (*index)->RecordAt(byte);
    const uint64_t offset = (*index)->Offset(record);
    absl::StatusOr<std::shared_ptr<const File>> file = table.OpenFile(shard);
    if (!file.ok()) return file.status();
    const Compression compression = (*index)->summary().compression;
    ShardReaderOptions reading;
    reading.block_bytes = most;
    const absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::OpenAt(
        *std::move(file), compression,
        compression == Compression::kNone ? RestartPoint() : (*index)->RestartBefore(offset),
        offset, record, reading);
    if (!reader.ok()) return reader.status();
    const absl::StatusOr<bool> added = AddRecords(table.path(shard), **reader, most, sample);
    if (!added.ok()) return added.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundSchema> SampleRecords(const ShardSet& set, const ShardTable* table) {
  const size_t count = std::min(set.paths.size(), kSampledShards);
  const bool remote = std::any_of(set.paths.begin(), set.paths.end(), IsRemote);
  // The first and the last shard, and some between them.
  const auto shard_of = [&](size_t i) {
    return count == 1 ? 0 : i * (set.paths.size() - 1) / (count - 1);
  };
  const uint64_t place =
      std::max((remote ? kSampleBytesInStore : kSampleBytes) / count / 3, kLeastBytes);
  std::vector<ShardSample> samples(count);
  absl::Status status = ParallelFor(count, remote ? 16 : ThreadCount(0), {}, [&](size_t i) {
    ShardReaderOptions reading;
    reading.block_bytes = std::min<uint64_t>(place, reading.block_bytes);
    absl::StatusOr<std::unique_ptr<ShardReader>> reader =
        ShardReader::Open(set.paths[shard_of(i)], reading);
    if (reader.ok()) samples[i].reader = *std::move(reader);
    return reader.status();
  });
  if (!status.ok()) return status;
  uint64_t bytes = 0;
  for (const ShardSample& sample : samples) bytes += sample.reader->file().size();
  const bool all =
      count == set.paths.size() && bytes <= (remote ? kWholeBytesInStore : kWholeBytes);
  status = ParallelFor(count, remote ? 16 : ThreadCount(0), {}, [&](size_t i) {
    ShardSample& sample = samples[i];
    const size_t shard = shard_of(i);
    const absl::StatusOr<bool> whole =
        AddRecords(set.paths[shard], *sample.reader, all ? UINT64_MAX : place, &sample);
    if (!whole.ok()) return whole.status();
    sample.whole = *whole;
    return *whole || table == nullptr || !sample.damage.ok()
               ? absl::OkStatus()
               : AddFurtherRecords(*table, shard, place, &sample);
  });
  if (!status.ok()) return status;
  FoundSchema found;
  found.sampled = count < set.paths.size();
  for (const ShardSample& sample : samples) {
    found.schema.Merge(sample.schema);
    found.sampled |= !sample.whole;
    if (status.ok()) status = sample.damage;
  }
  if (found.schema.records() == 0 && !status.ok()) return status;
  return found;
}

// The type in which values are parsed: the one that the writer noted, if records can be.
DType ParsedType(const FeatureSchema& feature) {
  const std::string& noted = feature.type.dtype;
  switch (feature.kind) {
    case FeatureKind::kFloat:
      return noted == "float16"    ? DType::kFloat16
             : noted == "bfloat16" ? DType::kBFloat16
             : noted == "float64"  ? DType::kFloat64
                                   : DType::kFloat32;
    case FeatureKind::kInt64:
      return noted == "uint8" || noted == "bool" ? DType::kUInt8
             : noted == "int8"                   ? DType::kInt8
             : noted == "uint16"                 ? DType::kUInt16
             : noted == "int16"                  ? DType::kInt16
             : noted == "int32"                  ? DType::kInt32
                                                 : DType::kInt64;
    default:
      return DType::kBytes;
  }
}

}  // namespace

absl::StatusOr<FoundSchema> FindSchema(const ShardSet& set, const ShardTable* table) {
  if (const std::shared_ptr<const Manifest> manifest = set.manifest;
      manifest != nullptr && Describes(*manifest, set)) {
    if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
    return FoundSchema{manifest->schema};
  }
  if (set.sharded_name) {
    absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set.directory, set.stem));
    if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
    if (manifest.ok() && Describes(*manifest, set)) {
      return FoundSchema{manifest->schema};
    }
    // A damaged manifest counts as missing. One that cannot be read is an error, since it may say
    // something else.
    if (!manifest.ok() && !absl::IsNotFound(manifest.status()) &&
        !absl::IsDataLoss(manifest.status())) {
      return manifest.status();
    }
  }
  return SampleRecords(set, table);
}

absl::StatusOr<KnownFeatures> FeaturesOf(const Schema& schema) {
  KnownFeatures known;
  for (const auto& [name, feature] : schema.features()) {
    if (feature.mixed_kinds > 0) {
      return absl::InvalidArgumentError(fmt::format(
          "feature '{}' is {} in some records and of another kind in {}: name the features to "
          "parse, without it, or write the dataset anew with one kind",
          name, FeatureKindName(feature.kind), feature.mixed_kinds));
    }
    FeatureSpec spec;
    spec.name = name;
    spec.dtype = ParsedType(feature);
    const std::vector<int64_t>& shape = feature.type.shape;
    const bool any_length = !shape.empty() && shape[0] < 0;
    // Without records, declared features have what is declared.
    const bool declared =
        schema.records() == 0 && !feature.type.dtype.empty() && std::ranges::count(shape, 0) == 0;
    const bool fixed = !feature.is_list && feature.records == schema.records() && !any_length &&
                       (declared || (feature.min_values == feature.max_values &&
                                     feature.min_values > 0 && feature.kind != FeatureKind::kNone));
    if (!fixed) {
      spec.layout = Layout::kRagged;
      // Of a shape that some records lack, or that has no values, what is in a row of its first
      // dimension.
      if (!shape.empty() && std::count(shape.begin() + 1, shape.end(), 0) == 0) {
        spec.shape.assign(shape.begin() + 1, shape.end());
      }
      // Steps of unknown kind have no values.
      spec.ragged_steps = feature.is_list && feature.kind == FeatureKind::kNone;
    } else if (!shape.empty()) {
      spec.shape = shape;
    } else if (!declared && feature.min_values > 1) {
      spec.shape = {static_cast<int64_t>(feature.min_values)};
    }
    (feature.is_list ? known.feature_lists : known.features).push_back(std::move(spec));
  }
  return known;
}

}  // namespace shardfeed
