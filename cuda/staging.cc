#include "cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/rounding.h"
#include "io/parallel.h"

namespace shardfeed {
namespace {

constexpr size_t kAlignment = 64;
// The number of bytes that a thread copies: enough that starting the thread takes little of the
// time.
constexpr size_t kShareBytes = 2 << 20;
// Enough threads to keep up with a fast bus. The pipeline would lack any more.
constexpr int kMostThreads = 8;

struct Share {
  char* to;
  const char* from;
  size_t bytes;
};

}  // namespace

absl::StatusOr<uint64_t> StagePieces(PinnedPool& pool, int threads, absl::Span<UploadPiece> pieces,
                                     UploadFlight* flight) {
  size_t size = 0;
  for (const UploadPiece& piece : pieces) {
    if (!piece.pinned) size += RoundUp(piece.bytes, kAlignment);
  }
  if (size > flight->staging_bytes) {
    flight->staging.reset();
    flight->staging_bytes = 0;
    absl::StatusOr<std::shared_ptr<char>> memory = pool.AllocatePinned(size + size / 8);
    if (!memory.ok()) return memory.status();
    flight->staging = *std::move(memory);
    flight->staging_bytes = size + size / 8;
  }
  char* to = flight->staging.get();
  uint64_t staged = 0;
  std::vector<Share> shares;
  for (UploadPiece& piece : pieces) {
    if (piece.pinned) continue;
    const char* from = static_cast<const char*>(piece.from);
    for (size_t at = 0; at < piece.bytes; at += kShareBytes) {
      shares.push_back({to + at, from + at, std::min(kShareBytes, piece.bytes - at)});
    }
    piece.from = to;
    to += RoundUp(piece.bytes, kAlignment);
    staged += piece.bytes;
  }
  const size_t useful = (staged + kShareBytes - 1) / kShareBytes;
  absl::Status status = ParallelFor(
      shares.size(), static_cast<int>(std::min<size_t>(std::min(threads, kMostThreads), useful)),
      {}, [&](size_t i) {
        std::memcpy(shares[i].to, shares[i].from, shares[i].bytes);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return staged;
}

}  // namespace shardfeed
