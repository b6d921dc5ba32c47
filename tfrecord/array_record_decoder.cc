#include "tfrecord/array_record_decoder.h"

#include "base/count_text.h"
#include "fmt/format.h"

namespace shardfeed {
namespace {

// More memory than this is released after a rare huge chunk.
constexpr size_t kKeptBytes = 8 << 20;

// The footer must list all chunks with records. Whatever comes between a chunk and the next one
// that it lists, at `begin` of the file, has none.
std::string CheckNoRecordsFollow(const ArrayRecordChunk& chunk, std::string_view bytes,
                                 uint64_t begin, CrcCheck check) {
  while (begin < chunk.end && begin - chunk.begin < bytes.size()) {
    RiegeliChunkHeader header;
    std::string wrong = ReadRiegeliHeader(bytes.substr(begin - chunk.begin), begin, check, &header);
    if (!wrong.empty()) return fmt::format("at byte {}, behind the chunk: {}", begin, wrong);
    if (header.records > 0) {
      return fmt::format("the footer lacks the chunk of {} records at byte {}", header.records,
                         begin);
    }
    if (header.data_bytes > bytes.size()) break;
    begin = RiegeliChunkEnd(begin, header);
  }
  return "";
}

}  // namespace

std::string ArrayRecordDecoder::Open(const ArrayRecordChunk& chunk, std::string_view bytes,
                                     CrcCheck check) {
  if (data_.capacity() > kKeptBytes) data_ = std::string();
  RiegeliChunkHeader header;
  std::string_view data;
  std::string wrong = ReadRiegeliChunk(bytes, chunk.begin, check, &data_, &header, &data);
  if (!wrong.empty()) return wrong;
  if (header.records != chunk.records || header.decoded_bytes != chunk.decoded_bytes) {
    return fmt::format(
        "the chunk has {} of {} bytes, but the footer, or the index made from it, says {} "
        "of {} bytes",
        CountText(header.records, "record"), header.decoded_bytes, chunk.records,
        chunk.decoded_bytes);
  }
  wrong = CheckNoRecordsFollow(chunk, bytes, RiegeliChunkEnd(chunk.begin, header), check);
  return wrong.empty() ? ParseSimpleChunk(header, data, &chunk_) : wrong;
}

}  // namespace shardfeed
