// Random serialized Examples and SequenceExamples that use all variants of the wire format, valid
// or nearly so.

#ifndef SHARDFEED_TESTS_DECODE_RANDOM_WIRE_H_
#define SHARDFEED_TESTS_DECODE_RANDOM_WIRE_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace shardfeed::testing {

class RandomWire {
 public:
  // `names` are the names of the features and feature lists. Usually, name i has a list of kind 1 +
  // i % 3 (bytes, float, int64).
  RandomWire(uint32_t seed, std::vector<std::string> names)
      : random_(seed), names_(std::move(names)) {}

  std::string Example() {
    plain_ = OneIn(2);
    std::string message;
    Features(1, /*lists=*/false, &message);
    return message;
  }
  std::string SequenceExample() {
    plain_ = OneIn(2);
    std::string message;
    if (OneIn(2)) Features(1, /*lists=*/false, &message);
    Features(2, /*lists=*/true, &message);
    return message;
  }

  // Damages some bytes.
  std::string Mutated(std::string bytes) {
    for (int n = 1 + Below(3); n > 0 && !bytes.empty(); --n) {
      const size_t at = Below(bytes.size());
      switch (Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(Below(256));
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] + 1 - 2 * Below(2));
          break;
        case 2:
          bytes.erase(at, 1 + Below(3));
          break;
        default:
          bytes.insert(at, 1, static_cast<char>(Below(256)));
      }
    }
    return bytes;
  }

  uint32_t Below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  // True once in `n` calls, but rarely in a plain message.
  bool Odd(int n) { return OneIn(plain_ ? 60 * n : n); }

  // `max_bytes` limits encodings that are longer than needed.
  void Varint(uint64_t value, size_t max_bytes, std::string* out) {
    size_t extra = Odd(8) ? Below(max_bytes) : 0;
    size_t n = 1;
    while (value >= 0x80) {
      out->push_back(static_cast<char>(value | 0x80));
      value >>= 7;
      ++n;
    }
    if (n + extra > max_bytes) extra = n < max_bytes ? max_bytes - n : 0;
    if (extra > 0) {
      out->push_back(static_cast<char>(value | 0x80));
      for (; extra > 1; --extra) out->push_back('\x80');
      value = 0;
    }
    out->push_back(static_cast<char>(value));
  }
  void Tag(uint32_t field, int type, std::string* out) { Varint(field << 3 | type, 5, out); }
  void Bytes(uint32_t field, std::string_view content, std::string* out) {
    Tag(field, 2, out);
    Varint(content.size(), 5, out);
    out->append(content);
  }

  void Unknown(std::string* out, int depth = 0) {
    const uint32_t field = OneIn(4) ? 1 + Below(3) : 4 + Below(100);
    switch (Below(field < 4 ? 4 : 5)) {
      case 0:
        Tag(field, 0, out);
        Varint(random_(), 10, out);
        break;
      case 1:
        Tag(field, 1, out);
        out->append("12345678");
        break;
      case 2:
        Tag(field, 5, out);
        out->append("1234");
        break;
      case 3:
        Tag(field, 3, out);
        while (depth < 5 && OneIn(2)) Unknown(out, depth + 1);
        Tag(field, 4, out);
        break;
      default:
        Bytes(field, "unknown", out);
    }
  }
  void MaybeUnknown(std::string* out) {
    if (Odd(6)) Unknown(out);
  }

  int64_t Int() {
    switch (Below(6)) {
      case 0:
        return static_cast<int64_t>(random_());
      case 1:
        return -static_cast<int64_t>(Below(1000));
      case 2:
        return static_cast<int64_t>(random_() >> Below(64));
      default:
        return Below(256);
    }
  }

  std::string List(int kind) {
    std::string list;
    const int n = OneIn(3) ? 3 : Below(OneIn(8) ? 40 : 5);
    std::string packed;
    const auto flush = [&](bool also_empty) {
      if (!packed.empty() || also_empty) Bytes(1, packed, &list);
      packed.clear();
    };
    for (int i = 0; i < n; ++i) {
      MaybeUnknown(&list);
      if (kind == 1) {
        Bytes(1, std::string(Below(OneIn(5) ? 300 : 5), static_cast<char>('a' + Below(26))), &list);
        continue;
      }
      const bool single = Odd(4);
      if (single || Odd(5)) flush(OneIn(5));
      std::string& out = single ? list : packed;
      if (single) Tag(1, kind == 2 ? 5 : 0, &list);
      if (kind == 2) {
        const auto bits = static_cast<uint32_t>(random_());
        out.append(reinterpret_cast<const char*>(&bits), 4);
      } else {
        Varint(static_cast<uint64_t>(Int()), 10, &out);
      }
    }
    flush(Odd(5));
    MaybeUnknown(&list);
    return list;
  }
  std::string Feature(int usual_kind) {
    std::string feature;
    MaybeUnknown(&feature);
    if (Odd(8)) return feature;  // no kind
    int kind = Odd(6) ? 1 + Below(3) : usual_kind;
    do {
      Bytes(kind, List(kind), &feature);
      MaybeUnknown(&feature);
      if (OneIn(3)) kind = 1 + Below(3);
    } while (Odd(4));
    if (Odd(4)) Bytes(usual_kind, List(usual_kind), &feature);
    return feature;
  }
  std::string FeatureList(int usual_kind) {
    std::string list;
    for (int n = Below(4); n > 0; --n) {
      MaybeUnknown(&list);
      Bytes(1, Feature(usual_kind), &list);
    }
    MaybeUnknown(&list);
    return list;
  }

  void Entry(size_t name, bool lists, std::string* out) {
    const int usual_kind = 1 + static_cast<int>(name % 3);
    std::string entry;
    const auto key = [&](size_t of) { Bytes(1, names_[of], &entry); };
    const auto value = [&] {
      Bytes(2, lists ? FeatureList(usual_kind) : Feature(usual_kind), &entry);
    };
    MaybeUnknown(&entry);
    switch (plain_ && !OneIn(60) ? 0 : Below(9)) {
      case 1:
        value();
        key(name);
        break;
      case 2:
        key(name);
        break;
      case 3:
        value();
        break;
      case 4:
        key(Below(names_.size()));
        value();
        key(name);
        break;
      case 5:
        key(name);
        value();
        MaybeUnknown(&entry);
        value();
        break;
      default:
        key(name);
        value();
    }
    MaybeUnknown(&entry);
    Bytes(1, entry, out);
  }
  void Features(uint32_t field, bool lists, std::string* out) {
    do {
      std::string map;
      std::vector<size_t> order;
      for (size_t i = 0; i < names_.size(); ++i) {
        if (!OneIn(5)) order.push_back(i);
        if (Odd(6)) order.push_back(Below(names_.size()));
      }
      if (OneIn(3)) std::shuffle(order.begin(), order.end(), random_);
      for (size_t name : order) {
        MaybeUnknown(&map);
        Entry(name, lists, &map);
      }
      MaybeUnknown(&map);
      MaybeUnknown(out);
      Bytes(field, map, out);
    } while (Odd(6));
  }

  std::mt19937_64 random_;
  const std::vector<std::string> names_;
  bool plain_ = false;  // whether the message is mostly in the usual form
};

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_DECODE_RANDOM_WIRE_H_
