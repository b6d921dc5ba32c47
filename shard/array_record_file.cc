#include "shard/array_record_file.h"

#include <algorithm>
#include <string>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "shard/with_path.h"
#include "tfrecord/riegeli_chunk.h"

namespace shardfeed {
namespace {

// Enough for the footer of thousands of chunks.
constexpr uint64_t kFirstReadBytes = 64 << 10;
// A header of a chunk, and the header of a block in it.
constexpr uint64_t kHeadBytes = kRiegeliChunkHeaderBytes + kRiegeliBlockHeaderBytes;

// Reads up to `size` bytes before the last block.
absl::StatusOr<std::string> ReadBeforeLastBlock(const File& file, uint64_t offset, uint64_t size) {
  std::string bytes(std::min(size, file.size() - kRiegeliBlockBytes - offset), '\0');
  if (absl::Status status = file.ReadExactlyAt(offset, absl::MakeSpan(bytes)); !status.ok()) {
    return status;
  }
  return bytes;
}

absl::StatusOr<uint64_t> ReadFooterOffset(const File& file) {
  std::string bytes;
  if (file.size() >= kRiegeliBlockBytes) {
    bytes.resize(kArrayRecordPostscriptBytes);
    absl::Status status =
        file.ReadExactlyAt(file.size() - kRiegeliBlockBytes, absl::MakeSpan(bytes));
    if (!status.ok()) return status;
  }
  absl::StatusOr<uint64_t> offset = ParseArrayRecordPostscript(bytes, file.size());
  if (!offset.ok()) return WithPath(offset.status(), file.path());
  return offset;
}

// Transposed chunks are all that a file has, or none.
absl::Status CheckNotTransposed(const File& file, const ArrayRecordFooter& footer) {
  if (footer.chunks.empty()) return absl::OkStatus();
  const uint64_t begin = footer.chunks[0].begin;
  const absl::StatusOr<std::string> bytes = ReadBeforeLastBlock(file, begin, kHeadBytes);
  if (!bytes.ok()) return bytes.status();
  RiegeliChunkHeader header;
  // Reading the chunk tells of its damage.
  if (!ReadRiegeliHeader(*bytes, begin, CrcCheck::kAll, &header).empty() || header.type != 't') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{}: its chunks are transposed, which cannot be read; write it anew with "
                  "transpose:false among the options of ArrayRecordWriter",
                  file.path()));
}

}  // namespace

bool IsNamedArrayRecord(std::string_view path) {
  constexpr std::string_view kEnding = ".array_record";
  path.remove_prefix(path.rfind('/') + 1);
  const size_t at = path.rfind(kEnding);
  if (at == path.npos) return false;
  const std::string_view behind = path.substr(at + kEnding.size());
  return behind.empty() || behind[0] == '-';
}

absl::StatusOr<ArrayRecordFooter> ReadArrayRecordFooter(const File& file, uint64_t* bytes_read) {
  const absl::StatusOr<uint64_t> offset = ReadFooterOffset(file);
  if (!offset.ok()) return offset.status();
  absl::StatusOr<std::string> bytes = ReadBeforeLastBlock(file, *offset, kFirstReadBytes);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<ArrayRecordFooterHead> head = ParseArrayRecordFooterHead(*bytes, *offset);
  if (!head.ok()) return WithPath(head.status(), file.path());
  if (head->bytes > bytes->size()) {
    bytes = ReadBeforeLastBlock(file, *offset, head->bytes);
    if (!bytes.ok()) return bytes.status();
  }
  absl::StatusOr<ArrayRecordFooter> footer = ParseArrayRecordFooter(*bytes, *offset);
  if (!footer.ok()) return WithPath(footer.status(), file.path());
  if (absl::Status status = CheckNotTransposed(file, *footer); !status.ok()) return status;
  if (bytes_read != nullptr) *bytes_read = kArrayRecordPostscriptBytes + bytes->size() + kHeadBytes;
  return footer;
}

absl::StatusOr<uint32_t> ReadArrayRecordDigest(const File& file) {
  const absl::StatusOr<uint64_t> offset = ReadFooterOffset(file);
  if (!offset.ok()) return offset.status();
  const absl::StatusOr<std::string> bytes = ReadBeforeLastBlock(file, *offset, kHeadBytes);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<ArrayRecordFooterHead> head = ParseArrayRecordFooterHead(*bytes, *offset);
  if (!head.ok()) return WithPath(head.status(), file.path());
  return head->digest;
}

}  // namespace shardfeed
