// Wrong indexes with valid CRCs; docs/index.md has the layout.

#ifndef SHARDFEED_TESTS_TESTING_INDEX_LIES_H_
#define SHARDFEED_TESTS_TESTING_INDEX_LIES_H_

#include <cstdint>
#include <random>
#include <string>

#include "base/little_endian.h"
#include "tfrecord/crc32c.h"

namespace shardfeed::testing {

inline void FitIndexCrcs(std::string* bytes) {
  const std::string_view view = *bytes;
  StoreLittleEndian<uint32_t>(Crc32c(view.substr(88)), bytes->data() + 80);
  StoreLittleEndian<uint32_t>(Crc32c(view.substr(0, 84)), bytes->data() + 84);
}

// Changes one to three numbers of a valid index with 32 or more bytes of groups.
inline std::string LyingIndex(std::string bytes, std::mt19937_64& random) {
  const auto load = [&](uint64_t at) { return LoadLittleEndian<uint64_t>(bytes.data() + at); };
  const uint64_t records = load(32);
  const uint64_t directory = load(48);
  const uint64_t restarts = load(56);
  const uint64_t points = load(64);
  const uint64_t groups = (records + 127) / 128;
  // A number near the old one, another number of the index, or any.
  const auto lie = [&](uint64_t old) -> uint64_t {
    switch (random() % 5) {
      case 0:
        return old + random() % 300 - 150;
      case 1:
        return old + 128 * (random() % 9) - 512;
      case 2:
        return load(random() % (bytes.size() - 8));
      case 3:
        return old ^ uint64_t { 1 } << random() % 64;
      default:
        return random() >> random() % 64;
    }
  };
  const auto put = [&](uint64_t at) { StoreLittleEndian(lie(load(at)), bytes.data() + at); };
  const auto put_byte = [&](uint64_t at) { bytes[at] = static_cast<char>(random() % 70); };
  for (int lies = 1 + static_cast<int>(random() % 3); lies > 0; --lies) {
    const uint64_t group = load(directory + 8 * (random() % groups));
    const bool sound = group < bytes.size() && bytes.size() - group > 32;
    const uint64_t point = restarts + 32 * (points == 0 ? 0 : random() % points);
    switch (random() % (points == 0 ? 7 : 14)) {
      case 0:
        if (sound) put(group);  // base
        break;
      case 1:
        if (sound) put(group + 8);  // step
        break;
      case 2:
        if (sound) put_byte(group + 16);  // width
        break;
      case 3:
      case 4:
        bytes[88 + random() % (directory - 88)] = static_cast<char>(random());  // packed numbers
        break;
      case 5:
        put(directory + 8 * (random() % groups));
        break;
      case 6:
        put(8 + 8 * (random() % 9));  // header
        break;
      case 7:
      case 8:
        put(point);  // place in the file
        break;
      case 9:
        put(point + 8);  // place in the content
        break;
      case 10:
        put(point + 16);  // dictionary
        break;
      case 11:
        put_byte(point + 24 + random() % 8);  // its size, bits, header, blocks
        break;
      case 12:
        bytes[restarts + random() % (bytes.size() - restarts)] = static_cast<char>(random());
        break;
      default: {  // each point gets the place of the next one in the file
        for (uint64_t p = 0; p + 1 < points; ++p) {
          StoreLittleEndian(load(restarts + 32 * (p + 1)), bytes.data() + restarts + 32 * p);
        }
        StoreLittleEndian(load(16), bytes.data() + restarts + 32 * (points - 1));
      }
    }
  }
  FitIndexCrcs(&bytes);
  return bytes;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_INDEX_LIES_H_
