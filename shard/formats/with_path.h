// Names a file in messages.

#ifndef SHARDFEED_SHARD_FORMATS_WITH_PATH_H_
#define SHARDFEED_SHARD_FORMATS_WITH_PATH_H_

#include <string>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "io/remedy.h"

namespace shardfeed {

// Puts the path before the message of an error, unless the message begins with it already, as
// errors of reading the file do.
inline absl::Status WithPath(const absl::Status& status, const std::string& path) {
  if (status.ok()) return status;
  const std::string message(status.message());
  if (message.starts_with(path)) return status;
  return WithMessage(status, fmt::format("{}: {}", path, message));
}

}  // namespace shardfeed

#endif  // SHARDFEED_SHARD_FORMATS_WITH_PATH_H_
