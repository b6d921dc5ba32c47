#include "shard/formats/mds_file.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "shard/formats/with_path.h"

namespace shardfeed {
namespace {

// Enough for the offsets of 16,000 samples.
constexpr uint64_t kFirstReadBytes = 64 << 10;

// The suffixes of shards that MosaicML Streaming compresses, and the commands that decompress them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kCompressed = {{
    {".mds.zstd", "zstd -d --rm"},
    {".mds.gz", "gunzip"},
    {".mds.bz2", "bunzip2"},
    {".mds.br", "brotli -d --rm"},
    {".mds.snappy", "python -m snappy -d"},
}};

}  // namespace

bool IsNamedMds(std::string_view path) { return path.ends_with(".mds"); }

absl::Status CheckNotCompressedMds(std::string_view path) {
  for (const auto& [ending, remedy] : kCompressed) {
    if (!path.ends_with(ending)) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: a compressed MDS shard, of which no single sample can be read; decompress it ({})",
        path, remedy));
  }
  return absl::OkStatus();
}

absl::StatusOr<MdsHeader> ReadMdsHeader(const File& file) {
  std::string header(std::min(file.size(), kFirstReadBytes), '\0');
  absl::Status status = file.ReadExactlyAt(0, absl::MakeSpan(header));
  if (!status.ok()) return status;
  const absl::StatusOr<uint64_t> size = MdsHeaderBytes(header, file.size());
  if (!size.ok()) return WithPath(size.status(), file.path());
  if (const size_t have = header.size(); have < *size) {
    header.resize(*size);
    status = file.ReadExactlyAt(have, absl::MakeSpan(header).subspan(have));
    if (!status.ok()) return status;
  }
  absl::StatusOr<MdsHeader> parsed = ParseMdsHeader(header, file.size());
  if (!parsed.ok()) return WithPath(parsed.status(), file.path());
  return parsed;
}

}  // namespace shardfeed
