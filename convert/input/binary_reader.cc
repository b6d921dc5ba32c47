#include "convert/input/binary_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/types/span.h"

namespace shardfeed {
namespace {

// Sequential reads grow, and start small after a skip, so that reading the headers of large members
// does not read the members.
constexpr size_t kSmallRead = 4 << 10;
constexpr size_t kLargeRead = 256 << 10;

}  // namespace

BinaryReader::BinaryReader(std::unique_ptr<InputStream> stream, OnRead on_read)
    : stream_(std::move(stream)), on_read_(std::move(on_read)), read_bytes_(kSmallRead) {}

absl::StatusOr<std::unique_ptr<BinaryReader>> BinaryReader::Open(const std::string& path,
                                                                 OnRead on_read) {
  absl::StatusOr<std::unique_ptr<InputStream>> stream = InputStream::Open(path);
  if (!stream.ok()) return stream.status();
  return std::unique_ptr<BinaryReader>(new BinaryReader(*std::move(stream), std::move(on_read)));
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
    absl::StatusOr<size_t> n = stream_->Read(absl::MakeSpan(buffer_.data() + end_, want));
    if (!n.ok()) return n.status();
    if (*n == 0) return absl::OkStatus();
    end_ += *n;
    read_bytes_ = std::min(2 * read_bytes_, kLargeRead);
    if (on_read_) {
      if (absl::Status status = on_read_(stream_->file_offset()); !status.ok()) return status;
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
  if (left > 0) {
    const uint64_t n = stream_->Skip(left);
    left -= n;
    if (n > 0) {
      read_bytes_ = kSmallRead;
      if (on_read_) {
        if (absl::Status status = on_read_(stream_->file_offset()); !status.ok()) return status;
      }
    }
  }
  while (left > 0) {
    if (absl::Status status = Fill(1); !status.ok()) return status;
    if (end_ == begin_) break;
    drop_buffered();
  }
  offset_ += size - left;
  return size - left;
}

}  // namespace shardfeed
