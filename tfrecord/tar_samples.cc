#include "tfrecord/tar_samples.h"

#include <algorithm>
#include <utility>

#include "base/excerpt.h"
#include "base/utf8.h"
#include "fmt/format.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

bool LeadsOutside(std::string_view name) {
  return name.starts_with('/') || name == ".." || name.starts_with("../") ||
         name.find("/../") != name.npos || name.ends_with("/..");
}

}  // namespace

std::optional<TarName> SplitTarName(std::string_view name) {
  // "./a" and ".//a" name what "a" does.
  while (name.starts_with("./")) {
    name.remove_prefix(2);
    name.remove_prefix(std::min(name.find_first_not_of('/'), name.size()));
  }
  const size_t base = name.rfind('/') + 1;  // npos + 1 is 0
  const size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base || dot + 1 == name.size()) return std::nullopt;
  const std::string_view stem = name.substr(base, dot - base);
  if (stem.size() > 4 && stem.starts_with("__") && stem.ends_with("__")) return std::nullopt;
  TarName split;
  split.key = name.substr(0, dot);
  split.extension = name.substr(dot + 1);
  for (char& c : split.extension) {
    if (c >= 'A' && c <= 'Z') c |= 0x20;
  }
  return split;
}

std::string WrongTarMember(const TarMember& member) {
  if (LeadsOutside(member.name)) return "leads outside the archive; rename it";
  if (member.kind == TarMember::Kind::kLink) {
    return fmt::format(
        "is a link to {}, which is not followed; archive the file instead "
        "(tar --dereference --hard-dereference)",
        Excerpt(member.link));
  }
  if (member.kind == TarMember::Kind::kOther) return "is a pipe or a device, not a file";
  return {};
}

TarSampleWalk::Outcome TarSampleWalk::Defect(std::string what, uint64_t offset) {
  defect_ = {std::move(what), offset};
  return Outcome::kDefect;
}

// Finds the member at position_. kSample: it is pending_; kEnd: the archive or the sample ends.
absl::StatusOr<TarSampleWalk::Outcome> TarSampleWalk::Find(Peek peek) {
  if (extent_ == Extent::kSample && position_ == end_) return Outcome::kEnd;
  for (size_t size = kTarBlock;;) {
    const uint64_t left = end_ - std::min(position_, end_);
    absl::StatusOr<std::string_view> bytes = peek(position_, std::min<uint64_t>(size, left));
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() < size) {
      needed_ = position_ + size;
      if (extent_ == Extent::kMore) return Outcome::kIncomplete;
      if (extent_ == Extent::kSample) return Defect("the headers of a sample are cut", end_);
      TarDefect cut = CutBeforeEnd(bytes->size(), end_);
      return Defect(std::move(cut.what), cut.offset);
    }
    TarHeaders headers = ParseTarHeaders(*bytes, position_);
    switch (headers.outcome) {
      case TarHeaders::Outcome::kIncomplete:
        size = headers.bytes;
        continue;
      case TarHeaders::Outcome::kEnd:
        if (extent_ == Extent::kSample) return Defect("zeros instead of a header", position_);
        return Outcome::kEnd;
      case TarHeaders::Outcome::kDefect:
        return Defect(std::move(headers.defect.what), headers.defect.offset);
      case TarHeaders::Outcome::kMember:
        pending_ = {std::move(headers.member), Crc32c(bytes->substr(0, headers.bytes))};
        return Outcome::kSample;
    }
  }
}

// Checks that the bytes reach to the member's end, before anything relies on its size. kSample:
// they do.
TarSampleWalk::Outcome TarSampleWalk::Fits(const TarMember& member, uint64_t begin) {
  const uint64_t end = extent_ == Extent::kMore ? archive_end_ : end_;
  if (member.end() > end) {
    if (extent_ == Extent::kSample) {
      return Defect(
          fmt::format("{} has {} bytes, more than its sample", Excerpt(member.name), member.size),
          member.header_offset);
    }
    const uint64_t there = end - std::min(end, member.offset);
    TarDefect cut = CutInMember(member.name, member.size - std::min(member.size, there), end);
    return Defect(std::move(cut.what), cut.offset);
  }
  if (member.end() - begin > kMaxTarSampleBytes) {
    return Defect(fmt::format("the sample of {} has more than 2 GiB,", Excerpt(member.name)),
                  begin);
  }
  if (member.end() > end_) {
    needed_ = member.end();
    return Outcome::kIncomplete;
  }
  return Outcome::kSample;
}

// Returns whether no part of the sample has the extension, which is that of the next part.
bool TarSampleWalk::IsNew(const std::string& extension, const TarSample& sample) {
  // Nearly all samples have a few files, for which looking at each of them is quicker.
  constexpr size_t kFew = 16;
  if (sample.parts.size() < kFew) {
    return std::none_of(sample.parts.begin(), sample.parts.end(),
                        [&](const TarPart& part) { return part.extension == extension; });
  }
  if (sample.parts.size() == kFew) {
    extensions_.clear();
    for (const TarPart& part : sample.parts) extensions_.insert(part.extension);
  }
  return extensions_.insert(extension).second;
}

// Adds the pending member to the sample. kSample: done.
TarSampleWalk::Outcome TarSampleWalk::Add(const TarName& name, TarSample* sample) {
  const TarMember& member = pending_->member;
  const auto defect = [&](std::string_view what) {
    return Defect(fmt::format("the member {}, which {},", Excerpt(member.name), what),
                  member.header_offset);
  };
  if (name.extension == kTarKey) return defect("has the name of the column for keys");
  // Nearly all are ASCII, and short, for which the call would take longest of all.
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (!std::all_of(name.extension.begin(), name.extension.end(), is_ascii) &&
      !IsUtf8(name.extension)) {
    return defect("has an ending that is not UTF-8, so it cannot name a column");
  }
  if (!IsNew(name.extension, *sample)) {
    return defect(fmt::format("is the second {:?} of its sample", name.extension));
  }
  if (sample->parts.empty()) sample->key = name.key;
  sample->parts.push_back({name.extension, member.offset, member.size});
  sample->headers_crc = ExtendCrc32cU64(sample->headers_crc, pending_->crc);
  return Outcome::kSample;
}

absl::StatusOr<TarSampleWalk::Outcome> TarSampleWalk::Next(Peek peek, TarSample* sample) {
  sample->key.clear();
  sample->parts.clear();
  sample->begin = sample->end = begin_;
  sample->headers_crc = 0;
  sample->skipped = 0;
  while (true) {
    if (!pending_) {
      absl::StatusOr<Outcome> found = Find(peek);
      if (!found.ok()) return found;
      if (*found == Outcome::kEnd && !sample->parts.empty()) break;
      if (*found == Outcome::kEnd && extent_ == Extent::kSample) {
        return Defect("no file of a sample", begin_);
      }
      if (*found != Outcome::kSample) return found;
    }
    const TarMember& member = pending_->member;
    if (std::string wrong = WrongTarMember(member); !wrong.empty()) {
      return Defect(fmt::format("{} {},", Excerpt(member.name), wrong), member.header_offset);
    }
    std::optional<TarName> name;
    if (member.kind == TarMember::Kind::kFile) name = SplitTarName(member.name);
    if (name && !sample->parts.empty() && name->key != sample->key) {
      if (extent_ != Extent::kSample) break;
      return Defect(fmt::format("{} belongs to another sample", Excerpt(member.name)),
                    member.header_offset);
    }
    if (const Outcome fits = Fits(member, begin_); fits != Outcome::kSample) return fits;
    if (name) {
      if (const Outcome added = Add(*name, sample); added != Outcome::kSample) return added;
      sample->end = member.end();
      sample->skipped += std::exchange(skipped_, 0);
    } else {
      skipped_ += member.kind == TarMember::Kind::kFile;
    }
    position_ = member.end();
    pending_.reset();
  }
  begin_ = sample->end;
  return Outcome::kSample;
}

}  // namespace shardfeed
