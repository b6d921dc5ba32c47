// The values of one Feature message, wherever they stand in it.
//
// What makes up a list may come in many forms. A `piece` is a part of a list whose values are of
// one form: one string, packed floats, or packed varints, of which a single one is a case. Nearly
// every Feature is one list in one piece.
//
// Functions that read return null, or where it could not be read on.

#ifndef SHARDFEED_DECODE_FEATURES_FEATURE_VALUES_H_
#define SHARDFEED_DECODE_FEATURES_FEATURE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tfrecord/example_reader.h"
#include "tfrecord/wire.h"

namespace shardfeed {

// How the values of a list become those of a column.
enum class Conversion : uint8_t {
  kInt64,
  kInt32,
  kUInt8,
  kFloat32,
  kFloat16,
  kBFloat16,
  kBytes,  // std::string_views
  kRaw,    // strings, copied
};

// In how many messages a message stands.
inline constexpr int kMapDepth = 1;
inline constexpr int kEntryDepth = 2;
inline constexpr int kFeatureDepth = 3;
inline constexpr int kStepDepth = 4;  // a Feature of a FeatureList

// A feature that was found in a record, and not read yet. Borrowed.
struct FeatureView {
  enum class Form : uint8_t {
    kAbsent,
    kMessage,  // a Feature or, of a feature list, a FeatureList
    kEntry,    // a map entry, which has several values that make up one message
    kStored,   // is in its column already
  };
  // Of what kMessage and kEntry say.
  const char* data = nullptr;
  size_t size = 0;
  Form form = Form::kAbsent;

  static FeatureView Message(std::string_view bytes) {
    return {bytes.data(), bytes.size(), Form::kMessage};
  }
};

// Calls visit(value) for the message that a view is of, or for each value that it is made up of.
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

// Calls visit(step), which reads, with the view of each step of a FeatureList.
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

// Checks a Feature or, of a feature list, a FeatureList that another one of its name replaces.
const char* CheckFeature(const FeatureView& view, bool is_list);

// Adds the number of values in a piece to `n`. That none of its varints is longer than ten bytes is
// left to StorePiece.
const char* CountPiece(FeatureKind kind, std::string_view piece, size_t* n);

// Writes the values of a piece to memory that is large enough for as many as CountPiece counts, and
// returns where the next go; null if a varint is cut or too long. `lost` gets bits where a value
// does not fit.
char* StorePiece(Conversion conversion, std::string_view piece, char* to, uint64_t* lost);

// The lists of a Feature that count: those of the last kind, since the kind changed last.
class EffectiveLists {
 public:
  // `depth`: that of the Feature. Lists that do not count are checked.
  const char* Resolve(const FeatureView& feature, int depth);

  // kNone if there is no list. What follows is for other kinds.
  FeatureKind kind() const { return kind_; }
  // The number of values, and the bytes of all strings together.
  const char* Count(size_t* values, size_t* bytes) const;
  // Writes the values, which Count has found sound, to memory that is large enough. `fit`: whether
  // all of them do.
  const char* Store(Conversion conversion, char* to, bool* fit) const;

 private:
  template <typename Visit>
  const char* VisitPieces(const Visit& visit) const;

  FeatureKind kind_ = FeatureKind::kNone;
  int depth_ = 0;  // nesting depth of a list
  // The only list that counts; if there are several, those of feature_ from number first_ on.
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
