#include "convert/input/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/excerpt.h"
#include "base/rounding.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

constexpr size_t kBlock = 512;
// Maximum size of a long name or a set of pax records.
constexpr uint64_t kMaxExtension = 1 << 20;

// Fields of a header: offset and size.
struct Field {
  size_t offset;
  size_t size;
};
constexpr Field kName = {0, 100};
constexpr Field kSize = {124, 12};
constexpr Field kChecksum = {148, 8};
constexpr size_t kType = 156;
constexpr Field kLinkName = {157, 100};
constexpr Field kMagic = {257, 6};
constexpr Field kPrefix = {345, 155};

std::string_view TextOf(std::string_view header, Field field) {
  const std::string_view text = header.substr(field.offset, field.size);
  return text.substr(0, text.find('\0'));
}

// Parses an octal number, or a base-256 number, which has the first bit set. Returns nullopt for
// anything else.
std::optional<uint64_t> NumberOf(std::string_view header, Field field) {
  std::string_view text = header.substr(field.offset, field.size);
  uint64_t value = 0;
  if (static_cast<uint8_t>(text[0]) & 0x80) {
    if (static_cast<uint8_t>(text[0]) != 0x80) return std::nullopt;  // negative, or too large
    for (char c : text.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(c);
    }
    return value;
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  for (char c : text) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;
}

// Checks the header's checksum, over bytes taken as unsigned or, as some old writers did, as
// signed.
bool ChecksumHolds(std::string_view header) {
  const std::optional<uint64_t> told = NumberOf(header, kChecksum);
  if (!told) return false;
  int64_t unsigned_sum = 0;
  int64_t signed_sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool blank = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    const char c = blank ? ' ' : header[i];
    unsigned_sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  const auto sum = static_cast<int64_t>(*told);
  return sum == unsigned_sum || sum == signed_sum;
}

bool IsZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

}  // namespace

absl::Status TarReader::ErrorAt(uint64_t offset, std::string_view what) const {
  return absl::DataLossError(
      fmt::format("{}: {} at byte {}{}", path_, what, offset, reader_->content_name()));
}

absl::StatusOr<std::string_view> TarReader::Read(size_t size) {
  absl::StatusOr<std::string_view> bytes = reader_->Read(std::min<uint64_t>(size, left_));
  if (!bytes.ok()) return bytes;
  left_ -= bytes->size();
  if (bytes->size() < size && left_ > 0) {
    return ErrorAt(
        reader_->offset(),
        fmt::format("the archive is cut off: it ends inside {}, {} bytes before that member's "
                    "end,",
                    Excerpt(name_), left_));
  }
  return bytes;
}

absl::Status TarReader::SkipRest() {
  if (left_ + padding_ == 0) return absl::OkStatus();
  absl::StatusOr<uint64_t> skipped = reader_->Skip(left_ + padding_);
  if (!skipped.ok()) return skipped.status();
  if (*skipped < left_ + padding_) {
    const uint64_t missing = left_ - std::min(left_, *skipped);
    return ErrorAt(
        reader_->offset(),
        fmt::format("the archive is cut off: it ends {} {}, {} bytes before that member's end,",
                    missing > 0 ? "inside" : "in the padding after", Excerpt(name_), missing));
  }
  left_ = padding_ = 0;
  return absl::OkStatus();
}

// Checks that a second zero block follows the first one, and then nothing but zeros.
absl::Status TarReader::CheckEnd() {
  const uint64_t end = reader_->offset() - kBlock;
  while (true) {
    const uint64_t offset = reader_->offset();
    absl::StatusOr<std::string_view> bytes = reader_->Read(64 * kBlock);
    if (!bytes.ok()) return bytes.status();
    if (bytes->empty()) return absl::OkStatus();
    if (IsZero(*bytes)) continue;
    return ErrorAt(offset + bytes->find_first_not_of('\0'),
                   fmt::format("the archive ends at byte {}, but other data follows, as if several "
                               "tar files had been concatenated; split them:",
                               end));
  }
}

absl::Status TarReader::ReadPax(std::string_view records, uint64_t offset, bool global,
                                TarMember* member, bool* has_size, uint64_t* pax_size) const {
  // A record is "LENGTH KEY=VALUE
  // ", where LENGTH is the size of the whole record.
  while (!records.empty()) {
    uint64_t length = 0;
    const char* const begin = records.data();
    const auto [end, error] = std::from_chars(begin, begin + records.size(), length);
    const auto digits = static_cast<size_t>(end - begin);
    const std::string_view record = records.substr(0, std::min<uint64_t>(length, records.size()));
    const size_t equals = record.find('=');
    if (error != std::errc() || length > records.size() || length < digits + 3 ||
        record[digits] != ' ' || record.back() != '\n' || equals == record.npos) {
      return ErrorAt(offset, "damaged pax records of a member");
    }
    const std::string_view key = record.substr(digits + 1, equals - digits - 1);
    const std::string_view value = record.substr(equals + 1, record.size() - equals - 2);
    records.remove_prefix(length);
    if (key.starts_with("GNU.sparse")) {
      return ErrorAt(offset,
                     "a sparse member, which is not supported; make the archive without "
                     "--sparse:");
    }
    if (global && (key == "path" || key == "size" || key == "linkpath")) {
      return ErrorAt(offset, "global pax records with names or sizes, which are not supported,");
    }
    if (global) continue;
    if (key == "path") member->name = value;
    if (key == "linkpath") member->link = value;
    if (key == "size") {
      const char* const value_end = value.data() + value.size();
      const auto parsed = std::from_chars(value.data(), value_end, *pax_size);
      if (parsed.ec != std::errc() || parsed.ptr != value_end) {
        return ErrorAt(offset, "damaged pax records of a member");
      }
      *has_size = true;
    }
  }
  return absl::OkStatus();
}

absl::Status TarReader::ReadExtension(char type, uint64_t size, TarMember* member, bool* has_size,
                                      uint64_t* pax_size) {
  const uint64_t offset = reader_->offset() - kBlock;
  if (size > kMaxExtension) {
    return ErrorAt(
        offset, fmt::format("a name or pax records of {} bytes, more than the supported {},", size,
                            kMaxExtension));
  }
  absl::StatusOr<std::string_view> bytes = reader_->Read(RoundUp(size, kBlock));
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() < size) {
    return ErrorAt(reader_->offset(), "the archive is cut off: it ends inside a header");
  }
  const std::string_view content = bytes->substr(0, size);
  if (type == 'x' || type == 'g') {
    return ReadPax(content, offset, type == 'g', member, has_size, pax_size);
  }
  (type == 'L' ? member->name : member->link) = content.substr(0, content.find('\0'));
  return absl::OkStatus();
}

absl::StatusOr<bool> TarReader::Next(TarMember* member) {
  const bool first = reader_->offset() == 0;
  if (absl::Status status = SkipRest(); !status.ok()) return status;
  *member = TarMember();
  member->header_offset = reader_->offset();
  bool has_size = false;
  uint64_t pax_size = 0;
  while (true) {
    const uint64_t offset = reader_->offset();
    absl::StatusOr<std::string_view> header = reader_->Read(kBlock);
    if (!header.ok()) return header.status();
    if (header->size() < kBlock) {
      if (first && offset == 0 && header->empty()) {
        return absl::DataLossError(fmt::format("{}: the file is empty", path_));
      }
      if (first && offset == 0) return ErrorAt(0, "not a tar archive: no header");
      return ErrorAt(
          reader_->offset(),
          fmt::format("the archive is cut off: it ends {}, without the zero blocks that end "
                      "a tar,",
                      header->empty() ? "after a member" : "inside a header"));
    }
    if (IsZero(*header)) {
      if (offset != member->header_offset) {
        return ErrorAt(offset, "the archive ends after the name of a member, before the member,");
      }
      if (absl::Status status = CheckEnd(); !status.ok()) return status;
      return false;
    }
    if (!ChecksumHolds(*header)) {
      if (offset == 0) {
        return ErrorAt(
            0, fmt::format("not a tar archive: no header, but {}", Excerpt(header->substr(0, 16))));
      }
      return ErrorAt(offset, "a damaged header, whose checksum is wrong,");
    }
    const std::optional<uint64_t> size = NumberOf(*header, kSize);
    if (!size) return ErrorAt(offset, "a header without a valid size");
    const char type = (*header)[kType];
    if (type == 'L' || type == 'K' || type == 'x' || type == 'g') {
      absl::Status status = ReadExtension(type, *size, member, &has_size, &pax_size);
      if (!status.ok()) return status;
      continue;
    }
    if (member->name.empty()) {
      // GNU tar's magic is "ustar "; its headers have other fields in place of the prefix.
      const std::string_view magic = header->substr(kMagic.offset, kMagic.size);
      const std::string_view prefix =
          magic == std::string_view("ustar\0", 6) ? TextOf(*header, kPrefix) : "";
      member->name = prefix;
      if (!prefix.empty()) member->name += '/';
      member->name += TextOf(*header, kName);
    }
    if (member->link.empty()) member->link = TextOf(*header, kLinkName);
    member->size = has_size ? pax_size : *size;
    switch (type) {
      case '0':
      case '\0':
      case '7':
        // Old archives mark folders only by a slash at the end of the name.
        member->kind =
            member->name.ends_with('/') ? TarMember::Kind::kFolder : TarMember::Kind::kFile;
        break;
      case '5':
        member->kind = TarMember::Kind::kFolder;
        break;
      case '1':
      case '2':
        member->kind = TarMember::Kind::kLink;
        break;
      case '3':
      case '4':
      case '6':
        member->kind = TarMember::Kind::kOther;
        break;
      case 'S':
        return ErrorAt(offset,
                       "a sparse member, which is not supported; make the archive without "
                       "--sparse:");
      case 'M':
        return ErrorAt(offset, "the rest of a member from another volume; join the volumes:");
      default:
        return ErrorAt(offset, fmt::format("a member of unknown type {}",
                                           Excerpt(std::string_view(&type, 1))));
    }
    // Only files have content; the size of a link is that of its target.
    if (member->kind != TarMember::Kind::kFile) member->size = 0;
    if (member->size > INT64_MAX) return ErrorAt(offset, "a header without a valid size");
    member->offset = reader_->offset();
    name_ = member->name;
    left_ = member->size;
    padding_ = (kBlock - member->size % kBlock) % kBlock;
    return true;
  }
}

}  // namespace shardfeed
