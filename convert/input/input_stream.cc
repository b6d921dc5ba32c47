#include "convert/input/input_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "convert/input/codec.h"
#include "convert/input/path_kind.h"
#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

// A pipe whose first bytes can be looked at before they are read.
class Pipe : public ByteSource {
 public:
  Pipe(int fd, const std::string* path) : fd_(fd), path_(path) {}
  ~Pipe() override { ::close(fd_); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  // Waits for the first kCodecMagicBytes, or for the end if there are fewer.
  absl::StatusOr<std::string_view> Peek() {
    while (peeked_ < kCodecMagicBytes) {
      absl::StatusOr<size_t> n = ReadPipe({first_ + peeked_, kCodecMagicBytes - peeked_});
      if (!n.ok()) return n.status();
      if (*n == 0) break;
      peeked_ += *n;
    }
    return std::string_view(first_, peeked_);
  }

  absl::StatusOr<size_t> Read(absl::Span<char> dst) override {
    if (taken_ == peeked_) return ReadPipe(dst);
    const size_t n = std::min(dst.size(), peeked_ - taken_);
    std::memcpy(dst.data(), first_ + taken_, n);
    taken_ += n;
    return n;
  }

 private:
  absl::StatusOr<size_t> ReadPipe(absl::Span<char> dst) {
    ssize_t n;
    do {
      n = ::read(fd_, dst.data(), dst.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) return ErrnoStatus(errno, *path_, "read");
    return n;
  }

  const int fd_;
  const std::string* const path_;
  char first_[kCodecMagicBytes];
  size_t peeked_ = 0;  // [taken_, peeked_) has been looked at and not been read
  size_t taken_ = 0;
};

// Opens the pipe and waits for its writer. Opened in the usual way, a named FIFO would wait, too,
// but the pipe of a command that has ended already would not.
absl::StatusOr<int> OpenPipe(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path, "open");
  pollfd ready = {fd, POLLIN, 0};
  int polled;
  do {
    polled = ::poll(&ready, 1, -1);
  } while (polled < 0 && errno == EINTR);
  if (polled > 0 && ::fcntl(fd, F_SETFL, 0) == 0) return fd;
  const absl::Status status = ErrnoStatus(errno, path, "open");
  ::close(fd);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InputStream>> InputStream::Open(const std::string& path) {
  std::unique_ptr<InputStream> stream(new InputStream(path));
  if (IsPipe(path)) {
    absl::StatusOr<int> fd = OpenPipe(path);
    if (!fd.ok()) return fd.status();
    auto pipe = std::make_unique<Pipe>(*fd, &stream->path_);
    absl::StatusOr<std::string_view> first_bytes = pipe->Peek();
    if (!first_bytes.ok()) return first_bytes.status();
    stream->raw_ = std::move(pipe);
    stream->DecompressIfNeeded(*first_bytes);
    return stream;
  }
  absl::StatusOr<std::shared_ptr<File>> file = File::Open(path);
  if (!file.ok()) return file.status();
  char first_bytes[kCodecMagicBytes];
  absl::StatusOr<size_t> n = (*file)->ReadAt(0, absl::MakeSpan(first_bytes));
  if (!n.ok()) return n.status();
  stream->file_ = *std::move(file);
  auto source = std::make_unique<FileSource>(stream->file_);
  stream->source_ = source.get();
  stream->raw_ = std::move(source);
  stream->DecompressIfNeeded({first_bytes, *n});
  return stream;
}

void InputStream::DecompressIfNeeded(std::string_view first_bytes) {
  const Codec codec = CodecOf(first_bytes);
  if (codec != Codec::kNone) decompressor_ = MakeCodecDecompressor(codec, raw_.get());
}

std::string_view InputStream::content_name() const {
  return compressed() ? " of the decompressed data" : "";
}

absl::StatusOr<size_t> InputStream::Read(absl::Span<char> dst) {
  if (!error_.ok()) return error_;
  size_t done = 0;
  ByteSource& source = compressed() ? static_cast<ByteSource&>(*decompressor_) : *raw_;
  while (done < dst.size() && !at_end_) {
    absl::StatusOr<size_t> n = source.Read(dst.subspan(done));
    if (!n.ok()) {
      // Errors of reading the file already name it.
      const std::string message(n.status().message());
      error_ = message.starts_with(path_)
                   ? n.status()
                   : absl::Status(n.status().code(), fmt::format("{}: {}", path_, message));
      if (done == 0) return error_;
      break;
    }
    done += *n;
    at_end_ =
        *n == 0 || (file_ != nullptr && !compressed() && source_->position() == file_->size());
  }
  offset_ += done;
  return done;
}

uint64_t InputStream::Skip(uint64_t bytes) {
  if (file_ == nullptr || compressed()) return 0;
  const uint64_t there = file_->size() - std::min(source_->position(), file_->size());
  const uint64_t n = std::min(bytes, there);
  source_->Seek(source_->position() + n);
  offset_ += n;
  return n;
}

}  // namespace shardfeed
