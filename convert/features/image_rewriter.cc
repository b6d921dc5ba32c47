#include "convert/features/image_rewriter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/mutex.h"
#include "decode/images/jpeg/jpeg_resize.h"
#include "decode/images/jpeg/seekable_jpeg.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

constexpr size_t kNamed = 100;
// A rare huge image should not hold its memory forever.
constexpr size_t kKeptBytes = size_t{64} << 20;

}  // namespace

absl::StatusOr<StoredImage> ImageRewriter::Rewrite(std::string_view name, const ImageHeader& header,
                                                   std::string_view bytes) const {
  if (keeps_all()) return StoredImage{bytes, header};
  const bool too_large = options_.resize_shorter > 0 &&
                         std::min(header.width, header.height) > options_.resize_shorter;
  if (header.format != "jpeg") {
    if (too_large) {
      MutexLock lock(mutex_);
      ++counts_.not_resized;
    }
    return StoredImage{bytes, header};
  }
  if (too_large) return Resize(name, header, bytes);
  if (options_.jpeg == JpegMode::kKeep) return StoredImage{bytes, header};
  return MakeSeekable(name, header, bytes);
}

absl::StatusOr<StoredImage> ImageRewriter::Resize(std::string_view name, const ImageHeader& header,
                                                  std::string_view bytes) const {
  thread_local std::string resized;
  if (resized.capacity() > kKeptBytes) std::string().swap(resized);
  JpegResizeOptions resizing;
  resizing.shorter_side = options_.resize_shorter;
  resizing.quality = options_.quality;
  resizing.seekable = options_.jpeg == JpegMode::kSeekable;
  const absl::StatusOr<ResizedJpeg> size = ResizeJpeg(bytes, resizing, &resized);
  if (size.ok() && size->width > 0) {
    MutexLock lock(mutex_);
    ++counts_.resized;
    StoredImage stored{resized, header};
    stored.header.width = size->width;
    stored.header.height = size->height;
    if (header.channels > 3) stored.header.channels = 3;
    return stored;
  }
  if (absl::IsDataLoss(size.status())) {
    CountDamaged(name, std::string(size.status().message()));
  } else if (absl::IsUnimplemented(size.status())) {
    MutexLock lock(mutex_);
    ++counts_.kept["cannot be resized: " + std::string(size.status().message())];
  } else if (!size.ok()) {
    return absl::Status(size.status().code(),
                        fmt::format("{}: {}", name, std::string(size.status().message())));
  }
  return StoredImage{bytes, header};
}

void ImageRewriter::CountDamaged(std::string_view name, std::string what) const {
  MutexLock lock(mutex_);
  ++counts_.damaged;
  auto& names = counts_.damaged_names;
  names.emplace(name, std::move(what));
  if (names.size() > kNamed) names.erase(std::prev(names.end()));
}

absl::StatusOr<StoredImage> ImageRewriter::MakeSeekable(std::string_view name,
                                                        const ImageHeader& header,
                                                        std::string_view bytes) const {
  thread_local std::string seekable;
  if (seekable.capacity() > kKeptBytes) std::string().swap(seekable);
  absl::StatusOr<SeekableJpeg> result = shardfeed::MakeSeekable(bytes, {}, &seekable);
  if (!result.ok()) {
    return absl::Status(result.status().code(),
                        fmt::format("{}: {}", name, std::string(result.status().message())));
  }
  if (result->outcome == SeekableJpeg::Outcome::kDamaged) {
    CountDamaged(name, std::move(result->reason));
    return StoredImage{bytes, header};
  }
  MutexLock lock(mutex_);
  if (result->outcome == SeekableJpeg::Outcome::kRewritten) {
    ++counts_.rewritten;
    return StoredImage{seekable, header};
  }
  ++counts_.kept[result->outcome == SeekableJpeg::Outcome::kAlready ? "already seekable"
                                                                    : result->reason];
  return StoredImage{bytes, header};
}

absl::StatusOr<std::string_view> ImageRewriter::RewriteJpeg(std::string_view name,
                                                            std::string_view bytes) const {
  if (keeps_all() || !bytes.starts_with(kJpegMagic)) return bytes;
  absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes);
  // The JPEG is damaged before its size is known; MakeSeekable reports the damage.
  if (!header.ok()) header = ImageHeader{.format = "jpeg"};
  absl::StatusOr<StoredImage> stored = Rewrite(name, *header, bytes);
  if (!stored.ok()) return stored.status();
  return stored->bytes;
}

void ImageRewriter::Reset() {
  MutexLock lock(mutex_);
  counts_ = {};
}

std::vector<std::string> ImageRewriter::notes() const {
  MutexLock lock(mutex_);
  std::vector<std::string> notes;
  if (counts_.resized > 0) {
    notes.push_back(fmt::format("{} {} shrunk to a shorter side of {} pixels, quality {}",
                                counts_.resized, counts_.resized == 1 ? "JPEG was" : "JPEGs were",
                                options_.resize_shorter, options_.quality));
  }
  if (counts_.not_resized > 0) {
    notes.push_back(fmt::format("{} larger {} kept: only JPEGs are shrunk", counts_.not_resized,
                                counts_.not_resized == 1 ? "image was" : "images were"));
  }
  if (counts_.rewritten > 0) {
    notes.push_back(fmt::format("{} {} rewritten losslessly to be seekable", counts_.rewritten,
                                counts_.rewritten == 1 ? "JPEG was" : "JPEGs were"));
  }
  for (const auto& [reason, count] : counts_.kept) {
    notes.push_back(
        fmt::format("{} {} kept: {}", count, count == 1 ? "JPEG was" : "JPEGs were", reason));
  }
  if (counts_.damaged > 0) {
    std::vector<std::string> names;
    for (const auto& [name, what] : counts_.damaged_names) {
      names.push_back(fmt::format("{} ({})", name, what));
    }
    notes.push_back(fmt::format("{} damaged {} kept: {}{}", counts_.damaged,
                                counts_.damaged == 1 ? "JPEG was" : "JPEGs were",
                                fmt::join(names, ", "),
                                counts_.damaged > names.size() ? ", ..." : ""));
  }
  return notes;
}

}  // namespace shardfeed
