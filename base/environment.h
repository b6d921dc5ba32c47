// Environment variables.

#ifndef SHARDFEED_BASE_ENVIRONMENT_H_
#define SHARDFEED_BASE_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

namespace shardfeed {

// The value of a variable; empty if it is not set.
inline std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace shardfeed

#endif  // SHARDFEED_BASE_ENVIRONMENT_H_
