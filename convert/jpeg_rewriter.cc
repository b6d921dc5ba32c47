#include "convert/jpeg_rewriter.h"

#include <iterator>
#include <utility>

#include "decode/seekable_jpeg.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

constexpr size_t kNamed = 100;
// A rare huge picture does not hold its memory for ever.
constexpr size_t kKeptBytes = size_t{64} << 20;

}  // namespace

absl::StatusOr<std::string_view> JpegRewriter::Rewrite(std::string_view name,
                                                       const ImageHeader& header,
                                                       std::string_view bytes) const {
  if (mode_ == JpegMode::kKeep || header.format != "jpeg") return bytes;
  thread_local std::string seekable;
  if (seekable.capacity() > kKeptBytes) std::string().swap(seekable);
  absl::StatusOr<SeekableJpeg> result = MakeSeekable(bytes, {}, &seekable);
  if (!result.ok()) {
    return absl::Status(result.status().code(),
                        fmt::format("{}: {}", name, std::string(result.status().message())));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  switch (result->outcome) {
    case SeekableJpeg::Outcome::kRewritten:
      ++rewritten_;
      return seekable;
    case SeekableJpeg::Outcome::kAlready:
      ++kept_["seekable already"];
      return bytes;
    case SeekableJpeg::Outcome::kUnsupported:
      ++kept_[result->reason];
      return bytes;
    case SeekableJpeg::Outcome::kDamaged:
      ++damaged_;
      damaged_names_.emplace(name, std::move(result->reason));
      if (damaged_names_.size() > kNamed) damaged_names_.erase(std::prev(damaged_names_.end()));
      return bytes;
  }
  return bytes;
}

std::vector<std::string> JpegRewriter::notes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> notes;
  if (rewritten_ > 0) {
    notes.push_back(fmt::format("{} {} rewritten losslessly to be seekable", rewritten_,
                                rewritten_ == 1 ? "JPEG was" : "JPEGs were"));
  }
  for (const auto& [reason, count] : kept_) {
    notes.push_back(
        fmt::format("{} {} kept: {}", count, count == 1 ? "JPEG was" : "JPEGs were", reason));
  }
  if (damaged_ > 0) {
    std::vector<std::string> names;
    for (const auto& [name, what] : damaged_names_) names.push_back(name + " (" + what + ")");
    notes.push_back(fmt::format("{} damaged {} kept: {}{}", damaged_,
                                damaged_ == 1 ? "JPEG was" : "JPEGs were", fmt::join(names, ", "),
                                damaged_ > names.size() ? ", ..." : ""));
  }
  return notes;
}

}  // namespace shardfeed
