#include "net/block_file.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/count_text.h"
#include "base/little_endian.h"
#include "fmt/format.h"
#include "io/errno_status.h"

namespace shardfeed {
namespace {

constexpr std::string_view kMagic = "SFBLOCK1";
// Size of a piece with a CRC of its own: reads of a part of a block read up to this much more at
// either end.
constexpr uint64_t kPieceBytes = 16 << 10;
// Size of what is read at a time, so that CRCs are compared while the processor's cache has the
// bytes.
constexpr uint64_t kPiecesAtOnce = 16;
constexpr uint64_t kPieces = kCacheBlockBytes / kPieceBytes;

constexpr size_t kCrcAt = 8;
constexpr size_t kKeyLengthAt = 12;
constexpr size_t kObjectSizeAt = 16;
constexpr size_t kNumberAt = 24;
constexpr size_t kBytesAt = 32;
constexpr size_t kCrcsAt = 64;
constexpr size_t kKeyAt = kCrcsAt + 4 * kPieces;
static_assert(kKeyAt + BlockKey::kMaxBytes <= kBlockHeaderBytes);

uint32_t ExtendCrc(uint32_t crc, const char* data, size_t size) {
  // ISA-L's signature lacks a const; it only reads.
  return ~crc32_iscsi(reinterpret_cast<unsigned char*>(const_cast<char*>(data)),
                      static_cast<int>(size), ~crc);
}

// The CRC of a header whose own CRC counts as 0.
uint32_t HeaderCrc(const char* header) {
  constexpr char kZeros[4] = {};
  uint32_t crc = ExtendCrc(0, header, kCrcAt);
  crc = ExtendCrc(crc, kZeros, sizeof(kZeros));
  return ExtendCrc(crc, header + kCrcAt + 4, kBlockHeaderBytes - kCrcAt - 4);
}

absl::Status ReadFully(int fd, const std::string& path, uint64_t offset, char* dst, size_t size) {
  while (size > 0) {
    const ssize_t n = ::pread(fd, dst, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path, "read");
    if (n == 0) return absl::DataLossError(fmt::format("{}: is cut off", path));
    offset += n;
    dst += n;
    size -= n;
  }
  return absl::OkStatus();
}

absl::Status WriteFully(int fd, const std::string& path, uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path, "write");
    offset += n;
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

struct Header {
  BlockKey key;
  std::vector<uint32_t> crcs;
};

absl::StatusOr<Header> ReadHeader(int fd, const std::string& path) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return ErrnoStatus(errno, path, "look up");
  if (!S_ISREG(info.st_mode)) return absl::DataLossError(fmt::format("{}: not a file", path));
  char bytes[kBlockHeaderBytes];
  absl::Status status = ReadFully(fd, path, 0, bytes, sizeof(bytes));
  if (!status.ok()) return status;
  if (std::string_view(bytes, kMagic.size()) != kMagic ||
      LoadLittleEndian<uint32_t>(bytes + kCrcAt) != HeaderCrc(bytes)) {
    return absl::DataLossError(fmt::format("{}: not a block of a cache, or damaged", path));
  }
  Header header;
  BlockKey& key = header.key;
  const auto length = LoadLittleEndian<uint32_t>(bytes + kKeyLengthAt);
  key.object_size = LoadLittleEndian<uint64_t>(bytes + kObjectSizeAt);
  key.number = LoadLittleEndian<uint64_t>(bytes + kNumberAt);
  // No product or sum of these overflows.
  const bool possible = length <= BlockKey::kMaxBytes && key.object_size <= INT64_MAX &&
                        key.number < BlockKey::NumBlocks(key.object_size);
  if (!possible || LoadLittleEndian<uint64_t>(bytes + kBytesAt) != key.bytes()) {
    return absl::DataLossError(fmt::format("{}: its header contradicts itself", path));
  }
  key.text.assign(bytes + kKeyAt, length);
  if (static_cast<uint64_t>(info.st_size) != key.file_bytes()) {
    return absl::DataLossError(fmt::format("{}: has {}, and {} according to its header", path,
                                           CountText(info.st_size, "byte"), key.file_bytes()));
  }
  header.crcs.resize((key.bytes() + kPieceBytes - 1) / kPieceBytes);
  for (size_t i = 0; i < header.crcs.size(); ++i) {
    header.crcs[i] = LoadLittleEndian<uint32_t>(bytes + kCrcsAt + 4 * i);
  }
  return header;
}

int OpenToRead(const std::string& path) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Links (ELOOP) and sockets (ENXIO) are not blocks.
absl::Status CannotOpen(int error, const std::string& path) {
  if (error != ELOOP && error != ENXIO) return ErrnoStatus(error, path, "open");
  return absl::DataLossError(fmt::format("{}: not a file", path));
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

// Parts of URLs and headers have no line feeds.
std::string CachedVersion::Text() const {
  return fmt::format("{}\n{}\n{}", address, path, version);
}

CachedVersion CachedVersion::Parse(std::string_view text) {
  const size_t first = std::min(text.find('\n'), text.size());
  const size_t second = std::min(text.find('\n', first + 1), text.size());
  CachedVersion parsed;
  parsed.address = text.substr(0, first);
  if (first < text.size()) parsed.path = text.substr(first + 1, second - first - 1);
  if (second < text.size()) parsed.version = text.substr(second + 1);
  return parsed;
}

std::string CachedDatasetOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return std::string(path);
  std::string folder(path.substr(0, slash));
  const std::string_view name = path.substr(slash + 1);
  const size_t above = folder.rfind('/');
  if (above != folder.npos && folder.size() > above + 1 && folder[above + 1] == '.') {
    folder.resize(above);
  }
  // "-00000-of-00064"
  const size_t of = name.rfind("-of-");
  if (of == name.npos || of + 4 >= name.size() || !IsDigit(name[of + 4])) return folder;
  size_t digits = of;
  while (digits > 0 && IsDigit(name[digits - 1])) --digits;
  if (digits == of || digits < 2 || name[digits - 1] != '-') return folder;
  return fmt::format("{}/{}", folder, name.substr(0, digits - 1));
}

uint64_t BlockKey::bytes() const { return std::min(kCacheBlockBytes, object_size - begin()); }

absl::StatusOr<std::unique_ptr<BlockFile>> BlockFile::Open(const std::string& path,
                                                           const BlockKey& key) {
  const int fd = OpenToRead(path);
  if (fd < 0) return CannotOpen(errno, path);
  std::unique_ptr<BlockFile> file(new BlockFile(path, fd));
  absl::StatusOr<Header> header = ReadHeader(fd, path);
  if (!header.ok()) return header.status();
  if (header->key != key) {
    return absl::DataLossError(fmt::format("{}: is a block of something else", path));
  }
  file->bytes_ = key.bytes();
  file->crcs_ = std::move(header->crcs);
  return file;
}

BlockFile::~BlockFile() { ::close(fd_); }

absl::Status BlockFile::ReadAt(uint64_t offset, absl::Span<char> dst, BlockCheck check) const {
  if (dst.empty()) return absl::OkStatus();
  const uint64_t end = offset + dst.size();
  if (offset > bytes_ || dst.size() > bytes_ - offset) {
    return absl::OutOfRangeError(fmt::format("{}: has {} bytes", path_, bytes_));
  }
  if (check == BlockCheck::kHeader) {
    return ReadFully(fd_, path_, kBlockHeaderBytes + offset, dst.data(), dst.size());
  }
  // The rest of the first piece and of the last one.
  const uint64_t first = offset / kPieceBytes;
  const uint64_t last = (end - 1) / kPieceBytes;
  const uint64_t whole_begin = first * kPieceBytes;
  const uint64_t whole_end = std::min(bytes_, (last + 1) * kPieceBytes);
  char before[kPieceBytes];
  char behind[kPieceBytes];
  absl::Status status =
      ReadFully(fd_, path_, kBlockHeaderBytes + whole_begin, before, offset - whole_begin);
  if (status.ok()) {
    status = ReadFully(fd_, path_, kBlockHeaderBytes + end, behind, whole_end - end);
  }
  if (!status.ok()) return status;
  uint64_t read = offset;  // up to here
  for (uint64_t piece = first; piece <= last; ++piece) {
    const uint64_t begin = std::max(offset, piece * kPieceBytes);
    const uint64_t stop = std::min(end, (piece + 1) * kPieceBytes);
    if (begin == read) {
      const uint64_t n = std::min(end, (piece + kPiecesAtOnce) * kPieceBytes) - begin;
      status = ReadFully(fd_, path_, kBlockHeaderBytes + begin, dst.data() + (begin - offset), n);
      if (!status.ok()) return status;
      read += n;
    }
    uint32_t crc = piece == first ? ExtendCrc(0, before, offset - whole_begin) : 0;
    crc = ExtendCrc(crc, dst.data() + (begin - offset), stop - begin);
    if (piece == last) crc = ExtendCrc(crc, behind, whole_end - end);
    if (crc != crcs_[piece]) {
      return absl::DataLossError(
          fmt::format("{}: bytes from {} on differ from their CRC", path_, piece * kPieceBytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<BlockKey> ReadBlockKey(const std::string& path) {
  const int fd = OpenToRead(path);
  if (fd < 0) return CannotOpen(errno, path);
  absl::StatusOr<Header> header = ReadHeader(fd, path);
  ::close(fd);
  if (!header.ok()) return header.status();
  return std::move(header->key);
}

absl::Status WriteBlock(int fd, const std::string& path, const BlockKey& key,
                        std::string_view bytes) {
  if (bytes.size() != key.bytes() || key.text.size() > BlockKey::kMaxBytes) {
    return absl::InvalidArgumentError(fmt::format("{}: invalid size or key of a block", path));
  }
  char header[kBlockHeaderBytes] = {};
  std::memcpy(header, kMagic.data(), kMagic.size());
  StoreLittleEndian(static_cast<uint32_t>(key.text.size()), header + kKeyLengthAt);
  StoreLittleEndian(key.object_size, header + kObjectSizeAt);
  StoreLittleEndian(key.number, header + kNumberAt);
  StoreLittleEndian(uint64_t{bytes.size()}, header + kBytesAt);
  for (uint64_t piece = 0; piece * kPieceBytes < bytes.size(); ++piece) {
    const std::string_view part = bytes.substr(piece * kPieceBytes, kPieceBytes);
    StoreLittleEndian(ExtendCrc(0, part.data(), part.size()), header + kCrcsAt + 4 * piece);
  }
  key.text.copy(header + kKeyAt, key.text.size());
  StoreLittleEndian(HeaderCrc(header), header + kCrcAt);
  absl::Status status = WriteFully(fd, path, kBlockHeaderBytes, bytes);
  if (!status.ok()) return status;
  return WriteFully(fd, path, 0, {header, sizeof(header)});
}

}  // namespace shardfeed
