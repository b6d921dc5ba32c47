// Blocks of objects as files: what a cache on disk consists of.
//
// A block is an aligned stretch of 8 MiB of one version of an object, or the end of it. Its file
// has a header of 4096 bytes, and then the bytes:
//
//      0  8  "SFBLOCK1"
//      8  4  CRC-32C of the header, with these four bytes 0
//     12  4  length of the key
//     16  8  size of the object
//     24  8  number of the block
//     32  8  number of bytes in it
//     64     CRC-32C of each 16 KiB of them
//   2112     the key: which version of which object
//
// Numbers are little-endian. Files are validated: one is a block if its header's CRC is
// right, if it is of the object that is looked for, and if it is as long as the header says; and
// bytes are delivered when they have been compared with their CRC.

#ifndef SHARDFEED_NET_BLOCK_FILE_H_
#define SHARDFEED_NET_BLOCK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardfeed {

inline constexpr uint64_t kCacheBlockBytes = 8 << 20;
inline constexpr uint64_t kBlockHeaderBytes = 4096;

// A version of an object, as part of a key. It includes the address (such as that of an endpoint),
// because two stores may have objects of the same name.
struct CachedVersion {
  std::string address;  // URL of the requests, without query
  std::string path;     // URL that users write
  std::string version;

  std::string Text() const;
  static CachedVersion Parse(std::string_view text);
};

// The dataset that an object belongs to, by its name: "s3://bucket/folder/train" for shards
// ".../train-00000-of-00064.tfrecord" and what is beside them in folders like ".shardfeed"; for
// other names the folder.
std::string CachedDatasetOf(std::string_view path);

// Identifies a block: the version of an object, and the block's number in it.
struct BlockKey {
  std::string text;  // CachedVersion::Text; at most kMaxBytes
  uint64_t object_size = 0;
  uint64_t number = 0;  // below NumBlocks(object_size)

  static constexpr size_t kMaxBytes = 1984;
  static uint64_t NumBlocks(uint64_t object_size) {
    return (object_size + kCacheBlockBytes - 1) / kCacheBlockBytes;
  }

  uint64_t begin() const { return number * kCacheBlockBytes; }
  uint64_t bytes() const;
  // Size of the file.
  uint64_t file_bytes() const { return kBlockHeaderBytes + bytes(); }

  bool operator==(const BlockKey&) const = default;
};

// What is compared when a part of a block is read: its bytes, or no more than the header, for
// bytes that the reader compares with checksums of their own.
enum class BlockCheck { kAll, kHeader };

// A block that is open for reading. It may be removed meanwhile. Thread-safe.
class BlockFile {
 public:
  // NotFound: there is none. DataLoss: it is damaged, or no block of this key. Others: see
  // ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<BlockFile>> Open(const std::string& path,
                                                         const BlockKey& key);
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  // Reads bytes of the block, from `offset` in it, which must all be there. DataLoss: they differ
  // from their CRC. Others: see ErrnoStatus.
  absl::Status ReadAt(uint64_t offset, absl::Span<char> dst,
                      BlockCheck check = BlockCheck::kAll) const;

 private:
  BlockFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  uint64_t bytes_ = 0;
  std::vector<uint32_t> crcs_;
};

// The key of the block in a file. Errors: those of BlockFile::Open.
absl::StatusOr<BlockKey> ReadBlockKey(const std::string& path);

// Writes header and bytes, key.bytes() of them, to a file that is open for writing. Errors: see
// ErrnoStatus; `path` is for messages.
absl::Status WriteBlock(int fd, const std::string& path, const BlockKey& key,
                        std::string_view bytes);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_BLOCK_FILE_H_
