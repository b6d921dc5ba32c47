#include "shard/indexing/index_write.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "net/open.h"
#include "net/upload.h"
#include "shard/commit/file_replacement.h"
#include "shard/indexing/feature_lengths.h"
#include "shard/indexing/index_build.h"
#include "shard/names/names.h"

namespace shardfeed {
namespace {

using SharedIndex = std::shared_ptr<const ShardIndex>;

// Returns the index beside the shard; null if it has no usable index.
absl::StatusOr<SharedIndex> FormerIndex(const std::string& path) {
  absl::StatusOr<SharedIndex> index = ShardIndex::Open(IndexPath(path));
  if (index.ok()) return index;
  const absl::Status& why = index.status();
  // Something that is not a file, or is not readable, is replaced as well if permissions allow it.
  if (absl::IsNotFound(why) || absl::IsDataLoss(why) || absl::IsPermissionDenied(why) ||
      absl::IsFailedPrecondition(why)) {
    return SharedIndex();
  }
  return why;
}

bool ListsTheSame(const IndexSummary& a, const IndexSummary& b) {
  return FormatCode(a.format()) == FormatCode(b.format()) && a.records == b.records &&
         a.shard_bytes == b.shard_bytes && a.stream_bytes == b.stream_bytes &&
         a.records_digest == b.records_digest;
}

// Begins to replace the index of the shard at `path`; null for an object.
absl::StatusOr<std::unique_ptr<FileReplacement>> BeginReplacing(const std::string& path,
                                                                std::stop_token stop) {
  if (!IsRemote(path)) return FileReplacement::Begin(IndexPath(path), std::move(stop));
  if (absl::Status status = CheckWritable(path); !status.ok()) return status;
  return nullptr;
}

// Returns a function that measures the records of the shard at `path`.
RecordsFn Measuring(const std::string& path, FeatureLengths* lengths) {
  return [&path, lengths](const RecordBlock& block) {
    for (size_t i = 0; i < block.records.size(); ++i) {
      const absl::Status status = lengths->Add(block.records[i].payload);
      if (status.ok()) continue;
      return absl::DataLossError(fmt::format(
          "{}: record {} at byte {}: {}; lengths of features need tf.train.Examples", path,
          block.first_record + i, block.records[i].offset, std::string(status.message())));
    }
    return absl::OkStatus();
  };
}

// Returns the columns of an index, to be written into another one.
std::vector<NewLengthColumn> ColumnsOf(const ShardIndex& index) {
  std::vector<NewLengthColumn> columns;
  for (const LengthColumn& column : index.lengths()) {
    NewLengthColumn& copy = columns.emplace_back();
    copy.name = column.name();
    copy.lengths.reserve(index.records());
    for (uint64_t i = 0; i < index.records(); ++i) copy.lengths.push_back(column.At(i));
  }
  return columns;
}

// Replaces the index of the shard at `path` by `bytes`.
absl::Status Commit(const std::string& path, std::string_view bytes, FileReplacement* replacement) {
  if (replacement == nullptr) return PutObject(IndexPath(path), bytes);
  const absl::Status status = replacement->file().Append(bytes);
  return status.ok() ? replacement->Commit() : status;
}

// Walks the shard, or reads it if there are `features` to be measured, and writes its index.
absl::StatusOr<WrittenIndex> Write(const std::string& path, const SharedIndex& former,
                                   absl::Span<const std::string> features,
                                   const IndexBuildOptions& options, FileReplacement* replacement) {
  WrittenIndex written;
  written.measured.assign(features.begin(), features.end());
  const bool has_former = former != nullptr && !former->lengths().empty();
  // An index without length columns goes to its file while the shard is walked.
  const bool to_file = replacement != nullptr && !has_former && features.empty();
  IndexBuilder builder(to_file ? &replacement->file() : nullptr);
  FeatureLengths lengths(features);
  const absl::StatusOr<IndexSummary> summary = WalkShard(
      path, options, &builder, features.empty() ? RecordsFn(nullptr) : Measuring(path, &lengths));
  if (!summary.ok()) return summary.status();
  written.summary = *summary;
  written.missing = lengths.Missing();
  written.features = lengths.seen();
  absl::StatusOr<std::string> bytes = builder.Finish(*summary);
  if (!bytes.ok()) return bytes.status();
  if (to_file) {
    const absl::Status status = replacement->Commit();
    if (!status.ok()) return status;
    return written;
  }
  std::vector<NewLengthColumn> columns = lengths.Take();
  if (has_former && ListsTheSame(former->summary(), *summary)) {
    for (NewLengthColumn& kept : ColumnsOf(*former)) columns.push_back(std::move(kept));
  } else if (has_former) {
    for (const LengthColumn& column : former->lengths()) {
      written.dropped.emplace_back(column.name());
    }
  }
  if (!columns.empty()) {
    const absl::StatusOr<SharedIndex> index = ShardIndex::FromBytes(*std::move(bytes), path);
    if (!index.ok()) return index.status();
    bytes = WithLengthColumns(**index, columns);
    if (!bytes.ok()) return bytes.status();
  }
  const absl::Status status = Commit(path, *bytes, replacement);
  if (!status.ok()) return status;
  return written;
}

}  // namespace

absl::StatusOr<WrittenIndex> WriteIndexWithLengths(const std::string& path,
                                                   absl::Span<const std::string> features,
                                                   const IndexBuildOptions& options) {
  absl::StatusOr<std::unique_ptr<FileReplacement>> replacement = BeginReplacing(path, options.stop);
  if (!replacement.ok()) return replacement.status();
  // Opened while no other process can add columns to it.
  const absl::StatusOr<SharedIndex> former = FormerIndex(path);
  if (!former.ok()) return former.status();
  std::vector<std::string> wanted;
  for (const std::string& name : features) {
    if (*former == nullptr || (*former)->FindLengths(name) == nullptr) wanted.push_back(name);
  }
  absl::StatusOr<WrittenIndex> written = Write(path, *former, wanted, options, replacement->get());
  if (!written.ok()) return written;
  std::vector<std::string>& dropped = written->dropped;
  const auto asked_for = [&](const std::string& name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  if (std::none_of(dropped.begin(), dropped.end(), asked_for)) return written;
  // The existing columns had the lengths of other records.
  replacement->reset();
  absl::StatusOr<WrittenIndex> again = WriteIndexWithLengths(path, features, options);
  if (!again.ok()) return again;
  std::erase_if(dropped, asked_for);
  again->dropped = std::move(dropped);
  return again;
}

absl::StatusOr<IndexSummary> IndexShard(const std::string& path, const IndexBuildOptions& options) {
  absl::StatusOr<WrittenIndex> written = WriteIndexWithLengths(path, {}, options);
  if (!written.ok()) return written.status();
  return written->summary;
}

absl::Status AddLengthColumns(const std::string& path, const ShardIndex& index,
                              absl::Span<const NewLengthColumn> columns, std::stop_token stop) {
  const absl::StatusOr<std::unique_ptr<FileReplacement>> replacement =
      BeginReplacing(path, std::move(stop));
  if (!replacement.ok()) return replacement.status();
  const absl::StatusOr<SharedIndex> former = FormerIndex(path);
  if (!former.ok()) return former.status();
  const bool same = *former != nullptr && ListsTheSame((*former)->summary(), index.summary());
  const absl::StatusOr<std::string> bytes = WithLengthColumns(same ? **former : index, columns);
  if (!bytes.ok()) return bytes.status();
  return Commit(path, *bytes, replacement->get());
}

}  // namespace shardfeed
