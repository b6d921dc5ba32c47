#include "decode/features/wav.h"

#include <algorithm>
#include <bit>

#include "base/little_endian.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

using namespace std::string_view_literals;

constexpr uint16_t kPcm = 1;
constexpr uint16_t kFloat = 3;
constexpr uint16_t kExtensible = 0xfffe;
// The last 14 bytes of the GUID of an extensible format; its first two bytes give the format.
constexpr std::string_view kGuidTail = "\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"sv;
// The size that a program writes while it does not know the length.
constexpr uint32_t kUnknownSize = 0xffffffff;

template <typename T>
T Load(std::string_view bytes, size_t at) {
  return LoadLittleEndian<T>(bytes.data() + at);
}

size_t SampleBytes(SampleFormat format) {
  switch (format) {
    case SampleFormat::kUInt8:
      return 1;
    case SampleFormat::kInt16:
      return 2;
    case SampleFormat::kInt24:
      return 3;
    case SampleFormat::kInt32:
    case SampleFormat::kFloat32:
      return 4;
    case SampleFormat::kFloat64:
      return 8;
  }
  return 0;
}

// `chunk` is the content of the chunk "fmt ".
absl::Status ParseFormat(std::string_view chunk, WavSound* sound) {
  if (chunk.size() < 16) {
    return absl::DataLossError(
        fmt::format("its chunk \"fmt \" has {} bytes, expected at least 16", chunk.size()));
  }
  uint16_t kind = Load<uint16_t>(chunk, 0);
  const uint16_t channels = Load<uint16_t>(chunk, 2);
  const uint16_t frame_bytes = Load<uint16_t>(chunk, 12);
  const uint16_t bits = Load<uint16_t>(chunk, 14);
  sound->sample_rate = Load<uint32_t>(chunk, 4);
  if (kind == kExtensible) {
    if (chunk.size() < 40 || chunk.substr(26, kGuidTail.size()) != kGuidTail) {
      return absl::DataLossError("its extensible format is cut off or of an unknown kind");
    }
    kind = Load<uint16_t>(chunk, 24);
  }
  if (kind == kPcm && bits == 8) {
    sound->format = SampleFormat::kUInt8;
  } else if (kind == kPcm && bits == 16) {
    sound->format = SampleFormat::kInt16;
  } else if (kind == kPcm && bits == 24) {
    sound->format = SampleFormat::kInt24;
  } else if (kind == kPcm && bits == 32) {
    sound->format = SampleFormat::kInt32;
  } else if (kind == kFloat && bits == 32) {
    sound->format = SampleFormat::kFloat32;
  } else if (kind == kFloat && bits == 64) {
    sound->format = SampleFormat::kFloat64;
  } else {
    return absl::DataLossError(
        fmt::format("format {} with {} bits, expected PCM (1) of 8, 16, 24 or 32 bits or "
                    "float (3) of 32 or 64; convert it with 'ffmpeg -i IN -c:a pcm_s16le OUT.wav'",
                    kind, bits));
  }
  if (channels == 0 || sound->sample_rate == 0) {
    return absl::DataLossError(
        fmt::format("it has {} channels and {} frames per second", channels, sound->sample_rate));
  }
  if (frame_bytes != channels * SampleBytes(sound->format)) {
    return absl::DataLossError(fmt::format("frames of {} bytes, but {} channels of {} bits take {}",
                                           frame_bytes, channels, bits,
                                           channels * SampleBytes(sound->format)));
  }
  sound->channels = channels;
  return absl::OkStatus();
}

template <typename Function>
void Convert(uint64_t n, float* to, Function sample) {
  for (uint64_t i = 0; i < n; ++i) to[i] = sample(i);
}

}  // namespace

absl::StatusOr<WavSound> ParseWav(std::string_view bytes) {
  if (bytes.size() < 12 || !bytes.starts_with("RIFF") || bytes.substr(8, 4) != "WAVE") {
    const std::string_view start = bytes.substr(0, 12);
    return absl::DataLossError(fmt::format(
        "not a WAV file: it {}{}",
        start.empty() ? "is empty" : fmt::format("starts with {:?}", start),
        start.starts_with("RIFX") || start.starts_with("RF64") || start.starts_with("fLaC") ||
                start.starts_with("ID3") || start.starts_with("OggS")
            ? "; convert it with 'ffmpeg -i IN -c:a pcm_s16le OUT.wav'"
            : ""));
  }
  WavSound sound;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const std::string_view name = bytes.substr(at, 4);
    const uint32_t size = Load<uint32_t>(bytes, at + 4);
    at += 8;
    const size_t there = bytes.size() - at;
    if (name == "data" && size == kUnknownSize) {
      return absl::DataLossError(
          "its length is unknown, as in output that was written to a pipe; write it to a file");
    }
    if (size > there) {
      return absl::DataLossError(fmt::format(
          "its chunk {:?} at byte {} has a size of {} bytes, but {} follow: the file is cut off",
          name, at - 8, size, there));
    }
    const std::string_view chunk = bytes.substr(at, size);
    if (name == "fmt ") {
      absl::Status status = ParseFormat(chunk, &sound);
      if (!status.ok()) return status;
    } else if (name == "data") {
      if (sound.channels == 0) {
        return absl::DataLossError("its chunk \"data\" comes before \"fmt \"");
      }
      const size_t frame = sound.channels * SampleBytes(sound.format);
      if (size % frame != 0) {
        return absl::DataLossError(fmt::format(
            "its samples take {} bytes, which is not a multiple of the frame size of {}", size,
            frame));
      }
      sound.frames = size / frame;
      sound.samples = chunk;
      return sound;
    }
    at += std::min<size_t>(size + size % 2, there);
  }
  return absl::DataLossError(sound.channels == 0 ? "it ends without a chunk \"fmt \""
                                                 : "it ends without a chunk \"data\"");
}

void ToFloat(const WavSound& sound, float* to) {
  const uint64_t n = sound.frames * sound.channels;
  const char* const p = sound.samples.data();
  switch (sound.format) {
    case SampleFormat::kUInt8:
      return Convert(n, to, [p](uint64_t i) {
        return static_cast<float>(static_cast<uint8_t>(p[i]) - 128) * 0x1p-7f;
      });
    case SampleFormat::kInt16:
      return Convert(n, to, [p](uint64_t i) {
        return static_cast<float>(static_cast<int16_t>(LoadLittleEndian<uint16_t>(p + 2 * i))) *
               0x1p-15f;
      });
    case SampleFormat::kInt24:
      return Convert(n, to, [p](uint64_t i) {
        // In the upper three bytes, so that the sign bit is in place.
        const uint32_t bits = static_cast<uint32_t>(LoadLittleEndian<uint16_t>(p + 3 * i)) << 8 |
                              static_cast<uint32_t>(static_cast<uint8_t>(p[3 * i + 2])) << 24;
        return static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
      });
    case SampleFormat::kInt32:
      return Convert(n, to, [p](uint64_t i) {
        return static_cast<float>(static_cast<int32_t>(LoadLittleEndian<uint32_t>(p + 4 * i))) *
               0x1p-31f;
      });
    case SampleFormat::kFloat32:
      return Convert(n, to, [p](uint64_t i) {
        return std::bit_cast<float>(LoadLittleEndian<uint32_t>(p + 4 * i));
      });
    case SampleFormat::kFloat64:
      return Convert(n, to, [p](uint64_t i) {
        return static_cast<float>(std::bit_cast<double>(LoadLittleEndian<uint64_t>(p + 8 * i)));
      });
  }
}

}  // namespace shardfeed
