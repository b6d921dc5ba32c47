#include "decode/features/feature_values.h"

#include <bit>
#include <cstring>

#include "base/little_endian.h"
#include "decode/features/float16.h"

namespace shardfeed {

static_assert(std::endian::native == std::endian::little, "lists of floats are copied unconverted");

namespace {

// Calls visit(kind, list) for each list of a Feature.
template <typename Visit>
const char* VisitLists(const FeatureView& feature, int depth, const Visit& visit) {
  return VisitValuesOf(feature, [&](std::string_view value) -> const char* {
    WireFields fields(value, depth);
    while (fields.Next()) {
      if (fields.field() > 3 || !fields.Is(fields.field(), WireType::kBytes)) continue;
      const char* failed = visit(static_cast<FeatureKind>(fields.field()), fields.bytes());
      if (failed != nullptr) return failed;
    }
    return fields.failed();
  });
}

// The wire type of a value that is not packed.
WireType SingleType(FeatureKind kind) {
  return kind == FeatureKind::kFloat   ? WireType::kFixed32
         : kind == FeatureKind::kInt64 ? WireType::kVarint
                                       : WireType::kBytes;
}

// Calls visit(piece) for each piece of a list.
template <typename Visit>
const char* VisitPiecesOfList(FeatureKind kind, std::string_view list, int depth,
                              const Visit& visit) {
  WireFields fields(list, depth);
  while (fields.Next()) {
    if (!fields.Is(1, WireType::kBytes) && !fields.Is(1, SingleType(kind))) continue;
    if (const char* failed = visit(fields.bytes())) return failed;
  }
  return fields.failed();
}

// Checks a list that does not count.
const char* CheckList(FeatureKind kind, std::string_view list, int depth) {
  return VisitPiecesOfList(kind, list, depth, [&](std::string_view piece) -> const char* {
    if (kind != FeatureKind::kInt64) {
      size_t n = 0;
      return CountPiece(kind, piece, &n);
    }
    const char* end = piece.data() + piece.size();
    for (const char* at = piece.data(); at != end;) {
      const char* next = ReadVarint(at, end).end;
      if (next == nullptr) return at;
      at = next;
    }
    return nullptr;
  });
}

// The number of varints in a piece, if the last one is complete.
size_t CountVarints(std::string_view piece) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  const char* at = piece.data();
  const char* end = at + piece.size();
  size_t continued = 0;  // number of bytes that are not the last of their varint
  for (; end - at >= 8; at += 8) {
    const uint64_t bits = LoadLittleEndian<uint64_t>(at) >> 7 & kOnes;
    continued += bits * kOnes >> 56;
  }
  for (; at != end; ++at) continued += static_cast<unsigned char>(*at) >> 7;
  return piece.size() - continued;
}

// The value of a varint of up to eight bytes, each of which holds seven bits.
uint64_t MoveTogether(uint64_t bytes) {
  bytes = (bytes & 0x7f007f007f007f00) >> 1 | (bytes & 0x007f007f007f007f);
  bytes = (bytes & 0x3fff00003fff0000) >> 2 | (bytes & 0x00003fff00003fff);
  return (bytes & 0x0fffffff00000000) >> 4 | (bytes & 0x000000000fffffff);
}

// StorePiece for varints.
template <typename T>
char* StoreVarints(std::string_view piece, char* to, uint64_t* lost) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const char* at = piece.data();
  const char* end = at + piece.size();
  const auto store = [&](uint64_t wide) {
    const T value = static_cast<T>(wide);
    *lost |= wide ^ static_cast<uint64_t>(static_cast<int64_t>(value));
    std::memcpy(to, &value, sizeof(value));
    to += sizeof(value);
  };
  while (end - at >= 8) {
    const uint64_t word = LoadLittleEndian<uint64_t>(at);
    // The high bits of the bytes that end a varint: of all, and of all but the first.
    const uint64_t ends = ~word & kHighBits;
    const uint64_t rest = ends & (ends - 1);
    if (ends == kHighBits) {
      for (int shift = 0; shift < 64; shift += 8) store(word >> shift & 0x7f);
      at += 8;
    } else if (rest != 0) {
      // Two varints at a time, because the next load has to wait for the length of these.
      store(MoveTogether(word & (ends ^ (ends - 1))));
      store(MoveTogether((word & (rest ^ (rest - 1))) >> (std::countr_zero(ends) + 1)));
      at += (std::countr_zero(rest) + 1) / 8;
    } else if (ends != 0) {
      store(MoveTogether(word & (ends ^ (ends - 1))));
      at += (std::countr_zero(ends) + 1) / 8;
    } else {
      const WireNumber number = ReadLongVarint(at, end);
      if (number.end == nullptr) return nullptr;
      store(number.value);
      at = number.end;
    }
  }
  while (at != end) {
    const WireNumber number = ReadVarint(at, end);
    if (number.end == nullptr) return nullptr;
    store(number.value);
    at = number.end;
  }
  return to;
}

template <uint16_t (*convert)(float)>
char* StoreHalves(std::string_view piece, char* to) {
  for (size_t at = 0; at < piece.size(); at += sizeof(float), to += sizeof(uint16_t)) {
    float value;
    std::memcpy(&value, piece.data() + at, sizeof(value));
    const uint16_t half = convert(value);
    std::memcpy(to, &half, sizeof(half));
  }
  return to;
}

char* StoreDoubles(std::string_view piece, char* to) {
  for (size_t at = 0; at < piece.size(); at += sizeof(float), to += sizeof(double)) {
    float value;
    std::memcpy(&value, piece.data() + at, sizeof(value));
    const double wide = value;
    std::memcpy(to, &wide, sizeof(wide));
  }
  return to;
}

}  // namespace

const char* CheckFeature(const FeatureView& view, bool is_list) {
  const auto check = [](const FeatureView& feature, int depth) {
    return VisitLists(feature, depth, [&](FeatureKind kind, std::string_view list) {
      return CheckList(kind, list, depth + 1);
    });
  };
  if (!is_list) return check(view, kFeatureDepth);
  return VisitSteps(view, [&](const FeatureView& step) { return check(step, kStepDepth); });
}

const char* CountPiece(FeatureKind kind, std::string_view piece, size_t* n) {
  switch (kind) {
    case FeatureKind::kFloat:
      *n += piece.size() / sizeof(float);
      return piece.size() % sizeof(float) == 0 ? nullptr : piece.data();
    case FeatureKind::kInt64:
      *n += CountVarints(piece);
      return piece.empty() || static_cast<unsigned char>(piece.back()) < 0x80 ? nullptr
                                                                              : piece.data();
    default:
      *n += 1;
      return nullptr;
  }
}

char* StorePiece(Conversion conversion, std::string_view piece, char* to, uint64_t* lost) {
  switch (conversion) {
    case Conversion::kInt64:
      return StoreVarints<int64_t>(piece, to, lost);
    case Conversion::kInt32:
      return StoreVarints<int32_t>(piece, to, lost);
    case Conversion::kUInt8:
      return StoreVarints<uint8_t>(piece, to, lost);
    case Conversion::kInt8:
      return StoreVarints<int8_t>(piece, to, lost);
    case Conversion::kUInt16:
      return StoreVarints<uint16_t>(piece, to, lost);
    case Conversion::kInt16:
      return StoreVarints<int16_t>(piece, to, lost);
    case Conversion::kFloat16:
      return StoreHalves<ToFloat16>(piece, to);
    case Conversion::kBFloat16:
      return StoreHalves<ToBFloat16>(piece, to);
    case Conversion::kFloat64:
      return StoreDoubles(piece, to);
    case Conversion::kFloat32:
    case Conversion::kRaw:
      std::memcpy(to, piece.data(), piece.size());
      return to + piece.size();
    case Conversion::kBytes:
      std::memcpy(to, &piece, sizeof(std::string_view));
      return to + sizeof(std::string_view);
  }
  return nullptr;
}

const char* EffectiveLists::Resolve(const FeatureView& feature, int depth) {
  depth_ = depth + 1;
  feature_ = feature;
  size_t n = 0;
  const char* failed =
      VisitLists(feature, depth, [&](FeatureKind kind, std::string_view list) -> const char* {
        if (kind != kind_) {
          kind_ = kind;
          first_ = n;
        }
        list_ = list;
        ++n;
        return nullptr;
      });
  if (failed != nullptr) return failed;
  several_ = n - first_ > 1;
  if (first_ == 0) return nullptr;
  n = 0;
  return VisitLists(feature, depth, [&](FeatureKind kind, std::string_view list) {
    return n++ < first_ ? CheckList(kind, list, depth_) : nullptr;
  });
}

// Calls visit(piece) for each piece of the lists that count.
template <typename Visit>
const char* EffectiveLists::VisitPieces(const Visit& visit) const {
  if (!several_) return VisitPiecesOfList(kind_, list_, depth_, visit);
  size_t n = 0;
  return VisitLists(feature_, depth_ - 1,
                    [&](FeatureKind kind, std::string_view list) -> const char* {
                      if (n++ < first_) return nullptr;
                      return VisitPiecesOfList(kind, list, depth_, visit);
                    });
}

const char* EffectiveLists::Count(size_t* values, size_t* bytes) const {
  *values = *bytes = 0;
  return VisitPieces([&](std::string_view piece) {
    *bytes += piece.size();
    return CountPiece(kind_, piece, values);
  });
}

const char* EffectiveLists::Store(Conversion conversion, char* to, bool* fit) const {
  uint64_t lost = 0;
  const char* failed = VisitPieces([&](std::string_view piece) {
    to = StorePiece(conversion, piece, to, &lost);
    return to == nullptr ? piece.data() : nullptr;
  });
  *fit = lost == 0;
  return failed;
}

}  // namespace shardfeed
