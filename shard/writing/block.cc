#include "shard/writing/block.h"

#include <algorithm>
#include <utility>

#include "shard/statistics/value_collector.h"
#include "tfrecord/gzip_members.h"

namespace shardfeed {

void RecordBatch::Add(std::string_view payload) {
  if (payload.size() != header_length_) {
    header_length_ = payload.size();
    WriteHeader(header_length_, header_);
  }
  frames_.push_back(bytes_.size());
  bytes_.append(header_, kHeaderBytes);
  bytes_.append(payload);
  bytes_.append(kFooterBytes, '\0');
}

std::string* RecordBatch::Begin() {
  frames_.push_back(bytes_.size());
  bytes_.append(kHeaderBytes, '\0');
  return &bytes_;
}

void RecordBatch::End() {
  const size_t frame = frames_.back();
  WriteHeader(bytes_.size() - frame - kHeaderBytes, bytes_.data() + frame);
  bytes_.append(kFooterBytes, '\0');
}

void RecordBatch::Drop() {
  bytes_.resize(frames_.back());
  frames_.pop_back();
}

void RecordBatch::Skip(std::string what) {
  Drop();
  skipped_.Add(std::move(what));
}

EncodedBlock EncodeBlock(RecordBatch batch, const EncodeOptions& options, std::string spare,
                         ValueCollector* values) {
  EncodedBlock block;
  if (values != nullptr) values->Begin();
  block.skipped = std::move(batch.skipped_);
  block.stream_bytes = batch.bytes_.size();
  block.frame_bytes.reserve(batch.frames_.size());
  block.footers.reserve(batch.frames_.size());
  for (size_t i = 0; i < batch.frames_.size(); ++i) {
    const size_t begin = batch.frames_[i];
    const size_t end = i + 1 < batch.frames_.size() ? batch.frames_[i + 1] : batch.bytes_.size();
    const std::string_view payload(batch.bytes_.data() + begin + kHeaderBytes,
                                   end - begin - kFrameBytes);
    const uint32_t unmasked = Crc32c(payload);
    const uint32_t crc = MaskCrc(unmasked);
    StoreLittleEndian(crc, batch.bytes_.data() + end - kFooterBytes);
    block.frame_bytes.push_back(end - begin);
    block.footers.push_back(crc);
    // Records need not be Examples; the schema counts those that are not.
    (values != nullptr ? values->Add(payload, unmasked, block.schema)
                       : block.schema.AddRecord(payload))
        .IgnoreError();
  }
  if (options.compression == Compression::kNone) {
    block.bytes = std::move(batch.bytes_);
    block.spare = std::move(spare);
    return block;
  }
  block.bytes = std::move(spare);
  block.bytes.clear();
  // Split at records. A small last part is joined with the previous one.
  size_t begin = 0;
  for (size_t i = 0; i < batch.frames_.size();) {
    size_t end = begin;
    while (i < batch.frames_.size() && (end - begin < options.member_bytes ||
                                        batch.bytes_.size() - end < options.member_bytes / 2)) {
      end += block.frame_bytes[i++];
    }
    const std::string_view content = std::string_view(batch.bytes_).substr(begin, end - begin);
    block.restarts.push_back({block.bytes.size(), begin});
    if (options.compression == Compression::kGzip) {
      AppendGzipMember(content, options.level, &block.bytes);
    } else {
      block.zlib_segments.push_back(AppendZlibSegment(content, options.level, &block.bytes));
    }
    begin = end;
  }
  block.spare = std::move(batch.bytes_);
  return block;
}

}  // namespace shardfeed
