// Reads the values of a Feature message, in whichever encoding.
//
// A list may be encoded in many ways. A `piece` is a part of a list whose values have one encoding:
// a single string, packed floats, or packed varints (a lone varint counts as packed). Nearly every
// Feature is one list in one piece.
//
// Functions that return a pointer return null on success, or the position at which parsing failed,
// unless stated otherwise.

#ifndef SHARDFEED_DECODE_FEATURES_FEATURE_VALUES_H_
#define SHARDFEED_DECODE_FEATURES_FEATURE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tfrecord/example_reader.h"
#include "tfrecord/wire.h"

namespace shardfeed {

// How values of a list are converted to values of a column.
enum class Conversion : uint8_t {
  kInt64,
  kInt32,
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kBytes,  // std::string_views
  kRaw,    // strings, copied
};

// The number of messages that enclose a message.
inline constexpr int kMapDepth = 1;
inline constexpr int kEntryDepth = 2;
inline constexpr int kFeatureDepth = 3;
inline constexpr int kStepDepth = 4;  // a Feature of a FeatureList

// A feature that was found in a record but not yet read. Borrows the record.
struct FeatureView {
  enum class Form : uint8_t {
    kAbsent,
    kMessage,  // a Feature or, of a feature list, a FeatureList
    kEntry,    // a map entry with several values, which make up one message
    kStored,   // already stored in its column
  };
  // The bytes of the message or the entry.
  const char* data = nullptr;
  size_t size = 0;
  Form form = Form::kAbsent;

  static FeatureView Message(std::string_view bytes) {
    return {bytes.data(), bytes.size(), Form::kMessage};
  }
};

// Calls visit(value) for the message, or for each value of the entry.
template <typename Visit>
const char* VisitValuesOf(const FeatureView& view, const Visit& visit) {
  if (view.form == FeatureView::Form::kMessage) {
    return visit(std::string_view(view.data, view.size));
  }
  WireFields entry({view.data, view.size}, kEntryDepth);
  while (entry.Next()) {
    if (!entry.Is(2, WireType::kBytes)) continue;
    if (const char* failed = visit(entry.bytes())) return failed;
  }
  return entry.failed();
}

// Calls visit(view) with the view of each step of a FeatureList.
template <typename Visit>
const char* VisitSteps(const FeatureView& list, const Visit& visit) {
  return VisitValuesOf(list, [&](std::string_view value) -> const char* {
    WireFields steps(value, kFeatureDepth);
    while (steps.Next()) {
      if (!steps.Is(1, WireType::kBytes)) continue;
      if (const char* failed = visit(FeatureView::Message(steps.bytes()))) return failed;
    }
    return steps.failed();
  });
}

// Checks a Feature, or a FeatureList if `is_list`, that a later entry of the same name replaces.
const char* CheckFeature(const FeatureView& view, bool is_list);

// Adds the number of values in a piece to `n`. Does not check that varints are at most ten bytes
// long: StorePiece does.
const char* CountPiece(FeatureKind kind, std::string_view piece, size_t* n);

// Writes the values of a piece to `to`, which has room for the number that CountPiece counts.
// Returns where the next values go, or null if a varint is cut off or too long. Sets bits in `lost`
// if a value does not fit.
char* StorePiece(Conversion conversion, std::string_view piece, char* to, uint64_t* lost);

// The lists of a Feature that count: those after the last change of kind.
class EffectiveLists {
 public:
  // `depth` is the Feature's. Also checks the lists that do not count.
  const char* Resolve(const FeatureView& feature, int depth);

  // kNone if there is no list; then Count and Store must not be called.
  FeatureKind kind() const { return kind_; }
  // Counts the values, and the bytes of all strings together.
  const char* Count(size_t* values, size_t* bytes) const;
  // Writes the values to `to`, after Count has succeeded. Sets `*fit` to whether all of them fit.
  const char* Store(Conversion conversion, char* to, bool* fit) const;

 private:
  template <typename Visit>
  const char* VisitPieces(const Visit& visit) const;

  FeatureKind kind_ = FeatureKind::kNone;
  int depth_ = 0;  // nesting depth of a list
  // The only list that counts. If there are several, they are the lists of feature_ from number
  // first_ on.
  std::string_view list_;
  bool several_ = false;
  FeatureView feature_;
  size_t first_ = 0;
};

// A Feature that is one list in one piece; kNone if it is not.
struct OnlyPiece {
  FeatureKind kind;
  std::string_view bytes;
};
inline OnlyPiece OnlyPieceOf(const FeatureView& feature) {
  constexpr OnlyPiece kNotOne = {FeatureKind::kNone, {}};
  if (feature.form != FeatureView::Form::kMessage || feature.size < 4) return kNotOne;
  const char* end = feature.data + feature.size;
  const auto tag = static_cast<unsigned char>(*feature.data);
  if (tag != 0x0a && tag != 0x12 && tag != 0x1a) return kNotOne;
  const WireNumber list = ReadLength(feature.data + 1, end);
  if (list.end == nullptr || list.value < 2 || list.end + list.value != end || *list.end != 0x0a) {
    return kNotOne;
  }
  const WireNumber piece = ReadLength(list.end + 1, end);
  if (piece.end == nullptr || piece.end + piece.value != end) return kNotOne;
  return {static_cast<FeatureKind>(tag >> 3), {piece.end, static_cast<size_t>(piece.value)}};
}

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FEATURE_VALUES_H_
