#include "convert/features/image_file.h"

#include <algorithm>
#include <array>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace shardfeed {
namespace {

constexpr std::array<std::string_view, 12> kSuffixes = {
    "jpg", "jpeg", "png", "bmp", "webp", "gif", "tif", "tiff", "avif", "heic", "heif", "jxl"};

}  // namespace

bool IsImageName(std::string_view path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || path.size() - dot - 1 > 4) return false;
  char lower[4];
  size_t n = 0;
  for (char c : path.substr(dot + 1)) lower[n++] = c >= 'A' && c <= 'Z' ? c | 0x20 : c;
  return std::find(kSuffixes.begin(), kSuffixes.end(), std::string_view(lower, n)) !=
         kSuffixes.end();
}

std::string ImageSuffixes() { return fmt::format("{}", fmt::join(kSuffixes, ", ")); }

absl::Status AddImage(const std::string& path, std::string_view name, std::string_view bytes,
                      const ImageRewriter& rewriter, ExampleBuilder& builder,
                      ImageHeader* original) {
  absl::StatusOr<ImageHeader> header = ReadImageHeader(bytes);
  if (!header.ok()) {
    // An image of a format that is not supported can be left out, too.
    return absl::DataLossError(fmt::format("{}: {}", path, std::string(header.status().message())));
  }
  if (original != nullptr) *original = *header;
  absl::StatusOr<StoredImage> stored = rewriter.Rewrite(path, *header, bytes);
  if (!stored.ok()) return stored.status();
  // Features are added in the order of their names, which is their order in the record.
  builder.AddBorrowedBytes("image/encoded", stored->bytes);
  builder.AddBytes("image/filename", name);
  builder.AddBytes("image/format", header->format);
  builder.AddInt64("image/height", stored->header.height);
  builder.AddInt64("image/width", stored->header.width);
  return absl::OkStatus();
}

}  // namespace shardfeed
