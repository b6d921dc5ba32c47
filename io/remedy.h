// Options that remedy an error. The library does not know how its front ends spell their options,
// so it attaches the option to the status, and each front end puts it in its own words: "; pass
// --overwrite to replace it" or "; pass overwrite=True to replace it".

#ifndef SHARDFEED_IO_REMEDY_H_
#define SHARDFEED_IO_REMEDY_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace shardfeed {

struct Remedy {
  // Name of the option, with words joined by underscores: "max_record".
  std::string option;
  // Placeholder for its value: "SIZE". Empty if the option is a switch.
  std::string value;
  // What the option does, to follow the word "to": "replace it".
  std::string purpose;
};

// Attaches a remedy to an error without changing its message. A later remedy replaces an earlier
// one.
absl::Status WithRemedy(absl::Status status, const Remedy& remedy);
std::optional<Remedy> RemedyOf(const absl::Status& status);

// Returns the same error with another message; the code and the attached remedy stay.
absl::Status WithMessage(const absl::Status& status, std::string_view message);

}  // namespace shardfeed

#endif  // SHARDFEED_IO_REMEDY_H_
