// Parses the headers of tar archives, for everything that reads them.
//
// Supports ustar and pax (POSIX.1-2017, pax, "ustar Interchange Format"), GNU's extensions (long
// names, base-256 sizes; gnu.org/software/tar/manual, "Basic Tar Format") and the older form
// without a magic. All offsets count bytes of the archive, decompressed.

#ifndef SHARDFEED_TFRECORD_TAR_HEADER_H_
#define SHARDFEED_TFRECORD_TAR_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/rounding.h"

namespace shardfeed {

// The unit of an archive: a header is one block, and content is padded to whole blocks.
inline constexpr size_t kTarBlock = 512;

struct TarMember {
  enum class Kind {
    kFile,
    kFolder,
    kLink,   // hard or symbolic; `link` is the target
    kOther,  // a pipe or a device
  };
  Kind kind = Kind::kFile;
  std::string name;  // name in the archive
  std::string link;
  uint64_t header_offset = 0;  // offset of its first header
  uint64_t offset = 0;         // offset of its first byte
  uint64_t size = 0;           // size in bytes, at most INT64_MAX

  // Offset of what follows the member and its padding.
  uint64_t end() const { return offset + RoundUp(size, kTarBlock); }
};

// What is wrong with an archive: "WHAT at byte OFFSET".
struct TarDefect {
  std::string what;
  uint64_t offset = 0;
};

// The result of parsing the headers of one member.
struct TarHeaders {
  enum class Outcome {
    kMember,
    kEnd,         // a zero block, which ends the archive
    kIncomplete,  // the headers have at least `bytes` bytes, more than were given
    kDefect,
  };
  Outcome outcome = Outcome::kDefect;
  TarMember member;
  size_t bytes = 0;  // size of all headers of the member, with long names and pax records
  TarDefect defect;
};

// Parses the headers of the member at `offset` of the archive, of which `bytes` are the first ones.
// Thread-safe. A defect is a wrong checksum, an invalid size or pax records, or an unsupported
// header: sparse members, several volumes, global names, more than 1 MiB of a name.
TarHeaders ParseTarHeaders(std::string_view bytes, uint64_t offset);

// Returns whether the block is a header with a correct checksum.
bool IsTarHeader(std::string_view block);
bool IsZeroBlock(std::string_view bytes);

// The defect of an archive that ends at `end`: where a header should be, of which `bytes` bytes
// exist; or within a member or its padding.
TarDefect CutBeforeEnd(size_t bytes, uint64_t end);
TarDefect CutInMember(std::string_view name, uint64_t missing, uint64_t end);
// The defect of an archive with bytes other than zeros, at `offset`, after a zero block at `end`.
TarDefect DataAfterEnd(uint64_t end, uint64_t offset);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_TAR_HEADER_H_
