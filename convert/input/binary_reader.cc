#include "convert/input/binary_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/types/span.h"
#include "fmt/format.h"
#include "shardfeed/options.h"

namespace shardfeed {
namespace {

// Sequential reads grow, and start small after a skip, so that reading the headers of large members
// does not read the members.
constexpr size_t kSmallRead = 4 << 10;
constexpr size_t kLargeRead = 256 << 10;

}  // namespace

BinaryReader::BinaryReader(std::shared_ptr<const File> file, OnRead on_read)
    : file_(std::move(file)),
      source_(file_),
      on_read_(std::move(on_read)),
      read_bytes_(kSmallRead) {}

absl::StatusOr<std::unique_ptr<BinaryReader>> BinaryReader::Open(const std::string& path,
                                                                 OnRead on_read) {
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
  if (!file.ok()) return file.status();
  char magic[2];
  absl::StatusOr<size_t> n = (*file)->ReadAt(0, absl::MakeSpan(magic));
  if (!n.ok()) return n.status();
  std::unique_ptr<BinaryReader> reader(new BinaryReader(*std::move(file), std::move(on_read)));
  if (*n == 2 && std::memcmp(magic, "\x1f\x8b", 2) == 0) {
    reader->decompressor_ = MakeDecompressor(Compression::kGzip, &reader->source_);
  }
  return reader;
}

std::string_view BinaryReader::content_name() const {
  return compressed() ? " of the decompressed data" : "";
}

absl::Status BinaryReader::Fill(size_t size) {
  while (end_ - begin_ < size) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    // Do not allocate all of `size` at once, which may be wrong.
    const size_t want = std::max(read_bytes_, std::min(size - end_, 2 * buffer_.size()));
    if (buffer_.size() - end_ < want) buffer_.resize(end_ + want);
    const absl::Span<char> room = absl::MakeSpan(buffer_.data() + end_, want);
    absl::StatusOr<size_t> n = decompressor_ ? decompressor_->Read(room) : source_.Read(room);
    if (!n.ok()) {
      // Errors of reading the file already name it.
      const std::string message(n.status().message());
      if (message.starts_with(file_->path())) return n.status();
      return absl::Status(n.status().code(), fmt::format("{}: {}", file_->path(), message));
    }
    if (*n == 0) return absl::OkStatus();
    end_ += *n;
    read_bytes_ = std::min(2 * read_bytes_, kLargeRead);
    if (on_read_) {
      if (absl::Status status = on_read_(source_.position()); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> BinaryReader::Read(size_t size) {
  if (absl::Status status = Fill(size); !status.ok()) return status;
  const std::string_view bytes(buffer_.data() + begin_, std::min(size, end_ - begin_));
  begin_ += bytes.size();
  offset_ += bytes.size();
  return bytes;
}

absl::StatusOr<uint64_t> BinaryReader::Skip(uint64_t size) {
  uint64_t left = size;
  const auto drop_buffered = [&] {
    const size_t n = std::min<uint64_t>(left, end_ - begin_);
    begin_ += n;
    left -= n;
  };
  drop_buffered();
  if (!decompressor_ && left > 0) {
    const uint64_t rest = file_->size() - std::min<uint64_t>(source_.position(), file_->size());
    const uint64_t n = std::min(left, rest);
    source_.Seek(source_.position() + n);
    left -= n;
    read_bytes_ = kSmallRead;
    if (on_read_) {
      if (absl::Status status = on_read_(source_.position()); !status.ok()) return status;
    }
  }
  while (decompressor_ && left > 0) {
    const size_t before = end_ - begin_;
    if (absl::Status status = Fill(before + 1); !status.ok()) return status;
    if (end_ == begin_) break;
    drop_buffered();
  }
  offset_ += size - left;
  return size - left;
}

}  // namespace shardfeed
