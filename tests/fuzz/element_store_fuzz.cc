// A snapshot is refused, or its pieces are batches that mean the same after they are written again.
// The input is the payloads of its records, each preceded by two bytes of length; the frames and,
// if the first byte is even, the index are made valid, so that the fuzzer gets past them.

#include <memory>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "pipeline/data/batch_bytes.h"
#include "pipeline/data/element_store.h"
#include "tests/fuzz/fuzz.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr char kChain[] = "0123456789abcdef";

void CheckBatch(const Batch& batch, const std::shared_ptr<const RowSpec>& spec) {
  std::string bytes;
  AppendBatch(batch, &bytes);
  std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes.size());
  std::copy(bytes.begin(), bytes.end(), buffer->data());
  const absl::StatusOr<Batch> again = ParseBatch(std::move(buffer), bytes.size(), spec);
  FUZZ_EXPECT(again.ok());
  std::string same;
  AppendBatch(*again, &same);
  FUZZ_EXPECT(same == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool make_index = data[0] % 2 == 0;
  std::string_view rest = testing::View(data + 1, size - 1);
  std::string file;
  std::string index;
  uint64_t pieces = 0;
  uint64_t index_offset = 0;
  for (int i = 0; rest.size() >= 2; ++i) {
    const auto length = LoadLittleEndian<uint16_t>(rest.data());
    const std::string_view payload = rest.substr(2, length);
    rest.remove_prefix(2 + payload.size());
    if (i > 0) {
      AppendLittleEndian<uint64_t>(file.size(), &index);
      // The number of elements that the piece claims, if they are rows.
      AppendLittleEndian<uint64_t>(
          payload.size() < 8 ? i : LoadLittleEndian<uint64_t>(payload.data()), &index);
      ++pieces;
    }
    index_offset = file.size();
    AppendFrame(payload, &file);
  }
  if (make_index) {
    index_offset = file.size();
    AppendFrame(index, &file);
    std::string tail;
    AppendLittleEndian(index_offset, &tail);
    AppendLittleEndian(pieces, &tail);
    AppendLittleEndian(uint64_t{0}, &tail);
    AppendFrame(tail, &file);
  }

  const testing::FuzzFile stored("a.snapshot", file);
  ElementFileOptions options;
  options.path = stored.path();
  options.chain = kChain;
  options.spec = std::make_shared<const RowSpec>(RowSpec{{"n", DType::kInt64, {}},
                                                         {"text", DType::kBytes, {}},
                                                         {"values", DType::kFloat32, {2}, true}});
  const auto elements = OpenElementFile(options);
  if (!elements.ok()) return 0;
  for (size_t i = 0; i < (*elements)->ends().size(); ++i) {
    const absl::StatusOr<Batch> batch = (*elements)->Read(i);
    if (batch.ok()) CheckBatch(*batch, options.spec);
  }
  return 0;
}

}  // namespace shardfeed
