#include "shard/formats/shard_reader.h"

#include <algorithm>

#include "fmt/format.h"
#include "io/remedy.h"
#include "net/open.h"
#include "shard/formats/array_record_file.h"
#include "shard/formats/mds_file.h"
#include "shard/formats/with_path.h"
#include "tfrecord/detect.h"

namespace shardfeed {
namespace {

bool IsNamedTar(std::string_view path) {
  return path.ends_with(".tar") || path.ends_with(".tar.gz") || path.ends_with(".tgz");
}

}  // namespace

absl::StatusOr<ShardFormat> DetectShardFormat(const File& file) {
  // The first twelve bytes identify a raw shard, which is by far the most common.
  std::string first(kHeaderBytes, '\0');
  absl::StatusOr<size_t> n = file.ReadAt(0, absl::MakeSpan(first));
  if (!n.ok()) return n.status();
  uint64_t length;
  if (*n == kHeaderBytes && ReadHeader(first.data(), &length)) return ShardFormat();
  if (IsNamedMds(file.path())) return ShardFormat{Compression::kNone, Framing::kMds};
  if (IsNamedArrayRecord(file.path())) {
    return ShardFormat{Compression::kNone, Framing::kArrayRecord};
  }
  if (absl::Status raw = CheckNotCompressedMds(file.path()); !raw.ok()) return raw;
  first.resize(kDetectBytes);
  n = file.ReadAt(0, absl::MakeSpan(first));
  if (!n.ok()) return n.status();
  first.resize(*n);
  if (first.empty() && file.path().ends_with(".tar")) {
    return absl::DataLossError(fmt::format("{}: the file is empty", file.path()));
  }
  absl::StatusOr<ShardFormat> format = DetectFormat(first, IsNamedTar(file.path()));
  if (!format.ok()) return WithPath(format.status(), file.path());
  return format;
}

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::Open(const std::string& path,
                                                               ShardReaderOptions options) {
  absl::StatusOr<std::shared_ptr<File>> file = OpenFile(path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<ShardFormat> format = DetectShardFormat(**file);
  if (!format.ok()) return format.status();
  (*file)->Advise(File::Access::kSequential);
  return OpenAt(*std::move(file), *format, RestartPoint(), 0, 0, std::move(options));
}

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::OpenAt(
    std::shared_ptr<const File> file, ShardFormat format, const RestartPoint& restart,
    uint64_t stream_offset, uint64_t first_record, ShardReaderOptions options) {
  std::unique_ptr<ShardReader> reader(new ShardReader());
  reader->file_ = file;
  reader->format_ = format;
  RecordStreamOptions stream;
  stream.framing = format.framing;
  stream.check = options.check;
  stream.block_bytes = options.block_bytes;
  stream.stream_offset = stream_offset;
  stream.first_record = first_record;
  stream.indexed_end = std::move(options.indexed_end);
  const uint64_t size = file->size();
  uint64_t begin = stream_offset;
  if (format.framing == Framing::kMds || format.framing == Framing::kArrayRecord) {
    reader->array_record_ = options.array_record;
    const absl::StatusOr<uint64_t> place = reader->OpenPlaces(first_record, options.like, &stream);
    if (!place.ok()) return place.status();
    begin = *place;
  }
  if (format.compression == Compression::kNone) {
    reader->source_ = std::make_unique<FileSource>(std::move(file), begin, size);
    stream.max_frame_bytes = size;
    reader->stream_ = std::make_unique<RecordStream>(reader->source_.get(), stream);
    return reader;
  }
  reader->source_ = std::make_unique<FileSource>(
      std::move(file), restart.file_offset - (restart.bits > 0 ? 1 : 0), size);
  reader->decompressor_ = MakeDecompressor(format.compression, reader->source_.get(), restart,
                                           std::move(options.decompress));
  stream.max_record_bytes = MaxRecordBytes();
  // Skip the content between the restart point and the record.
  uint64_t skip = stream_offset - restart.stream_offset;
  std::string scratch(std::min<uint64_t>(skip, 64 << 10), '\0');
  while (skip > 0) {
    absl::StatusOr<size_t> n = reader->decompressor_->Read(
        absl::MakeSpan(scratch.data(), std::min<uint64_t>(skip, scratch.size())));
    if (!n.ok()) return WithPath(n.status(), reader->file_->path());
    if (*n == 0) {
      return absl::DataLossError(fmt::format("{}: the decompressed data ends before byte {}",
                                             reader->file_->path(), stream_offset));
    }
    skip -= *n;
  }
  reader->stream_ = std::make_unique<RecordStream>(reader->decompressor_.get(), stream);
  return reader;
}

// Reads what tells where records are in the file, and returns where `first_record` is.
absl::StatusOr<uint64_t> ShardReader::OpenPlaces(uint64_t first_record, const ShardReader* like,
                                                 RecordStreamOptions* stream) {
  if (like != nullptr) {
    mds_ = like->mds_;
    array_record_ = like->array_record_;
  } else if (format_.framing == Framing::kMds) {
    absl::StatusOr<MdsHeader> header = ReadMdsHeader(*file_);
    if (!header.ok()) return header.status();
    mds_ = std::make_shared<const MdsHeader>(*std::move(header));
  } else if (array_record_ == nullptr) {
    absl::StatusOr<ArrayRecordFooter> footer = ReadArrayRecordFooter(*file_);
    if (!footer.ok()) return footer.status();
    array_record_ = std::make_shared<const ArrayRecordFooter>(*std::move(footer));
  }
  stream->mds = mds_;
  stream->array_record = array_record_;
  const uint64_t records = mds_ != nullptr ? mds_->samples() : array_record_->records();
  if (first_record > records) {
    return absl::DataLossError(
        fmt::format("{}: has {} records, but its index lists more; rebuild the index with "
                    "'shardfeed index'",
                    file_->path(), records));
  }
  return FileOffset(first_record, stream->stream_offset);
}

uint64_t ShardReader::FileOffset(uint64_t record, uint64_t stream_offset) const {
  if (mds_ != nullptr) return mds_->offsets[record];
  if (array_record_ == nullptr) return stream_offset;
  if (record == array_record_->records()) return file_->size();
  return array_record_->chunks[array_record_->ChunkOf(record)].begin;
}

absl::Status ShardReader::Next(RecordBlock* block) {
  return WithPath(stream_->Next(block), file_->path());
}

uint64_t ShardReader::file_position() const {
  return decompressor_ ? decompressor_->file_offset() : source_->position();
}

}  // namespace shardfeed
