// Reads the fields of a message in Protocol Buffers' wire format, without descriptors.
//
// Format: protobuf.dev/programming-guides/encoding. Accepts exactly what the C++ library accepts:
// tags of up to five bytes, lengths of up to five bytes and below 2 GiB, varints of up to ten bytes
// (none of them need be the shortest encoding), and groups nested up to a limit.

#ifndef SHARDFEED_TFRECORD_WIRE_H_
#define SHARDFEED_TFRECORD_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardfeed {

// Maximum nesting depth of messages and groups, not counting the outermost message.
inline constexpr int kMaxWireDepth = 100;

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,  // Length-delimited: strings, messages, packed lists.
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// A number, and its end, which is null if the number is truncated or invalid.
struct WireNumber {
  const char* end;
  uint64_t value;
};
WireNumber ReadLongVarint(const char* at, const char* end);
WireNumber ReadLongLength(const char* at, const char* end);

// Reads the varint at `at`, which must end at or before `end`.
inline WireNumber ReadVarint(const char* at, const char* end) {
  if (at == end || static_cast<unsigned char>(*at) >= 0x80) return ReadLongVarint(at, end);
  return {at + 1, static_cast<unsigned char>(*at)};
}

// Reads the length of a field's bytes, which must not exceed the bytes that follow it.
inline WireNumber ReadLength(const char* at, const char* end) {
  if (end - at < 2) return ReadLongLength(at, end);
  uint64_t length = static_cast<unsigned char>(at[0]);
  if (length < 0x80) {
    at += 1;
  } else {
    const uint64_t high = static_cast<unsigned char>(at[1]);
    if (high >= 0x80) return ReadLongLength(at, end);
    length = (length & 0x7f) | high << 7;
    at += 2;
  }
  return {length <= static_cast<size_t>(end - at) ? at : nullptr, length};
}

struct WireField {
  // Null if the field is invalid.
  const char* end;
  uint32_t tag;
  // The content of a kBytes field; for other fields, everything after the tag.
  std::string_view bytes;
};
WireField ReadAnyField(const char* at, const char* end, int groups);

// Reads the field at `at`, which must be before `end`, with at most `groups` nested groups.
inline WireField ReadField(const char* at, const char* end, int groups) {
  // Nearly all fields are of this type and have a number below 16.
  const auto tag = static_cast<unsigned char>(*at);
  if (tag >= 0x80 || tag < 8 || (tag & 7) != static_cast<uint32_t>(WireType::kBytes)) {
    return ReadAnyField(at, end, groups);
  }
  const WireNumber length = ReadLength(at + 1, end);
  if (length.end == nullptr) return {nullptr, 0, {}};
  return {length.end + length.value, tag, {length.end, static_cast<size_t>(length.value)}};
}

// Iterates over the fields of one message, which is borrowed. Not thread-safe.
class WireFields {
 public:
  // `depth` is the number of messages that enclose this one.
  WireFields(std::string_view message, int depth)
      : at_(message.data()), end_(message.data() + message.size()), depth_(depth) {}

  // Advances to the next field. Returns false at the end and at an invalid field.
  bool Next() {
    if (at_ == end_) return false;
    const WireField field = ReadField(at_, end_, kMaxWireDepth - depth_);
    if (field.end == nullptr) {
      failed_ = at_;
      at_ = end_;
      return false;
    }
    tag_ = field.tag;
    bytes_ = field.bytes;
    at_ = field.end;
    return true;
  }

  uint32_t field() const { return tag_ >> 3; }
  bool Is(uint32_t field, WireType type) const {
    return tag_ == (field << 3 | static_cast<uint32_t>(type));
  }
  // See WireField::bytes.
  std::string_view bytes() const { return bytes_; }

  // The beginning of the invalid field; null if there has been none.
  const char* failed() const { return failed_; }

 private:
  const char* at_;
  const char* end_;
  int depth_;
  uint32_t tag_ = 0;
  std::string_view bytes_;
  const char* failed_ = nullptr;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_WIRE_H_
