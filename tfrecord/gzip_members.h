// GZIP written as members that hold whole records, so that it can be compressed in parallel and
// inflated in parallel from any member, and damage is confined to one member. To every other reader
// it is an ordinary gzip file of several members (RFC 1952, section 2.2).
//
// Each member carries an extra field (RFC 1952, section 2.3.1.1) "SF" of eight bytes: the size of
// the whole member, header and trailer included, as a little-endian uint64. docs/compression.md has
// the layout and the reasons.

#ifndef SHARDFEED_TFRECORD_GZIP_MEMBERS_H_
#define SHARDFEED_TFRECORD_GZIP_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shardfeed {

// Size of the header that AppendGzipMember writes.
inline constexpr size_t kSizedMemberHeaderBytes = 24;
inline constexpr size_t kGzipTrailerBytes = 8;
// Maximum expansion of deflated data.
inline constexpr uint64_t kMaxDeflateRatio = 1032;

// Appends one member with all of `bytes` to `out`. `level` is libdeflate's, from 1 (fast) to 12
// (small); 6 is comparable to zlib's default. Data that seems to be compressed already is stored,
// and up to level 6, data that shrinks as much at level 1 is deflated at that level.
void AppendGzipMember(std::string_view bytes, int level, std::string* out);

// Returns the size of the member that starts at `header`, if its first kSizedMemberHeaderBytes are
// those of a member written by AppendGzipMember. The size must be checked against that of the file.
std::optional<uint64_t> SizedMemberBytes(std::string_view header);

// Returns the offset in `bytes` of the next header of a member written by AppendGzipMember, or
// npos.
size_t FindSizedMember(std::string_view bytes);

// Returns the size of the content, modulo 2^32, that the trailer of the whole member `member`
// claims. It must not be trusted.
uint64_t ClaimedContentBytes(std::string_view member);

// Appends the content of the whole member `member` to `out`. Allocates as much memory as the
// trailer claims, so callers should check ClaimedContentBytes first. DataLoss: the data is damaged,
// the CRC-32 or the size in the trailer differs, or the member does not end at the end of `member`.
// ResourceExhausted: the content is larger than the trailer claims.
absl::Status InflateMember(std::string_view member, std::string* out);

// The same, into memory of the caller. Returns the number of bytes. ResourceExhausted: the content
// does not fit into `dst`.
absl::StatusOr<size_t> InflateMember(std::string_view member, absl::Span<char> dst);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_GZIP_MEMBERS_H_
