// Finds requested features by the names in a record.

#ifndef SHARDFEED_DECODE_FEATURES_NAME_TABLE_H_
#define SHARDFEED_DECODE_FEATURES_NAME_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace shardfeed {

// Immutable; thread-safe.
class NameTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // `names` are distinct; each name's number is its index.
  explicit NameTable(absl::Span<const std::string> names);

  bool empty() const { return entries_.empty(); }

  // The number of `name`, or kNone. The number `guess` is tried first.
  uint32_t Find(std::string_view name, uint32_t guess) const {
    const Word word = WordOf(name);
    if (Matches(entries_[guess], name, word)) return guess;
    for (uint32_t bucket = Bucket(word); buckets_[bucket] != kNone; bucket = (bucket + 1) & mask_) {
      if (Matches(entries_[buckets_[bucket]], name, word)) return buckets_[bucket];
    }
    return kNone;
  }

 private:
  // A name's length and its first and last eight bytes, which may overlap: all there is to a name
  // of up to 16 bytes.
  struct Word {
    uint64_t first;
    uint64_t last;
    size_t size;

    friend bool operator==(const Word&, const Word&) = default;
  };
  struct Entry {
    Word word;
    std::string name;
  };

  static Word WordOf(std::string_view name) {
    Word word = {0, 0, name.size()};
    if (name.size() >= 8) {
      std::memcpy(&word.first, name.data(), 8);
      std::memcpy(&word.last, name.data() + name.size() - 8, 8);
    } else if (name.size() >= 4) {
      std::memcpy(&word.first, name.data(), 4);
      std::memcpy(&word.last, name.data() + name.size() - 4, 4);
    } else if (!name.empty()) {
      word.first = static_cast<unsigned char>(name[0]);
      word.last = static_cast<unsigned char>(name[name.size() / 2]) |
                  static_cast<unsigned char>(name.back()) << 8;
    }
    return word;
  }
  static bool Matches(const Entry& entry, std::string_view name, const Word& word) {
    return entry.word == word &&
           (word.size <= 16 || std::memcmp(entry.name.data(), name.data(), word.size) == 0);
  }
  uint32_t Bucket(const Word& word) const {
    uint64_t hash = (word.first ^ word.size) * 0x9e3779b97f4a7c15;
    hash = (hash ^ (hash >> 32) ^ word.last) * 0xd6e8feb86659fd93;
    return static_cast<uint32_t>(hash >> 32) & mask_;
  }

  std::vector<Entry> entries_;  // entries in the order of their numbers
  std::vector<uint32_t> buckets_;
  uint32_t mask_ = 0;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_NAME_TABLE_H_
