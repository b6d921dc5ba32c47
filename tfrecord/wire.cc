#include "tfrecord/wire.h"

namespace shardfeed {
namespace {

// Reads a varint of at most `max_bytes` bytes, and drops bits that do not fit.
WireNumber ReadUpTo(int max_bytes, const char* at, const char* end) {
  uint64_t value = 0;
  for (int i = 0; i < max_bytes && at != end; ++i) {
    const auto byte = static_cast<unsigned char>(*at++);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return {at, value};
  }
  return {nullptr, 0};
}

}  // namespace

WireNumber ReadLongVarint(const char* at, const char* end) { return ReadUpTo(10, at, end); }

WireNumber ReadLongLength(const char* at, const char* end) {
  WireNumber length = ReadUpTo(5, at, end);
  // The C++ library reserves the last 16 lengths below 2 GiB.
  if (length.end != nullptr &&
      (length.value > INT32_MAX - 16 || length.value > static_cast<size_t>(end - length.end))) {
    length.end = nullptr;
  }
  return length;
}

WireField ReadAnyField(const char* at, const char* end, int groups) {
  // Only the lowest 32 bits of a tag count.
  const WireNumber number = ReadUpTo(5, at, end);
  const auto tag = static_cast<uint32_t>(number.value);
  constexpr WireField kFailed = {nullptr, 0, {}};
  if (number.end == nullptr || tag >> 3 == 0) return kFailed;
  const char* begin = at = number.end;
  switch (static_cast<WireType>(tag & 7)) {
    case WireType::kVarint:
      at = ReadVarint(at, end).end;
      if (at == nullptr) return kFailed;
      break;
    case WireType::kFixed64:
      if (end - at < 8) return kFailed;
      at += 8;
      break;
    case WireType::kFixed32:
      if (end - at < 4) return kFailed;
      at += 4;
      break;
    case WireType::kBytes: {
      const WireNumber length = ReadLength(at, end);
      if (length.end == nullptr) return kFailed;
      begin = length.end;
      at = length.end + length.value;
      break;
    }
    case WireType::kStartGroup:
      if (groups == 0) return kFailed;
      while (true) {
        const WireNumber inner = ReadUpTo(5, at, end);
        if (inner.end == nullptr) return kFailed;
        if ((inner.value & 7) == static_cast<uint32_t>(WireType::kEndGroup)) {
          if (static_cast<uint32_t>(inner.value) >> 3 != tag >> 3) return kFailed;
          at = inner.end;
          break;
        }
        at = ReadField(at, end, groups - 1).end;
        if (at == nullptr) return kFailed;
      }
      break;
    default:
      return kFailed;
  }
  return {at, tag, {begin, static_cast<size_t>(at - begin)}};
}

}  // namespace shardfeed
