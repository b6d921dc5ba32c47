// Finds the restart intervals of a JPEG.
//
// Restart intervals are separated by restart markers (RST0 to RST7 in turn, ITU-T T.81, annex
// E.1.4). Each interval starts at a byte, and its decoding depends on nothing before it.

#ifndef SHARDFEED_DECODE_IMAGES_JPEG_RESTART_MARKERS_H_
#define SHARDFEED_DECODE_IMAGES_JPEG_RESTART_MARKERS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardfeed {

// Searches for markers only as far as needed, and remembers them. Keeps its memory for the next
// image. Not thread-safe.
class RestartMarkers {
 public:
  // Entropy-coded data begins at `scan_begin`. `jpeg` must outlive the calls that follow.
  void Start(std::string_view jpeg, size_t scan_begin);

  // Sets `*begin` to the offset of interval `number`. Returns false if it cannot be found because
  // the data ends, another marker comes first, or the restart markers are out of turn.
  bool Find(uint64_t number, size_t* begin);

  // The next marker at or after `at`: the offset of its 0xff (the last of several), or the size of
  // `jpeg` if none follows. Stuffed bytes (ff 00) are not markers.
  static size_t FindMarker(std::string_view jpeg, size_t at);

 private:
  std::string_view jpeg_;
  std::vector<size_t> begins_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_IMAGES_JPEG_RESTART_MARKERS_H_
