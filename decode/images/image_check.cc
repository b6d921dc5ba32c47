#include "decode/images/image_check.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "decode/images/formats/codecs.h"
#include "decode/images/jpeg/jpeg.h"
#include "fmt/format.h"
#include "media/image_header.h"
#include "media/image_limit.h"
#include "tfrecord/example_reader.h"

namespace shardfeed {
namespace {

constexpr std::array<std::string_view, 12> kSuffixes = {
    "jpg", "jpeg", "png", "bmp", "webp", "gif", "tif", "tiff", "avif", "heic", "heif", "jxl"};
// A rare huge image must not keep its memory forever.
constexpr size_t kKeptBytes = size_t{16} << 20;
constexpr uint32_t kScale = 8;

bool IsNamedImage(std::string_view feature) {
  if (feature == "image/encoded") return true;
  const std::string_view end = feature.substr(feature.find_last_of("./") + 1);  // npos + 1 is 0
  return std::find(kSuffixes.begin(), kSuffixes.end(), end) != kSuffixes.end();
}

absl::Status Decode(std::string_view bytes, const ImageHeader& header) {
  thread_local const auto decoder = std::make_unique<JpegDecoder>();
  thread_local std::vector<uint8_t> pixels;
  if (pixels.capacity() > kKeptBytes) std::vector<uint8_t>().swap(pixels);
  // Checked before allocating, since a damaged header may claim any size.
  const uint64_t max_pixels = JpegDecoderOptions().max_pixels;
  if (header.decoded_pixels() > max_pixels) {
    return ImageLimitError(fmt::format("more than {} pixels", max_pixels));
  }
  if (header.format != "jpeg") return DecodeWithCodec(bytes, header, 3, &pixels);
  JpegCrop all;
  all.scale_denominator = kScale;
  all.width = (header.width + kScale - 1) / kScale;
  all.height = (header.height + kScale - 1) / kScale;
  const size_t row_bytes = size_t{3} * all.width;
  try {
    pixels.resize(row_bytes * all.height);
    return decoder->DecodeCrop(bytes, all, pixels.data(), row_bytes);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory for a jpeg of {} x {} pixels", header.width, header.height));
  }
}

}  // namespace

void ImageCheck::CountNotDecoded(const std::string& why) {
  MutexLock lock(mutex_);
  ++counts_.not_decoded[why];
}

absl::Status ImageCheck::CheckValue(std::string_view feature, std::string_view value,
                                    std::vector<std::string>* defects) {
  const absl::StatusOr<ImageHeader> header = ReadImageHeader(value);
  if (!header.ok() && !IsNamedImage(feature) && !value.starts_with("\xff\xd8\xff") &&
      !value.starts_with("\x89PNG")) {
    return absl::OkStatus();
  }
  absl::Status status = header.status();
  if (absl::IsUnimplemented(status)) {
    CountNotDecoded(std::string(status.message()));
    return absl::OkStatus();
  }
  if (header.ok()) {
    status = Decode(value, *header);
    if (absl::IsUnimplemented(status) || IsImageLimit(status) ||
        absl::IsFailedPrecondition(status)) {
      const std::string why(status.message());
      const std::string kind = fmt::format("{}: ", header->format);
      CountNotDecoded(why.starts_with(kind) ? why : kind + why);
      return absl::OkStatus();
    }
    if (absl::IsResourceExhausted(status)) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: {}", feature, std::string(status.message())));
    }
    // One of 65536 values of random bytes begins like that.
    if (!status.ok() && value.starts_with("\xff\x0a") && !IsNamedImage(feature)) {
      return absl::OkStatus();
    }
  }
  if (!status.ok()) {
    defects->push_back(fmt::format("{}: {}", feature, std::string(status.message())));
  }
  MutexLock lock(mutex_);
  ++(status.ok() ? counts_.sound : counts_.broken);
  return absl::OkStatus();
}

absl::Status ImageCheck::CheckRecord(std::string_view record, std::vector<std::string>* defects) {
  absl::Status status;
  VisitBytes(record, [&](std::string_view feature, std::string_view value) {
    if (status.ok()) status = CheckValue(feature, value, defects);
  }).IgnoreError();
  return status;
}

ImageCheck::Counts ImageCheck::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

}  // namespace shardfeed
