#include "io/errno_status.h"

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>

#include "fmt/format.h"

namespace shardfeed {
namespace {

struct Kind {
  absl::StatusCode code;
  const char* remedy;
};

Kind KindOf(int error) {
  switch (error) {
    case ENOENT:
      return {absl::StatusCode::kNotFound, ""};
    case EACCES:
    case EPERM:
    case EROFS:
      return {absl::StatusCode::kPermissionDenied, ""};
    case EEXIST:
      return {absl::StatusCode::kAlreadyExists, ""};
    case ENOSPC:
      return {absl::StatusCode::kResourceExhausted, "; free some space or write elsewhere"};
    case EDQUOT:
      return {absl::StatusCode::kResourceExhausted, "; raise the quota or write elsewhere"};
    case EFBIG:
      return {absl::StatusCode::kResourceExhausted,
              "; raise the file size limit (ulimit -f) or write more, smaller shards"};
    case EMFILE:
    case ENFILE:
      return {absl::StatusCode::kResourceExhausted, "; raise the limit of open files (ulimit -n)"};
    case ENOMEM:
      return {absl::StatusCode::kResourceExhausted, ""};
    case EISDIR:
    case ENOTDIR:
      return {absl::StatusCode::kFailedPrecondition, ""};
    default:
      return {absl::StatusCode::kUnavailable, ""};
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view path, std::string_view what) {
  const Kind kind = KindOf(error);
  std::string remedy = kind.remedy;
  // When a file is created, ENOENT means that its folder is missing.
  const size_t slash = path.rfind('/');
  if (error == ENOENT && path.find("://") != path.npos) {
    remedy = "; only a local path is supported here";
  } else if (error == ENOENT && what == "create" && slash != path.npos && slash > 0) {
    remedy = fmt::format("; the folder {} does not exist, create it first", path.substr(0, slash));
  }
  return absl::Status(kind.code, fmt::format("{}: cannot {}: {}{}", path, what,
                                             std::generic_category().message(error), remedy));
}

}  // namespace shardfeed
