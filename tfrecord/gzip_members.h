// GZIP written as members that hold whole records, so that it can be compressed and inflated in
// parallel and from the middle, and damage stays inside one member. To every other reader it is an
// ordinary gzip file of several members (RFC 1952, section 2.2).
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
// Deflate cannot make more bytes of one.
inline constexpr uint64_t kMaxDeflateRatio = 1032;

// Appends one member with the whole of `bytes` to `out`. `level` 1 (fast) to 12 (small), as
// libdeflate has them; 6 compares with zlib's default. Bytes that look compressed already are
// stored, and up to level 6 those that get as small at level 1 are deflated at that.
void AppendGzipMember(std::string_view bytes, int level, std::string* out);

// The size of the member that starts at `header`, when its first kSizedMemberHeaderBytes are those
// of a member written here. Not to be believed before it is compared with the size of the file.
std::optional<uint64_t> SizedMemberBytes(std::string_view header);

// Offset in `bytes` of the next header of a member written here, or npos.
size_t FindSizedMember(std::string_view bytes);

// The size of the content that the trailer of `member`, one whole member, claims: modulo 2^32, and
// not to be believed.
uint64_t ClaimedContentBytes(std::string_view member);

// Appends the content of `member`, which is one whole member, to `out`. Takes the memory that the
// trailer claims: callers look at ClaimedContentBytes before. DataLoss: the data is damaged, the
// CRC-32 or size of the trailer differs, or the member does not end with `member`.
// ResourceExhausted: the content is larger than the trailer claims.
absl::Status InflateMember(std::string_view member, std::string* out);

// The same into memory of the caller's. Returns how many bytes there were; DataLoss also when they
// do not fit into `dst`.
absl::StatusOr<size_t> InflateMember(std::string_view member, absl::Span<char> dst);

}  // namespace shardfeed

#endif  // SHARDFEED_TFRECORD_GZIP_MEMBERS_H_
