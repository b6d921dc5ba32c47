// Reads the members of a tar archive sequentially, without unpacking any, plain or compressed.

#ifndef SHARDFEED_CONVERT_INPUT_TAR_READER_H_
#define SHARDFEED_CONVERT_INPUT_TAR_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/input/binary_reader.h"
#include "tfrecord/tar_header.h"

namespace shardfeed {

// Headers are checked by their checksums, and sizes against the length of the file. Not thread
// safe.
class TarReader {
 public:
  // `path` is for messages.
  TarReader(std::unique_ptr<BinaryReader> reader, std::string path)
      : reader_(std::move(reader)), path_(std::move(path)) {}

  // Moves to the next member, past any unread rest of the last one. Returns false at the end of the
  // archive.
  //
  // DataLoss, with "FILE: ... byte N": not a tar archive, a damaged header, an unsupported header
  // (sparse members, several volumes), or an archive that is cut off or has data after its end.
  // Reading cannot continue after an error.
  absl::StatusOr<bool> Next(TarMember* member);

  // Returns the next `size` bytes of the current member, or fewer if it has fewer left. They are
  // valid until the next call. DataLoss: the archive ends inside the member.
  absl::StatusOr<std::string_view> Read(size_t size);

  bool compressed() const { return reader_->compressed(); }

 private:
  absl::Status ErrorOf(const TarDefect& defect) const;
  absl::Status CheckEnd();
  absl::Status SkipRest();

  std::unique_ptr<BinaryReader> reader_;
  const std::string path_;
  std::string headers_;   // the headers of the member that is being found
  std::string name_;      // name of the member, for messages
  uint64_t left_ = 0;     // unread bytes of the member
  uint64_t padding_ = 0;  // padding after the member
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_INPUT_TAR_READER_H_
