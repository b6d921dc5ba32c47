// Sound in WAV files that are in memory.
//
// Layout (Microsoft, IBM: Multimedia Programming Interface and Data Specifications 1.0, 1991; and
// learn.microsoft.com/windows/win32/api/mmreg, WAVEFORMATEXTENSIBLE): "RIFF", a size, "WAVE", then
// chunks. Each has a name of 4 bytes, a size of 4 bytes and that many bytes of data, padded to an
// even number. The chunk "fmt " describes the samples and "data" holds them, with the channels of
// each frame interleaved. All numbers are little-endian.

#ifndef SHARDFEED_DECODE_FEATURES_WAV_H_
#define SHARDFEED_DECODE_FEATURES_WAV_H_

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace shardfeed {

enum class SampleFormat {
  kUInt8,  // 128 is silence
  kInt16,
  kInt24,
  kInt32,
  kFloat32,
  kFloat64,
};

struct WavSound {
  SampleFormat format = SampleFormat::kInt16;
  int channels = 0;          // at least 1
  uint32_t sample_rate = 0;  // frames per second
  uint64_t frames = 0;
  std::string_view samples;  // frames * channels samples; a view of the parsed bytes
};

// DataLoss: not a WAV file, cut off, or with samples that are compressed or not of a SampleFormat;
// the message says which. Unknown chunks are skipped. Any bytes are safe to pass.
absl::StatusOr<WavSound> ParseWav(std::string_view bytes);

// Converts all samples to [frames, channels]. Integers are divided by 2^(bits - 1), which maps them
// to [-1, 1).
void ToFloat(const WavSound& sound, float* to);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_WAV_H_
