// WAV: samples lie inside the bytes, and their number matches the header.

#include <vector>

#include "decode/features/wav.h"
#include "tests/fuzz/fuzz.h"

namespace shardfeed {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = testing::View(data, size);
  const auto sound = ParseWav(bytes);
  if (!sound.ok()) return 0;
  static constexpr size_t kSampleBytes[] = {1, 2, 3, 4, 4, 8};
  FUZZ_EXPECT(sound->channels >= 1);
  FUZZ_EXPECT(sound->samples.size() ==
              sound->frames * sound->channels * kSampleBytes[static_cast<int>(sound->format)]);
  FUZZ_EXPECT(sound->samples.empty() ||
              (sound->samples.data() >= bytes.data() &&
               sound->samples.data() + sound->samples.size() <= bytes.data() + size));
  std::vector<float> values(sound->frames * sound->channels);
  ToFloat(*sound, values.data());
  return 0;
}

}  // namespace shardfeed
