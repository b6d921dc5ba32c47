#include "media/heif_header.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Consumes big-endian integers. After the end, values are 0 and ok() is false.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}

  uint64_t Load(size_t size) {
    if (left_.size() < size) {
      ok_ = false;
      left_ = {};
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(left_[i]);
    left_.remove_prefix(size);
    return value;
  }
  uint32_t Load32(size_t size = 4) { return static_cast<uint32_t>(Load(size)); }
  std::string_view Take(size_t size) {
    if (left_.size() < size) ok_ = false;
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view left() const { return left_; }
  bool ok() const { return ok_; }

 private:
  std::string_view left_;
  bool ok_ = true;
};

struct Box {
  std::string_view type;
  std::string_view content;
};

// Takes the box at the front of `bytes`; one that is cut off ends with them. nullopt: there is
// none.
std::optional<Box> NextBox(std::string_view* bytes) {
  Cursor cursor(*bytes);
  uint64_t size = cursor.Load(4);
  const std::string_view type = cursor.Take(4);
  if (size == 1) size = cursor.Load(8);
  if (!cursor.ok()) return std::nullopt;
  const size_t head = bytes->size() - cursor.left().size();
  if (size == 0) size = bytes->size();  // up to the end
  if (size < head) return std::nullopt;
  const Box box = {type, cursor.left().substr(0, size - head)};
  bytes->remove_prefix(std::min<uint64_t>(size, bytes->size()));
  return box;
}

// The content of the first box of a type in `bytes`.
std::optional<std::string_view> FindBox(std::string_view bytes, std::string_view type) {
  while (const std::optional<Box> box = NextBox(&bytes)) {
    if (box->type == type) return box->content;
  }
  return std::nullopt;
}

// Names item `to` by the item `from`, as "dimg": made of it, or "auxl": belonging to it.
struct Reference {
  std::string_view type;
  uint32_t from = 0;
  uint32_t to = 0;  // the first
};

// The box meta, as far as the primary item needs it.
struct Meta {
  uint32_t primary = 0;
  std::vector<Box> properties;
  std::map<uint32_t, std::vector<uint32_t>> of_item;  // from 1
  std::vector<Reference> references;

  // Calls `take` with the properties of an item in their order.
  template <class Take>
  void Visit(uint32_t item, const Take& take) const {
    const auto found = of_item.find(item);
    if (found == of_item.end()) return;
    for (uint32_t number : found->second) {
      if (number >= 1 && number <= properties.size()) take(properties[number - 1]);
    }
  }
};

void ReadAssociations(std::string_view ipma, Meta* meta) {
  Cursor cursor(ipma);
  const uint32_t version = cursor.Load32(1);
  const uint32_t flags = cursor.Load32(3);
  const uint32_t count = cursor.Load32();
  // The count is not trusted: the loop ends with the box.
  for (uint32_t i = 0; i < count && cursor.ok(); ++i) {
    std::vector<uint32_t>& numbers = meta->of_item[cursor.Load32(version == 0 ? 2 : 4)];
    numbers.clear();
    const uint32_t associations = cursor.Load32(1);
    for (uint32_t k = 0; k < associations && cursor.ok(); ++k) {
      const bool wide = (flags & 1) != 0;
      // The highest bit says whether the property is essential.
      numbers.push_back(cursor.Load32(wide ? 2 : 1) & (wide ? 0x7fff : 0x7f));
    }
  }
}

void ReadReferences(std::string_view iref, Meta* meta) {
  Cursor cursor(iref);
  const size_t id_bytes = cursor.Load(1) == 0 ? 2 : 4;
  cursor.Take(3);
  std::string_view boxes = cursor.left();
  while (const std::optional<Box> box = NextBox(&boxes)) {
    Cursor reference(box->content);
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
      Cursor cursor(box->content);
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

// Which stored pixel is shown where: exchange columns and rows, then count from the other end.
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

// The size of the part of the stored pixels that is the image, as fractions (clap).
struct Aperture {
  uint32_t width = 0;
  uint32_t width_divisor = 0;
  uint32_t height = 0;
  uint32_t height_divisor = 0;

  bool Holds(uint32_t all_columns, uint32_t all_rows) const {
    return width == uint64_t{all_columns} * width_divisor &&
           height == uint64_t{all_rows} * height_divisor;
  }
};

// Adds the properties of the primary item.
void ReadProperties(const Meta& meta, HeifHeader* header) {
  Turn turn;
  std::optional<Aperture> aperture;
  meta.Visit(meta.primary, [&](const Box& property) {
    Cursor cursor(property.content);
    if (property.type == "ispe") {
      cursor.Take(4);
      header->width = cursor.Load32();
      header->height = cursor.Load32();
    } else if (property.type == "pixi") {
      cursor.Take(4);
      header->channels = cursor.Load32(1);
    } else if (property.type == "irot") {
      for (uint32_t i = cursor.Load32(1) & 3; i > 0; --i) turn.TurnLeft();
    } else if (property.type == "imir") {
      turn.Mirror(/*columns=*/(cursor.Load(1) & 1) != 0);
    } else if (property.type == "clap") {
      aperture.emplace();
      for (uint32_t* number : {&aperture->width, &aperture->width_divisor, &aperture->height,
                               &aperture->height_divisor}) {
        *number = cursor.Load32();
      }
    }
  });
  header->orientation = turn.orientation();
  header->cropped = aperture && !aperture->Holds(header->width, header->height);
}

// The kind of chroma in the configuration of an item's codec.
std::optional<int> ChromaOf(const Meta& meta, uint32_t item) {
  std::optional<int> chroma;
  meta.Visit(item, [&](const Box& property) {
    if (property.type == "av1C" && property.content.size() >= 4) {
      const auto flags = static_cast<uint8_t>(property.content[2]);
      const bool grey = (flags & 0x10) != 0;
      const bool columns_halved = (flags & 0x08) != 0;
      const bool rows_halved = (flags & 0x04) != 0;
      chroma = grey ? 0 : rows_halved ? 1 : columns_halved ? 2 : 3;
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
  ReadProperties(*meta, &header);
  std::optional<int> chroma = ChromaOf(*meta, meta->primary);
  for (const Reference& reference : meta->references) {
    if (reference.type == "dimg" && reference.from == meta->primary && !chroma) {
      chroma = ChromaOf(*meta, reference.to);  // the first of the tiles
    }
    if (reference.type == "auxl" && reference.to == meta->primary &&
        IsAlpha(*meta, reference.from) && header.channels > 0) {
      ++header.channels;
      break;
    }
  }
  header.chroma = chroma.value_or(header.chroma);
  if (header.width == 0 || header.height == 0) {
    return absl::DataLossError("is cut off or damaged: its header does not tell its size");
  }
  if (header.width > INT32_MAX || header.height > INT32_MAX) {
    return absl::DataLossError(
        fmt::format("says that it is {} pixels wide and {} high", header.width, header.height));
  }
  return header;
}

}  // namespace shardfeed
