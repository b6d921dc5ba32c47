#include "pipeline/data/element_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/buffer.h"
#include "io/file.h"
#include "nlohmann/json.hpp"
#include "pipeline/data/batch_bytes.h"
#include "shard/commit/file_replacement.h"
#include "tfrecord/framing.h"

namespace shardfeed {
namespace {

constexpr std::string_view kFormat = "shardfeed snapshot";
constexpr int kVersion = 1;
constexpr size_t kTailBytes = 24;
constexpr size_t kIndexEntryBytes = 16;

// ---- In memory

class MemoryElements : public StoredElements {
 public:
  MemoryElements(std::vector<Batch> pieces, std::vector<uint64_t> ends)
      : pieces_(std::move(pieces)) {
    ends_ = std::move(ends);
  }
  absl::StatusOr<Batch> Read(size_t piece) const override { return pieces_[piece]; }

 private:
  const std::vector<Batch> pieces_;
};

class MemoryWriter : public ElementWriter {
 public:
  MemoryWriter(std::shared_ptr<const RowSpec> spec, uint64_t max_bytes)
      : spec_(std::move(spec)), max_bytes_(max_bytes) {}

  // Stores a copy, because the memory that the batch refers to may be far larger than the batch.
  absl::Status Add(const Batch& batch) override {
    bytes_.clear();
    AppendBatch(batch, &bytes_);
    total_ += bytes_.size();
    if (total_ > max_bytes_) {
      return absl::ResourceExhaustedError(
          fmt::format("cache: the elements take more than {} bytes; raise the limit, leave the "
                      "step out, or cache "
                      "on disk",
                      max_bytes_));
    }
    std::shared_ptr<Buffer> buffer = Buffer::Allocate(bytes_.size());
    std::memcpy(buffer->data(), bytes_.data(), bytes_.size());
    absl::StatusOr<Batch> copy = ParseBatch(std::move(buffer), bytes_.size(), spec_);
    if (!copy.ok()) return copy.status();
    pieces_.push_back(*std::move(copy));
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + batch.num_elements());
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const StoredElements>> Finish() override {
    return std::make_shared<const MemoryElements>(std::move(pieces_), std::move(ends_));
  }

 private:
  const std::shared_ptr<const RowSpec> spec_;
  const uint64_t max_bytes_;
  std::string bytes_;
  uint64_t total_ = 0;
  std::vector<Batch> pieces_;
  std::vector<uint64_t> ends_;
};

// ---- In a file

absl::Status Damaged(const File& file, uint64_t offset, std::string_view what) {
  return absl::DataLossError(
      fmt::format("{}: damaged snapshot: {} at byte {}; delete the file to have it written again",
                  file.path(), what, offset));
}

// Reads the payload of the frame at `offset`, which must end before `end`.
absl::StatusOr<std::pair<std::shared_ptr<Buffer>, size_t>> ReadFrame(const File& file,
                                                                     uint64_t offset, uint64_t end,
                                                                     BufferPool* pool) {
  char header[kHeaderBytes];
  uint64_t length = 0;
  if (offset > end || end - offset < kFrameBytes) return Damaged(file, offset, "the file ends");
  absl::Status status = file.ReadExactlyAt(offset, absl::MakeSpan(header));
  if (!status.ok()) return status;
  if (!ReadHeader(header, &length)) return Damaged(file, offset, "not a frame");
  if (length > end - offset - kFrameBytes) return Damaged(file, offset, "a frame that is cut off");
  std::shared_ptr<Buffer> buffer = pool->Allocate(length + kFooterBytes);
  status = file.ReadExactlyAt(offset + kHeaderBytes,
                              absl::MakeSpan(buffer->data(), length + kFooterBytes));
  if (!status.ok()) return status;
  if (LoadLittleEndian<uint32_t>(buffer->data() + length) !=
      MaskCrc(Crc32c({buffer->data(), length}))) {
    return Damaged(file, offset, "a frame whose CRC does not match");
  }
  return std::pair{std::move(buffer), static_cast<size_t>(length)};
}

class FileElements : public StoredElements {
 public:
  FileElements(std::shared_ptr<const File> file, std::shared_ptr<const RowSpec> spec,
               std::vector<uint64_t> offsets, std::vector<uint64_t> ends)
      : file_(std::move(file)), spec_(std::move(spec)), offsets_(std::move(offsets)) {
    ends_ = std::move(ends);
  }

  absl::StatusOr<Batch> Read(size_t piece) const override {
    auto frame = ReadFrame(*file_, offsets_[piece], offsets_[piece + 1], pool_.get());
    if (!frame.ok()) return frame.status();
    absl::StatusOr<Batch> batch = ParseBatch(std::move(frame->first), frame->second, spec_);
    const uint64_t before = piece == 0 ? 0 : ends_[piece - 1];
    if (!batch.ok() || batch->num_elements() != ends_[piece] - before) {
      return Damaged(*file_, offsets_[piece], "a frame that is not a batch");
    }
    return batch;
  }

 private:
  const std::shared_ptr<const File> file_;
  const std::shared_ptr<const RowSpec> spec_;
  const std::vector<uint64_t> offsets_;  // offsets of all pieces, and the end of the last one
  const std::shared_ptr<BufferPool> pool_ = BufferPool::Create(16 << 20);
};

class FileWriter : public ElementWriter {
 public:
  FileWriter(ElementFileOptions options, std::unique_ptr<FileReplacement> replacement)
      : options_(std::move(options)), replacement_(std::move(replacement)) {}

  absl::Status Start() {
    const nlohmann::ordered_json header = {{"format", kFormat},
                                           {"version", kVersion},
                                           {"chain", options_.chain},
                                           {"columns", RowSpecText(*options_.spec)}};
    return Append([&](std::string* out) { out->append(header.dump()); });
  }

  absl::Status Add(const Batch& batch) override {
    offsets_.push_back(file().size());
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + batch.num_elements());
    absl::Status status = Append([&](std::string* out) { AppendBatch(batch, out); });
    if (!status.ok()) return status;
    if (file().size() > options_.max_bytes) {
      return absl::ResourceExhaustedError(
          fmt::format("{}: the elements take more than {} bytes; raise the limit, or leave the "
                      "step out",
                      options_.path, options_.max_bytes));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const StoredElements>> Finish() override {
    const uint64_t index = file().size();
    absl::Status status = Append([&](std::string* out) {
      for (size_t i = 0; i < offsets_.size(); ++i) {
        AppendLittleEndian(offsets_[i], out);
        AppendLittleEndian(ends_[i], out);
      }
    });
    if (status.ok()) {
      status = Append([&](std::string* out) {
        AppendLittleEndian(index, out);
        AppendLittleEndian(static_cast<uint64_t>(offsets_.size()), out);
        AppendLittleEndian(ends_.empty() ? uint64_t{0} : ends_.back(), out);
      });
    }
    ElementFileOptions options = options_;
    if (options_.temporary) options.path = file().path();
    if (status.ok()) status = options_.temporary ? file().Close() : replacement_->Commit();
    if (!status.ok()) return status;
    auto stored = OpenElementFile(options);
    // The directory entry of a temporary file goes now, its blocks with `stored`.
    replacement_ = nullptr;
    return stored;
  }

 private:
  OutputFile& file() { return replacement_->file(); }

  // Writes a frame of the bytes that `append` appends.
  template <typename Fn>
  absl::Status Append(Fn append) {
    bytes_.assign(kHeaderBytes, '\0');
    append(&bytes_);
    const std::string_view payload = std::string_view(bytes_).substr(kHeaderBytes);
    WriteHeader(payload.size(), bytes_.data());
    AppendLittleEndian(MaskCrc(Crc32c(payload)), &bytes_);
    return file().Append(bytes_);
  }

  const ElementFileOptions options_;
  std::unique_ptr<FileReplacement> replacement_;
  std::string bytes_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> ends_;
};

}  // namespace

std::unique_ptr<ElementWriter> MakeMemoryWriter(std::shared_ptr<const RowSpec> spec,
                                                uint64_t max_bytes) {
  return std::make_unique<MemoryWriter>(std::move(spec), max_bytes);
}

absl::StatusOr<std::unique_ptr<ElementWriter>> MakeFileWriter(ElementFileOptions options) {
  // The replacement is made only now, so that concurrent runs that write the same snapshot wait for
  // each other as briefly as possible.
  absl::StatusOr<std::unique_ptr<FileReplacement>> replacement =
      FileReplacement::BeginBeside(options.path);
  if (!replacement.ok()) return replacement.status();
  auto writer = std::make_unique<FileWriter>(std::move(options), *std::move(replacement));
  if (absl::Status status = writer->Start(); !status.ok()) return status;
  return writer;
}

absl::StatusOr<std::shared_ptr<const StoredElements>> OpenElementFile(
    const ElementFileOptions& options) {
  absl::StatusOr<std::shared_ptr<File>> opened = File::Open(options.path);
  if (!opened.ok()) return opened.status();
  const File& file = **opened;
  const std::shared_ptr<BufferPool> pool = BufferPool::Create(0);
  auto frame = ReadFrame(file, 0, file.size(), pool.get());
  if (!frame.ok()) return frame.status();
  nlohmann::json header;
  const absl::Status parsed = ParseBoundedJson({frame->first->data(), frame->second}, &header);
  if (!parsed.ok() || !header.is_object() || header.value("format", nlohmann::json()) != kFormat) {
    return absl::DataLossError(fmt::format("{}: not a snapshot of shardfeed", options.path));
  }
  if (header.value("version", nlohmann::json()) != kVersion) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the snapshot has version {}, but this shardfeed reads version {}",
                    options.path, header.value("version", nlohmann::json()).dump(), kVersion));
  }
  if (header.value("chain", nlohmann::json()) != options.chain) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: the snapshot belongs to another chain or other data; delete it, or name another "
        "file",
        options.path));
  }
  const uint64_t tail = file.size() - std::min<uint64_t>(file.size(), kTailBytes + kFrameBytes);
  frame = ReadFrame(file, tail, file.size(), pool.get());
  if (!frame.ok()) return frame.status();
  if (frame->second != kTailBytes) return Damaged(file, tail, "not the end of a snapshot");
  const auto index = LoadLittleEndian<uint64_t>(frame->first->data());
  const auto count = LoadLittleEndian<uint64_t>(frame->first->data() + 8);
  frame = ReadFrame(file, index, tail, pool.get());
  if (!frame.ok()) return frame.status();
  if (frame->second % kIndexEntryBytes != 0 || frame->second / kIndexEntryBytes != count) {
    return Damaged(file, index, "an index of unexpected size");
  }
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> ends;
  for (uint64_t i = 0; i < count; ++i) {
    offsets.push_back(LoadLittleEndian<uint64_t>(frame->first->data() + i * kIndexEntryBytes));
    ends.push_back(LoadLittleEndian<uint64_t>(frame->first->data() + i * kIndexEntryBytes + 8));
  }
  offsets.push_back(index);
  if (!std::is_sorted(offsets.begin(), offsets.end()) ||
      !std::is_sorted(ends.begin(), ends.end())) {
    return Damaged(file, index, "an index that is not in order");
  }
  return std::make_shared<const FileElements>(*std::move(opened), options.spec, std::move(offsets),
                                              std::move(ends));
}

}  // namespace shardfeed
