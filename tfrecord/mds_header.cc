#include "tfrecord/mds_header.h"

#include <utility>

#include "base/little_endian.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr size_t kOffsetBytes = sizeof(uint32_t);
// Upper bound of the JSON: real ones have some hundred bytes.
constexpr uint64_t kMaxConfigBytes = 1 << 20;

// Where the JSON begins.
uint64_t ConfigAt(uint64_t samples) { return (samples + 2) * kOffsetBytes; }

}  // namespace

absl::StatusOr<uint64_t> MdsHeaderBytes(std::string_view start, uint64_t file_bytes) {
  if (start.size() < kMdsStartBytes) {
    return absl::DataLossError(
        fmt::format("an MDS shard that is cut off: it has {} bytes", file_bytes));
  }
  const uint64_t samples = LoadLittleEndian<uint32_t>(start.data());
  const uint64_t first = LoadLittleEndian<uint32_t>(start.data() + kOffsetBytes);
  if (ConfigAt(samples) > file_bytes) {
    return absl::DataLossError(
        fmt::format("the MDS shard says at byte 0 that it has {} samples, whose offsets are more "
                    "than the {} bytes of the file; it is damaged or cut off",
                    samples, file_bytes));
  }
  if (first < ConfigAt(samples) || first > file_bytes) {
    return absl::DataLossError(
        fmt::format("the first offset of the MDS shard, at byte {}, is {}, which is not between "
                    "the end of the offsets, {}, and that of the file, {}",
                    kOffsetBytes, first, ConfigAt(samples), file_bytes));
  }
  if (first - ConfigAt(samples) > kMaxConfigBytes) {
    return absl::DataLossError(fmt::format(
        "the description of the columns of the MDS shard, at byte {}, has {} bytes, more than {}",
        ConfigAt(samples), first - ConfigAt(samples), kMaxConfigBytes));
  }
  return first;
}

absl::StatusOr<MdsHeader> ParseMdsHeader(std::string_view header, uint64_t file_bytes) {
  absl::StatusOr<uint64_t> size = MdsHeaderBytes(header, file_bytes);
  if (!size.ok()) return size.status();
  if (*size > header.size()) {
    return absl::DataLossError("the header of the MDS shard is cut off");
  }
  const uint64_t samples = LoadLittleEndian<uint32_t>(header.data());
  MdsHeader parsed;
  parsed.offsets.reserve(samples + 1);
  for (uint64_t i = 0; i <= samples; ++i) {
    const uint64_t at = (i + 1) * kOffsetBytes;
    const auto offset = LoadLittleEndian<uint32_t>(header.data() + at);
    if (i > 0 && (offset <= parsed.offsets.back() || offset > file_bytes)) {
      return absl::DataLossError(fmt::format(
          "offset {} of the MDS shard, at byte {}, is {}, which is not between the one before it, "
          "{}, and the end of the file, {}; it is damaged or cut off",
          i, at, offset, parsed.offsets.back(), file_bytes));
    }
    parsed.offsets.push_back(offset);
  }
  if (parsed.offsets.back() != file_bytes) {
    return absl::DataLossError(
        fmt::format("the samples of the MDS shard end at byte {}, but the file has {} bytes",
                    parsed.offsets.back(), file_bytes));
  }
  const std::string_view config = header.substr(ConfigAt(samples), *size - ConfigAt(samples));
  absl::StatusOr<std::shared_ptr<const MdsColumns>> columns = MdsColumns::Parse(config);
  if (!columns.ok()) {
    return absl::DataLossError(
        fmt::format("{}, at byte {}", std::string(columns.status().message()), ConfigAt(samples)));
  }
  parsed.columns = *std::move(columns);
  return parsed;
}

bool LooksLikeMds(std::string_view first_bytes) {
  const absl::StatusOr<uint64_t> size = MdsHeaderBytes(first_bytes, UINT32_MAX);
  if (!size.ok() || *size > first_bytes.size()) return false;
  const uint64_t at = ConfigAt(LoadLittleEndian<uint32_t>(first_bytes.data()));
  const std::string_view config = first_bytes.substr(at, *size - at);
  return config.starts_with('{') && config.find("\"column_encodings\"") != config.npos;
}

}  // namespace shardfeed
