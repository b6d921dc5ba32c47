// What is taken from the environment and from servers as keys, tokens and paths to them. No message
// repeats it.

#ifndef SHARDFEED_NET_SECRET_TEXT_H_
#define SHARDFEED_NET_SECRET_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shardfeed {

// Whether the text can be a key or a token: it has no blanks, control characters and the like, any
// of which might begin another header.
bool IsSoundSecret(std::string_view text);

// InvalidArgument: the text is not sound. `name` is what holds it, such as a variable. `blanks`: it
// may have blanks within, as values of headers do.
absl::Status CheckSecret(std::string_view name, std::string_view text, bool blanks = false);

// The path that a variable holds; empty if it is not set. InvalidArgument: it holds what the file
// is to contain.
absl::StatusOr<std::string> PathIn(const char* variable);

}  // namespace shardfeed

#endif  // SHARDFEED_NET_SECRET_TEXT_H_
