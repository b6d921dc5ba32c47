#include "convert/input/tar_reader.h"

#include <algorithm>

#include "fmt/format.h"

namespace shardfeed {

absl::Status TarReader::ErrorOf(const TarDefect& defect) const {
  return absl::DataLossError(fmt::format("{}: {} at byte {}{}", path_, defect.what, defect.offset,
                                         reader_->content_name()));
}

absl::StatusOr<std::string_view> TarReader::Read(size_t size) {
  absl::StatusOr<std::string_view> bytes = reader_->Read(std::min<uint64_t>(size, left_));
  if (!bytes.ok()) return bytes;
  left_ -= bytes->size();
  if (bytes->size() < size && left_ > 0) {
    return ErrorOf(CutInMember(name_, left_, reader_->offset()));
  }
  return bytes;
}

absl::Status TarReader::SkipRest() {
  if (left_ + padding_ == 0) return absl::OkStatus();
  absl::StatusOr<uint64_t> skipped = reader_->Skip(left_ + padding_);
  if (!skipped.ok()) return skipped.status();
  if (*skipped < left_ + padding_) {
    return ErrorOf(CutInMember(name_, left_ - std::min(left_, *skipped), reader_->offset()));
  }
  left_ = padding_ = 0;
  return absl::OkStatus();
}

// Checks that nothing but zeros follows the first zero block.
absl::Status TarReader::CheckEnd() {
  const uint64_t end = reader_->offset() - kTarBlock;
  while (true) {
    const uint64_t offset = reader_->offset();
    absl::StatusOr<std::string_view> bytes = reader_->Read(64 * kTarBlock);
    if (!bytes.ok()) return bytes.status();
    if (bytes->empty()) return absl::OkStatus();
    if (IsZeroBlock(*bytes)) continue;
    return ErrorOf(DataAfterEnd(end, offset + bytes->find_first_not_of('\0')));
  }
}

absl::StatusOr<bool> TarReader::Next(TarMember* member) {
  if (absl::Status status = SkipRest(); !status.ok()) return status;
  const uint64_t offset = reader_->offset();
  headers_.clear();
  TarHeaders found;
  for (size_t needed = kTarBlock;; needed = found.bytes) {
    absl::StatusOr<std::string_view> more = reader_->Read(needed - headers_.size());
    if (!more.ok()) return more.status();
    headers_ += *more;
    if (headers_.size() < needed) {
      const uint64_t end = reader_->offset();
      if (end == 0) return absl::DataLossError(fmt::format("{}: the file is empty", path_));
      if (end < kTarBlock) return ErrorOf({"not a tar archive: no header", 0});
      return ErrorOf(CutBeforeEnd(headers_.size(), end));
    }
    found = ParseTarHeaders(headers_, offset);
    if (found.outcome != TarHeaders::Outcome::kIncomplete) break;
  }
  if (found.outcome == TarHeaders::Outcome::kDefect) return ErrorOf(found.defect);
  *member = std::move(found.member);
  if (found.outcome == TarHeaders::Outcome::kEnd) {
    if (absl::Status status = CheckEnd(); !status.ok()) return status;
    return false;
  }
  name_ = member->name;
  left_ = member->size;
  padding_ = member->end() - member->offset - member->size;
  return true;
}

}  // namespace shardfeed
