// What becomes of JPEGs on their way into a dataset: they are made seekable
// (docs/seekable_jpeg.md), or kept as they are. Counts what happened, for the notes of a source.

#ifndef SHARDFEED_CONVERT_JPEG_REWRITER_H_
#define SHARDFEED_CONVERT_JPEG_REWRITER_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "decode/image_header.h"

namespace shardfeed {

enum class JpegMode {
  kSeekable,  // rewritten losslessly where that can be done
  kKeep,      // all bytes as they are, and not looked at
};

// Thread safe.
class JpegRewriter {
 public:
  explicit JpegRewriter(JpegMode mode) : mode_(mode) {}

  // The bytes to store of a picture: another view of `bytes`, or memory of the thread that lives
  // until its next call. Pictures of other formats are kept. `name` is for notes and errors.
  //
  // ResourceExhausted: there is not enough memory.
  absl::StatusOr<std::string_view> Rewrite(std::string_view name, const ImageHeader& header,
                                           std::string_view bytes) const;

  // How many JPEGs were rewritten, how many were kept and why, and which are damaged. The same
  // whatever the order of the calls. None if there were no JPEGs.
  std::vector<std::string> notes() const;

 private:
  const JpegMode mode_;
  mutable std::mutex mutex_;  // guards all below
  mutable uint64_t rewritten_ = 0;
  mutable uint64_t damaged_ = 0;
  mutable std::map<std::string, uint64_t> kept_;  // by the reason, without the damaged
  // The first damaged in the order of their names, with what is wrong.
  mutable std::map<std::string, std::string, std::less<>> damaged_names_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_JPEG_REWRITER_H_
