// ArrayRecord files for tests, made of their records. They are not compressed:
// testdata/array_record has files of every compression from the reference implementation.

#ifndef SHARDFEED_TESTS_TESTING_ARRAY_RECORD_FILES_H_
#define SHARDFEED_TESTS_TESTING_ARRAY_RECORD_FILES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/little_endian.h"
#include "tfrecord/array_record_footer.h"
#include "tfrecord/highway_hash.h"
#include "tfrecord/riegeli_chunk.h"

namespace shardfeed::testing {

// The i-th record of the files in testdata/array_record.
inline std::string ArrayRecordTestRecord(uint64_t i) {
  std::string record(i % 10 == 9 ? 70'000 : i * 37 % 500, '\0');
  for (uint64_t j = 0; j < record.size(); ++j) record[j] = static_cast<char>((i + j * j) % 251);
  return record;
}
inline constexpr uint64_t kArrayRecordTestRecords = 25;

inline std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

inline std::string WithHash(const std::string& bytes) {
  std::string hashed;
  AppendLittleEndian(HighwayHash64(kRiegeliKey, bytes), &hashed);
  return hashed + bytes;
}

// A header and data without the block headers, which AppendRiegeli adds.
inline std::string RiegeliChunk(char type, uint64_t records, uint64_t decoded_bytes,
                                const std::string& data) {
  std::string header;
  AppendLittleEndian<uint64_t>(data.size(), &header);
  AppendLittleEndian(HighwayHash64(kRiegeliKey, data), &header);
  AppendLittleEndian(records << 8 | static_cast<unsigned char>(type), &header);
  AppendLittleEndian(decoded_bytes, &header);
  return WithHash(header) + data;
}

inline std::string SimpleRiegeliChunk(const std::vector<std::string>& records) {
  std::string sizes;
  std::string values;
  for (const std::string& record : records) {
    sizes += Varint(record.size());
    values += record;
  }
  return RiegeliChunk('r', records.size(), values.size(),
                      std::string(1, '\0') + Varint(sizes.size()) + sizes + values);
}

// Appends a chunk of so many records to a file, byte by byte as the specification describes it.
inline void AppendRiegeli(const std::string& chunk, uint64_t records, std::string* file) {
  const uint64_t begin = file->size();
  std::vector<uint64_t> blocks;
  const auto interrupt = [&] {
    if (file->size() % kRiegeliBlockBytes != 0) return;
    blocks.push_back(file->size());
    file->append(kRiegeliBlockHeaderBytes, '\0');
  };
  for (const char byte : chunk) {
    interrupt();
    file->push_back(byte);
  }
  while (file->size() - begin < records) {
    interrupt();
    file->push_back('\0');
  }
  for (const uint64_t block : blocks) {
    std::string header;
    AppendLittleEndian(block - begin, &header);
    AppendLittleEndian(file->size() - block, &header);
    file->replace(block, kRiegeliBlockHeaderBytes, WithHash(header));
  }
}

// A padding chunk up to the next block.
inline void PadRiegeli(std::string* file) {
  const uint64_t left = kRiegeliBlockBytes - file->size() % kRiegeliBlockBytes;
  if (left == kRiegeliBlockBytes) return;
  const uint64_t header = std::min(left, kRiegeliChunkHeaderBytes);
  const uint64_t data =
      left > kRiegeliChunkHeaderBytes
          ? left - header
          // Up to the end of the next block.
          : left + kRiegeliBlockBytes - kRiegeliBlockHeaderBytes - kRiegeliChunkHeaderBytes;
  AppendRiegeli(RiegeliChunk('p', 0, 0, std::string(data, '\0')), 0, file);
}

struct ArrayRecordEntry {
  uint64_t begin, decoded_bytes, records;
};

// The footer that lists these chunks, and claims these numbers of them.
inline std::string ArrayRecordFooterChunk(const std::vector<ArrayRecordEntry>& entries,
                                          uint64_t chunks, uint64_t records, uint64_t version = 1) {
  const std::string numbers =
      "\x08" + Varint(version) + "\x10" + Varint(chunks) + "\x18" + Varint(records);
  std::vector<std::string> footer = {"\x0a" + Varint(numbers.size()) + numbers};
  for (const ArrayRecordEntry& entry : entries) {
    footer.push_back("\x08" + Varint(entry.begin) + "\x10" + Varint(entry.decoded_bytes) + "\x18" +
                     Varint(entry.records));
  }
  return SimpleRiegeliChunk(footer);
}

inline std::string ArrayRecordPostscriptChunk(uint64_t footer_offset,
                                              uint64_t magic = kArrayRecordMagic) {
  return SimpleRiegeliChunk(
      std::vector<std::string>(3, "\x08" + Varint(footer_offset) + "\x10" + Varint(magic)));
}

// The beginning of a file: the signature.
inline std::string RiegeliStart() {
  std::string file;
  AppendRiegeli(RiegeliChunk('s', 0, 0, ""), 0, &file);
  return file;
}

// Ends a file by a footer and a postscript.
inline void EndArrayRecord(const std::string& footer, uint64_t records_in_footer,
                           std::string* file) {
  const uint64_t offset = file->size();
  AppendRiegeli(footer, records_in_footer, file);
  PadRiegeli(file);
  AppendRiegeli(ArrayRecordPostscriptChunk(offset), 3, file);
  PadRiegeli(file);
}

// A whole file. Its chunks have `group` records, and begin where `entries` says, if it is not null.
inline std::string ArrayRecordFile(const std::vector<std::string>& records, size_t group,
                                   std::vector<ArrayRecordEntry>* entries = nullptr) {
  std::string file = RiegeliStart();
  std::vector<ArrayRecordEntry> list;
  for (size_t first = 0; first < records.size(); first += group) {
    const std::vector<std::string> members(
        records.begin() + first, records.begin() + std::min(records.size(), first + group));
    uint64_t bytes = 0;
    for (const std::string& member : members) bytes += member.size();
    list.push_back({file.size(), bytes, members.size()});
    AppendRiegeli(SimpleRiegeliChunk(members), members.size(), &file);
  }
  EndArrayRecord(ArrayRecordFooterChunk(list, list.size(), records.size()), list.size() + 1, &file);
  if (entries != nullptr) *entries = list;
  return file;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TESTING_ARRAY_RECORD_FILES_H_
