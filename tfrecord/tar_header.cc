#include "tfrecord/tar_header.h"

#include <charconv>
#include <optional>

#include "base/excerpt.h"
#include "base/little_endian.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// Maximum size of a long name or a set of pax records, and of all headers of a member.
constexpr uint64_t kMaxExtension = 1 << 20;
constexpr uint64_t kMaxHeaders = 2 << 20;

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

constexpr char kSparse[] =
    "a sparse member, which is not supported; make the archive without --sparse:";

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

// The sum of the bytes of a block, taken as unsigned: eight at a time, since g++ adds them up one
// by one.
uint32_t SumOf(std::string_view block) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  uint64_t sums = 0;  // four of 16 bits each, which 512 bytes cannot overflow
  for (size_t i = 0; i < kTarBlock; i += sizeof(uint64_t)) {
    const auto eight = LoadLittleEndian<uint64_t>(block.data() + i);
    sums += (eight & kEven) + (eight >> 8 & kEven);
  }
  uint32_t sum = 0;
  for (; sums != 0; sums >>= 16) sum += sums & 0xffff;
  return sum;
}

// Checks the header's checksum, over bytes taken as unsigned or, as some old writers did, as
// signed. The checksum's own field counts as blanks.
bool ChecksumHolds(std::string_view header) {
  const std::optional<uint64_t> told = NumberOf(header, kChecksum);
  if (!told) return false;
  uint32_t sum = SumOf(header);
  for (const char c : header.substr(kChecksum.offset, kChecksum.size)) {
    sum -= static_cast<unsigned char>(c);
  }
  sum += kChecksum.size * ' ';
  if (*told == sum) return true;
  uint32_t high = 0;  // bytes that are negative if they are signed
  for (size_t i = 0; i < header.size(); ++i) {
    if (i - kChecksum.offset < kChecksum.size) continue;
    high += static_cast<unsigned char>(header[i]) >> 7;
  }
  return static_cast<int64_t>(*told) == static_cast<int64_t>(sum) - int64_t{256} * high;
}

// What the headers before a member's own header say about it.
struct Extensions {
  std::optional<uint64_t> size;
};

// Returns what is wrong with pax records; empty: nothing.
std::string ReadPax(std::string_view records, bool global, TarMember* member,
                    Extensions* extensions) {
  constexpr char kDamaged[] = "damaged pax records of a member";
  // A record is "LENGTH KEY=VALUE\n", where LENGTH is the size of the whole record.
  while (!records.empty()) {
    uint64_t length = 0;
    const char* const begin = records.data();
    const auto [end, error] = std::from_chars(begin, begin + records.size(), length);
    const auto digits = static_cast<size_t>(end - begin);
    if (error != std::errc() || length > records.size() || length < digits + 3) return kDamaged;
    const std::string_view record = records.substr(0, length);
    const size_t equals = record.find('=');
    if (record[digits] != ' ' || record.back() != '\n' || equals == record.npos) return kDamaged;
    const std::string_view key = record.substr(digits + 1, equals - digits - 1);
    const std::string_view value = record.substr(equals + 1, record.size() - equals - 2);
    records.remove_prefix(length);
    if (key.starts_with("GNU.sparse")) return kSparse;
    if (global && (key == "path" || key == "size" || key == "linkpath")) {
      return "global pax records with names or sizes, which are not supported,";
    }
    if (global) continue;
    if (key == "path") member->name = value;
    if (key == "linkpath") member->link = value;
    if (key == "size") {
      uint64_t size = 0;
      const char* const value_end = value.data() + value.size();
      const auto parsed = std::from_chars(value.data(), value_end, size);
      if (parsed.ec != std::errc() || parsed.ptr != value_end) return kDamaged;
      extensions->size = size;
    }
  }
  return {};
}

std::string ReadExtension(char type, std::string_view content, TarMember* member,
                          Extensions* extensions) {
  if (type == 'x' || type == 'g') return ReadPax(content, type == 'g', member, extensions);
  (type == 'L' ? member->name : member->link) = content.substr(0, content.find('\0'));
  return {};
}

// Sets the kind of a member whose header has this type. Returns what is wrong; empty: nothing.
std::string SetKind(char type, TarMember* member) {
  switch (type) {
    case '0':
    case '\0':
    case '7':
      // Old archives mark folders only by a slash at the end of the name.
      member->kind =
          member->name.ends_with('/') ? TarMember::Kind::kFolder : TarMember::Kind::kFile;
      return {};
    case '5':
    case 'D':  // of GNU tar's incremental archives; its content lists the folder's files
    case 'V':  // GNU tar's label of the archive
      member->kind = TarMember::Kind::kFolder;
      return {};
    case '1':
    case '2':
      member->kind = TarMember::Kind::kLink;
      return {};
    case '3':
    case '4':
    case '6':
      member->kind = TarMember::Kind::kOther;
      return {};
    case 'S':
      return kSparse;
    case 'M':
      return "the rest of a member from another volume; join the volumes:";
    default:
      return fmt::format("a member of unknown type {}", Excerpt(std::string_view(&type, 1)));
  }
}

// Sets what a member's own header says, unless extensions have said it. Returns what is wrong.
std::string ReadOwnHeader(std::string_view header, uint64_t size, const Extensions& extensions,
                          TarMember* member) {
  if (member->name.empty()) {
    // GNU tar's magic is "ustar "; its headers have other fields in place of the prefix.
    const std::string_view magic = header.substr(kMagic.offset, kMagic.size);
    if (magic == std::string_view("ustar\0", 6)) member->name = TextOf(header, kPrefix);
    if (!member->name.empty()) member->name += '/';
    member->name += TextOf(header, kName);
  }
  if (member->link.empty()) member->link = TextOf(header, kLinkName);
  std::string wrong = SetKind(header[kType], member);
  if (!wrong.empty()) return wrong;
  // Only files and these folders have content; the size of a link is that of its target.
  if (member->kind == TarMember::Kind::kFile || header[kType] == 'D') {
    member->size = extensions.size.value_or(size);
  }
  if (member->size > INT64_MAX) return "a header without a valid size";
  return {};
}

}  // namespace

bool IsZeroBlock(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

bool IsTarHeader(std::string_view block) {
  return block.size() >= kTarBlock && !IsZeroBlock(block.substr(0, kTarBlock)) &&
         ChecksumHolds(block.substr(0, kTarBlock));
}

TarHeaders ParseTarHeaders(std::string_view bytes, uint64_t offset) {
  TarHeaders result;
  const auto defect = [&](size_t at, std::string what) {
    result.outcome = TarHeaders::Outcome::kDefect;
    result.defect = {std::move(what), offset + at};
    return std::move(result);
  };
  const auto incomplete = [&](size_t needed) {
    result.outcome = TarHeaders::Outcome::kIncomplete;
    result.bytes = needed;
    return std::move(result);
  };
  TarMember& member = result.member;
  member.header_offset = offset;
  Extensions extensions;
  for (size_t at = 0;;) {
    if (bytes.size() - at < kTarBlock) return incomplete(at + kTarBlock);
    const std::string_view header = bytes.substr(at, kTarBlock);
    if (IsZeroBlock(header)) {
      if (at > 0) {
        return defect(at, "the archive ends after the name of a member, before the member,");
      }
      result.outcome = TarHeaders::Outcome::kEnd;
      return result;
    }
    if (!ChecksumHolds(header)) {
      // At the beginning, it may be no header at all. Old archives have no magic.
      if (offset + at > 0 || TextOf(header, kMagic).starts_with("ustar")) {
        return defect(at, "a damaged header, whose checksum is wrong,");
      }
      return defect(0, fmt::format("not a tar archive, or its first header is damaged: no header, "
                                   "but {}",
                                   Excerpt(header.substr(0, 16))));
    }
    const std::optional<uint64_t> size = NumberOf(header, kSize);
    if (!size) return defect(at, "a header without a valid size");
    const char type = header[kType];
    if (type != 'L' && type != 'K' && type != 'x' && type != 'g') {
      std::string wrong = ReadOwnHeader(header, *size, extensions, &member);
      if (!wrong.empty()) return defect(at, std::move(wrong));
      result.outcome = TarHeaders::Outcome::kMember;
      result.bytes = at + kTarBlock;
      member.offset = offset + result.bytes;
      return result;
    }
    const size_t content = at + kTarBlock;
    if (*size > kMaxExtension || content + *size > kMaxHeaders) {
      return defect(
          at, fmt::format("a name or pax records of {} bytes, more than the supported {},", *size,
                          kMaxExtension));
    }
    const size_t end = content + RoundUp(*size, kTarBlock);
    if (bytes.size() < end) return incomplete(end);
    std::string wrong = ReadExtension(type, bytes.substr(content, *size), &member, &extensions);
    if (!wrong.empty()) return defect(at, std::move(wrong));
    at = end;
  }
}

TarDefect CutBeforeEnd(size_t bytes, uint64_t end) {
  return {fmt::format("the archive is cut off: it ends {}, without the zero blocks that end a tar,",
                      bytes == 0 ? "after a member" : "inside a header"),
          end};
}

TarDefect CutInMember(std::string_view name, uint64_t missing, uint64_t end) {
  return {fmt::format("the archive is cut off: it ends {} {}, {} bytes before that member's end,",
                      missing > 0 ? "inside" : "in the padding after", Excerpt(name), missing),
          end};
}

TarDefect DataAfterEnd(uint64_t end, uint64_t offset) {
  // At least two zero blocks end an archive.
  if (offset < end + 2 * kTarBlock) return {"zeros instead of a header", end};
  return {fmt::format("the archive ends at byte {}, but other data follows, as if several tar "
                      "files had been concatenated; split them:",
                      end),
          offset};
}

}  // namespace shardfeed
