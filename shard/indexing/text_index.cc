#include "shard/indexing/text_index.h"

#include <charconv>

#include "fmt/format.h"
#include "io/file.h"
#include "net/open.h"
#include "net/upload.h"
#include "shard/commit/file_replacement.h"

namespace shardfeed {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

// Passes the text of the index to `sink` in pieces of whole lines.
template <typename Sink>
absl::Status ForEachPiece(const ShardIndex& index, Sink sink) {
  fmt::memory_buffer lines;
  uint64_t offset = 0;
  for (uint64_t record = 0; record < index.records(); ++record) {
    const uint64_t end = index.Offset(record + 1);
    fmt::format_to(std::back_inserter(lines), "{} {}\n", offset, end - offset);
    offset = end;
    if (lines.size() < kPieceBytes) continue;
    absl::Status status = sink(std::string_view(lines.data(), lines.size()));
    if (!status.ok()) return status;
    lines.clear();
  }
  return sink(std::string_view(lines.data(), lines.size()));
}

std::string_view NameOf(Framing framing) {
  switch (framing) {
    case Framing::kTar:
      return "a tar archive";
    case Framing::kMds:
      return "an MDS shard";
    case Framing::kArrayRecord:
      return "an ArrayRecord shard";
    case Framing::kTfRecord:
      break;
  }
  return "a TFRecord shard";
}

}  // namespace

std::string TextIndexPath(std::string_view shard_path, std::string_view format) {
  if (format == "dali") return fmt::format("{}.idx", shard_path);
  constexpr std::string_view kSuffix = ".tfrecord";
  if (shard_path.ends_with(kSuffix)) shard_path.remove_suffix(kSuffix.size());
  return fmt::format("{}.tfindex", shard_path);
}

absl::Status WriteTextIndex(const std::string& path, const ShardIndex& index) {
  if (index.summary().framing != Framing::kTfRecord) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not written: its shard is {}, which readers of this index do not support",
                    path, NameOf(index.summary().framing)));
  }
  if (index.summary().compression != Compression::kNone) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: not written: its shard is compressed, which readers of this index do not support",
        path));
  }
  if (IsRemote(path)) {
    std::string all;
    absl::Status status = ForEachPiece(index, [&all](std::string_view lines) {
      all += lines;
      return absl::OkStatus();
    });
    return status.ok() ? PutObject(path, all) : status;
  }
  absl::StatusOr<std::unique_ptr<FileReplacement>> replacement = FileReplacement::Begin(path);
  if (!replacement.ok()) return replacement.status();
  absl::Status status = ForEachPiece(
      index, [&](std::string_view lines) { return (*replacement)->file().Append(lines); });
  return status.ok() ? (*replacement)->Commit() : status;
}

absl::Status CompareTextIndex(std::string_view shard_path, const ShardIndex& index) {
  // Other libraries do not look for theirs in stores.
  if (IsRemote(shard_path)) return absl::OkStatus();
  std::shared_ptr<File> file;
  for (std::string_view format : {"dali", "tfindex"}) {
    absl::StatusOr<std::shared_ptr<File>> opened = File::Open(TextIndexPath(shard_path, format));
    if (opened.ok()) {
      file = *std::move(opened);
      break;
    }
    if (!absl::IsNotFound(opened.status())) return opened.status();
  }
  if (file == nullptr) {
    return absl::NotFoundError(fmt::format("{}: there is neither {} nor {}", shard_path,
                                           TextIndexPath(shard_path, "dali"),
                                           TextIndexPath(shard_path, "tfindex")));
  }
  FileSource source(file);
  std::string bytes;
  uint64_t line = 1;
  uint64_t record = 0;
  uint64_t offset = 0;
  bool at_end = false;
  while (true) {
    size_t newline = bytes.find('\n');
    while (newline == std::string::npos && !at_end) {
      const size_t size = bytes.size();
      bytes.resize(size + kPieceBytes);
      absl::StatusOr<size_t> n = source.Read(absl::MakeSpan(bytes.data() + size, kPieceBytes));
      if (!n.ok()) return n.status();
      bytes.resize(size + *n);
      at_end = *n == 0;
      newline = bytes.find('\n', size);
    }
    size_t at = 0;
    while (at < bytes.size()) {
      newline = bytes.find('\n', at);
      if (newline == std::string::npos && !at_end) break;
      const size_t end = newline == std::string::npos ? bytes.size() : newline;
      uint64_t found_offset = 0;
      uint64_t found_size = 0;
      const char* const stop = bytes.data() + end;
      auto parsed = std::from_chars(bytes.data() + at, stop, found_offset);
      const char* rest = parsed.ptr;
      while (rest < stop && *rest == ' ') ++rest;
      if (parsed.ec == std::errc()) parsed = std::from_chars(rest, stop, found_size);
      const bool in_shard = record < index.records();
      const uint64_t next = in_shard ? index.Offset(record + 1) : offset;
      if (parsed.ec != std::errc() || !in_shard || found_offset != offset ||
          found_size != next - offset) {
        return absl::DataLossError(fmt::format(
            "{}: line {} says '{}', but {}", file->path(), line,
            bytes.substr(at, std::min<size_t>(end - at, 60)),
            in_shard ? fmt::format("the record is at {} and has {} bytes", offset, next - offset)
                     : fmt::format("the shard has {} records", index.records())));
      }
      offset = next;
      ++record;
      ++line;
      at = end + 1;
    }
    bytes.erase(0, std::min(at, bytes.size()));
    if (at_end) break;
  }
  if (record < index.records()) {
    return absl::DataLossError(fmt::format("{}: has {} lines, but the shard has {} records",
                                           file->path(), record, index.records()));
  }
  return absl::OkStatus();
}

}  // namespace shardfeed
