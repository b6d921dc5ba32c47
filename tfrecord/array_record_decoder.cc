#include "tfrecord/array_record_decoder.h"

#include "fmt/format.h"

namespace shardfeed {
namespace {

// More memory than this is released after a rare huge chunk.
constexpr size_t kKeptBytes = 8 << 20;

}  // namespace

std::string ArrayRecordDecoder::Open(const ArrayRecordChunk& chunk, std::string_view bytes,
                                     CrcCheck check) {
  if (data_.capacity() > kKeptBytes) data_ = std::string();
  RiegeliChunkHeader header;
  std::string_view data;
  std::string wrong = ReadRiegeliChunk(bytes, chunk.begin, check, &data_, &header, &data);
  if (!wrong.empty()) return wrong;
  if (header.records != chunk.records || header.decoded_bytes != chunk.decoded_bytes) {
    return fmt::format("the chunk has {} records of {} bytes, but the footer says {} of {} bytes",
                       header.records, header.decoded_bytes, chunk.records, chunk.decoded_bytes);
  }
  return ParseSimpleChunk(header, data, &chunk_);
}

}  // namespace shardfeed
