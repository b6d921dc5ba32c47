// Sound in WAV files, in memory.
//
// Layout (Microsoft, IBM: Multimedia Programming Interface and Data Specifications 1.0, 1991; and
// learn.microsoft.com/windows/win32/api/mmreg, WAVEFORMATEXTENSIBLE): "RIFF", size, "WAVE", then
// chunks of a name of 4 bytes, a size of 4, and that many bytes, padded to an even number. "fmt "
// tells what the samples are, "data" holds them, the channels of a frame one after another. All
// numbers are little-endian.

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
  uint32_t sample_rate = 0;  // frames in a second
  uint64_t frames = 0;
  std::string_view samples;  // frames * channels of them, in the bytes that were parsed
};

// DataLoss: not a WAV file, or cut; samples that are compressed or of another kind than those
// above; the message tells what it is. Chunks that are not known are passed over. Any bytes are
// safe to pass.
absl::StatusOr<WavSound> ParseWav(std::string_view bytes);

// All samples as [frames, channels]; integers become [-1, 1): divided by 2^(bits - 1).
void ToFloat(const WavSound& sound, float* to);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_WAV_H_
