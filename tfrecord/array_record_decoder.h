// The records of a chunk of an ArrayRecord file.

#ifndef SHARDFEED_TFRECORD_ARRAY_RECORD_DECODER_H_
#define SHARDFEED_TFRECORD_ARRAY_RECORD_DECODER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardfeed/options.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/riegeli_chunk.h"

namespace shardfeed {

// Decodes one chunk after the other. Not thread-safe; its memory is used again.
class ArrayRecordDecoder {
 public:
  // Both functions return what is wrong; an empty string if nothing is.

  // Opens a chunk, whose bytes are those of the file from chunk.begin to chunk.end; they must
  // outlive Decode. Its numbers must be those that `chunk` has from the footer.
  std::string Open(const ArrayRecordChunk& chunk, std::string_view bytes, CrcCheck check);
  // Decodes the records, one after the other, to `decoded` of chunk.decoded_bytes bytes.
  std::string Decode(char* decoded) const { return DecodeSimpleChunk(chunk_, decoded); }

  // The sizes of the records.
  const std::vector<uint64_t>& sizes() const { return chunk_.sizes; }

 private:
  std::string data_;  // bytes of a chunk that block headers interrupt
  SimpleChunk chunk_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_ARRAY_RECORD_DECODER_H_
