#include "decode/images/jpeg/restart_markers.h"

#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "media/jpeg_markers.h"

namespace shardfeed {
namespace {

bool IsMarker(std::string_view jpeg, size_t at) {
  return jpeg[at] == '\xff' && jpeg[at + 1] != '\0' && jpeg[at + 1] != '\xff';
}

}  // namespace

void RestartMarkers::Start(std::string_view jpeg, size_t scan_begin) {
  jpeg_ = jpeg;
  begins_.clear();
  begins_.push_back(scan_begin);
}

size_t RestartMarkers::FindMarker(std::string_view jpeg, size_t at) {
#if defined(__SSE2__)
  // Finds positions of ff that are not followed by 00 or ff, 16 at a time.
  const __m128i ff = _mm_set1_epi8('\xff');
  const __m128i zero = _mm_setzero_si128();
  for (; at + 16 < jpeg.size(); at += 16) {
    const auto* bytes = reinterpret_cast<const __m128i*>(jpeg.data() + at);
    const auto* next = reinterpret_cast<const __m128i*>(jpeg.data() + at + 1);
    const __m128i after = _mm_loadu_si128(next);
    const __m128i not_marker = _mm_or_si128(_mm_cmpeq_epi8(after, zero), _mm_cmpeq_epi8(after, ff));
    const __m128i found = _mm_andnot_si128(not_marker, _mm_cmpeq_epi8(_mm_loadu_si128(bytes), ff));
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(found));
    if (mask != 0) return at + std::countr_zero(mask);
  }
#endif
  for (; at + 1 < jpeg.size(); ++at) {
    if (IsMarker(jpeg, at)) return at;
  }
  return jpeg.size();
}

bool RestartMarkers::Find(uint64_t number, size_t* begin) {
  while (begins_.size() <= number) {
    const size_t marker = FindMarker(jpeg_, begins_.back());
    if (marker == jpeg_.size()) return false;
    const uint64_t turn = (begins_.size() - 1) % 8;
    if (static_cast<uint8_t>(jpeg_[marker + 1]) != kJpegRst0 + turn) return false;
    begins_.push_back(marker + 2);
  }
  *begin = begins_[number];
  return true;
}

}  // namespace shardfeed
