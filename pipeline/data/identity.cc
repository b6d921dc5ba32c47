#include "pipeline/data/identity.h"

#include <bit>
#include <cstring>

namespace shardfeed {
namespace {

static_assert(std::endian::native == std::endian::little);

uint64_t Mixed(uint64_t hash, uint64_t word) {
  const auto product = static_cast<unsigned __int128>(hash ^ word) * 0x9e3779b97f4a7c15;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t DigestOf(std::string_view bytes, uint64_t seed) {
  // Four independent lanes hide the latency of the multiplications.
  uint64_t lanes[4] = {seed ^ 0x243f6a8885a308d3, seed ^ 0x13198a2e03707344,
                       seed ^ 0xa4093822299f31d0, seed ^ 0x082efa98ec4e6c89};
  size_t at = 0;
  for (; at + sizeof(lanes) <= bytes.size(); at += sizeof(lanes)) {
    uint64_t words[4];
    std::memcpy(words, bytes.data() + at, sizeof(words));
    for (int i = 0; i < 4; ++i) lanes[i] = Mixed(lanes[i], words[i]);
  }
  uint64_t hash = bytes.size();
  for (uint64_t lane : lanes) hash = Mixed(hash, lane);
  while (at < bytes.size()) {
    uint64_t word = 0;
    const size_t n = std::min(sizeof(word), bytes.size() - at);
    std::memcpy(&word, bytes.data() + at, n);
    hash = Mixed(hash, word);
    at += n;
  }
  return Mixed(hash, 0);
}

uint64_t DigestOf(const Batch& rows) {
  uint64_t digest = rows.rows;
  const auto add = [&](std::string_view bytes) { digest = DigestOf(bytes, digest); };
  for (size_t c = 0; c < rows.columns.size(); ++c) {
    const ColumnSpec& spec = (*rows.spec)[c];
    const Column& column = rows.columns[c];
    size_t first = 0;
    size_t elements = rows.rows;
    if (column.splits != nullptr) {
      first = column.splits[0];
      elements = column.splits[rows.rows] - first;
      for (size_t r = 0; r < rows.rows; ++r) {
        digest = Mixed(digest, column.splits[r + 1] - column.splits[r]);
      }
    }
    const char* const data = column.data + first * spec.bytes();
    if (spec.dtype != DType::kBytes) {
      add({data, elements * spec.bytes()});
      continue;
    }
    const auto* const values = reinterpret_cast<const std::string_view*>(data);
    for (size_t i = 0; i < elements * spec.num_values(); ++i) add(values[i]);
  }
  return digest;
}

uint64_t Identity::Hash() const { return DigestOf(bytes_, kVersion); }

void Identity::PutNumber(uint64_t number) {
  bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void Identity::PutString(std::string_view text) {
  PutNumber(text.size());
  bytes_ += text;
}

void Identity::Put(double number) {
  bytes_ += 'd';
  PutNumber(std::bit_cast<uint64_t>(number));
}

void Identity::Put(const ColumnSpec& column) {
  Put(Identity("column")
          .Add("name", column.name)
          .Add("dtype", DTypeName(column.dtype))
          .Add("shape", column.shape)
          .Add("ragged", column.ragged));
}

}  // namespace shardfeed
