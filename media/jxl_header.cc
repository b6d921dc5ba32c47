#include "media/jxl_header.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "media/boxes.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kCodestream = "\xff\x0a"sv;

// Consumes bits, the lowest of a byte first. After the end, values are 0 and ok() is false.
class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : bytes_(bytes) {}

  uint32_t Bits(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      if (at_ / 8 >= bytes_.size()) {
        ok_ = false;
        return 0;
      }
      const uint32_t bit = static_cast<uint8_t>(bytes_[at_ / 8]) >> at_ % 8 & 1;
      value |= bit << i;
    }
    return value;
  }
  bool Bool() { return Bits(1) != 0; }

  // One of four ranges, the number of which comes first: a base and as many bits above it.
  struct Range {
    uint32_t base;
    int bits = 0;
  };
  uint32_t U32(const std::array<Range, 4>& ranges) {
    const Range& range = ranges[Bits(2)];
    return range.base + Bits(range.bits);
  }
  uint32_t Enum() { return U32({{{0}, {1}, {2, 4}, {18, 6}}}); }
  void Skip(uint64_t bits) {
    at_ += bits;
    ok_ = ok_ && at_ <= 8 * uint64_t{bytes_.size()};
  }

  // Whether the bits up to the next byte are 0.
  bool OnlyZerosInByte() { return at_ % 8 == 0 || Bits(static_cast<int>(8 - at_ % 8)) == 0; }

  bool ok() const { return ok_; }

 private:
  std::string_view bytes_;
  uint64_t at_ = 0;
  bool ok_ = true;
};

// The width of an image of `height` whose shape is one of seven common ones.
uint32_t WidthOf(uint32_t height, uint32_t ratio) {
  constexpr uint64_t kRatios[][2] = {{1, 1}, {12, 10}, {4, 3}, {3, 2}, {16, 9}, {5, 4}, {2, 1}};
  return static_cast<uint32_t>(height * kRatios[ratio - 1][0] / kRatios[ratio - 1][1]);
}

void ReadSize(BitReader& in, uint32_t* height, uint32_t* width) {
  const bool small = in.Bool();
  const auto side = [&] {
    return small ? 8 * (1 + in.Bits(5)) : in.U32({{{1, 9}, {1, 13}, {1, 18}, {1, 30}}});
  };
  *height = side();
  const uint32_t ratio = in.Bits(3);
  *width = ratio == 0 ? side() : WidthOf(*height, ratio);
}

void SkipPreview(BitReader& in) {
  const bool eighths = in.Bool();
  const auto side = [&] {
    return eighths ? in.U32({{{16}, {32}, {1, 5}, {33, 9}}})
                   : in.U32({{{1, 6}, {65, 8}, {321, 10}, {1345, 12}}});
  };
  side();
  if (in.Bits(3) == 0) side();
}

void SkipAnimation(BitReader& in) {
  in.U32({{{100}, {1000}, {1, 10}, {1, 30}}});
  in.U32({{{1}, {1001}, {1, 8}, {1, 10}}});
  in.U32({{{0}, {0, 3}, {0, 16}, {0, 32}}});
  in.Bool();
}

void SkipBitDepth(BitReader& in) {
  const bool is_float = in.Bool();
  if (is_float) {
    in.U32({{{32}, {16}, {24}, {1, 6}}});
    in.Bits(4);
  } else {
    in.U32({{{8}, {10}, {12}, {1, 6}}});
  }
}

void SkipExtraChannel(BitReader& in) {
  constexpr uint32_t kAlpha = 0;
  constexpr uint32_t kSpotColor = 2;
  constexpr uint32_t kCfa = 5;
  if (in.Bool()) return;  // alpha of 8 bits
  const uint32_t type = in.Enum();
  SkipBitDepth(in);
  in.U32({{{0}, {3}, {4}, {1, 3}}});  // how much smaller the channel is
  in.Skip(uint64_t{8} * in.U32({{{0}, {0, 4}, {16, 5}, {48, 10}}}));  // the name of the channel
  if (type == kAlpha) in.Bool();
  if (type == kSpotColor) in.Skip(4 * 16);
  if (type == kCfa) in.U32({{{1}, {0, 2}, {3, 4}, {19, 8}}});
}

enum ColorSpace : uint32_t { kGray = 1, kXyb = 2 };

void SkipPoint(BitReader& in) {
  for (int i = 0; i < 2; ++i) in.U32({{{0, 19}, {524288, 19}, {1048576, 20}, {2097152, 21}}});
}

// Returns whether a profile follows the header.
bool ReadColors(BitReader& in, JxlHeader* header) {
  constexpr uint32_t kCustom = 2;
  if (in.Bool()) return false;  // sRGB
  const bool profile = in.Bool();
  const uint32_t space = in.Enum();
  if (space == kGray) header->color_channels = 1;
  if (profile) return true;
  if (space != kXyb && in.Enum() == kCustom) SkipPoint(in);  // white
  if (space != kXyb && space != kGray && in.Enum() == kCustom) {
    for (int i = 0; i < 3; ++i) SkipPoint(in);  // red, green, blue
  }
  if (space != kXyb) {
    if (in.Bool()) {
      in.Skip(24);  // a gamma
    } else {
      in.Enum();
    }
  }
  in.Enum();  // the rendering intent
  return false;
}

// Returns whether the header ends there. Otherwise, what follows is of a kind that few files have.
bool ReadMetadata(BitReader& in, JxlHeader* header) {
  if (in.Bool()) return true;  // all fields have their defaults
  const bool extra_fields = in.Bool();
  if (extra_fields) {
    header->orientation = 1 + static_cast<int>(in.Bits(3));
    uint32_t height = 0;
    uint32_t width = 0;
    if (in.Bool()) ReadSize(in, &height, &width);  // the size in which the image should be shown
    if (in.Bool()) SkipPreview(in);
    if (in.Bool()) SkipAnimation(in);
  }
  SkipBitDepth(in);
  in.Bool();  // whether 16 bits suffice
  header->extra_channels = in.U32({{{0}, {1}, {2, 4}, {1, 12}}});
  for (uint32_t i = 0; i < header->extra_channels && in.ok(); ++i) SkipExtraChannel(in);
  in.Bool();  // whether the pixels are stored as XYB
  const bool profile = ReadColors(in, header);
  if (extra_fields && !in.Bool()) in.Skip(3 * 16 + 1);  // the tone mapping
  const bool extensions = in.Bits(2) != 0;
  return !profile && !extensions;
}

// The codestream. If its parts are in several boxes, enough of them for a header are joined.
std::string_view CodestreamOf(std::string_view bytes, std::string* joined) {
  if (bytes.starts_with(kCodestream)) return bytes;
  constexpr size_t kHeaderBytes = size_t{1} << 16;
  constexpr size_t kNumberBytes = 4;
  while (const std::optional<Box> box = NextBox(&bytes)) {
    if (box->type == "jxlc") return box->content;
    if (box->type != "jxlp" || box->content.size() < kNumberBytes) continue;
    joined->append(box->content.substr(kNumberBytes, kHeaderBytes));
    if (joined->size() >= kHeaderBytes) break;
  }
  return *joined;
}

}  // namespace

bool IsJxl(std::string_view bytes) {
  return bytes.starts_with(kCodestream) || bytes.starts_with(kJxlContainer);
}

absl::StatusOr<JxlHeader> ReadJxlHeader(std::string_view bytes) {
  std::string joined;
  const std::string_view codestream = CodestreamOf(bytes, &joined);
  if (!kCodestream.starts_with(codestream.substr(0, kCodestream.size()))) {
    return absl::DataLossError("is damaged: its codestream does not start with ff 0a");
  }
  BitReader in(codestream.substr(std::min(codestream.size(), kCodestream.size())));
  JxlHeader header;
  ReadSize(in, &header.height, &header.width);
  const bool ends = ReadMetadata(in, &header);
  const bool usual_transform = ends && in.Bool();
  if (!in.ok()) {
    return absl::DataLossError(fmt::format("ends before its size, after {} bytes", bytes.size()));
  }
  constexpr uint32_t kMaxSide = uint32_t{1} << 30;
  if (header.width == 0 || header.width > kMaxSide || header.height > kMaxSide) {
    return absl::DataLossError(
        fmt::format("says that it is {} pixels wide and {} high", header.width, header.height));
  }
  // Since a codestream is known only by its first two bytes, this excludes most other data.
  if (usual_transform && !in.OnlyZerosInByte()) {
    return absl::DataLossError("is damaged: bits that fill a byte of its header are not 0");
  }
  return header;
}

}  // namespace shardfeed
