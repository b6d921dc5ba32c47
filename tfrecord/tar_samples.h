// Samples of tar archives in WebDataset's layout: consecutive files that share the name up to the
// first dot. docs/webdataset.md has the rules.
//
//   n01.jpg n01.cls n01.json n02.jpg n02.cls ...
//
// All offsets count bytes of the archive, decompressed.

#ifndef SHARDFEED_TFRECORD_TAR_SAMPLES_H_
#define SHARDFEED_TFRECORD_TAR_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tfrecord/tar_header.h"

namespace shardfeed {

// The column that holds the key of a sample.
inline constexpr std::string_view kTarKey = "__key__";
// Upper bound of a sample with its headers, so that it fits a message of Protocol Buffers.
inline constexpr uint64_t kMaxTarSampleBytes = (uint64_t{1} << 31) - (1 << 20);

// The parts of a member's name.
struct TarName {
  std::string_view key;   // with its folders; a view of the name
  std::string extension;  // what follows the first dot of the file name, in lower case
};

// Returns nullopt for names that are skipped: those without a dot or with nothing before or after
// it, and names such as __this__.json.
std::optional<TarName> SplitTarName(std::string_view name);

// Says why a member cannot be part of a sample; empty: it can, or it is a folder. Links, pipes,
// devices, and names that lead outside ("../x", "/x") cannot.
std::string WrongTarMember(const TarMember& member);

// A file of a sample.
struct TarPart {
  std::string extension;
  uint64_t offset = 0;  // offset of its content
  uint64_t size = 0;
};

struct TarSample {
  std::string key;
  std::vector<TarPart> parts;
  // Its frame: from the end of the last sample to that of the padding after its last file. Skipped
  // members before and between its files belong to it.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint32_t headers_crc = 0;  // identifies the headers of its files
  uint64_t skipped = 0;      // members in the frame that are skipped, apart from folders
};

// Walks through the samples of an archive, or of a part of it, reading nothing but headers. Not
// thread-safe.
class TarSampleWalk {
 public:
  // Returns the `size` bytes at `offset`, or fewer if the bytes end; they are valid until the next
  // call. Never called for bytes after `end`.
  using Peek = absl::FunctionRef<absl::StatusOr<std::string_view>(uint64_t offset, size_t size)>;

  enum class Extent {
    kArchive,  // `end` is the end of the archive
    kMore,     // more bytes may follow `end`, but not beyond `archive_end`
    kSample,   // the bytes are exactly one sample
  };

  // Walks from `begin`, where a sample starts, to `end`.
  TarSampleWalk(uint64_t begin, uint64_t end, Extent extent, uint64_t archive_end = INT64_MAX)
      : extent_(extent), end_(end), archive_end_(archive_end), position_(begin), begin_(begin) {}

  enum class Outcome {
    kSample,
    kEnd,         // no more samples; end_of_archive() is where the zero blocks begin
    kIncomplete,  // bytes up to needed() must be known; walk again from the last sample's end
    kDefect,      // see defect(); the walk cannot go on
  };
  // Finds the next sample; the memory of `sample` is used again. Errors: those of `peek`.
  absl::StatusOr<Outcome> Next(Peek peek, TarSample* sample);

  const TarDefect& defect() const { return defect_; }
  uint64_t needed() const { return needed_; }
  uint64_t end_of_archive() const { return position_; }
  // Members after the last sample that were skipped, apart from folders.
  uint64_t skipped_at_end() const { return skipped_; }

 private:
  // A member that has been found, but belongs to no sample yet.
  struct Pending {
    TarMember member;
    uint32_t crc = 0;
  };

  absl::StatusOr<Outcome> Find(Peek peek);
  Outcome Defect(std::string what, uint64_t offset);
  Outcome Fits(const TarMember& member, uint64_t begin);
  Outcome Add(const TarName& name, TarSample* sample);
  bool IsNew(const std::string& extension, const TarSample& sample);

  const Extent extent_;
  const uint64_t end_;
  const uint64_t archive_end_;
  uint64_t position_;  // where the next headers are
  uint64_t begin_;     // where the next sample begins
  std::optional<Pending> pending_;
  uint64_t skipped_ = 0;
  uint64_t needed_ = 0;
  std::unordered_set<std::string> extensions_;  // extensions of a sample with many files
  TarDefect defect_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_TAR_SAMPLES_H_
