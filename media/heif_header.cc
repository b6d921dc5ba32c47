#include "media/heif_header.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "media/boxes.h"

namespace shardfeed {
namespace {

// A reference from item `from` to item `to`: "dimg" (made of it) or "auxl" (belonging to it).
struct Reference {
  std::string_view type;
  uint32_t from = 0;
  uint32_t to = 0;  // the first item referred to
};

// A property that an item has.
struct Association {
  uint32_t number = 0;      // number of the property, from 1
  std::string_view stored;  // the bytes of the file that say so
};

// Whether a property crops or turns the image.
bool IsTurn(std::string_view property) {
  return property == "clap" || property == "irot" || property == "imir";
}

// The box meta, as far as the primary item needs it.
struct Meta {
  uint32_t primary = 0;
  std::vector<Box> properties;
  std::map<uint32_t, std::vector<Association>> of_item;
  std::vector<Reference> references;

  // Calls `take` with the properties of an item in their order, and with their associations.
  template <class Take>
  void VisitAssociations(uint32_t item, const Take& take) const {
    const auto found = of_item.find(item);
    if (found == of_item.end()) return;
    for (const Association& one : found->second) {
      if (one.number >= 1 && one.number <= properties.size()) take(properties[one.number - 1], one);
    }
  }
  template <class Take>
  void Visit(uint32_t item, const Take& take) const {
    VisitAssociations(item, [&](const Box& property, const Association&) { take(property); });
  }
};

void ReadAssociations(std::string_view ipma, Meta* meta) {
  BigEndianCursor cursor(ipma);
  const uint32_t version = cursor.Load32(1);
  const uint32_t flags = cursor.Load32(3);
  const uint32_t count = cursor.Load32();
  // The count is not trusted: the loop ends with the box.
  for (uint32_t i = 0; i < count && cursor.ok(); ++i) {
    std::vector<Association>& found = meta->of_item[cursor.Load32(version == 0 ? 2 : 4)];
    found.clear();
    const uint32_t associations = cursor.Load32(1);
    for (uint32_t k = 0; k < associations && cursor.ok(); ++k) {
      const bool wide = (flags & 1) != 0;
      const std::string_view stored = cursor.left().substr(0, wide ? 2 : 1);
      // The highest bit says whether the property is essential.
      found.push_back({cursor.Load32(wide ? 2 : 1) & (wide ? 0x7fff : 0x7f), stored});
    }
  }
}

void ReadReferences(std::string_view iref, Meta* meta) {
  BigEndianCursor cursor(iref);
  const size_t id_bytes = cursor.Load(1) == 0 ? 2 : 4;
  cursor.Take(3);
  std::string_view boxes = cursor.left();
  while (const std::optional<Box> box = NextBox(&boxes)) {
    BigEndianCursor reference(box->content);
    const uint32_t from = reference.Load32(id_bytes);
    const uint32_t count = reference.Load32(2);
    const uint32_t to = reference.Load32(id_bytes);
    if (reference.ok() && count > 0) meta->references.push_back({box->type, from, to});
  }
}

std::optional<Meta> ReadMeta(std::string_view bytes) {
  const std::optional<std::string_view> content = FindBox(bytes, "meta");
  if (!content || content->size() < 4) return std::nullopt;
  std::string_view boxes = content->substr(4);  // version and flags
  Meta meta;
  while (const std::optional<Box> box = NextBox(&boxes)) {
    if (box->type == "pitm") {
      BigEndianCursor cursor(box->content);
      const size_t id_bytes = cursor.Load(1) == 0 ? 2 : 4;
      cursor.Take(3);
      meta.primary = cursor.Load32(id_bytes);
    } else if (box->type == "iref") {
      ReadReferences(box->content, &meta);
    } else if (box->type == "iprp") {
      std::string_view parts = box->content;
      while (const std::optional<Box> part = NextBox(&parts)) {
        if (part->type == "ipma") ReadAssociations(part->content, &meta);
        if (part->type != "ipco") continue;
        std::string_view properties = part->content;
        while (const std::optional<Box> property = NextBox(&properties)) {
          meta.properties.push_back(*property);
        }
      }
    }
  }
  return meta;
}

// Where stored pixels are shown: exchange columns and rows, then count from the other end.
struct Turn {
  bool transpose = false;
  bool mirror_columns = false;
  bool mirror_rows = false;

  void Mirror(bool columns) { (columns ? mirror_columns : mirror_rows) ^= true; }
  void TurnLeft() {
    // A pixel at (x, y) comes to (y, width - 1 - x).
    transpose = !transpose;
    std::swap(mirror_columns, mirror_rows);
    Mirror(/*columns=*/false);
  }
  int orientation() const {
    constexpr int kOrientations[2][2][2] = {{{1, 4}, {2, 3}}, {{5, 8}, {6, 7}}};
    return kOrientations[transpose][mirror_columns][mirror_rows];
  }
};

// The part of the pixels that is shown (clap): its size, and how far its middle is from theirs.
struct Aperture {
  struct Fraction {
    int64_t over = 0;
    int64_t under = 0;
  };
  Fraction width;
  Fraction height;
  Fraction right;
  Fraction down;
};

Aperture ReadAperture(std::string_view clap) {
  BigEndianCursor cursor(clap);
  Aperture aperture;
  for (Aperture::Fraction* fraction : {&aperture.width, &aperture.height}) {
    fraction->over = cursor.Load32();
    fraction->under = cursor.Load32();
  }
  for (Aperture::Fraction* fraction : {&aperture.right, &aperture.down}) {
    fraction->over = static_cast<int32_t>(cursor.Load32());
    fraction->under = cursor.Load32();
  }
  return aperture;  // one that is cut off has zeros
}

// Along one axis.
struct Range {
  uint32_t begin = 0;
  uint32_t size = 0;
};

// The pixels of an axis of `all` ones that an aperture shows, rounded as libheif does: halves up in
// the size, and in the begin only if `begin_rounds`. (libheif computes with numbers of 17 bits, so
// it may find another pixel where fractions of large numbers come near a half.) nullopt: it shows
// no pixels, or pixels that do not exist.
std::optional<Range> ShownRange(uint32_t all, const Aperture::Fraction& size,
                                const Aperture::Fraction& offset, bool begin_rounds) {
  const auto valid = [](const Aperture::Fraction& fraction) {
    return fraction.under > 0 && fraction.under <= INT32_MAX && fraction.over <= INT32_MAX;
  };
  if (!valid(size) || !valid(offset)) return std::nullopt;
  // offset + (all - size) / 2, over a common divisor. All numbers are below 2 to the 31st.
  const __int128 divisor = __int128{2} * size.under * offset.under;
  __int128 begin = __int128{2} * offset.over * size.under +
                   (__int128{all} * size.under - size.over) * offset.under;
  if (begin_rounds) begin += divisor / 2;
  // Down means towards zero: a part may begin less than a pixel before the image.
  if (begin < (begin_rounds ? 0 : 1 - divisor)) return std::nullopt;
  begin /= divisor;
  const int64_t count = (size.over + size.under / 2) / size.under;
  if (count == 0 || begin + count > all) return std::nullopt;
  return Range{static_cast<uint32_t>(begin), static_cast<uint32_t>(count)};
}

// Reduces the image to the part that an aperture shows after `turn`. False: there is no such part.
bool Crop(const Aperture& aperture, const Turn& turn, HeifHeader* header) {
  const uint32_t columns = turn.transpose ? header->height : header->width;
  const uint32_t rows = turn.transpose ? header->width : header->height;
  std::optional<Range> x = ShownRange(columns, aperture.width, aperture.right, false);
  std::optional<Range> y = ShownRange(rows, aperture.height, aperture.down, true);
  if (!x || !y) return false;
  if (turn.mirror_columns) x->begin = columns - x->begin - x->size;
  if (turn.mirror_rows) y->begin = rows - y->begin - y->size;
  if (turn.transpose) std::swap(x, y);
  header->left += x->begin;
  header->top += y->begin;
  header->width = x->size;
  header->height = y->size;
  return true;
}

// Adds the properties of the primary item; those that turn or crop it hold in their order.
absl::Status ReadProperties(const Meta& meta, HeifHeader* header) {
  meta.Visit(meta.primary, [&](const Box& property) {
    BigEndianCursor cursor(property.content);
    if (property.type == "ispe") {
      cursor.Take(4);
      header->stored_width = cursor.Load32();
      header->stored_height = cursor.Load32();
    } else if (property.type == "pixi") {
      cursor.Take(4);
      header->channels = cursor.Load32(1);
    }
  });
  const uint32_t width = header->width = header->stored_width;
  const uint32_t height = header->height = header->stored_height;
  if (width == 0 || height == 0) {
    return absl::DataLossError("is cut off or damaged: its header does not tell its size");
  }
  if (width > INT32_MAX || height > INT32_MAX) {
    return absl::DataLossError(
        fmt::format("says that it is {} pixels wide and {} high", width, height));
  }
  Turn turn;
  bool cropped = true;
  meta.Visit(meta.primary, [&](const Box& property) {
    BigEndianCursor cursor(property.content);
    if (property.type == "irot") {
      for (uint32_t i = cursor.Load32(1) & 3; i > 0; --i) turn.TurnLeft();
    } else if (property.type == "imir") {
      turn.Mirror(/*columns=*/(cursor.Load(1) & 1) != 0);
    } else if (property.type == "clap") {
      cropped = cropped && Crop(ReadAperture(property.content), turn, header);
    }
  });
  header->orientation = turn.orientation();
  if (!cropped) {
    return absl::DataLossError(fmt::format(
        "is damaged: the part that it shows (clap) is not in its {} x {} pixels", width, height));
  }
  return absl::OkStatus();
}

// The kind of chroma in the configuration of an item's codec.
std::optional<int> ChromaOf(const Meta& meta, uint32_t item) {
  std::optional<int> chroma;
  meta.Visit(item, [&](const Box& property) {
    if (property.type == "av1C" && property.content.size() >= 4) {
      const auto flags = static_cast<uint8_t>(property.content[2]);
      const bool gray = (flags & 0x10) != 0;
      const bool columns_halved = (flags & 0x08) != 0;
      const bool rows_halved = (flags & 0x04) != 0;
      chroma = gray ? 0 : rows_halved ? 1 : columns_halved ? 2 : 3;
    } else if (property.type == "hvcC" && property.content.size() >= 17) {
      chroma = property.content[16] & 3;
    }
  });
  return chroma;
}

bool IsAlpha(const Meta& meta, uint32_t item) {
  bool alpha = false;
  meta.Visit(item, [&](const Box& property) {
    if (property.type != "auxC" || property.content.size() < 4) return;
    const std::string_view urn = property.content.substr(4);
    alpha = urn.starts_with("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha") ||
            urn.starts_with("urn:mpeg:hevc:2015:auxid:1");
  });
  return alpha;
}

}  // namespace

std::string_view HeifFormatOf(std::string_view bytes) {
  const std::optional<Box> ftyp = NextBox(&bytes);
  if (!ftyp || ftyp->type != "ftyp") return "";
  // The major brand, its version, and others that the file is compatible with.
  std::string_view format;
  for (size_t at = 0; at + 4 <= ftyp->content.size(); at += at == 0 ? 8 : 4) {
    const std::string_view brand = ftyp->content.substr(at, 4);
    if (brand == "avif" || brand == "avis") return "avif";
    for (std::string_view heic : {"heic", "heix", "heim", "heis", "hevc", "hevx", "mif1"}) {
      if (brand == heic) format = "heic";
    }
  }
  return format;
}

absl::StatusOr<HeifHeader> ReadHeifHeader(std::string_view bytes) {
  const std::optional<Meta> meta = ReadMeta(bytes);
  if (!meta) return absl::DataLossError("is cut off or damaged: it has no header (meta)");
  HeifHeader header;
  if (absl::Status status = ReadProperties(*meta, &header); !status.ok()) return status;
  std::optional<int> chroma = ChromaOf(*meta, meta->primary);
  std::set<uint32_t> alphas;
  for (const Reference& reference : meta->references) {
    if (reference.type == "dimg" && reference.from == meta->primary && !chroma) {
      chroma = ChromaOf(*meta, reference.to);  // the first of the tiles
    }
    if (reference.type == "auxl" && reference.to == meta->primary &&
        IsAlpha(*meta, reference.from)) {
      alphas.insert(reference.from);
    }
  }
  if (!alphas.empty()) {
    if (header.channels > 0) ++header.channels;
    alphas.insert(meta->primary);
  }
  for (uint32_t item : alphas) {
    meta->VisitAssociations(item, [&](const Box& property, const Association& one) {
      if (!IsTurn(property.type)) return;
      for (const char& byte : one.stored) header.turns.push_back(&byte - bytes.data());
    });
  }
  header.chroma = chroma.value_or(header.chroma);
  return header;
}

}  // namespace shardfeed
