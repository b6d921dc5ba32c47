#include "convert/features/example_images.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

// The field numbers that lead to a value: Example.features, Features.feature (a map entry), its
// value, Feature.bytes_list, BytesList.value.
constexpr std::array<uint32_t, 5> kPath = {1, 1, 2, 1, 1};

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

// Appends `message`, which is `depth` fields down the path, with its JPEGs rewritten.
absl::Status Rewrite(std::string_view message, size_t depth, std::string_view name,
                     const ImageRewriter& rewriter, std::string* out) {
  const char* at = message.data();
  const char* const end = at + message.size();
  while (at != end) {
    const WireField field = ReadField(at, end, kMaxWireDepth);
    if (field.end == nullptr) break;
    const auto size = static_cast<size_t>(field.end - at);
    const uint32_t tag = kPath[depth] << 3 | static_cast<uint32_t>(WireType::kBytes);
    // Copy a field that contains no JPEG as a whole.
    if (field.tag != tag || field.bytes.find(kJpegMagic) == std::string_view::npos) {
      out->append(at, size);
    } else if (depth + 1 == kPath.size()) {
      absl::StatusOr<std::string_view> value = rewriter.RewriteJpeg(name, field.bytes);
      if (!value.ok()) return value.status();
      AppendVarint(tag, out);
      AppendVarint(value->size(), out);
      out->append(*value);
    } else {
      std::string inner;
      inner.reserve(field.bytes.size());
      absl::Status status = Rewrite(field.bytes, depth + 1, name, rewriter, &inner);
      if (!status.ok()) return status;
      AppendVarint(tag, out);
      AppendVarint(inner.size(), out);
      out->append(inner);
    }
    at = field.end;
  }
  out->append(at, static_cast<size_t>(end - at));
  return absl::OkStatus();
}

}  // namespace

absl::Status RewriteExampleImages(std::string_view record, std::string_view name,
                                  const ImageRewriter& rewriter, std::string* out) {
  return Rewrite(record, 0, name, rewriter, out);
}

}  // namespace shardfeed
