#include "pipeline/data/known_features.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "decode/features/feature_spec.h"
#include "fmt/format.h"
#include "io/parallel.h"
#include "net/open.h"
#include "shard/formats/shard_reader.h"
#include "shard/index/index.h"
#include "shard/manifest/manifest.h"

namespace shardfeed {
namespace {

// A dataset of at most so many bytes is read completely. Of a larger one, less will do. In stores,
// reading takes longer than the first batch should.
constexpr uint64_t kWholeBytes = 64 << 20;
constexpr uint64_t kWholeBytesInStore = 4 << 20;
constexpr uint64_t kSampleBytes = 16 << 20;
constexpr uint64_t kSampleBytesInStore = 4 << 20;
constexpr size_t kSampledShards = 64;
constexpr uint64_t kLeastBytes = 64 << 10;  // minimum size of a place

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
    const ShardFormat format = (*index)->summary().format();
    ShardReaderOptions reading;
    reading.block_bytes = most;
    const absl::StatusOr<std::unique_ptr<ShardReader>> reader = ShardReader::OpenAt(
        *std::move(file), format,
        format.compression == Compression::kNone ? RestartPoint() : (*index)->RestartBefore(offset),
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
    if (!reader.ok()) return reader.status();
    samples[i].reader = *std::move(reader);
    return absl::OkStatus();
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

// The schema in the manifest of the dataset; nullopt without one.
absl::StatusOr<std::optional<Schema>> SchemaOfManifest(const ShardSet& set) {
  if (const std::shared_ptr<const Manifest> manifest = set.manifest;
      manifest != nullptr && Describes(*manifest, set)) {
    if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
    return manifest->schema;
  }
  if (!set.sharded_name) return std::nullopt;
  absl::StatusOr<Manifest> manifest = ReadManifest(ManifestPath(set.directory, set.stem));
  if (absl::Status same = set.version.CheckUnchanged(); !same.ok()) return same;
  if (manifest.ok() && Describes(*manifest, set)) return manifest->schema;
  // A damaged manifest counts as missing. One that cannot be read is an error, since it may say
  // something else.
  if (!manifest.ok() && !absl::IsNotFound(manifest.status()) &&
      !absl::IsDataLoss(manifest.status())) {
    return manifest.status();
  }
  return std::nullopt;
}

// The type of the column for values of a type of TFDS's.
DType ColumnType(std::string_view dtype) {
  if (dtype == "bool") return DType::kUInt8;
  if (dtype == "uint32" || dtype == "uint64") return DType::kInt64;
  for (DType type :
       {DType::kUInt8, DType::kInt8, DType::kUInt16, DType::kInt16, DType::kInt32, DType::kInt64,
        DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    if (DTypeName(type) == dtype) return type;
  }
  return DType::kBytes;
}

// The type in which the list of a feature is parsed before it becomes the column's.
DType ListType(const TfdsFeature& feature, DType column) {
  switch (feature.kind) {
    case FeatureKind::kInt64:
      return column == DType::kUInt8 || column == DType::kInt32 ? column : DType::kInt64;
    case FeatureKind::kFloat:
      return column == DType::kFloat64 ? DType::kFloat32 : column;
    default:
      return DType::kBytes;
  }
}

// The value that TFDS gives to a record without an optional feature.
FeatureValues LowestValue(const TfdsFeature& feature) {
  if (feature.kind == FeatureKind::kBytes) return std::vector<std::string>{""};
  if (feature.kind == FeatureKind::kInt64) {
    int64_t lowest = 0;  // 0 for unsigned types
    if (feature.dtype == "int8") lowest = INT8_MIN;
    if (feature.dtype == "int16") lowest = INT16_MIN;
    if (feature.dtype == "int32") lowest = INT32_MIN;
    if (feature.dtype == "int64") lowest = INT64_MIN;
    return std::vector<int64_t>{lowest};
  }
  constexpr float kLowestFloat16 = -65504;
  constexpr float kLowestBFloat16 = -0x1.fep127f;
  if (feature.dtype == "float16") return std::vector<float>{kLowestFloat16};
  if (feature.dtype == "bfloat16") return std::vector<float>{kLowestBFloat16};
  // The lowest double, as TFDS's parser has it, which takes defaults as float32.
  if (feature.dtype == "float64") {
    return std::vector<float>{-std::numeric_limits<float>::infinity()};
  }
  return std::vector<float>{std::numeric_limits<float>::lowest()};
}

// Sets the layout and the shape of rows for values of `shape`, where -1 is any length.
template <typename Spec>
bool SetShape(const std::vector<int64_t>& shape, Spec* spec) {
  spec->shape.clear();
  const bool zero = std::ranges::count(shape, 0) > 0;
  const auto unknown = std::ranges::count(shape, -1);
  if (unknown == 0 && !zero) {
    spec->shape = shape;
    return false;
  }
  if (unknown == 1 && shape[0] == -1 && !zero) spec->shape.assign(shape.begin() + 1, shape.end());
  return true;
}

// Steps with one number of values hold an element each; others hold any number of elements.
void SetSteps(const FeatureSchema& feature, FeatureSpec* spec) {
  // Steps of unknown kind have no values.
  spec->ragged_steps = feature.kind == FeatureKind::kNone;
  if (!feature.has_step_values()) return;
  const uint64_t least = feature.min_step_values;
  const uint64_t most = feature.max_step_values;
  const auto in_element = static_cast<uint64_t>(NumValues(*spec));
  if (least == most && most > 0) {
    if (in_element == most) return;
    spec->shape.clear();
    if (most > 1) spec->shape.push_back(static_cast<int64_t>(most));
    return;
  }
  spec->ragged_steps = true;
  if (least % in_element != 0 || most % in_element != 0) spec->shape.clear();
}

}  // namespace

absl::StatusOr<FoundSchema> FindSchema(const ShardSet& set, const ShardTable* table) {
  absl::StatusOr<std::optional<Schema>> schema = SchemaOfManifest(set);
  if (!schema.ok()) return schema.status();
  if (*schema) return FoundSchema{**std::move(schema)};
  return SampleRecords(set, table);
}

absl::StatusOr<KnownFeatures> FeaturesOf(const Schema& schema) {
  KnownFeatures known;
  if (!schema.knows_steps()) {
    known.origin =
        "The manifest, which an earlier version wrote, does not tell how many values steps have "
        "(which 'shardfeed index' can add)";
  }
  for (const auto& [name, feature] : schema.features()) {
    if (feature.mixed_kinds > 0) {
      return absl::InvalidArgumentError(fmt::format(
          "feature '{}' is {} in some records and of another kind in {}: name the features to "
          "parse, without it, or write the dataset again with one kind",
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
      // If some records lack the shape, or it has no values, an element is a row of its first
      // dimension.
      if (!shape.empty() && std::count(shape.begin() + 1, shape.end(), 0) == 0) {
        spec.shape.assign(shape.begin() + 1, shape.end());
      }
      if (feature.is_list) SetSteps(feature, &spec);
    } else if (!shape.empty()) {
      spec.shape = shape;
    } else if (!declared && feature.min_values > 1) {
      spec.shape = {static_cast<int64_t>(feature.min_values)};
    }
    (feature.is_list ? known.feature_lists : known.features).push_back(std::move(spec));
  }
  return known;
}

absl::StatusOr<KnownFeatures> FeaturesOf(const TfdsFeatures& tfds) {
  KnownFeatures known;
  known.origin = fmt::format("The features are those of {}", tfds.path);
  for (const TfdsFeature& feature : tfds.features) {
    if (!feature.problem.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}: feature '{}' ({}) {}: name the features to parse, without it or as what "
                      "records hold, which 'shardfeed inspect' lists",
                      tfds.path, feature.name, feature.connector, feature.problem));
    }
    const bool encoded = feature.encoding != TfdsEncoding::kNone;
    TfdsColumn column;
    column.output.name = feature.name;
    column.output.dtype = ColumnType(feature.dtype);
    column.output.ragged = SetShape(feature.shape, &column.output);
    column.dtype = feature.dtype;
    column.encoding = feature.encoding;

    FeatureSpec spec;
    spec.name = feature.name;
    spec.dtype = ListType(feature, column.output.dtype);
    std::vector<int64_t> list = feature.shape;
    if (encoded) {
      // Each string of the list is an array.
      const std::vector<int64_t> array(list.end() - static_cast<int64_t>(feature.array_rank),
                                       list.end());
      list.resize(list.size() - feature.array_rank);
      if (std::ranges::count(array, -1) == 0) {
        column.array_values = 1;
        for (int64_t size : array) column.array_values *= static_cast<size_t>(size);
      }
    }
    if (SetShape(list, &spec)) {
      spec.layout = Layout::kRagged;
    } else if (feature.optional) {
      spec.default_value = LowestValue(feature);
    }
    if (encoded || spec.dtype != column.output.dtype || feature.dtype == "uint64") {
      known.tfds_columns.push_back(std::move(column));
    }
    known.features.push_back(std::move(spec));
  }
  return known;
}

absl::StatusOr<KnownFeatures> FindFeatures(const ShardSet& set, const ShardTable* table) {
  const absl::StatusOr<std::optional<Schema>> schema = SchemaOfManifest(set);
  if (!schema.ok()) return schema.status();
  if (*schema) return FeaturesOf(**schema);
  const absl::StatusOr<std::shared_ptr<const TfdsFeatures>> tfds = FindTfdsFeatures(set);
  if (!tfds.ok()) return tfds.status();
  if (*tfds != nullptr) return FeaturesOf(**tfds);
  const absl::StatusOr<FoundSchema> found = SampleRecords(set, table);
  if (!found.ok()) return found.status();
  absl::StatusOr<KnownFeatures> known = FeaturesOf(found->schema);
  if (known.ok() && found->sampled) {
    known->origin =
        "The features were found in some of the records, since the dataset has no manifest "
        "(which 'shardfeed index' can write)";
  }
  return known;
}

}  // namespace shardfeed
