// JSON from untrusted files: the size and depth of a document are checked before anything is built
// from it, and the type and range of every member are checked when it is read.

#ifndef SHARDFEED_IO_BOUNDED_JSON_H_
#define SHARDFEED_IO_BOUNDED_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"

namespace shardfeed {

// The documents written here nest five levels deep, and those of TFDS hardly deeper. The JSON
// library recurses, so a very deep document would overflow the stack.
inline constexpr size_t kMaxJsonDepth = 100;
// A manifest of a million shards has five million values. A value takes up to a hundred bytes.
inline constexpr size_t kMaxJsonValues = size_t{1} << 23;

// Parses `text` into `json`. DataLoss: `text` is not JSON, or exceeds one of the bounds; the
// message says which.
absl::Status ParseBoundedJson(std::string_view text, nlohmann::json* json,
                              size_t max_values = kMaxJsonValues);
// The same, but keeps only those members of the top-level object that are neither objects nor
// arrays. The others are absent or have the type `discarded`.
absl::Status ParseTopOfJson(std::string_view text, nlohmann::json* json);

// Reads members of objects. The first member that is absent or not as expected turns status() into
// a DataLoss that names it. Every such member reads as zero or empty.
class JsonMembers {
 public:
  using Json = nlohmann::json;

  // An unsigned 64-bit integer of at most `most`.
  uint64_t Number(const Json& object, std::string_view key, uint64_t most = UINT64_MAX);
  bool Flag(const Json& object, std::string_view key);
  std::string Text(const Json& object, std::string_view key);
  std::vector<std::string> Texts(const Json& object, std::string_view key);
  // The reference is valid for at least as long as `object`.
  const Json& Object(const Json& object, std::string_view key);
  const Json& Array(const Json& object, std::string_view key);

  // Sets status() to a DataLoss with the message `what`, unless it is an error already.
  void Fail(std::string_view what);
  const absl::Status& status() const { return status_; }

 private:
  // Returns the member if it exists and is_expected(member) holds, otherwise fails and returns
  // nullptr.
  template <typename IsExpected>
  const Json* Find(const Json& object, std::string_view key, std::string_view expected,
                   IsExpected is_expected);

  absl::Status status_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_IO_BOUNDED_JSON_H_
